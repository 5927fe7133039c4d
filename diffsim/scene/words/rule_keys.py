"""The keys of a boundary rule in a scene: the arguments of its class, with their types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from inspect import signature
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from diffsim.base.messages import shown
from diffsim.boundary import KINDS, Rule, Value
from diffsim.errors import SceneError
from diffsim.scene.words.model import LONGEST_NAME, MOST, Flag, Name, Real, moderate
from diffsim.scene.words.suggest import nearest


def _number_or_name(value: Any) -> float | str:
    if isinstance(value, str):
        if not value.isidentifier() or "__" in value or len(value) > LONGEST_NAME:
            raise ValueError(f"expected a number or a name of letters, digits and single underscores, found {shown(value)}; choose another")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) == float("inf"):
        raise ValueError(f"expected a finite number, or the name of an input, found {shown(value)}; correct the value")
    return float(moderate(value))


def _countable(number: int) -> int:
    if abs(number) > MOST:
        raise ValueError(f"expected at most {MOST:g}, found {shown(number)}; lower it")
    return number


OWN = ("type", "varies")
"""Keys of all rules."""
NumberOrName: TypeAlias = Annotated[Any, AfterValidator(_number_or_name)]
Integer: TypeAlias = Annotated[int, Field(strict=True), AfterValidator(_countable)]
TYPES: Mapping[Any, tuple[Any, str]] = {
    Value: (NumberOrName, "1.0"),
    float: (Real, "1.0"),
    int: (Integer, "1"),
    bool: (Flag, "true"),
    str: (Name, '"..."'),
}
"""Type of an argument -> type of the key, and how a value is written."""


@dataclass(frozen=True)
class Key:
    """A key of a rule.

    Attributes:
        type: its type, as pydantic takes it.
        example: a value of it in TOML.
        needed: whether it must be given.
        named: whether its value may be the name of an input.
    """

    type: Any
    example: str
    needed: bool
    named: bool


def keys_of(kind: str) -> Mapping[str, Key]:
    """The keys of a kind of rule, but `type` and `varies`.

    Raises:
        SceneError: an argument of its class cannot be written in a scene, for its type or for its name.
    """
    rule = KINDS[kind]
    arguments = signature(rule).parameters
    for name in OWN:
        if name in arguments:
            raise SceneError(f"{name} of {rule.__name__}: expected another name, for each rule has a key {name}; rename the argument")
    hints = types_of(rule)
    return {name: _key(rule, name, hints.get(name), argument.default is argument.empty) for name, argument in arguments.items()}


def types_of(kind: type, key: str = "") -> dict[str, Any]:
    """Type of each annotated argument of a class, with limits such as `Gt(0)`.

    Args:
        kind: the class.
        key: beginning of a message.

    Raises:
        SceneError: an annotation names something that is unknown.
    """
    annotated = kind if is_dataclass(kind) else cast(Any, kind).__init__
    try:
        return get_type_hints(annotated, include_extras=True) if signature(kind).parameters else {}
    except NameError as error:
        raise SceneError(
            f"{key}type of an argument of {kind.__name__}: expected one that is known where the module is read, found none ({error}); "
            "import it"
        ) from None


def _key(rule: type[Rule], name: str, hint: Any, needed: bool) -> Key:
    plain = _without_none(hint)
    if get_origin(plain) is Literal:
        written = get_args(plain)[0]
        return Key(plain, f'"{written}"' if isinstance(written, str) else str(written), needed, False)
    if plain not in TYPES:
        raise SceneError(
            f"{name} of {rule.__name__}: expected float, int, bool, str, Literal or diffsim.boundary.Value as its type, for a scene to "
            f"give it, found {shown(hint)}; change the type, or use the rule in Python alone"
        )
    return Key(*TYPES[plain], needed, plain == Value)


def _without_none(hint: Any) -> Any:
    """A type without None, which a scene gives by leaving the key out."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    members = [member for member in get_args(hint) if member is not NoneType]
    return Union[tuple(members)]  # noqa: UP007  # the members are known when it runs


def checked(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of keys in their final types.

    Raises:
        ValidationError: a key is unknown, or a value is of another type. It names the key.
        ValueError: a key is missing, or belongs to another kind.
    """
    keys, values, problems = keys_of(kind), {}, []
    foreign = [key for key in given if key not in keys and _is_of_another(key)]
    known = ["type", *keys, *(["varies"] if any(key.named for key in keys.values()) else [])]
    for name, value in given.items():
        if name in keys:
            try:
                values[name] = TypeAdapter(keys[name].type).validate_python(value)
            except ValidationError as error:
                problems += [_at(name, problem) for problem in error.errors(include_url=False)]
        elif name not in foreign:
            text = f"expected one of {', '.join(known)}, found the unknown key {shown(name)}; {nearest(str(name), known)}"
            problems.append(InitErrorDetails(type=_custom(text), loc=(name,), input=value))
    if problems:
        raise ValidationError.from_exception_data("rule", problems)
    needed = [name for name, key in keys.items() if key.needed]
    for name in needed:
        if name not in given:
            example = ", ".join(f"{each} = {keys[each].example}" for each in needed)
            raise ValueError(f'expected {name} of "{kind}", found none; write {{type = "{kind}", {example}}}')
    for name in foreign:
        raise ValueError(f'expected no {name} with "{kind}", found one; drop it, or choose another type')
    return values


def _is_of_another(name: str) -> bool:
    """True if some kind of rule has an argument of this name."""
    return any(name in signature(rule).parameters for rule in KINDS.values())


def _at(name: str, problem: Any) -> InitErrorDetails:
    """A problem of a value as one of its key."""
    kind = _custom(str(problem["ctx"]["error"])) if problem["type"] == "value_error" else problem["type"]
    return InitErrorDetails(type=kind, loc=(name, *problem["loc"]), input=problem["input"], ctx=problem.get("ctx", {}))


def _custom(text: str) -> PydanticCustomError:
    return PydanticCustomError("value_error", "{error}", {"error": text})
