"""The domain of an input: the cells of the grid, or for an input that varies along some axes only, these axes and time."""

from __future__ import annotations

from diffsim.mesh.grid import Grid
from diffsim.scene.words.rules import TIME
from diffsim.stepping.declare.equation import Equation

NUMBER = "number"
"""The axis, with one entry, of an input that is a single number."""


def domain(equation: Equation, name: str, steps: int) -> Grid:
    """The grid of an input's values: that of the equation, or a separate one with time in seconds as its first axis.

    The value of a time step is that at its beginning, as for sources.
    """
    grid = equation.grid
    series = name in equation.series
    variable = equation.series[name] if series else equation.parameters.get(name)
    if variable is None or (variable.axes is None and not series):
        return grid
    axes = variable.axes or ()
    shape = [steps] * series + [grid.shape[axis] for axis in axes]
    if not shape:
        return Grid((1,), 1.0, 0.0, (NUMBER,))
    spacing = [equation.dt] * series + [grid.spacing[axis] for axis in axes]
    origin = [0.0] * series + [grid.origin[axis] for axis in axes]
    return Grid(shape, spacing, origin, (TIME,) * series + tuple(grid.axes[axis] for axis in axes), grid.unit)


def location(equation: Equation, name: str) -> tuple[int, ...]:
    """The location of an input's values in the cells of its domain, along each axis: 0 for their centres, 1 for their upper faces."""
    ndim = equation.grid.ndim
    series = name in equation.series
    variable = {**equation.states, **equation.initials, **equation.parameters, **equation.series}.get(name)
    if variable is None:
        return (0,) * ndim
    along = variable.location or (0,) * ndim
    if variable.axes is None and not series:
        return tuple(along)
    return (0,) * series + tuple(along[axis] for axis in variable.axes or ()) or (0,)


def at_location(grid: Grid, location: tuple[int, ...]) -> Grid:
    """A grid whose cells have their centres where those of another one have that location."""
    if not any(location):
        return grid
    origin = [begin + 0.5 * h * place for begin, h, place in zip(grid.origin, grid.spacing, location, strict=True)]
    return Grid(grid.shape, grid.spacing, origin, grid.axes, grid.unit)


def of_source(dt: float, steps: int, points: int, amplitudes: bool) -> Grid:
    """The grid of the unknowns of a forcing: its wavelet over time in seconds, or a number for each point."""
    return Grid((points,), 1.0, 0.0, (NUMBER,)) if amplitudes else Grid((steps,), dt, 0.0, (TIME,))


def of_windows(grid: Grid, windows: int, length: float) -> Grid:
    """The grid of a state at the beginning of each window, with time as its first axis.

    Args:
        grid: that of the equation.
        windows: their number.
        length: of a window, s.
    """
    return Grid((windows, *grid.shape), (length, *grid.spacing), (0.0, *grid.origin), (TIME, *grid.axes), grid.unit)


def everywhere(equation: Equation, name: str) -> bool:
    """True if an input has a value in each cell of the grid."""
    if name in equation.series or name in equation.forcings:
        return False
    return name not in equation.parameters or equation.parameters[name].axes is None


def lengths(equation: Equation, name: str, metres: tuple[float, ...]) -> tuple[float, ...]:
    """Distance of neighbouring values of an input along each axis of its domain: in metres, along time in seconds.

    Args:
        equation: the equation.
        name: name of the input.
        metres: distance of cells along each axis of the grid.
    """
    if everywhere(equation, name):
        return metres
    series = name in equation.series
    variable = (equation.series if series else equation.parameters)[name]
    return ((equation.dt,) * series + tuple(metres[axis] for axis in variable.axes or ())) or (1.0,)
