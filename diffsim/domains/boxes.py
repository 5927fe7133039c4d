"""Boxes of a grid: the cells that each rank owns, the ghost cells around them, and who sends which cells to whom."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import plural
from diffsim.errors import ShapeError
from diffsim.typing import IntArray

Number = TypeVar("Number", bound=np.generic)
Slices = tuple[slice, ...]
"""The cells of a part of a box, along each axis."""
Segment = tuple[int, slice, slice]
"""Neighbouring cells along an axis: the number of their owner along it, the cells in the box that reads them, and those in the owner's."""


@dataclass(frozen=True)
class Piece:
    """Ghost cells of a box that one rank owns.

    Attributes:
        owner: the rank.
        here: the cells in the box that has them as ghosts.
        there: the same cells in the owner's box.
    """

    owner: int
    here: Slices
    there: Slices


@dataclass(frozen=True)
class Box:
    """The cells of a rank: those that it owns, and ghost cells around them towards other ranks.

    Attributes:
        rank: number of the rank.
        place: position of the box among those of the cuts, along each axis.
        own: the first owned cell along each axis and the one after the last.
        wide: the same with ghost cells.
        grid: cells of the whole grid along each axis.
    """

    rank: int
    place: tuple[int, ...]
    own: tuple[tuple[int, int], ...]
    wide: tuple[tuple[int, int], ...]
    grid: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each axis, with ghost cells."""
        return tuple(end - begin for begin, end in self.wide)

    @cached_property
    def inner(self) -> Slices:
        """The owned cells in an array over the box."""
        return tuple(slice(begin - low, end - low) for (begin, end), (low, _) in zip(self.own, self.wide, strict=True))

    @property
    def owned(self) -> Slices:
        """The owned cells in an array over the whole grid."""
        return tuple(slice(*along) for along in self.own)

    @property
    def ghost_share(self) -> float:
        """Ghost cells over all cells of the box."""
        return 1 - math.prod(end - begin for begin, end in self.own) / math.prod(self.shape)

    def real(self, axis: int) -> tuple[bool, bool]:
        """True for the low and for the high side of the grid where the box ends there."""
        low, high = self.wide[axis]
        return low == 0, high == self.grid[axis]

    @property
    def cells(self) -> Slices:
        """All cells of the box in an array over the whole grid."""
        return tuple(slice(*along) for along in self.wide)

    def cut(self, values: npt.NDArray[Number], axes: Sequence[int] | None = None, rows: int = 0) -> npt.NDArray[Number]:
        """A view of the cells of the box in an array over the whole grid, or over some of its axes, after `rows` other axes."""
        along = self.cells if axes is None else tuple(self.cells[axis] for axis in axes)
        where: tuple[slice | EllipsisType, ...] = (*(slice(None),) * rows, *along, ...)
        return values[where]

    def find(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """The numbers of those of some cells, shape (cells, axes), that the box has, and their positions in it."""
        low, high = np.array(self.wide).T
        numbers = np.flatnonzero(((low <= cells) & (cells < high)).all(axis=1))
        return numbers, cells[numbers] - low


@dataclass(frozen=True)
class Cuts:
    """A grid that is divided into boxes, one for each rank. Ranks are counted along the last axis first.

    Attributes:
        grid: cells of the grid along each axis.
        parts: boxes along each axis.
        ghosts: ghost cells towards a neighbour along each axis.
        least: the fewest cells that a box owns along an axis that is cut.

    Raises:
        ShapeError: more boxes than cells, or a box thinner than `least`.
    """

    grid: tuple[int, ...]
    parts: tuple[int, ...]
    ghosts: tuple[int, ...]
    least: tuple[int, ...]

    def __post_init__(self) -> None:
        for axis, (n, parts, least) in enumerate(zip(self.grid, self.parts, self.least, strict=True)):
            if parts > 1 and n // parts < max(least, 1):
                most = max(n // max(least, 1), 1)
                raise ShapeError(
                    f"domains = {self.parts} cut {n} cells along axis {axis} into boxes of {n // parts}, expected at least "
                    f"{max(least, 1)}, as far as a step reads; cut this axis into at most {plural(most, 'part')}"
                )

    @property
    def count(self) -> int:
        """Number of boxes."""
        return math.prod(self.parts)

    def bounds(self, axis: int) -> list[int]:
        """The first cell of each box along an axis, and the number of cells. Boxes differ by one cell at most."""
        return [self.grid[axis] * part // self.parts[axis] for part in range(self.parts[axis] + 1)]

    def box(self, rank: int) -> Box:
        """The box of a rank."""
        place = tuple(int(p) for p in np.unravel_index(rank, self.parts))
        own, wide = [], []
        for axis, (part, n, ghosts) in enumerate(zip(place, self.grid, self.ghosts, strict=True)):
            begin, end = self.bounds(axis)[part : part + 2]
            own.append((begin, end))
            wide.append((begin, end) if self.parts[axis] == 1 else (max(begin - ghosts, 0), min(end + ghosts, n)))
        return Box(rank, place, tuple(own), tuple(wide), self.grid)

    def pieces(self, rank: int, far: Sequence[int] | None = None) -> list[Piece]:
        """The ghost cells of a rank up to some distances from its own ones along each axis (None: all), by their owners."""
        box = self.box(rank)
        out = []
        far = self.ghosts if far is None else far
        for segments in itertools.product(*(self._segments(box, axis, far[axis]) for axis in range(len(self.grid)))):
            owner = int(np.ravel_multi_index([segment[0] for segment in segments], self.parts))
            here, there = tuple(segment[1] for segment in segments), tuple(segment[2] for segment in segments)
            if here != box.inner:
                out.append(Piece(owner, here, there))
        return out

    def _segments(self, box: Box, axis: int, far: int) -> list[Segment]:
        """The cells of a box along an axis, by their owners."""
        bounds, (first_here, end_here) = self.bounds(axis), box.wide[axis]
        low, high = max(box.own[axis][0] - far, first_here), min(box.own[axis][1] + far, end_here)
        out: list[Segment] = []
        for part, (begin, end) in enumerate(itertools.pairwise(bounds)):
            first, last = max(begin, low), min(end, high)
            if first < last:
                start = max(begin - self.ghosts[axis], 0)  # the first cell of the owner's box
                out.append((part, slice(first - first_here, last - first_here), slice(first - start, last - start)))
        return out

    def owners(self, cells: IntArray) -> IntArray:
        """The rank that owns each of some cells, shape (cells, axes)."""
        places = [np.searchsorted(self.bounds(axis), cells[:, axis], "right") - 1 for axis in range(len(self.grid))]
        return np.ravel_multi_index(places, self.parts)
