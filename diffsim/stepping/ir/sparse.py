"""Fields that are stored only where they exist: chunks of tiles, and a table with the place of each chunk.

A field of a `Region` is 0 in all other cells. Kernels look up chunks, so expressions, tangents and adjoints treat such a field like any
other. Tiles that are not stored are read from chunk number 0, which holds zeros, and are not computed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffsim.boundary import Rules, extend
from diffsim.errors import ShapeError
from diffsim.mesh.field import Layout, Region
from diffsim.typing import Array, IntArray

SCALARS = 32
"""Cells of a chunk if tiles have one lane. With smaller chunks the table would be as large as the field."""


class Sparse:
    """The storage of a field that exists only in a region.

    Args:
        layout: layout of fields that are stored at all cells.
        region: the region of the field.
        rules: its boundary rules.

    Attributes:
        chunk: number of tiles in a chunk, a power of two.
        table: for each chunk of a field that is stored at all cells, the number of the stored chunk; 0 if it is not stored.
        inside: 1 in cells of the region and in cells outside the grid that depend on them, else 0. It is stored like the field.

    Raises:
        ShapeError: outside the grid, the field would be nonzero where it does not exist, or depend on cells that are not stored.
    """

    def __init__(self, layout: Layout, region: Region, rules: Rules) -> None:
        self.layout = layout
        self.chunk = SCALARS if layout.lanes == 1 else 1
        weights = np.random.default_rng(0).uniform(1, 2, layout.shape)  # boundary rules combine these to 0 only by chance
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
        self._places: dict[tuple[tuple[int, int], ...], tuple[IntArray, IntArray]] = {}
        self.inside = self.gathered(exists.astype(layout.dtype))

    def _around(self, cells: Array, rules: Rules) -> Array:
        """A field that is stored at all cells, with its halo."""
        full = np.zeros(self.layout.storage)
        self.layout.cells(full)[...] = cells
        extend(self.layout.extended(full), self.layout.halo, rules)
        return full

    @property
    def count(self) -> int:
        """Number of stored chunks, including the chunk of zeros."""
        return int(self.table.max(initial=0)) + 1

    @property
    def tile_count(self) -> int:
        """Number of tiles of a stored field."""
        return self.count * self.chunk

    @property
    def storage(self) -> tuple[int, ...]:
        """Shape of the storage."""
        return (self.tile_count, self.layout.lanes) if self.layout.lanes > 1 else (self.tile_count,)

    @property
    def nbytes(self) -> int:
        return math.prod(self.storage) * self.layout.dtype.itemsize

    def gathered(self, full: Array) -> Array:
        """Pack a field that is stored at all cells."""
        out = np.zeros((self.count, self.chunk * self.layout.lanes), full.dtype)
        out[self.table[self.table > 0]] = self._chunks(full)[self.table > 0]
        return out.reshape(self.storage)

    def spread(self, stored: Array) -> Array:
        """Unpack a field to storage at all cells."""
        chunks = stored.reshape(self.count, -1)[self.table]
        return chunks.reshape(-1)[: math.prod(self.layout.storage)].reshape(self.layout.storage)

    def places(self, where: tuple[slice, ...]) -> tuple[IntArray, IntArray]:
        """The cells of a part of the grid in which the field exists, as numbers in C order, and the places of their values."""
        key = tuple((along.start, along.stop) for along in where)
        if key not in self._places:
            layout = self.layout
            values: Any = np.arange(math.prod(layout.storage)).reshape(layout.storage)
            cells, size = layout.cells(values)[where].ravel(), self.chunk * layout.lanes
            chunks = self.table[cells // size]
            places = chunks * size + cells % size
            exists = np.flatnonzero(np.where(chunks > 0, self.inside.reshape(-1)[places], 0))
            self._places[key] = exists, places[exists]
        return self._places[key]

    def addresses(self, tiles: IntArray) -> IntArray:
        """The addresses of tiles, by their numbers in a field that is stored at all cells. Tiles in the chunk of zeros are not stored."""
        return self.table[tiles // self.chunk] * self.chunk + tiles % self.chunk

    def _chunks(self, full: Array) -> Array:
        """A field in chunks, shape (chunks, values of a chunk)."""
        size = self.chunk * self.layout.lanes
        flat = full.reshape(-1)
        return np.pad(flat, (0, -len(flat) % size)).reshape(-1, size)
