"""The likely reason why points lie outside a grid: another unit, axes in another order, longitudes counted from another meridian."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from diffsim.mesh.grid import Grid
from diffsim.typing import Array

SCALES = ((1e3, "km", "m"), (1e-3, "m", "km"), (1e2, "m", "cm"), (1e-2, "cm", "m"))
"""A factor, the unit of points that it is for, and that of the grid."""
CIRCLE = 360.0
"""Degrees of a circle."""
LARGE = 10 * CIRCLE
"""Numbers above it are no degrees."""
SPREAD = 0.05
"""Part of the grid that points in another unit reach at least: small numbers fit into any grid that begins at 0."""
MOVE = "move it or enlarge the grid"
PROJECT = "with pyproj, in a scene by crs and grid.crs"


def remedy(grid: Grid, coordinates: Array) -> str:
    """The remedy for points of which some lie outside, for the end of a message.

    Args:
        grid: the grid.
        coordinates: of all points, shape (points, axes).
    """
    ends = np.array([grid.coordinates(axis)[[0, -1]] for axis in range(grid.ndim)])
    low, high = ends.T

    def inside(places: Array) -> NDArray[np.bool_]:
        return np.asarray((low <= places) & (places <= high))

    if inside(coordinates).all(axis=1).any():  # so one of them is wrong, and not all of them
        return MOVE
    each = "the point" if len(coordinates) == 1 else f"all {len(coordinates)} points"
    for text, places in _changes(grid, ends, coordinates):
        if inside(places).all():
            return f"{each} would lie inside {text}"
    return _by_size(grid, ends, coordinates)


def _changes(grid: Grid, ends: Array, coordinates: Array) -> Iterator[tuple[str, Array]]:
    """Common mistakes, each with the coordinates that would be right, the likeliest first."""
    low, length = ends[:, 0], np.maximum(np.ptp(ends, axis=1), np.finfo(float).tiny)

    def spread(places: Array) -> bool:
        return bool(np.all(np.abs(places - low).max(axis=0) > SPREAD * length))

    for factor, unit, needed in SCALES:
        if needed == grid.unit and spread(factor * coordinates):
            yield f"in {unit}, and coordinates of this grid are in {needed}; multiply them by {factor:g}", factor * coordinates
    exchanged = f"with axes in the order of the grid, ({', '.join(grid.axes)}); exchange their columns", coordinates[:, ::-1]
    if not _in_degrees(grid):
        if grid.ndim > 1:
            yield exchanged
        return
    for axis, name in enumerate(grid.axes):
        for turn in (CIRCLE, -CIRCLE):
            if np.abs(ends[axis]).max() > CIRCLE / 4 and np.abs(coordinates[:, axis]).max() <= CIRCLE:  # no latitude
                moved = coordinates.copy()
                moved[:, axis] += np.where(turn * moved[:, axis] < 0, turn, 0.0)
                yield f"if {name} is a longitude: this grid counts them from {ends[axis, 0]:g} to {ends[axis, 1]:g}; add {turn:g}", moved
    if grid.ndim > 1:
        yield exchanged
    if spread(np.degrees(coordinates)):
        yield "in radians, and coordinates of this grid are in degrees; take np.degrees of them", np.degrees(coordinates)


def _in_degrees(grid: Grid) -> bool:
    """True if the coordinates of a grid are degrees: by its unit, as small numbers may be metres."""
    return grid.unit.startswith("deg")


def _by_size(grid: Grid, ends: Array, coordinates: Array) -> str:
    """The remedy by the size of numbers alone."""
    if len(ends) != 2:
        return MOVE
    angles = np.all(np.abs(coordinates) <= CIRCLE, axis=1)
    if not _in_degrees(grid) and angles.all() and np.all(np.ptp(ends, axis=1) > LARGE):
        return f"if these are degrees: coordinates of this grid are lengths, so project them ({PROJECT}), else {MOVE}"
    if _in_degrees(grid) and np.all(np.abs(coordinates).max(axis=1) > LARGE):
        return f"if these are lengths: coordinates of this grid are degrees, so give latitudes and longitudes ({PROJECT}), else {MOVE}"
    return MOVE
