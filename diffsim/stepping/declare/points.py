"""Points between cells: interpolation from a field, and its transpose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import one_of, real_array
from diffsim.base.quantities import places_on, stated
from diffsim.boundary import Rules, Sides
from diffsim.errors import ShapeError
from diffsim.mesh.field import Location
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.interpolation import RADIUS, SNAP, Along, folded, linear, sinc
from diffsim.stepping.declare.misplaced import remedy
from diffsim.typing import Array, IntArray


@dataclass(frozen=True, eq=False)
class Points:
    """Places of sources or receivers, and an interpolation between cells: in place of plain coordinates.

    "linear" takes the neighbours of a place. "sinc" takes eight cells along each axis, weighted by a windowed sinc function. It reproduces
    waves of six cells and more to 7e-4 of their amplitude; lines make errors of 5 % at ten cells a wavelength. Near a side, a cell beyond
    it counts for those inside that the boundary rule makes it of: a place is right up to a free surface ("odd_image") or a wall ("mirror").

    With `dipole`, a receiver records the derivative of the field along a direction u, and a source of amplitude a is -a u·∇δ(x - x₀).

    Reference: Hicks (2002), Arbitrary source and receiver positioning in finite-difference schemes using Kaiser windowed sinc functions,
        Geophysics 67, 156-165, doi:10.1190/1.1451454. Here r = 4 and b = 6.31, his choice for waves of four cells and more.

    Args:
        places: coordinates, shape (points, axes), in the grid's units; of a `Batch` also (runs, points, axes).
        interpolation: "linear" or "sinc".
        dipole: u: one for all points, shape (axes,), or one a point, in the order of the axes. Its length counts.

    Raises:
        ParameterError: a name of another interpolation, or coordinates that are no numbers.
        ShapeError: a direction of length 0, or of a shape that does not fit; by the simulation, a place outside the grid, a stretched grid,
            or a place within 4 cells of a side whose rule does not make the cells beyond it of those inside ("zero", or a given value).

    Example:
        import numpy as np

        import diffsim as ds

        # A hydrophone and a geophone 2 m below the surface of the sea, between cells of 10 m.
        grid = ds.Grid((40, 60), spacing=10.0)
        sea = ds.solvers.Acoustic(grid, dt=2e-3, boundary=(("odd_image", "zero"), "zero"))
        below = -5.0 + 2.0  # the surface lies half a cell above the first centres
        for way in (None, (1.0, 0.0)):
            shot = ds.Simulation(
                sea,
                sources={"f": ds.Points([[203.0, 304.0]], "sinc")},
                receivers={"p": ds.Points([[below, 301.0]], "sinc", dipole=way)},
            )
            p = shot.run({"c": np.full(grid.shape, 1500.0), "f": np.ones((150, 1))}, steps=150).traces["p"]
            assert abs(p).max() > 0
    """

    places: npt.ArrayLike
    interpolation: Literal["linear", "sinc"] = "linear"
    dipole: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        one_of("interpolation", self.interpolation, ("linear", "sinc"))
        if stated(self.places):  # a unit or labels, which are compared with a grid
            return
        places = np.atleast_2d(real_array("places of Points", self.places, float))
        object.__setattr__(self, "places", places)
        if self.dipole is not None:
            dipole = real_array("dipole of Points", self.dipole, float)
            fits = dipole.ndim and dipole.shape == places.shape[-dipole.ndim :]
            if not fits or not np.isfinite(dipole).all() or not np.linalg.norm(dipole, axis=-1).all():
                raise ShapeError(
                    f"dipole of Points has shape {dipole.shape}, expected {places.shape[-1:]} or {places.shape}, and finite lengths "
                    f"above 0; write it like {[1.0] + [0.0] * (places.shape[-1] - 1)}"
                )
            object.__setattr__(self, "dipole", np.broadcast_to(dipole, places.shape))

    def on(self, grid: Grid, what: str, runs: bool = False) -> Points:
        """The points with plain coordinates in the unit of a grid and in the order of its axes.

        Args:
            grid: the grid.
            what: name of the points, for messages.
            runs: whether an axis of runs may come before the others.
        """
        if not stated(self.places):
            return self
        return replace(self, places=real_array(what, self.places, float, places_on(grid.axes, grid.unit, runs)))

    def of_run(self, run: int) -> Points:
        """The points of one of several runs, where each has its own."""
        places, dipole = np.asarray(self.places), self.dipole
        if places.ndim != 3:
            return self
        return Points(places[run], self.interpolation, None if dipole is None else np.asarray(dipole)[run])


Places: TypeAlias = npt.ArrayLike | Points
"""Coordinates as a user gives them."""


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
        last = self.last_rows(0)
        order = np.argsort(last, kind="stable")
        return order, last[order]

    def last_rows(self, axis: int) -> IntArray:
        """The last row along an axis on which each point has a cell."""
        rows: IntArray = np.maximum.reduceat(self.cells[:, axis], self.starts[:-1])
        return rows

    @cached_property
    def tallest(self) -> int:
        """Rows from the first to the last one of a point's cells along any axis but the last, at most."""
        starts, axes = self.starts[:-1], range(max(1, self.cells.shape[1] - 1))
        heights = [self.last_rows(axis) - np.minimum.reduceat(self.cells[:, axis], starts) for axis in axes]
        return int(np.max(heights, initial=0))

    def gather(self, values: Array) -> Array:
        """Values at the points, shape (points,), of a field over the cells."""
        products = self.weights * values[tuple(self.cells.T)]
        return np.add.reduceat(products, self.starts[:-1]).astype(values.dtype) if self.count else np.zeros(0, values.dtype)

    def scatter(self, amplitudes: Array, into: Array) -> None:
        """Transpose of `gather`: add each point's amplitude to its cells."""
        np.add.at(into, tuple(self.cells.T), self.weights * np.repeat(amplitudes, np.diff(self.starts)))


