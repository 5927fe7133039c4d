"""Parts of a scene whose `type` names a class, and whose other keys are the arguments of its constructor; or is an object of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Parameter, isroutine
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import ConfigDict, Field, PrivateAttr, ValidationError, ValidationInfo, create_model

from diffsim.base.messages import shown
from diffsim.errors import SceneError
from diffsim.scene.words.explain import explained, in_full, table_of
from diffsim.scene.words.model import Model
from diffsim.scene.words.objects import PartObject, call_arguments
from diffsim.scene.words.options import Option, arguments_of
from diffsim.scene.words.own import Family, unfolded

Part = TypeVar("Part", bound="TypedModel")
ModelOf = Callable[[str, type], "type[TypedModel]"]
"""(name in a scene, class) -> the model of its keys."""


class TypedModel(Model):
    """A part whose `type` names a class.

    Attributes:
        of_class: the class.
        options: names of the keys that are arguments of its constructor.
        model_of: makes the model of a class of this family.
    """

    model_config = ConfigDict(protected_namespaces=())

    of_class: ClassVar[type]
    options: ClassVar[tuple[str, ...]] = ()
    model_of: ClassVar[ModelOf]

    type: str
    _object: PartObject | None = PrivateAttr(default=None)

    def instance(self, **given: Any) -> Any:
        """An object of the class, or the object of the scene as it is called with the arguments of the scene.

        Args:
            given: arguments that the scene gives, as far as the constructor (the call of an object) takes them.
        """
        if self._object is not None:
            taken = {name: value for name, value in given.items() if self.takes(name)}
            return partial(self._object.value, **taken) if taken else self._object.value
        chosen = {name: getattr(self, name) for name in self.options if name in self.model_fields_set}
        return self.of_class(**{name: value for name, value in given.items() if self.takes(name)}, **chosen)

    def takes(self, name: str) -> bool:
        """True if the constructor, or the call of an object, has an argument of this name."""
        return name in (arguments_of(self.of_class) if self._object is None else call_arguments(self.of_class))

    def __reduce__(self) -> tuple[Callable[..., TypedModel], tuple[Any, ...]]:
        return _restored, (type(self).model_of, self.type, self.of_class, self.__getstate__())


def _restored(model_of: ModelOf, name: str, kind: type, state: dict[Any, Any]) -> TypedModel:
    """A model out of its pickled state. The model's own class is made in each process."""
    model = model_of(name, kind)
    restored = model.__new__(model)
    restored.__setstate__(state)
    return restored


def keys_made(base: type[Part], name: str, kind: type, family: Family, options: Mapping[str, Option], **later: Any) -> type[Part]:
    """The model of a class: the keys of `base`, those of its options, and `later` ones.

    Args:
        base: the keys that all of the family have.
        name: `type` in a scene.
        kind: the class.
        family: its family.
        options: its options.
        later: further keys, as pydantic takes them.
    """
    default = base.model_fields["type"].default
    fields: dict[str, Any] = {"type": (Literal[name], default if default == name else ...)}
    for option_name, option in options.items():
        value = ... if option.default is Parameter.empty else Field(option.default, validate_default=option.rules)
        fields[option_name] = (option.type, value)
    title = "".join(filter(str.isidentifier, kind.__name__))
    built = create_model(
        f"{title}Model", __base__=base, __module__=__name__, __doc__=f"Options of {family.name_of(kind)}.", **fields, **later
    )
    built.of_class, built.options = kind, tuple(options)
    return built


def model_of_table(given: Any, key: str, family: Family, base: type[Part], context: Mapping[str, Any]) -> Part:
    """The model of a part, as a scene or Python code gives it.

    Args:
        given: its table; in Python `type` may be a class, a `functools.partial` of one with its options, or an object of one.
        key: key of the part in the scene, for messages.
        family: its family.
        base: the keys that all of the family have. Its default of `type` is that of the table.
        context: of the validation.

    Raises:
        SceneError: with a line for each problem.
    """
    if isinstance(given, base):
        return given
    if not isinstance(given, dict):
        raise SceneError(f"{key}: expected a table, found {shown(given)}; {table_of(base, given)}")
    table, own = given, None
    name = table.get("type", base.model_fields["type"].default)
    if isinstance(name, str):
        kind = family.find(name, key, context.get("folder"), context.get("allow_code", False))
    elif family.accepts(type(name)) and not isinstance(name, (type, partial)) and not isroutine(name):
        own, kind = PartObject.of(name, key), type(name)
        name = own.name(family.name_of(kind))
    elif callable(name):
        table = unfolded(f"{key}.type", name) | {each: value for each, value in table.items() if each != "type"}
        kind = family.require(key, shown(table["type"]), table["type"])
        name = family.name_of(kind)
    else:
        what = "none; add the type" if "type" not in table else f"{shown(name)}; correct the value"
        raise SceneError(f"{key}.type: expected {'a value' if 'type' not in table else 'text'}, found {what}")
    try:
        model = base.model_of(name, kind)
    except SceneError as error:
        raise SceneError(f"{key}: {error}") from None
    try:
        part = model.model_validate(table if name == table.get("type") else {**table, "type": name}, context=dict(context))
    except ValidationError as error:
        raise SceneError(explained(model, error, key)) from None
    assert part.__pydantic_private__ is not None
    part.__pydantic_private__["_object"] = own  # models refuse assignments
    return part  # type: ignore[return-value]


def each_of(given: Any, info: ValidationInfo, parts: Mapping[Any, str], family: Family, base: type[Part]) -> list[Part]:
    """All parts of a list or a table, with the lines of all problems.

    Args:
        given: the list or the table.
        info: of the validation.
        parts: index of each part -> its key in the scene.
        family: and all others: see `model_of_table`.
    """
    models, lines = [], []
    for index, key in parts.items():
        try:
            models.append(model_of_table(given[index], key, family, base, info.context or {}))
        except SceneError as error:
            lines.append(str(error))
    if lines:
        raise in_full("\n".join(lines))
    return models


def numbered(given: Sequence[Any], name: str) -> dict[int, str]:
    """Index -> key of each entry of a list."""
    return {number: f"{name}[{number}]" for number in range(len(given))}
