"""Points between cells: linear interpolation from a field, and its transpose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from diffsim.arguments import real_array
from diffsim.errors import ShapeError
from diffsim.field import Location
from diffsim.grid import Grid
from diffsim.typing import Array, IntArray

SNAP = 1e-9
"""A point closer than this to a cell's location, in cells, uses only that cell."""


@dataclass(frozen=True)
class PointTable:
    """Each point as a weighted sum of cells.

    Attributes:
        cells: shape (entries, axes), the cells, point after point.
        weights: shape (entries,).
        starts: shape (points + 1,), index of each point's first entry.
    """

    cells: IntArray
    weights: Array
    starts: IntArray

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def by_cell(self) -> tuple[IntArray, IntArray, IntArray, Array]:
        """The transpose: distinct cells in C order, the index of each cell's first entry, and the points and weights of the entries."""
        owners = np.repeat(np.arange(self.count), np.diff(self.starts))
        cells, inverse = np.unique(self.cells, axis=0, return_inverse=True)
        inverse = inverse.ravel()
        order = np.argsort(inverse, kind="stable")
        starts = np.searchsorted(inverse[order], np.arange(len(cells) + 1))
        return cells, starts, owners[order], self.weights[order]

    @cached_property
    def by_row(self) -> tuple[IntArray, IntArray]:
        """The points in the order of the last row of the first axis on which they have a cell, and these rows."""
        last = np.maximum.reduceat(self.cells[:, 0], self.starts[:-1])
        order = np.argsort(last, kind="stable")
        return order, last[order]

    @cached_property
    def tallest(self) -> int:
        """Rows from the first to the last one of a point's cells, at most; at least 1, as between cells."""
        rows, starts = self.cells[:, 0], self.starts[:-1]
        return int((np.maximum.reduceat(rows, starts) - np.minimum.reduceat(rows, starts)).max(initial=1))

    def gather(self, values: Array) -> Array:
        """Values at the points, shape (points,), of a field over the cells."""
        products = self.weights * values[tuple(self.cells.T)]
        return np.add.reduceat(products, self.starts[:-1]).astype(values.dtype) if self.count else np.zeros(0, values.dtype)

    def scatter(self, amplitudes: Array, into: Array) -> None:
        """Transpose of `gather`: add each point's amplitude to its cells."""
        np.add.at(into, tuple(self.cells.T), self.weights * np.repeat(amplitudes, np.diff(self.starts)))


def linear_table(grid: Grid, location: Location, coordinates: npt.ArrayLike, what: str = "point", density: bool = False) -> PointTable:
    """Multilinear interpolation from a field's values at `location` to points.

    Args:
        grid: the grid.
        location: location of the field's values in the cell.
        coordinates: shape (points, axes), in the grid's units.
        what: name of the points, for messages.
        density: whether the weight of each cell is divided by its volume: a source's amplitude becomes a density.

    Raises:
        ShapeError: coordinates have a wrong shape, or a point is not between the first and the last value of the field.
    """
    coordinates = np.atleast_2d(real_array(f"{what} coordinates", coordinates, float))
    if not coordinates.size:
        raise ShapeError(f"{what}: no coordinates, expected at least one point; leave the entry out instead")
    if coordinates.ndim != 2 or coordinates.shape[1] != grid.ndim:
        raise ShapeError(
            f"{what} coordinates have shape {coordinates.shape}, expected (points, {grid.ndim}); write them like [{[0.0] * grid.ndim}]"
        )
    volume = _volumes(grid, location)
    cells, weights, starts = [], [], [0]
    for number, point in enumerate(coordinates):
        pairs = []
        for axis, coordinate in enumerate(point):
            values = grid.coordinates(axis, location[axis])
            position = _position(coordinate, values, grid.uniform_spacing[axis])
            if not -SNAP <= position <= len(values) - 1 + SNAP:
                raise ShapeError(
                    f"{what} {number} at {tuple(float(c) for c in point)} lies outside the grid: {grid.axes[axis]} = {coordinate:g}, "
                    f"expected {values[0]:g} to {values[-1]:g}; move it or enlarge the grid"
                )
            lower = int(np.clip(np.floor(position + SNAP), 0, len(values) - 1))
            part = position - lower
            pairs.append([(lower, 1.0)] if abs(part) <= SNAP else [(lower, 1 - part), (lower + 1, part)])
        for corner in itertools.product(*pairs):
            cells.append([cell for cell, _ in corner])
            scale = 1 / volume([cell for cell, _ in corner]) if density else 1.0
            weights.append(scale * float(np.prod([weight for _, weight in corner])))
        starts.append(len(cells))
    return PointTable(np.array(cells, np.int64).reshape(-1, grid.ndim), np.array(weights), np.array(starts, np.int64))


def _position(coordinate: float, values: Array, spacing: float | None) -> float:
    """The fractional index of a coordinate among increasing ones, linear between and beyond them."""
    if spacing is not None:
        return (coordinate - values[0]) / spacing
    lower = int(np.clip(np.searchsorted(values, coordinate, "right") - 1, 0, max(len(values) - 2, 0)))
    return float(lower + (coordinate - values[lower]) / (values[lower + 1] - values[lower]))


def _volumes(grid: Grid, location: Location) -> Callable[[list[int]], float]:
    """A function that returns the volume around a field's value."""
    if None not in grid.uniform_spacing:
        return lambda cell: grid.cell_volume
    widths = [grid.widths(axis, place) for axis, place in enumerate(location)]
    return lambda cell: math.prod(float(w[k]) for w, k in zip(widths, cell, strict=True))
