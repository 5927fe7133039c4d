"""Arguments of users for figures, checked and converted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import instance, real_array
from diffsim.base.messages import shown
from diffsim.base.quantities import ANYTHING, Meaning, places_on
from diffsim.errors import ParameterError, ShapeError
from diffsim.mesh.grid import Axis, Grid
from diffsim.plot.chart import Chart
from diffsim.typing import Array

Positions = npt.ArrayLike | Mapping[str, npt.ArrayLike]
"""Coordinates of points, shape (points, axes), or several such sets by name."""


def several(what: str, values: Any, ndim: int | None = None, meaning: Meaning = ANYTHING) -> dict[str, Array]:
    """One array under an empty title, or arrays by title, all of one shape."""
    titled = values if isinstance(values, Mapping) else {"": values}
    if not titled or not all(isinstance(title, str) for title in titled):
        raise ParameterError(f"{what} = {shown(values)}, expected an array, or arrays by title; write them like {{'observed': d}}")
    arrays = {title: np.asarray(real_array(f"{what} {title}".rstrip(), array, meaning=meaning), float) for title, array in titled.items()}
    shape = next(iter(arrays.values())).shape
    for title, array in arrays.items():
        if array.shape != shape or ndim not in (None, array.ndim) or not array.size:
            expected = f"{shape}, as the first one has" if array.shape != shape else f"an array of {ndim} axes with an entry at least"
            raise ShapeError(f"{what} {title}".rstrip() + f" has shape {array.shape}, expected {expected}; give another array")
    return arrays


def over_grid(what: str, values: Any, grid: Grid, unit: str = "") -> dict[str, Array]:
    """Fields over the cells of a grid, by title."""
    instance("grid", grid, Grid, "a diffsim.Grid", "give that of the simulation")
    arrays = several(what, values, meaning=grid.cells(unit))
    for title, array in arrays.items():
        if array.shape != grid.shape:
            named = f"{what} {title}".rstrip()
            raise ShapeError(f"{named} has shape {array.shape}, expected {grid.shape}, that of the grid; give a value for each cell")
    return arrays


def times_of(dt: npt.ArrayLike, count: int) -> Array:
    """Times of samples in seconds, from their distance or from themselves."""
    times = np.asarray(real_array("dt", dt, meaning=Meaning("s")), float)
    if times.ndim == 0:
        if not 0 < times < np.inf:
            raise ParameterError(f"dt = {shown(dt)}, expected a positive number of seconds; give the time between samples")
        return float(times) * np.arange(count)
    if times.shape != (count,) or not np.isfinite(times).all() or not (np.diff(times) > 0).all():
        raise ShapeError(f"dt has shape {times.shape}, expected a number, or {count} times that rise; give the time between samples")
    return times


def chart_of_grid(
    grid: Grid,
    units: str | Sequence[str] | None,
    sources: Positions | None = None,
    receivers: Positions | None = None,
    at: Sequence[float] | None = None,
) -> Chart:
    """The chart of a grid.

    Args:
        grid: the grid.
        units: of its coordinates; one for all axes, or one each; None: those of the grid.
        sources: positions.
        receivers: positions.
        at: coordinates of the planes that are drawn in 3-D.
    """
    usual = [unit.replace("_", " ") for unit in grid.axis_units]
    each = tuple(usual if units is None else (units,) * grid.ndim if isinstance(units, str) else units)
    if len(each) != grid.ndim or not all(isinstance(unit, str) for unit in each):
        raise ParameterError(f"units = {shown(units)}, expected a text, or {grid.ndim} of them; write it like 'm'")
    axes = tuple(Axis(name, unit, grid.coordinates(k)) for k, (name, unit) in enumerate(zip(grid.axes, each, strict=True)))
    return Chart.over(axes, None, _points("sources", sources, grid), _points("receivers", receivers, grid), _planes(grid, at))


def _points(what: str, given: Positions | None, grid: Grid) -> dict[str, Array]:
    if given is None:
        return {}
    points = {}
    for name, positions in (given if isinstance(given, Mapping) else {"": given}).items():
        array = np.asarray(real_array(f"{what} {name}".rstrip(), positions, meaning=places_on(grid.axes, grid.unit)), float)
        if array.ndim != 2 or array.shape[1] != grid.ndim:
            raise ShapeError(f"{what} {name}".rstrip() + f" has shape {array.shape}, expected (points, {grid.ndim}); give a row for each")
        points[str(name)] = array
    return points


def _planes(grid: Grid, at: Sequence[float] | None) -> list[int] | None:
    """The nearest cell to each coordinate."""
    if at is None:
        return None
    wanted = np.asarray(real_array("at", at, meaning=Meaning(grid.unit)), float)
    if grid.ndim != 3 or wanted.shape != (3,):
        raise ShapeError(f"at = {shown(at)}, expected three coordinates on a grid of three axes; leave it out for the middle planes")
    return [int(np.argmin(np.abs(grid.coordinates(k) - x))) for k, x in enumerate(wanted)]
