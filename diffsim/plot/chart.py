"""The geometry of figures: flat views of the grid with labelled axes, the land on it, and the receivers that are shown in detail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from diffsim.mesh.grid import Axis
from diffsim.plot.units import Scale, length_scale, time_scale
from diffsim.typing import Array

DOWNWARDS = frozenset({"depth", "z", "row", "time"})
"""Vertical axes of these names point down."""
NARROW, WIDE = 3.0, 0.2
"""Height over width of a view; beyond these it is stretched to fit."""
UNEVEN = 1e-6
"""Cells whose widths differ relatively by less are drawn as of one size."""
CLOSE = 8
"""Receivers whose traces are drawn one by one."""

Cells = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class View:
    """A plane of the grid: `rows` upwards (or downwards), `columns` to the right.

    Attributes:
        rows: number of the vertical axis.
        columns: number of the horizontal axis.
        held: (axis, index) of the plane, in 3-D.
        extent: left, right, bottom, top: outer edges of the cells.
        labels: of the horizontal and the vertical axis.
        scales: of the horizontal and the vertical axis.
        aspect: length on paper of a vertical unit over that of a horizontal one; "auto": stretched.
        down: whether the vertical axis points down.
        where: of the plane in 3-D, such as "z = 120 m".
        faces: horizontal and vertical coordinates of the cells' faces, if the cells differ in size; None: they do not.
    """

    rows: int
    columns: int
    held: tuple[int, int] | None
    extent: tuple[float, float, float, float]
    labels: tuple[str, str]
    scales: tuple[Scale, Scale]
    aspect: float | Literal["auto"]
    down: bool
    where: str = ""
    faces: tuple[Array, Array] | None = None

    @property
    def ratio(self) -> float:
        """Height over width on paper."""
        left, right, bottom, top = self.extent
        return 0.75 if self.aspect == "auto" else self.aspect * (top - bottom) / (right - left)

    def cut(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The plane out of values over all cells."""
        return values if self.held is None else np.take(values, self.held[1], axis=self.held[0])

    def points(self, positions: Array) -> tuple[Array, Array]:
        """Horizontal and vertical coordinates of points, on the scales of the view."""
        return positions[:, self.columns] * self.scales[0].factor, positions[:, self.rows] * self.scales[1].factor


@dataclass(frozen=True)
class Chart:
    """The grid, ready to draw on.

    Attributes:
        axes: of the grid.
        views: one in 2-D, three planes across the axes in 3-D, the middle ones unless others are asked for, none in 1-D.
        land: cells where nothing moves; None: there are none.
        sources: forcing -> positions.
        receivers: state -> positions.
        close: state -> numbers of the receivers looked at one by one.
    """

    axes: tuple[Axis, ...]
    views: tuple[View, ...]
    land: Cells | None
    sources: Mapping[str, Array]
    receivers: Mapping[str, Array]
    close: Mapping[str, list[int]]

    @classmethod
    def over(
        cls,
        axes: tuple[Axis, ...],
        land: Cells | None = None,
        sources: Mapping[str, Array] | None = None,
        receivers: Mapping[str, Array] | None = None,
        planes: Sequence[int] | None = None,
    ) -> Chart:
        """A chart of these axes.

        Args:
            axes: of a grid, or of time.
            land: see the class.
            sources: forcing -> positions; those without a position are left out.
            receivers: state -> positions, likewise.
            planes: index along each axis of the planes that are drawn in 3-D; None: the middle ones.
        """
        shown = {state: p for state, p in (receivers or {}).items() if len(p)}
        fired = {forcing: p for forcing, p in (sources or {}).items() if len(p)}
        return cls(axes, _views(axes, planes), land, fired, shown, {state: spread(p, CLOSE) for state, p in shown.items()})

    def through(self, values: npt.NDArray[Any]) -> Chart:
        """The same with its planes, in 3-D, through the largest magnitude of values over the cells."""
        sizes = np.abs(np.nan_to_num(np.asarray(values, float)))
        if len(self.axes) < 3 or not sizes.any():
            return self
        return replace(self, views=_views(self.axes, [int(index) for index in np.unravel_index(sizes.argmax(), sizes.shape)]))


