"""Inputs that the rules of a solver's boundary name, beside those of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from diffsim.arguments import instance, mapping
from diffsim.errors import ParameterError
from diffsim.stepping.equation import Variable


def check_given(what: str, variables: Mapping[str, Variable], own: Collection[str]) -> dict[str, Variable]:
    """The variables by name, if they are some and the equation has no input of these names itself.

    Raises:
        ParameterError: something else, or a name that is taken.
    """
    found = dict(mapping(what, variables, "{'air': Variable(axes=())}"))
    for name, variable in found.items():
        instance(f"{name} of {what}", variable, Variable, "a diffsim.Variable", "write it like Variable(axes=())")
        if name in own:
            raise ParameterError(f"{what} names {name}, expected a name other than {', '.join(own)}; rename it, there and in the rule")
    return found
