"""Differences and interpolation of second order along axes whose cells differ in size.

Operators read sizes of the cells as fields of one axis: widths w of the cells, and gaps d between neighbouring centres. The centre of a
cell is half-way between its faces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from diffsim.errors import ShapeError
from diffsim.expr.symbol import Symbol
from diffsim.typing import Array


@dataclass(frozen=True)
class Figure:
    """A size of each cell, or of each upper face, computed from the widths of three cells.

    Attributes:
        location: 0 for cells, 1 for upper faces.
        formula: a function of the widths of the cell below, the cell and the cell above.
    """

    location: int
    formula: Callable[[Array, Array, Array], Array]

    def of(self, widths: Array) -> Array:
        """The sizes of all cells but the first and the last."""
        return self.formula(widths[:-2], widths[1:-1], widths[2:])


KINDS = {
    "width": Figure(0, lambda below, here, above: here),
    "per width": Figure(0, lambda below, here, above: 1 / here),
    "per gap": Figure(1, lambda below, here, above: 2 / (here + above)),
    "face share": Figure(1, lambda below, here, above: here / (here + above)),
    "centre share": Figure(0, lambda below, here, above: (below + here) / (below + 2 * here + above)),
}
"""A share is a relative position between two places, from the lower one: of a face between two centres, or of a centre between the points
half-way to its neighbours."""


def metric_name(kind: str, axis: int) -> str:
    """Name under which a size is read. No field of an equation has a space in its name."""
    return f"{kind} {axis}"


def metric(f: Symbol, kind: str, axis: int) -> Symbol:
    """A size of the cells of the grid of `f`."""
    location = tuple(KINDS[kind].location if a == axis else None for a in range(f.ndim))
    return f.like(f.graph.read(metric_name(kind, axis), (0,) * f.ndim), location)


def check_second_order(order: int, axis: int, what: str) -> None:
    """Raise `ShapeError` unless the order is 2."""
    if order != 2:
        raise ShapeError(f"{what} of order {order} along axis {axis}, which is stretched, expected order 2; use it, or a uniform axis")


def stretched_diff(f: Symbol, axis: int) -> Symbol:
    """Derivative half a cell away."""
    place = f.location[axis]
    moved = (f.shifted(axis, 1) - f) if not place else (f - f.shifted(axis, -1))
    return moved.across(axis) * metric(f, "per width" if place else "per gap", axis)


def stretched_interpolate(f: Symbol, axis: int) -> Symbol:
    """Linear interpolation half a cell away."""
    if f.location[axis]:
        return (0.5 * (f.shifted(axis, -1) + f)).across(axis)
    return f.across(axis) + metric(f, "face share", axis) * (f.shifted(axis, 1) - f).across(axis)


def stretched_diff_centred(f: Symbol, axis: int) -> Symbol:
    """Derivative at the same location, of the parabola through three values."""
    slope = stretched_diff(f, axis).across(axis)
    below, above = (slope.shifted(axis, -1), slope) if not f.location[axis] else (slope, slope.shifted(axis, 1))
    share = metric(f, "face share" if f.location[axis] else "centre share", axis)
    return below + share * (above - below)
