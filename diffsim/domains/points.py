"""Sources and receivers in a box: those that have a cell in it, and those of them that it owns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffsim.domains.boxes import Box, Cuts
from diffsim.errors import ShapeError
from diffsim.stepping.declare.points import PointTable
from diffsim.typing import Array, IntArray


@dataclass(frozen=True)
class BoxPoints:
    """The points of a box.

    The rank that owns a point's first cell owns the point: its box has all cells of the point, so it alone samples there. An amplitude acts
    in each box that has a cell of the source, with the parts of the cells that the box has.

    Attributes:
        table: cells and weights in the box. A box without points has one of weight 0, since kernels need one.
        numbers: the numbers of the points among all.
        mine: whether the rank owns each.
        total: the number of all points.
    """

    table: PointTable
    numbers: IntArray
    mine: Array
    total: int

    def columns(self, values: Array) -> Array:
        """The columns of the points of the box, from those of all points."""
        return values[:, self.numbers] if len(self.numbers) else np.zeros((len(values), 1), values.dtype)

    def owned(self, values: Array) -> Array:
        """The columns of the owned points, from those of the points of the box."""
        return np.ascontiguousarray(values[:, : len(self.numbers)][:, self.mine])

    @property
    def owned_numbers(self) -> IntArray:
        return self.numbers[self.mine]


def points_in(box: Box, cuts: Cuts, table: PointTable, most: tuple[int, ...], what: str) -> BoxPoints:
    """The points that have a cell in a box.

    Args:
        box: the box.
        cuts: all boxes.
        table: all points, with cells of the whole grid.
        most: how far a point's cells may lie outside of its owner's cells, along each axis.
        what: name of the points, for messages.

    Raises:
        ShapeError: a point has cells farther outside.
    """
    count = np.diff(table.starts)
    point_of = np.repeat(np.arange(table.count), count)
    owners = cuts.owners(table.cells[table.starts[:-1]]) if table.count else np.zeros(0, int)
    entries, cells = box.find(table.cells)
    points = point_of[entries]
    far = np.zeros(len(cells), bool)
    for axis, (along, limit) in enumerate(zip(box.inner, most, strict=True)):
        far |= (cells[:, axis] < along.start - limit) | (cells[:, axis] >= along.stop + limit)
    own = owners == box.rank
    missing = np.bincount(points[~far], minlength=table.count)[own] < count[own]
    if missing.any():
        raise ShapeError(
            f"number {int(np.flatnonzero(own)[missing][0])} of the {what} has cells more than {max(most)} outside of its domain, expected "
            "none; build the simulation with these points, or cut the grid elsewhere"
        )
    numbers, local = np.unique(points, return_inverse=True)
    if not len(numbers):
        corner = [[0 if along.start else n - 1 for along, n in zip(box.inner, box.shape, strict=True)]]
        return BoxPoints(PointTable(np.array(corner), np.zeros(1), np.array([0, 1])), numbers, np.zeros(0, bool), table.count)
    starts = np.searchsorted(local, np.arange(len(numbers) + 1))
    return BoxPoints(PointTable(cells, table.weights[entries], starts), numbers, own[numbers], table.count)


def overhang(cuts: Cuts, table: PointTable) -> IntArray:
    """How far the cells of points lie outside of their owner's cells along each axis that is cut, at most."""
    point_of = np.repeat(np.arange(table.count), np.diff(table.starts))
    first = table.cells[table.starts[:-1]][point_of] if table.count else table.cells
    out = np.zeros(len(cuts.grid), int)
    for axis in range(len(cuts.grid)):
        if cuts.parts[axis] == 1 or not len(first):
            continue
        bounds, at = np.array(cuts.bounds(axis)), table.cells[:, axis]
        part = np.searchsorted(bounds, first[:, axis], "right") - 1
        out[axis] = max(0, int((bounds[part] - at).max()), int((at - bounds[part + 1] + 1).max()))
    return out
