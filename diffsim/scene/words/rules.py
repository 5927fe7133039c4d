"""The boundary rules of a scene, for all sides, for an axis or for each side, and the inputs that they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from diffsim.base.messages import shown
from diffsim.boundary import KINDS, Rule
from diffsim.errors import DiffsimError, SceneError
from diffsim.mesh.grid import Grid
from diffsim.scene.words.model import Model, Name
from diffsim.scene.words.own_errors import named_errors
from diffsim.scene.words.rule_keys import checked
from diffsim.scene.words.suggest import nearest
from diffsim.stepping.declare.equation import Variable

TIME = "time"
"""The name of time in `varies`, and as an axis."""
MEANT = {"even_image": "mirror", "fixed": "dirichlet", "flux": "neumann", "absorbing": "outflow", "open": "outflow", "wall": "mirror"}
"""Other words for kinds of rules."""


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"expected one of {', '.join(KINDS)}, found {shown(kind)}; {nearest(kind, KINDS, MEANT)}")
    return kind


class RuleModel(Model):
    """The rule for a field beyond a side of the grid. A rule without numbers can be written as a word.

    Its other keys are the arguments of the class of its kind, such as `value` of "dirichlet" (`diffsim.scene.words.rule_keys`).

    Attributes:
        type: which [rule](#rules), one of `diffsim.boundary.KINDS`.
        varies: of a named input: the axes along which it varies, some of `"time"` and the axes along the side; `[]`: one number. None:
            `["time"]`.
    """

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, AfterValidator(_known)]
    varies: tuple[Name, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _checked(cls, given: Any) -> Any:
        """Check the keys that the kind has."""
        if not isinstance(given, dict) or not isinstance(kind := given.get("type"), str) or kind not in KINDS:
            return given
        own = {key: value for key, value in given.items() if key in cls.model_fields}
        try:
            return own | checked(kind, {key: value for key, value in given.items() if key not in own})
        except SceneError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _complete(self) -> RuleModel:
        try:
            with named_errors((), rules=""):
                name = self.name
        except DiffsimError as error:
            raise ValueError(str(error)) from None
        if self.varies is not None and name is None:
            raise ValueError("expected varies together with the name of an input, found no name; drop varies, or give a name")
        if self.varies is not None and len(set(self.varies)) < len(self.varies):
            raise ValueError(f"expected each entry of varies once, found {shown(list(self.varies))}; drop some")
        return self

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> Any:
        """Write the rule as a word if it has only a type."""
        return self.type if self.model_fields_set <= {"type"} else handler(self)

    @property
    def name(self) -> str | None:
        """Name of the input that it uses, or None."""
        variable = self.build().given
        return variable if isinstance(variable, str) else None

    @property
    def along(self) -> tuple[str, ...]:
        """The axes of the input that it names."""
        return (TIME,) if self.varies is None else self.varies

    def build(self) -> Rule:
        """The rule.

        Raises:
            ParameterError: its numbers contradict each other.
        """
        kind: Callable[..., Rule] = KINDS[self.type]
        return kind(**(self.model_extra or {}))


def _table(value: Any) -> Any:
    """A word as a table."""
    if isinstance(value, str):
        return {"type": _known(value)}
    if isinstance(value, (dict, RuleModel)):
        return value
    remedy = 'name the axis of a list, as in {z = ["zero", "mirror"]}' if isinstance(value, list) else "write one"
    raise ValueError(f'expected a rule, such as "mirror" or {{type = "dirichlet", value = 1.0}}, found {shown(value)}; {remedy}')


def _two(value: Any) -> Any:
    if len(value) != 2:
        raise ValueError(f"expected one rule, or a list of two, [low side, high side], found {len(value)}; add or drop some")
    return value


def _both_joined(pair: tuple[RuleModel, RuleModel]) -> tuple[RuleModel, RuleModel]:
    types = [rule.type for rule in pair]
    joining = [rule.type for rule in pair if rule.build().joins]
    if joining and types[0] != types[1]:
        raise ValueError(f'expected "{joining[0]}" on both sides, found {shown(types)}; write "{joining[0]}" for the axis')
    return pair


OneRule: TypeAlias = Annotated[RuleModel, BeforeValidator(_table)]
Sides: TypeAlias = Annotated[
    Annotated[OneRule, Tag("both")] | Annotated[tuple[OneRule, OneRule], BeforeValidator(_two), AfterValidator(_both_joined), Tag("each")],
    Discriminator(lambda value: "each" if isinstance(value, (list, tuple)) else "both"),
]
"""A rule for both sides of an axis, or one for each."""
Boundary: TypeAlias = Annotated[
    Annotated[OneRule, Tag("all")] | Annotated[dict[Name, Sides], Tag("axes")],
    Discriminator(lambda value: "axes" if isinstance(value, dict) and "type" not in value else "all"),
]
"""A rule for all sides, or a table with those of axes."""


@dataclass(frozen=True)
class Outside:
    """A boundary on a grid.

    Attributes:
        rules: argument of the constructor -> a pair of rules an axis.
        parameters: inputs that rules name and that hold for all steps.
        series: inputs that rules name and that are given for each step.
    """

    rules: Mapping[str, tuple[tuple[Rule, Rule], ...]]
    parameters: Mapping[str, Variable]
    series: Mapping[str, Variable]


def named(option: str, boundary: RuleModel | Mapping[str, Any]) -> Iterator[tuple[str, str, RuleModel]]:
    """Key, axis and rule of each side whose rule names an input. The axis is "" if the rule is for all sides."""
    pairs = {"": boundary} if isinstance(boundary, RuleModel) else boundary
    for axis, sides in pairs.items():
        here = f"equation.{option}.{axis}".removesuffix(".")
        each = {here: sides} if isinstance(sides, RuleModel) else {f"{here}[{number}]": rule for number, rule in enumerate(sides)}
        yield from ((key, axis, rule) for key, rule in each.items() if rule.name is not None)


def build_boundaries(
    models: Mapping[str, RuleModel | Mapping[str, Any]], grid: Grid, otherwise: Mapping[str, str], units: Mapping[str, str]
) -> Outside:
    """The boundaries of an equation's states.

    Args:
        models: option of the equation -> its rules in the scene.
        grid: the grid.
        otherwise: option -> the rule of axes that the scene does not say. Without one it must say all.
        units: input -> unit of the state whose rule names it.

    Raises:
        SceneError: the grid does not have an axis, an axis has no rule, or an input cannot vary as the rule says.
    """
    rules: dict[str, tuple[tuple[Rule, Rule], ...]] = {}
    variables: dict[str, Variable] = {}
    by_name: dict[str, tuple[str, RuleModel]] = {}
    for option, model in models.items():
        pairs = _pairs(option, model, grid, otherwise.get(option))
        rules[option] = tuple((low.build(), high.build()) for low, high in pairs)
        ends = tuple(low if low.joins else "mirror" for low, _ in rules[option])
        for key, across, rule in named(option, model):
            assert rule.name is not None
            _check_varies(key, across, rule, grid)
            first, other = by_name.setdefault(rule.name, (key, rule))
            if set(other.along) != set(rule.along):
                raise SceneError(
                    f"{key}.varies: expected {shown(list(other.along))} for {rule.name}, as at {first}, found {shown(list(rule.along))}; "
                    "give both the same, or two names"
                )
            axes = tuple(sorted(grid.axes.index(a) for a in rule.along if a != TIME))
            variables.setdefault(rule.name, Variable(ends, axes=axes, unit=rule.build().unit(units.get(rule.name, ""))))
    series = {name: variable for name, variable in variables.items() if TIME in by_name[name][1].along}
    rest = {name: variable for name, variable in variables.items() if name not in series}
    return Outside(rules, rest, series)


def _pairs(option: str, model: RuleModel | Mapping[str, Any], grid: Grid, otherwise: str | None) -> list[tuple[RuleModel, RuleModel]]:
    """The rules of each axis, at the low and at the high side."""
    if isinstance(model, RuleModel):
        return [(model, model)] * grid.ndim
    for axis in model:
        if axis not in grid.axes:
            known = f"expected one of the axes {', '.join(grid.axes)}"
            raise SceneError(f"equation.{option}.{axis}: {known}, found {shown(axis)}; {nearest(axis, grid.axes)}")
    left = [axis for axis in grid.axes if axis not in model]
    if left and otherwise is None:
        raise SceneError(f"equation.{option}: expected a rule for each axis, found none for {' and '.join(left)}; add it")
    per_axis = [model[axis] if axis in model else RuleModel(type=otherwise) for axis in grid.axes]
    return [(sides, sides) if isinstance(sides, RuleModel) else sides for sides in per_axis]


def _check_varies(key: str, across: str, rule: RuleModel, grid: Grid) -> None:
    """Refuse an input of a side that varies along an axis that it cannot vary along."""
    known = [TIME, *(axis for axis in grid.axes if across and axis != across)]
    for name in rule.along:
        if name not in known:
            raise SceneError(
                f"{key}.varies: expected some of {', '.join(known)}, along which a value on this side can vary, found {shown(name)}; "
                f"{nearest(name, known)}"
            )
