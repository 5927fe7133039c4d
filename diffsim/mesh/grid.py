"""The grid: number, size and position of the cells, and names of the axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import instance, names, plural, real_array, shape_of, whole
from diffsim.base.messages import shown
from diffsim.base.quantities import Meaning, along_axis
from diffsim.base.summary import Rows, Summary
from diffsim.errors import ParameterError, ShapeError
from diffsim.mesh.angles import named_unit, unit_of_axes
from diffsim.typing import Array

MAX_DIMENSIONS = 3
AXES = ("z", "y", "x")
"""Default names of axes, counted from the last one."""
EVEN = 1e-9
"""Cells whose widths differ relatively by less than this count as of one size."""


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis of a figure, of a grid or of time.

    Attributes:
        name: such as "latitude".
        unit: such as "degrees north".
        coordinates: of the cell centres, in that unit.
    """

    name: str
    unit: str
    coordinates: Array


@dataclass(frozen=True, init=False, repr=False)
class Grid(Summary):
    """A uniform grid of cells in one to three dimensions; arrays over it are C-ordered, the last axis contiguous.

    Cell i of an axis has its centre at `origin + i * spacing` and its upper face half a spacing further. `Grid.from_faces` makes a grid
    whose cells differ in size.

    Args:
        shape: cells along each axis.
        spacing: distance of neighbouring cell centres along each axis (one number for all, or one an axis), in metres
            unless an equation says otherwise.
        origin: coordinate of the centre of the first cell.
        axes: names of the axes, for figures and messages, or a text with a letter for each, such as "zx". The dimensions of labelled
            arrays are matched to them.
        unit: the unit of coordinates, to which quantities of pint or astropy are converted. None: "degree" where all axes have names such
            as "latitude" and "lon", "m" where none has. Where some have, the grid needs a unit.

    Raises:
        ShapeError: a number of axes other than 1 to 3, no cells, or a spacing that is not positive.
        ParameterError: a spacing or origin whose unit does not convert to that of the grid, or no unit for axes of which some are angles.

    Example:
        import numpy as np

        import diffsim as ds

        grid = ds.Grid((30, 40), spacing=(5.0, 10.0), axes=("depth", "distance"))
        depth = grid.coordinates(0)[:, None]  # depths of the centres, m
        speed = np.where(depth < 60.0, 1500.0, 2200.0) * np.ones(grid.shape)  # two layers
        assert speed.shape == (30, 40) and grid.cell_volume == 50.0
        fine_near_the_wall = ds.Grid.from_faces((np.geomspace(0.01, 1.0, 21),))
        assert np.isclose(fine_near_the_wall.widths(0).sum(), 0.99)
    """

    shape: tuple[int, ...]
    uniform_spacing: tuple[float | None, ...]
    """Distance of cell centres along each axis, None where it is not the same everywhere."""
    origin: tuple[float, ...]
    axes: tuple[str, ...]
    faces: tuple[tuple[float, ...] | None, ...]
    """Coordinates of the faces along each axis that is stretched, None for the others."""
    unit: str
    """The unit of coordinates."""

    def __init__(
        self,
        shape: Sequence[int],
        spacing: float | Sequence[float],
        origin: float | Sequence[float] = 0.0,
        axes: Sequence[str] | None = None,
        unit: str | None = None,
    ) -> None:
        shape = shape_of("grid shape", shape, MAX_DIMENSIONS)
        object.__setattr__(self, "shape", shape)
        labels = _labels(axes, len(shape))
        object.__setattr__(self, "axes", labels)
        unit = _unit(unit, labels)
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "uniform_spacing", _per_axis("spacing", spacing, len(shape), unit))
        object.__setattr__(self, "origin", _per_axis("origin", origin, len(shape), unit))
        object.__setattr__(self, "faces", (None,) * len(shape))
        if not all(0 < h < math.inf for h in self.spacing):
            raise ShapeError(f"grid spacing = {self.spacing}, expected positive and finite; give the distance of cell centres")
        if not all(map(math.isfinite, self.origin)):
            raise ShapeError(f"grid origin = {self.origin}, expected finite; give the coordinate of the first cell's centre")

    @classmethod
    def from_faces(cls, faces: Sequence[npt.ArrayLike], axes: Sequence[str] | None = None, unit: str | None = None) -> Grid:
        """A grid from the coordinates of its faces; the centre of a cell is half-way between its faces.

        Args:
            faces: for each axis the increasing coordinates of all faces, both ends included: one more than cells. An axis on which they
                are equally spaced is a uniform one.
            axes: names of the axes, for figures and messages.
            unit: the unit of coordinates; None: see the class.

        Raises:
            ShapeError: a number of axes other than 1 to 3, fewer than two faces, or coordinates that do not increase.
        """
        if not isinstance(faces, (list, tuple)) or not 1 <= len(faces) <= MAX_DIMENSIONS:
            raise ShapeError(
                f"grid faces = {shown(faces)}, expected 1 to {MAX_DIMENSIONS} arrays in a tuple; give the faces along each axis"
            )
        unit = _unit(unit, _labels(axes, len(faces)))
        coordinates = [_increasing(axis, along, unit) for axis, along in enumerate(faces)]
        widths = [np.diff(along) for along in coordinates]
        even = [bool(np.ptp(along) <= EVEN * along.mean()) for along in widths]
        mean = [(along[-1] - along[0]) / (len(along) - 1) for along in coordinates]
        grid = cls(
            [len(w) for w in widths], mean, [along[0] + 0.5 * w[0] for along, w in zip(coordinates, widths, strict=True)], axes, unit
        )
        object.__setattr__(grid, "uniform_spacing", tuple(float(h) if same else None for h, same in zip(mean, even, strict=True)))
        object.__setattr__(grid, "faces", tuple(None if same else tuple(a.tolist()) for a, same in zip(coordinates, even, strict=True)))
        return grid

    def _summary(self) -> tuple[str, Rows]:
        rows = []
        for axis, (name, size) in enumerate(zip(self.axes, self._sizes(), strict=True)):
            centres = self.coordinates(axis)
            rows.append((name, f"{plural(self.shape[axis], 'cell')} of {size}, centres from {centres[0]:.6g} to {centres[-1]:.6g}"))
        return f"Grid of {plural(self.size, 'cell')}", rows

    def _sizes(self) -> list[str]:
        """The widths of the cells along each axis."""
        return [f"{min(self.widths(a)):g} to {max(self.widths(a)):g}" if h is None else str(h) for a, h in enumerate(self.uniform_spacing)]

    def __repr__(self) -> str:
        unit = "" if self.unit == unit_of_axes(self.axes) else f", unit={self.unit!r}"
        return f"Grid(shape={self.shape}, spacing=({', '.join(self._sizes())}), origin={self.origin}, axes={self.axes}{unit})"

    __str__ = __repr__  # one line, for messages

    @property
    def spacing(self) -> tuple[float, ...]:
        """Distance of neighbouring cell centres along each axis.

        Raises:
            ShapeError: the grid is stretched along an axis.
        """
        for axis, h in enumerate(self.uniform_spacing):
            if h is None:
                raise ShapeError(
                    f"spacing of a grid that is stretched along {self.axes[axis]}, expected the same everywhere; its user needs a "
                    "uniform grid, Grid(shape, spacing), or can use grid.widths(axis), diffsim.expr.diff and the like"
                )
        return tuple(h for h in self.uniform_spacing if h is not None)

    @property
    def cell_sizes(self) -> tuple[float | tuple[float, ...], ...]:
        """The width of all cells along each axis, or that of each where the grid is stretched."""
        return tuple(tuple(self.widths(axis).tolist()) if h is None else h for axis, h in enumerate(self.uniform_spacing))

    @property
    def smallest(self) -> tuple[float, ...]:
        """The smallest width of a cell along each axis, for limits of stability."""
        return tuple(float(self.widths(axis).min()) if h is None else h for axis, h in enumerate(self.uniform_spacing))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def cell_volume(self) -> float:
        """Product of the spacings."""
        return math.prod(self.spacing)

    def coordinates(self, axis: int, location: int = 0) -> Array:
        """Coordinates along `axis`, of cell centres (location 0) or of upper faces (location 1)."""
        axis, location = self._place(axis, location)
        faces, h = self.faces[axis], self.uniform_spacing[axis]
        if h is None:
            along = np.array(faces)
            return along[1:] if location else 0.5 * (along[:-1] + along[1:])
        return self.origin[axis] + h * (np.arange(self.shape[axis]) + 0.5 * location)

    def widths(self, axis: int, location: int = 0) -> Array:
        """Widths of the cells along `axis` (location 0), or distances of the centres on both sides of upper faces (location 1).

        Beyond the last cell there is one of the same width.
        """
        axis, location = self._place(axis, location)
        h = self.uniform_spacing[axis]
        sizes = np.full(self.shape[axis], h) if h is not None else np.diff(np.array(self.faces[axis]))
        return 0.5 * (sizes + np.append(sizes[1:], sizes[-1])) if location else sizes

    @property
    def axis_units(self) -> tuple[str, ...]:
        """The unit of coordinates along each axis, "degrees_north" along latitudes and "degrees_east" along longitudes."""
        return tuple(named_unit(name, self.unit) for name in self.axes)

    def cells(self, unit: str = "") -> Meaning:
        """The dimensions of an array over the centres of the cells, for arrays with labels.

        Args:
            unit: of its values.
        """
        rows = tuple(along_axis(name, self.coordinates(axis), self.unit) for axis, name in enumerate(self.axes))
        return Meaning(unit, (rows,))

    def repeated(self, count: int, axis: str) -> Grid:
        """Copies of this grid, one beside the other along a first axis of this name, with a distance of 1."""
        grid = Grid((1,), 1.0)  # its attributes are replaced
        object.__setattr__(grid, "shape", (count, *self.shape))
        object.__setattr__(grid, "uniform_spacing", (1.0, *self.uniform_spacing))
        object.__setattr__(grid, "origin", (0.0, *self.origin))
        object.__setattr__(grid, "axes", (axis, *self.axes))
        object.__setattr__(grid, "faces", (None, *self.faces))
        object.__setattr__(grid, "unit", self.unit)
        return grid

    def part(self, box: Sequence[tuple[int, int]]) -> Grid:
        """The cells from the first to before the last of each axis, as a grid. Beyond its ends a uniform axis goes on."""
        grid = Grid((1,), 1.0)  # its attributes are replaced
        origin = []
        for axis, (begin, _) in enumerate(box):
            h = self.uniform_spacing[axis]
            origin.append(float(self.coordinates(axis)[begin]) if h is None else self.origin[axis] + h * begin)
        object.__setattr__(grid, "shape", tuple(end - begin for begin, end in box))
        object.__setattr__(grid, "uniform_spacing", self.uniform_spacing)
        object.__setattr__(grid, "origin", tuple(origin))
        object.__setattr__(grid, "axes", self.axes)
        faces = [None if along is None else along[begin : end + 1] for along, (begin, end) in zip(self.faces, box, strict=True)]
        object.__setattr__(grid, "faces", tuple(faces))
        object.__setattr__(grid, "unit", self.unit)
        return grid

    def _place(self, axis: int, location: int) -> tuple[int, int]:
        axis = whole("axis", axis, -self.ndim, self.ndim - 1, error=ShapeError)
        return axis, whole("location", location, 0, 1, "give 0 for centres or 1 for upper faces", ShapeError)