def point_table(
    grid: Grid, location: Location, points: Places, what: str = "point", density: bool = False, rules: Rules | None = None
) -> PointTable:
    """Interpolation from a field's values at `location` to points.

    Args:
        grid: the grid.
        location: location of the field's values in the cell.
        points: coordinates, shape (points, axes), in the grid's units, or `Points`.
        what: name of the points, for messages.
        density: whether the weight of each cell is divided by its volume: a source's amplitude becomes a density.
        rules: of the field; None: values outside the grid are not known.

    Raises:
        ShapeError: coordinates have a wrong shape, or a point is not between the first and the last value of the field.
    """
    chosen = points.on(grid, f"{what} coordinates") if isinstance(points, Points) else None
    coordinates = np.atleast_2d(
        real_array(f"{what} coordinates", points if chosen is None else chosen.places, float, places_on(grid.axes, grid.unit))
    )
    if not coordinates.size:
        raise ShapeError(f"{what}: no coordinates, expected at least one point; leave the entry out instead")
    if coordinates.ndim != 2 or coordinates.shape[1] != grid.ndim:
        raise ShapeError(
            f"{what} coordinates have shape {coordinates.shape}, expected (points, {grid.ndim}); write them like [{[0.0] * grid.ndim}]"
        )
    dipole = None if chosen is None or chosen.dipole is None else np.asarray(chosen.dipole)
    wide = chosen is not None and chosen.interpolation == "sinc"
    if (wide or dipole is not None) and None in grid.uniform_spacing:
        raise ShapeError(f"{what}: sinc interpolation or a dipole on a stretched grid, expected a uniform one; use plain coordinates")
    volume = _volumes(grid, location)
    cells, weights, starts = [], [], [0]
    for number, point in enumerate(coordinates):
        name = f"{what} {number} at {tuple(float(c) for c in point)}"
        sides = [None] * grid.ndim if rules is None else rules
        try:
            lines = [_line(name, grid, axis, location[axis], x, wide, dipole is not None, sides[axis]) for axis, x in enumerate(point)]
        except _OutsideError as error:
            raise ShapeError(f"{error}; {remedy(grid, coordinates)}") from None
        corners = np.stack(np.meshgrid(*(line.cells for line in lines), indexing="ij"), axis=-1).reshape(-1, grid.ndim)
        shares = _shares(lines, grid, None if dipole is None else dipole[number])
        scale = np.array([1 / volume(corner) for corner in corners.tolist()]) if density else 1.0
        kept = np.flatnonzero(shares) if shares.any() else [0]
        cells.append(corners[kept])
        weights.append((scale * shares)[kept])
        starts.append(starts[-1] + len(kept))
    return PointTable(np.concatenate(cells), np.concatenate(weights), np.array(starts, np.int64))


class _OutsideError(ShapeError):
    """A point outside the grid."""


def _line(name: str, grid: Grid, axis: int, place: int, coordinate: float, wide: bool, slope: bool, sides: Sides | None) -> Along:
    """Cells and weights along an axis."""
    values, h = grid.coordinates(axis, place), grid.uniform_spacing[axis]
    n, position = len(values), _position(coordinate, values, h)
    low, high, first, last = 0.0, n - 1.0, values[0], values[-1]
    if wide and sides is not None and h is not None:  # up to the sides: the rules give the field beyond the outermost values
        low, high = (-1.0, high) if place else (-0.5, high + 0.5)
        first, last = values[0] + low * h, values[0] + high * h
    if not low - SNAP <= position <= high + SNAP:
        raise _OutsideError(f"{name} lies outside the grid: {grid.axes[axis]} = {coordinate:g}, expected {first:g} to {last:g}")
    along = sinc(position) if wide else linear(position)
    inside = folded(along if slope else along.cut(along.values != 0), sides, n)
    if inside is None:
        raise ShapeError(
            f"{name} is less than {f'{RADIUS} cells' if wide else 'a cell'} away from a side of {grid.axes[axis]}, expected it farther "
            'inside, or a rule there that makes the cells beyond it of those inside, such as "odd_image"; move it, or interpolate linearly'
        )
    return inside


def _shares(lines: list[Along], grid: Grid, dipole: Array | None) -> Array:
    """The weights of all corners: of the value, or of the derivative along a direction."""
    if dipole is None:
        return reduce(np.multiply.outer, [line.values for line in lines]).ravel()
    total = np.zeros(math.prod(len(line.cells) for line in lines))
    for axis, (part, h) in enumerate(zip(dipole, grid.spacing, strict=True)):
        factors = [line.slopes if other == axis else line.values for other, line in enumerate(lines)]
        total += part / h * reduce(np.multiply.outer, factors).ravel()
    return total


def _position(coordinate: float, values: Array, spacing: float | None) -> float:
    """The fractional index of a coordinate among increasing ones, linear between and beyond them."""
    if spacing is not None:
        position: float = (coordinate - values[0]) / spacing
        return position
    lower = int(np.clip(np.searchsorted(values, coordinate, "right") - 1, 0, max(len(values) - 2, 0)))
    return float(lower + (coordinate - values[lower]) / (values[lower + 1] - values[lower]))


def _volumes(grid: Grid, location: Location) -> Callable[[list[int]], float]:
    """A function that returns the volume around a field's value."""
    if None not in grid.uniform_spacing:
        return lambda cell: grid.cell_volume
    widths = [grid.widths(axis, place) for axis, place in enumerate(location)]
    return lambda cell: math.prod(float(w[k]) for w, k in zip(widths, cell, strict=True))
