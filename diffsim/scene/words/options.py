"""The options of a class in a scene: the arguments of its constructor, with types from their annotations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Optional, Union, get_args, get_origin

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from diffsim.base.messages import shown
from diffsim.boundary import Boundary as AnyBoundary
from diffsim.boundary.wording import alike_here
from diffsim.errors import SceneError
from diffsim.scene.words.rule_keys import TYPES, types_of
from diffsim.scene.words.rules import Boundary

SCALARS = {kind: TYPES[kind][0] for kind in (float, int, bool, str)}
WORDS = {float: "a number", int: "an integer", bool: "true or false", str: "text"}
WRITABLE = "float, int, bool, str, Literal, diffsim.boundary.Boundary, or a tuple, list or union of these"


@dataclass(frozen=True)
class Option:
    """An option of a class.

    Attributes:
        type: its type, as pydantic takes it.
        default: its default; None: that of the constructor; `Parameter.empty`: it must be given.
        rules: whether it gives the rules of sides.
    """

    type: Any
    default: Any
    rules: bool = False


def arguments_of(kind: type) -> Mapping[str, Parameter]:
    """The arguments of the constructor that can be given by name."""
    parameters = signature(kind).parameters
    return {key: value for key, value in parameters.items() if value.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)}


def options_of(kind: type, given: Collection[str], taken: Collection[str], prefix: str = "") -> dict[str, Option]:
    """The options that a scene can give to a class.

    Args:
        kind: the class.
        given: arguments that the scene gives by itself, which are no options.
        taken: names that an option cannot have.
        prefix: beginning of messages, such as "type: ".

    Raises:
        SceneError: an argument without a default cannot be written in a scene.
    """
    hints = types_of(kind, prefix)
    options = {}
    for name, argument in arguments_of(kind).items():
        if name in given:
            continue
        option = None if name in taken or name.startswith("_") else _option(name, hints.get(name), argument.default)
        if option is not None:
            options[name] = option
        elif argument.default is argument.empty:
            raise SceneError(f"{prefix}{_unwritable(name, kind, hints.get(name), name in taken or name.startswith('_'))}")
    return options


def _option(name: str, hint: Any, default: Any) -> Option | None:
    """An option; None: a scene cannot give it."""
    if hint is None:
        hint = AnyBoundary if name == "boundary" else _type_of_value(default)
    kind = _key_type(hint)
    if kind is None:
        return None
    rules = kind is Boundary
    if rules and default is not Parameter.empty and not isinstance(default, str):
        default = None  # the constructor's own, which may be no word
    return Option(kind if default is not None else Optional[kind], default, rules)  # noqa: UP045  # the type is known when it runs


def _unwritable(name: str, kind: type, hint: Any, reserved: bool) -> str:
    """The defect of an argument that a scene cannot give."""
    what = f"argument {name} of {kind.__name__}"
    if reserved:
        return f"{what}: expected another name, for a scene cannot have this one as a key; rename the argument"
    if hint is None:
        return f"{what}: expected an annotation or a default for the values of a scene, found neither; write {name}: float"
    return f"{what}: expected {WRITABLE} as its type, for a scene to give it, found {shown(hint)}; change the type, or give it a default"


def _type_of_value(value: Any) -> Any:
    """The annotation that a default stands for; None: it says nothing."""
    if isinstance(value, (tuple, list)):
        kinds = {type(each) for each in value}
        return tuple.__class_getitem__((kinds.pop(), ...)) if len(kinds) == 1 and kinds <= SCALARS.keys() else None
    return type(value) if type(value) in SCALARS else None


def _key_type(hint: Any) -> Any:
    """The type of a key, as pydantic takes it, from an annotation; None: a scene cannot give it."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _limited(_key_type(inside[0]), inside[1:])
    if origin is Literal:
        return hint
    if origin in (Union, UnionType):
        members = [member for member in inside if member is not NoneType]
        return Boundary if set(members) == set(get_args(AnyBoundary)) else _any_of(members)
    if origin in (tuple, list):
        items = [each if each is Ellipsis else _key_type(each) for each in inside]
        return None if None in items else origin[tuple(items)]
    return dict[Any, Any](SCALARS).get(hint) if isinstance(hint, type) else None


def _limited(kind: Any, limits: tuple[Any, ...]) -> Any:
    """A type with further limits, such as `Gt(0)`, which pydantic checks before its own."""
    if kind is None or kind is Boundary:
        return kind
    plain, *checks = get_args(kind) if get_origin(kind) is Annotated else (kind,)
    return Annotated[(plain, *limits, *checks)]


def _by_names(table: Mapping[str, Any], known: Collection[str]) -> str:
    """The remedy for words by the names of axes, where a list has an entry for each axis."""
    form = "write a list with an entry for each axis, in the order of grid.axes; [low, high] is an entry for two sides"
    of_words = _of_meaning([*table.values()], known)
    return f"{form}; {of_words}" if of_words else form


def _of_meaning(value: Any, known: Collection[str]) -> str:
    """The remedy for the first word of sides in a value that has another meaning than the known ones; "": there is none."""
    if isinstance(value, (list, tuple)):
        return next(filter(None, (_of_meaning(each, known) for each in value)), "")
    return "" if value in known else alike_here(value, known)


def _any_of(members: list[Any]) -> Any:
    """A union of those members that a scene can give."""
    kinds = {member: kind for member in members if (kind := _key_type(member)) is not None}
    if len(kinds) < 2:
        return next(iter(kinds.values()), None)
    expected = " or ".join(map(_words, kinds))
    known = [word for member in kinds if get_origin(member) is Literal for word in get_args(member)]
    lists = any(get_origin(member) in (tuple, list) for member in kinds)

    def checked(value: Any, inner: ValidatorFunctionWrapHandler) -> Any:
        try:
            return inner(value)
        except ValidationError:
            remedy = _by_names(value, known) if isinstance(value, Mapping) and lists and known else _of_meaning(value, known)
            raise ValueError(f"expected {expected}, found {shown(value)}; {remedy or 'correct the value'}") from None

    return Annotated[Union[tuple(kinds.values())], WrapValidator(checked)]  # noqa: UP007  # the members are known when it runs


def _words(hint: Any) -> str:
    """An annotation in the words of a message."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(map(repr, inside))
    if origin in (tuple, list):
        return "a list"
    return _words(inside[0]) if origin is Annotated else WORDS.get(hint, "rules of sides")