def _labels(axes: Sequence[str] | None, ndim: int) -> tuple[str, ...]:
    """The names of the axes."""
    letters = tuple(axes) if isinstance(axes, str) and axes.isalpha() and len(axes) == ndim else axes
    labels = AXES[-ndim:] if letters is None else names("grid axes", letters, "('z', 'x')")
    if len(labels) != ndim:
        raise ShapeError(f"grid axes = {shown(axes)}, expected {ndim} names; give one an axis")
    return labels


def _unit(unit: str | None, axes: Sequence[str]) -> str:
    """The unit of coordinates, as stated or by the names of the axes."""
    if unit is not None:
        return instance("grid unit", unit, str, "a text", "write it like 'm' or 'degree'")
    usual = unit_of_axes(axes)
    if usual is None:
        raise ParameterError(
            f"grid axes = {shown(tuple(axes))} without a unit, expected one, since some are angles and others are not; give the "
            "one unit of all coordinates, unit='m' or unit='degree' (units of a scene)"
        )
    return usual


def _per_axis(name: str, value: float | Sequence[float], ndim: int, unit: str) -> tuple[float, ...]:
    array = np.atleast_1d(real_array(f"grid {name}", value, float, Meaning(unit)))
    if array.shape not in ((1,), (ndim,)):
        raise ShapeError(f"grid {name} = {shown(value)} has shape {array.shape}, expected one number, or {ndim} (one an axis); give those")
    return tuple(np.broadcast_to(array, ndim).tolist())


def _increasing(axis: int, faces: npt.ArrayLike, unit: str) -> Array:
    coordinates = real_array(f"grid faces along axis {axis}", faces, float, Meaning(unit))
    if coordinates.ndim != 1 or len(coordinates) < 2:
        raise ShapeError(
            f"grid faces along axis {axis} have shape {coordinates.shape}, expected (cells + 1,); give the coordinates of all faces"
        )
    if not np.isfinite(coordinates).all() or not (np.diff(coordinates) > 0).all():
        raise ShapeError(f"grid faces along axis {axis} do not increase, expected finite, increasing coordinates; sort them, each once")
    return coordinates
