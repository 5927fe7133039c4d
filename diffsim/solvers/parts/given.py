"""Inputs that the boundary rules of a solver name, in addition to the solver's own inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from diffsim.base.arguments import instance, mapping, names, one_of
from diffsim.errors import ParameterError
from diffsim.stepping.declare.equation import Variable


def check_given(what: str, variables: Mapping[str, Variable], own: Collection[str]) -> dict[str, Variable]:
    """Check variables by name. The equation itself must not have inputs of these names."""
    named = dict(mapping(what, variables, "{'air': Variable(axes=())}"))
    for name, variable in named.items():
        instance(f"{name} of {what}", variable, Variable, "a diffsim.Variable", "write it like Variable(axes=())")
        if name in own:
            raise ParameterError(f"{what} names {name}, expected a name other than {', '.join(own)}; rename it, there and in the rule")
    return named


def series_of(series: object, example: str, on_sides: Mapping[str, Variable]) -> dict[str, Variable]:
    """Those inputs of sides that have a value for each step.

    Args:
        series: their names.
        example: a value of this argument, for messages.
        on_sides: all inputs of sides.
    """
    wanted = names("series", series, example)
    if wanted and not on_sides:
        raise ParameterError(f"series names {', '.join(wanted)} and no side has an input, expected (); leave it out, or change the sides")
    return {name: on_sides[one_of("series", name, tuple(on_sides))] for name in wanted}
