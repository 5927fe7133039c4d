"""Storage of fields: lane tiles and halos.

A field's memory is plain row-major. Its last axis is cut into tiles of `lanes` values, with halo tiles on both sides;
the other axes have halo rows. So the cells of a field are a NumPy view of its storage, without a copy, and a kernel
sees the same bytes as an array of short vectors, so that Taichi's CPU loops use vector registers.
One-dimensional grids are stored as a single row.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from functools import cached_property
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.typing import Array

Location: TypeAlias = tuple[int, ...]
"""Location of a field's values on the cell, with an entry for each axis: 0 the centre, 1 the upper face."""


@dataclass(frozen=True)
class Slim:
    """A field that varies along some axes of the grid only: a number, a profile, values along a side.

    Attributes:
        axes: axes along which it varies, in increasing order.
        series: whether it has a value for each time step.
    """

    axes: tuple[int, ...]
    series: bool = False


@dataclass(frozen=True)
class Region:
    """The cells in which a field exists. It is 0 in all others.

    Attributes:
        inside: True in these cells, shape of the grid, bool.
    """

    inside: npt.NDArray[np.bool_] = field(repr=False, compare=False)
    digest: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", hashlib.sha256(np.packbits(self.inside).tobytes()).digest())


@dataclass(frozen=True)
class Layout:
    """The places of a field's cells in its storage.

    Attributes:
        shape: cells along each axis of the grid.
        halo: cells stored outside the grid along each axis, on both sides.
        lanes: values in a tile of the last axis.
        dtype: element type.
        margin: tiles in addition to those of the halo, for kernels that compute whole tiles there.
        joined: rows (planes in three dimensions) next to a side that belong to one worker, because a cell beyond the side depends on
            all of them.
    """

    shape: tuple[int, ...]
    halo: tuple[int, ...]
    lanes: int
    dtype: np.dtype = field(compare=True)
    margin: int = 0
    joined: int = 1

    @property
    def rows(self) -> tuple[int, ...]:
        """Cells along the leading stored axes; (1,) for a one-dimensional grid."""
        return self.shape[:-1] or (1,)

    @property
    def row_halo(self) -> tuple[int, ...]:
        return self.halo[:-1] or (0,)

    @cached_property
    def tiles(self) -> int:
        """Tiles that hold the cells of one row."""
        return math.ceil(self.shape[-1] / self.lanes)

    @cached_property
    def halo_tiles(self) -> int:
        return math.ceil(self.halo[-1] / self.lanes) + self.margin

    @cached_property
    def stride(self) -> int:
        """Tiles from one row to the next: odd, so that neighbouring rows do not share cache sets (not multiples of 4 KiB)."""
        count = self.tiles + 2 * self.halo_tiles
        return count | 1 if self.lanes > 1 else count

    @property
    def strides(self) -> tuple[int, ...]:
        """Tiles from one row to the next along each leading stored axis."""
        rows = [n + 2 * h for n, h in zip(self.rows, self.row_halo, strict=True)]
        return tuple(math.prod(rows[axis + 1 :]) * self.stride for axis in range(len(rows)))

    @cached_property
    def tile_count(self) -> int:
        """Tiles of a field, halo included."""
        return math.prod(n + 2 * h for n, h in zip(self.rows, self.row_halo, strict=True)) * self.stride

    @cached_property
    def storage(self) -> tuple[int, ...]:
        """Shape of the storage: rows with halo, tiles, and lanes where there is more than one."""
        rows = tuple(n + 2 * h for n, h in zip(self.rows, self.row_halo, strict=True))
        return (*rows, self.stride, self.lanes) if self.lanes > 1 else (*rows, self.stride)

    @cached_property
    def _first(self) -> int:
        """The place of the first halo value of a row in its tiles."""
        return self.halo_tiles * self.lanes - self.halo[-1]

    @property
    def nbytes(self) -> int:
        return math.prod(self.storage) * self.dtype.itemsize

    @cached_property
    def _cuts(self) -> tuple[tuple[int, ...], tuple[Any, ...], tuple[Any, ...]]:
        """The last axes of the storage with the tiles of a row as one axis, and there the place of the cells with their halo, and of the
        cells alone."""
        begin, n, h = self._first, self.shape[-1], self.halo[-1]
        rows = [slice(w, w + m) for m, w in zip(self.shape[:-1], self.halo[:-1], strict=True)]
        one = (0,) if not rows else ()  # the storage of one axis has one row
        flat = (*self.storage[: len(self.rows)], self.stride * self.lanes)
        return flat, (..., *one, slice(begin, begin + n + 2 * h)), (..., *one, *rows, slice(begin + h, begin + h + n))

    def extended(self, stored: Array) -> Array:
        """View of the cells with their halo, shape + 2 halo. `stored` may have more leading axes."""
        flat, cut, _ = self._cuts
        view: Array = stored.reshape(stored.shape[: stored.ndim - len(self.storage)] + flat)[cut]
        return view

    def slim_storage(self, slim: Slim) -> tuple[int, ...]:
        """Shape of the storage of a slim field, of one step: rows with halo, tiles, and lanes where there is more than one."""
        sizes = [self.shape[axis] + 2 * self.halo[axis] for axis in slim.axes if axis < len(self.shape) - 1]
        tiles = (self.stride, self.lanes) if self.lanes > 1 else (self.stride,)
        return (*sizes, *(tiles if self.tiled(slim) else ()))

    def tiled(self, slim: Slim) -> bool:
        """True if a slim field is stored in tiles: those that vary along the last axis are."""
        return len(self.shape) - 1 in slim.axes

    def slim_strides(self, slim: Slim) -> tuple[int, ...]:
        """Values, or tiles, from one cell, or tile, to the next along each of its axes, and last from one step to the next."""
        sizes = [self.stride if axis == len(self.shape) - 1 else self.shape[axis] + 2 * self.halo[axis] for axis in slim.axes]
        return (*(math.prod(sizes[place + 1 :]) for place in range(len(sizes))), math.prod(sizes))

    def slim_extended(self, slim: Slim, stored: Array) -> Array:
        """View of a slim field's values with their halo. `stored` may have more leading axes."""
        if not self.tiled(slim):
            return stored
        flat = stored.reshape(*stored.shape[:-2], -1) if self.lanes > 1 else stored
        first = self._first
        return flat[..., first : first + self.shape[-1] + 2 * self.halo[-1]]

    def go_on(self, slim: Slim, stored: Array) -> None:
        """Continue the end values of a slim field into the padding of its last tiles, so that values computed there are finite."""
        if self.tiled(slim):
            flat = stored.reshape(*stored.shape[:-2], -1) if self.lanes > 1 else stored
            first = self._first
            last = first + self.shape[-1] + 2 * self.halo[-1]
            flat[..., :first], flat[..., last:] = flat[..., first : first + 1], flat[..., last - 1 : last]

    def slim_cells(self, slim: Slim, stored: Array) -> Array:
        """View of a slim field's values, without the halo."""
        cut: tuple[slice | EllipsisType, ...] = (Ellipsis, *(slice(self.halo[a], self.halo[a] + self.shape[a]) for a in slim.axes))
        return self.slim_extended(slim, stored)[cut]

    def cells(self, stored: Array) -> Array:
        """View of the cells, shape `shape`, without the halo."""
        flat, _, cut = self._cuts
        view: Array = stored.reshape(stored.shape[: stored.ndim - len(self.storage)] + flat)[cut]
        return view