def spread(positions: Array, count: int) -> list[int]:
    """Numbers of at most `count` points that lie far from each other: each is the farthest from those taken before."""
    span = np.ptp(positions, axis=0)
    places = positions / np.where(span > 0, span, 1.0)
    taken = [0]
    distance = np.full(len(places), math.inf)
    while len(taken) < min(count, len(places)):
        distance = np.minimum(distance, np.sum((places - places[taken[-1]]) ** 2, axis=1))
        distance[taken] = -1.0
        taken.append(int(np.argmax(distance)))
    return sorted(taken)


def place_name(axes: tuple[Axis, ...], position: Array) -> str:
    """A position in words, such as "48.52° N, 235.1° E" or "z = 120 m, x = 40 m"."""
    out = []
    for axis, x in zip(axes, position, strict=True):
        if _is_degree(axis):
            out.append(f"{x:.2f}° {'N' if axis.name.lower().startswith('lat') else 'E'}")
        else:
            out.append(f"{axis.name} = {x:.4g} {axis.unit}".rstrip())
    return ", ".join(out)


def axis_scale(axis: Axis) -> tuple[Scale, str]:
    """The scale of an axis, and its label."""
    scale = time_scale(axis.coordinates) if axis.unit == "s" else length_scale(axis.unit, axis.coordinates)
    return scale, scale.label(axis.name)


def edges(axis: Axis, factor: float = 1.0) -> tuple[float, float]:
    """Outer edges of the first and the last cell."""
    x = np.asarray(axis.coordinates, float) * factor
    if len(x) == 1:
        return float(x[0] - 0.5), float(x[0] + 0.5)
    return float(x[0] - 0.5 * (x[1] - x[0])), float(x[-1] + 0.5 * (x[-1] - x[-2]))


def _views(axes: tuple[Axis, ...], at: Sequence[int] | None) -> tuple[View, ...]:
    """One of two axes, three planes of three, none of one."""
    if len(axes) == 1:
        return ()
    if len(axes) == 2:
        return (_view(axes, 0, 1, None),)
    planes = ((1, 2, 0), (0, 2, 1), (0, 1, 2))
    return tuple(_view(axes, r, c, (held, len(axes[held].coordinates) // 2 if at is None else at[held])) for r, c, held in planes)


def _view(axes: tuple[Axis, ...], rows: int, columns: int, held: tuple[int, int] | None) -> View:
    (x_scale, x_label), (y_scale, y_label) = axis_scale(axes[columns]), axis_scale(axes[rows])
    if axes[rows].unit == axes[columns].unit == "m":  # one unit for both, or distances cannot be compared
        x_scale = y_scale = length_scale("m", np.concatenate([axes[columns].coordinates, axes[rows].coordinates]))
        x_label, y_label = x_scale.label(axes[columns].name), y_scale.label(axes[rows].name)
    extent = (*edges(axes[columns], x_scale.factor), *edges(axes[rows], y_scale.factor))
    aspect: float | Literal["auto"] = "auto"
    if _is_degree(axes[rows]) and _is_degree(axes[columns]):
        aspect = 1 / math.cos(math.radians(0.5 * (extent[2] + extent[3]))) if axes[rows].name.lower().startswith("lat") else 1.0
    elif axes[rows].unit == axes[columns].unit:
        aspect = 1.0
    if aspect != "auto" and not WIDE <= aspect * (extent[3] - extent[2]) / (extent[1] - extent[0]) <= NARROW:
        aspect = "auto"
    where = ""
    if held is not None:
        axis = axes[held[0]]
        where = f"{axis.name} = {axis.coordinates[held[1]]:.4g} {axis.unit}".rstrip()
    down = axes[rows].name.lower() in DOWNWARDS
    faces = None
    if not (_is_even(axes[columns]) and _is_even(axes[rows])):
        faces = _faces(axes[columns], x_scale.factor), _faces(axes[rows], y_scale.factor)
    return View(rows, columns, held, extent, (x_label, y_label), (x_scale, y_scale), aspect, down, where, faces)


def _is_even(axis: Axis) -> bool:
    widths = np.diff(axis.coordinates)
    return len(widths) < 2 or bool(np.ptp(widths) <= UNEVEN * abs(widths.mean()))


def _faces(axis: Axis, factor: float) -> Array:
    """Faces half-way between the centres, and those at both ends."""
    x = np.asarray(axis.coordinates, float) * factor
    first, last = edges(axis, factor)
    return np.concatenate([[first], 0.5 * (x[1:] + x[:-1]), [last]])


def _is_degree(axis: Axis) -> bool:
    return axis.unit.lower().startswith(("degree", "°")) and axis.name.lower().startswith(("lat", "lon"))
