"""Check the types of the attributes that an equation declares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from diffsim.base import arguments
from diffsim.base.arguments import instance, mapping, positive
from diffsim.base.messages import shown
from diffsim.base.misspelt import warn_of_misspelt_on
from diffsim.base.quantities import stated
from diffsim.errors import ParameterError, ShapeError, TraceError
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Equation, Group, Profile, Variable, hands_on
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.grouped import layouts


def check_declared(equation: Equation) -> None:
    """Raise unless the attributes of an equation have the right types."""
    kind = type(equation).__name__
    if not isinstance(equation, Equation):
        raise ParameterError(
            f"equation = {shown(equation)}, expected an instance of a subclass of diffsim.Equation; take one of diffsim.solvers"
        )
    warn_of_misspelt_on(equation)
    grid = getattr(equation, "grid", None)
    instance(f"grid of {kind}", grid, Grid, "a diffsim.Grid", "set self.grid in __init__")
    if stated(getattr(equation, "dt", None)):
        raise ParameterError(
            f"dt of {kind} = {shown(equation.dt)}, expected a plain number of seconds; convert it in __init__, where a step takes it from"
        )
    positive(f"dt of {kind}", getattr(equation, "dt", None), "give the time step in seconds")
    for name in ("states", "parameters", "initials", "series"):
        for each, variable in mapping(f"{name} of {kind}", getattr(equation, name, None), "{'u': Variable()}").items():
            instance(f"{each} of {kind}", variable, Variable, "a diffsim.Variable", "write it like Variable('mirror')")
            if isinstance(variable, Group):
                raise ParameterError(
                    f"{each} of {kind} is a {type(variable).__name__} that was put into {name} later, expected it where {name} is set; "
                    f"write self.{name} = {{..., {shown(each)}: ...}}"
                )
            _check_axes(f"{each} of {kind}", variable, equation.grid.ndim)
            _check_region(f"{each} of {kind}", variable, name, equation.grid)
    for name, layout in layouts(equation).items():
        if len(layout.axes) != equation.grid.ndim:
            raise ShapeError(
                f"{name} of {kind} is a vector or tensor over {len(layout.axes)} axes, {''.join(layout.axes)}, expected "
                f"{equation.grid.ndim}, those of the grid; give a letter for each"
            )
    if not equation.states:
        raise ParameterError(f"states of {kind} = {{}}, expected at least one; name the fields that a step advances")
    forcings = arguments.names(f"forcings of {kind}", equation.forcings, "('f',)")
    twice = sorted(name for name, count in Counter(forcings).items() if count > 1)
    if twice:
        raise ParameterError(f"forcings of {kind} = {shown(forcings)} has {', '.join(twice)} twice, expected each name once; drop one")
    fields = [name for name, one in {**equation.states, **equation.parameters, **equation.initials}.items() if one.axes is None]
    for name in arguments.names(f"uniform of {kind}", equation.uniform, "('k',)"):
        if name not in fields:
            raise ParameterError(f"uniform of {kind} has {shown(name)}, expected fields among {', '.join(fields)}; correct the names")
    for name, profile in mapping(f"profiles of {kind}", equation.profiles, "{'w': Profile(0, values)}").items():
        instance(f"{name} of {kind}", profile, Profile, "a diffsim.Profile", "write it like Profile(0, values)")
        if profile.axis >= equation.grid.ndim:
            raise ShapeError(
                f"profile {name} of {kind} varies along axis {profile.axis}, expected 0 to {equation.grid.ndim - 1}; correct it"
            )


def _check_axes(what: str, variable: Variable, ndim: int) -> None:
    """Raise `ShapeError` unless a variable varies along axes of the grid."""
    if variable.axes is None:
        return
    if variable.axes and variable.axes[-1] >= ndim:
        raise ShapeError(f"{what} varies along axes {variable.axes}, expected axes 0 to {ndim - 1} of the grid; correct them")
    if variable.region is not None:
        raise ShapeError(f"{what} has axes = {variable.axes} and a region, expected one of them; leave one out")


def _check_region(what: str, variable: Variable, group: str, grid: Grid) -> None:
    """Raise `ShapeError` if a variable has a region that does not fit the grid, or is not a state."""
    if variable.region is None:
        return
    if variable.region.shape != grid.shape:
        raise ShapeError(
            f"{what} has a region of shape {variable.region.shape}, expected {grid.shape}, that of the grid; give True or False a cell"
        )
    if group != "states":
        raise ShapeError(f"{what} has a region, expected one for states only; leave it out, {group} are stored for all cells")


def check_names(equation: Equation, coefficients: Mapping[str, Placed]) -> None:
    """Raise if a name is used twice, except for a parameter that is directly used as a coefficient, and for a state before `initial`."""
    handed_on = hands_on(equation)
    groups = {
        "parameters": {name for name in equation.parameters if not (handed_on or name in coefficients)},
        "states": set(equation.states),
        "initial fields": set(equation.initials) - set(equation.states),
        "coefficients": set(coefficients),
        "profiles": set(equation.profiles),
        "forcings": set(equation.forcings),
        "series": set(equation.series),
    }
    owner: dict[str, str] = {}
    for name in equation.groups:
        if name in set().union(*groups.values()):
            raise TraceError(f"{type(equation).__name__} has {name} as a group of components and as a field; rename one")
    for group, names in groups.items():
        for name in names:
            if name in owner:
                raise TraceError(f"{type(equation).__name__} has {name} among its {owner[name]} and its {group}; rename one")
            if not name.isidentifier() or "__" in name:
                raise TraceError(
                    f"{type(equation).__name__} has a field named {shown(name)}, expected a Python name without '__'; rename it"
                )
            owner[name] = group
