"""Numbers with coordinates, interpolated to the cells of a grid and then scaled."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import RegularGridInterpolator
from scipy.ndimage import gaussian_filter

from diffsim.base.arguments import plural
from diffsim.errors import SceneError
from diffsim.mesh.angles import LONGITUDES
from diffsim.mesh.grid import Grid
from diffsim.records.conventions.places import TURN
from diffsim.scene.schema.parts import Resampled
from diffsim.scene.setup.place import Place
from diffsim.scene.words.rules import TIME
from diffsim.typing import Array

LEAST = {"nearest": 2, "linear": 2, "cubic": 4, "mean": 2}
"""Least numbers along an axis for each method of interpolation."""


def resample(values: Array, coordinates: tuple[Array, ...], part: Resampled, place: Place) -> Array:
    grid = place.grid
    if values.ndim != grid.ndim:
        raise SceneError(f"{place.key}: expected a grid of {values.ndim} axes for these data, found {grid.ndim}; change grid.shape")
    if part.method == "cubic" and not np.isfinite(values).all():
        raise SceneError(f'{place.key}.method: expected numbers without gaps for "cubic", found gaps; give fill, or choose another')
    wanted = []
    for axis, along in enumerate(coordinates):
        asked = grid.coordinates(axis)
        _require_covered((place.inner or grid).coordinates(axis), along, part, place, grid.axes[axis])
        if len(along) < LEAST[part.method]:
            raise SceneError(
                f'{place.key}.method: expected at least {LEAST[part.method]} numbers along {grid.axes[axis]} for "{part.method}", found '
                f"{len(along)}; choose another"
            )
        wanted.append(np.clip(asked, along[0], along[-1]))
    if part.method == "mean":
        resampled = _means(values, coordinates, grid, part.extend is not None or place.inner is not None)
    else:
        resampled = RegularGridInterpolator(coordinates, values, method=part.method)(
            tuple(np.meshgrid(*wanted, indexing="ij", sparse=True))
        )
    return _complete(resampled, place)


def resample_at(values: Array, coordinates: tuple[Array, ...], cells: Array, part: Resampled, place: Place) -> Array:
    """Numbers with coordinates of another map projection, interpolated to the cells of the grid.

    Args:
        values: the numbers.
        coordinates: of the numbers, rising, for each axis.
        cells: places of the cells of the grid in the coordinates of the numbers, shape (cells, axes).
        part: the part of the field.
        place: its place.
    """
    grid = place.grid
    inside = np.array(cells, float)
    for axis, along in enumerate(coordinates):
        low, high = _reach(along, place)
        beyond = np.flatnonzero((cells[:, axis] < low) | (cells[:, axis] > high))
        if len(beyond) and (part.extend is None or len(beyond) == len(cells)):
            raise SceneError(
                f"{place.key}: expected a grid within {along[0]:.6g} to {along[-1]:.6g} along {grid.axes[axis]}, in the map projection of "
                f"the file, found {cells[:, axis].min():.6g} to {cells[:, axis].max():.6g}; move or shrink the grid, or continue the "
                'numbers at the edge by extend = "edge"'
            )
        inside[:, axis] = np.clip(cells[:, axis], along[0], along[-1])
    resampled = RegularGridInterpolator(coordinates, values, method=part.method)(inside).reshape(grid.shape)
    return _complete(resampled, place)


def _complete(resampled: Array, place: Place) -> Array:
    """Numbers of all cells.

    Raises:
        SceneError: some cells have none.
    """
    grid = place.grid
    bad = np.argwhere(~np.isfinite(resampled))
    if len(bad):
        at = ", ".join(f"{grid.axes[axis]} = {grid.coordinates(axis)[k]:.6g}" for axis, k in enumerate(bad[0]))
        if grid.axes == (TIME,):
            others = f" and at {plural(len(bad) - 1, 'more time step')}" if len(bad) > 1 else ""
            raise SceneError(
                f"{place.key}: expected a number at every time step, found none at {at} s{others}; drop the rows of the gap from the file, "
                "across which the numbers beside it are then interpolated, or give fill"
            )
        others = f" and in {plural(len(bad) - 1, 'more cell')}" if len(bad) > 1 else ""
        raise SceneError(f"{place.key}: expected numbers in every cell, found none at {at}{others}; give fill, or move the grid")
    return resampled


def _require_covered(asked: Array, given: Array, part: Resampled, place: Place, axis: str) -> None:
    """Refuse a grid that reaches past given numbers along an axis, or with `extend` one that lies beside them.

    Args:
        asked: coordinates of the grid, rising.
        given: those of the numbers, rising.
        part: the part of the field.
        place: its place.
        axis: name of the axis.
    """
    low, high = _reach(given, place)
    beside = asked[-1] < low or asked[0] > high
    if covered(asked, given, part, place):
        return
    remedy = "run shorter, or correct the unit of the times or start" if axis == TIME else "move or shrink the grid"
    turn = next((turn for turn in (TURN, -TURN) if low <= asked[0] + turn and asked[-1] + turn <= high), None)
    if turn is not None and axis.lower() in LONGITUDES:
        remedy = f"the file counts longitudes otherwise: {'add' if turn > 0 else 'subtract'} {TURN:g} degrees in the grid"
    elif not beside:
        remedy += ', or continue the numbers at the edge by extend = "edge"'
    raise SceneError(
        f"{place.key}: expected a {'run' if axis == TIME else 'grid'} with {axis} from {given[0]:.6g} to {given[-1]:.6g}, where there are "
        f"data, found {asked[0]:.6g} to {asked[-1]:.6g}; {remedy}"
    )


def _means(values: Array, coordinates: tuple[Array, ...], grid: Grid, extend: bool) -> Array:
    """Means over each cell of the grid of numbers that hold around their coordinates, halfway to the next.

    If `extend`, the outermost numbers hold up to the edge of the grid.
    """
    for axis, along in enumerate(coordinates):
        middles = 0.5 * (along[1:] + along[:-1])
        bounds = np.concatenate([[2 * along[0] - middles[0]], middles, [2 * along[-1] - middles[-1]]])
        centres, half = grid.coordinates(axis), 0.5 * grid.spacing[axis]
        if extend:
            bounds[0], bounds[-1] = min(bounds[0], centres[0] - half), max(bounds[-1], centres[-1] + half)
        share = overlaps(np.append(centres - half, centres[-1] + half), bounds)
        share /= share.sum(axis=1, keepdims=True)  # a cell at the edge may reach past the numbers
        values = np.moveaxis(np.tensordot(share, values, (1, axis)), 0, axis)
    return values


def overlaps(cells: Array, others: Array) -> Array:
    """Lengths that intervals share with others.

    Args:
        cells: edges of the intervals, rising, shape (n + 1,).
        others: edges of the others, shape (m + 1,).

    Returns:
        Shape (n, m).
    """
    low = np.maximum(cells[:-1, None], others[None, :-1])
    high = np.minimum(cells[1:, None], others[None, 1:])
    return np.maximum(high - low, 0.0)


def covered(asked: Array, given: Array, part: Resampled, place: Place) -> bool:
    """True if given numbers reach over a grid along an axis, or with `extend` a part of it."""
    low, high = _reach(given, place)
    beside = bool(asked[-1] < low or asked[0] > high)
    return not beside and (part.extend is not None or bool(asked[0] >= low and asked[-1] <= high))


def _reach(given: Array, place: Place) -> tuple[float, float]:
    """The least and the greatest coordinate to which given numbers reach."""
    room = place.beyond * float(np.max(np.diff(given), initial=0.0))
    return float(given[0]) - room, float(given[-1]) + room


def scaled(part: Resampled, values: Array, place: Place) -> Array:
    if part.blur:
        widest = max(n * h for n, h in zip(place.grid.shape, place.grid.spacing, strict=True))
        if part.blur > widest:
            raise SceneError(f"{place.key}.blur: expected at most {widest:g}, the extent of the grid, found {part.blur:g}; lower it")
        values = gaussian_filter(values, [part.blur / h for h in place.grid.spacing], mode="nearest")
    values = part.scale * values + part.offset
    return np.array(part.values)[np.digitize(values, part.thresholds)] if part.values else values
