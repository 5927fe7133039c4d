"""Fields that are stored only where they exist: in chunks of tiles, and a table that says where each chunk is.

A field of a `Region` is 0 in all other cells. Kernels look chunks up, so expressions, tangents and adjoints treat such a field like any
other. What is not stored is read as the chunk number 0, which holds zeros, and is not computed.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from diffsim.boundary import Rules, extend
from diffsim.errors import ShapeError
from diffsim.field import Layout, Region
from diffsim.typing import Array, IntArray

SCALARS = 32
"""Cells of a chunk where tiles have one lane: a table as long as a field has cells would be as large."""


class Sparse:
    """Where a field is stored that exists in a region only.

    Args:
        layout: of fields that are stored everywhere.
        region: in which the field exists.
        rules: what it is outside the grid.

    Attributes:
        chunk: tiles of a chunk, a power of two.
        table: for each chunk of a field that is stored everywhere, the number of the stored chunk; 0 if it is not stored.
        inside: 1 in cells of the region and in cells outside the grid that depend on those, else 0; stored as the field is.

    Raises:
        ShapeError: outside the grid the field would not be 0 where it does not exist, or depend on cells that are not stored.
    """

    def __init__(self, layout: Layout, region: Region, rules: Rules) -> None:
        self.layout = layout
        self.chunk = SCALARS if layout.lanes == 1 else 1
        weights = np.random.default_rng(0).uniform(1, 2, layout.shape)  # no boundary rule makes 0 of several of these but by chance
        full = self._around(weights * region.inside, rules)
        exists = full != 0
        if self._around(np.zeros(layout.shape), rules).any():
            raise ShapeError(
                "a region, and a boundary rule that gives it values where it does not exist, expected 0 there; give 'zero' or a rule whose "
                "value is 0"
            )
        if (self._around(weights, rules) != full)[exists].any():
            raise ShapeError(
                "a region, and a boundary rule that reads cells in it and others at once, expected those of the region alone; let it reach "
                "further along that side"
            )
        stored = self._chunks(exists).any(axis=1)
        self.table: IntArray = np.where(stored, np.cumsum(stored), 0).astype(np.int32)
        self.inside = self.gathered(exists.astype(layout.dtype))

    def _around(self, cells: Array, rules: Rules) -> Array:
        """A field that is stored everywhere, with what lies outside the grid."""
        full = np.zeros(self.layout.storage)
        self.layout.cells(full)[...] = cells
        extend(self.layout.extended(full), self.layout.halo, rules)
        return full

    @property
    def count(self) -> int:
        """Stored chunks, and that of zeros."""
        return int(self.table.max(initial=0)) + 1

    @property
    def tile_count(self) -> int:
        """Tiles of a stored field."""
        return self.count * self.chunk

    @property
    def storage(self) -> tuple[int, ...]:
        """Shape of the storage."""
        return (self.tile_count, self.layout.lanes) if self.layout.lanes > 1 else (self.tile_count,)

    @property
    def nbytes(self) -> int:
        return math.prod(self.storage) * self.layout.dtype.itemsize

    def gathered(self, full: npt.NDArray) -> npt.NDArray:
        """What is stored of a field that is stored everywhere."""
        out = np.zeros((self.count, self.chunk * self.layout.lanes), full.dtype)
        out[self.table[self.table > 0]] = self._chunks(full)[self.table > 0]
        return out.reshape(self.storage)

    def spread(self, stored: npt.NDArray) -> npt.NDArray:
        """A field that is stored everywhere, from what is stored of it."""
        chunks = stored.reshape(self.count, -1)[self.table]
        return chunks.reshape(-1)[: math.prod(self.layout.storage)].reshape(self.layout.storage)

    def addresses(self, tiles: IntArray) -> IntArray:
        """Where tiles are stored, by their numbers in a field that is stored everywhere; those of the chunk of zeros are not stored."""
        return self.table[tiles // self.chunk] * self.chunk + tiles % self.chunk

    def _chunks(self, full: npt.NDArray) -> npt.NDArray:
        """A field in chunks, shape (chunks, values of a chunk)."""
        size = self.chunk * self.layout.lanes
        flat = full.reshape(-1)
        return np.pad(flat, (0, -len(flat) % size)).reshape(-1, size)
