"""The equations of scenes: their names, and a model of the options of each, which are the arguments of its constructor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import Parameter, isabstract, signature
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, Union

from pydantic import Discriminator, SerializeAsAny, ValidationInfo, WrapValidator, model_validator

import diffsim.solvers  # noqa: F401  # its equations enter themselves
from diffsim.base.arguments import plural
from diffsim.base.messages import shown
from diffsim.boundary import rules_of
from diffsim.errors import SceneError
from diffsim.mesh.grid import Grid
from diffsim.scene.words.explain import as_table, in_full
from diffsim.scene.words.options import WRITABLE, arguments_of, options_of
from diffsim.scene.words.own import Family, table_of
from diffsim.scene.words.rules import Outside, RuleModel, build_boundaries, named
from diffsim.scene.words.typed import TypedModel, keys_made, model_of_table
from diffsim.stepping.declare.equation import KINDS, Equation

EQUATIONS = Family("an equation", "diffsim.equations", KINDS, Equation)
OWN = ("grid", "dt")
"""Arguments that are no options, for the scene has a grid and a time step of its own."""
INPUTS = ("parameters", "series")
"""Arguments for the inputs that rules of sides name. The names are those of the attributes of `Equation`."""


class SolverModel(TypedModel):
    """The options of an equation: `type`, and the arguments of its constructor without `grid` and `dt`.

    Attributes:
        words: option with rules of sides -> the rule of axes that the scene does not say.
    """

    of_class: ClassVar[type[Equation]]
    words: ClassVar[Mapping[str, str | None]]

    @model_validator(mode="before")
    @classmethod
    def _writable(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if "boundary" in given and "boundary" not in cls.model_fields:
            raise ValueError(
                f"expected no boundary with {given.get('type')}, which sets the rules of its edges itself, "
                f"found {shown(given['boundary'])}; drop it"
            )
        for name in arguments_of(cls.of_class).keys() & given.keys() - cls.model_fields.keys() - {"type", *OWN, *INPUTS}:
            raise ValueError(
                f"expected no {name}, an argument of {cls.of_class.__name__} that a scene cannot give, found {shown(given[name])}; "
                f"drop it, or annotate it as {WRITABLE}"
            )
        return given

    @property
    def title(self) -> str:
        """The name of the equation, with that of its class if it is another one."""
        return self.type if self.type == name_of(self.of_class) else f"{self.type} ({name_of(self.of_class)})"

    def boundaries(self) -> dict[str, RuleModel | Mapping[str, Any]]:
        """The rules of sides in the scene, by option."""
        return {name: model for name in self.words if (model := getattr(self, name)) is not None}

    def widest(self) -> int:
        """The most cells that an option counts, such as those of a layer."""
        options = (getattr(self, name) for name in self.of_class.in_cells if name in type(self).model_fields)
        return max((count for option in options for count in counts_of(option)), default=0)

    def build(self, grid: Grid, dt: float, finer: float = 1.0) -> Equation:
        """The equation.

        Args:
            grid: the grid.
            dt: time step, s.
            finer: number of cells along an axis for each cell of the scene's own grid.

        Raises:
            SceneError: a rule of a side does not fit the grid, or names an input for which the equation has no place.
        """
        equation = self._built(grid, dt, finer, {})
        inputs = [str(rule.name) for option, model in self.boundaries().items() for _, _, rule in named(option, model)]
        return self._built(grid, dt, finer, {name: _unit(name, equation) for name in inputs}) if inputs else equation

    def _built(self, grid: Grid, dt: float, finer: float, units: Mapping[str, str]) -> Equation:
        options = {name: getattr(self, name) for name in self.model_fields_set - {"type", *self.words}}
        options |= {name: _scaled(getattr(self, name), finer) for name in self.of_class.in_cells if name in type(self).model_fields}
        otherwise = {name: word for name, word in self.words.items() if word is not None}
        outside = build_boundaries(self.boundaries(), grid, otherwise, units)
        return self.of_class(grid=grid, dt=dt, **options, **outside.rules, **self._inputs(outside))  # type: ignore[call-arg]

    def _inputs(self, outside: Outside) -> dict[str, Any]:
        """The inputs that rules name, as arguments."""
        series = {name: getattr(outside, name) for name in INPUTS if getattr(outside, name)}
        known = arguments_of(self.of_class)
        for name, variables in series.items():
            if name not in known:
                key = next(
                    key for option, model in self.boundaries().items() for key, _, rule in named(option, model) if rule.name in variables
                )
                raise SceneError(
                    f"{key}: expected a number, for {self.of_class.__name__} takes no inputs of its sides, found the name "
                    f"{shown(next(iter(variables)))}; give a number, or let its constructor have an argument {name}"
                )
        return series


def _unit(name: str, equation: Equation) -> str:
    """Unit of the first state whose rules name an input."""
    units = {
        unit
        for state in equation.states.values()
        for pair in rules_of(state.boundary)
        for rule in pair
        if rule.given == name
        for unit in [state.unit]
    }
    return next(iter(sorted(units)), "")


def counts_of(value: Any) -> list[int]:
    """The integers in a number of cells, or in several."""
    return [each for part in value for each in counts_of(part)] if isinstance(value, (tuple, list)) else [int(value)] * (value is not None)


def _scaled(value: Any, finer: float) -> Any:
    """A number of cells, or several, on a finer grid."""
    if isinstance(value, (tuple, list)):
        return type(value)(_scaled(each, finer) for each in value)
    return value if value is None else round(value * finer) if isinstance(value, int) else value * finer


def name_of(equation: type[Equation]) -> str:
    """The name of a class as a scene has it: the word of a packaged one, else such as "mypackage.module:Class"."""
    return EQUATIONS.name_of(equation)


def _require_buildable(equation: type[Equation]) -> None:
    """Refuse a class without a step, or whose constructor does not take `grid` and `dt`."""
    name, arguments = equation.__name__, signature(equation).parameters
    if isabstract(equation):
        raise SceneError(f"expected an equation with its step, found {name}, which has none; write its method step")
    anything = any(argument.kind is Parameter.VAR_KEYWORD for argument in arguments.values())
    if not anything and not set(OWN) <= arguments_of(equation).keys():
        raise SceneError(
            f"expected a constructor of {name} with the arguments grid and dt, found {plural(len(arguments), 'argument')} "
            f"({', '.join(arguments) or 'none'}); begin it as in def __init__(self, grid, dt)"
        )


@cache
def model_of(kind: str, equation: type[Equation]) -> type[SolverModel]:
    """The model of an equation's options.

    Args:
        kind: its name in a scene.
        equation: its class.

    Raises:
        SceneError: a scene cannot build it.
    """
    _require_buildable(equation)
    options = options_of(equation, (*OWN, *INPUTS), {*dir(SolverModel), "type"})
    built = keys_made(SolverModel, kind, equation, EQUATIONS, options)
    built.words = {name: option.default if isinstance(option.default, str) else None for name, option in options.items() if option.rules}
    return built


SolverModel.model_of = model_of


def _validated(given: Any, inner: object, info: ValidationInfo) -> SolverModel:
    """The model of an equation, as a scene has it."""
    try:
        table = table_of(given)
        if not isinstance(table, (SolverModel, dict)):
            raise SceneError(f"equation: expected a table or a class of an equation, found {shown(table)}; {as_table(table)}")
        return model_of_table(table, "equation", EQUATIONS, SolverModel, info.context or {})
    except SceneError as error:
        raise in_full(str(error)) from None


if TYPE_CHECKING:
    EquationModel: TypeAlias = SolverModel
else:
    AnyEquation = Annotated[Union[tuple(model_of(*each) for each in EQUATIONS.packaged.items())], Discriminator("type")]  # noqa: UP007
    EquationModel = Annotated[AnyEquation, SerializeAsAny(), WrapValidator(_validated)]
