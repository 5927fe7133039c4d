"""The transpose of filling the halos, by the workers of the CPU.

Cotangents of cells outside the grid are added to those of the cells from which the boundary rules filled them. The worker that owns the
target row computes the outside row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

from diffsim.boundary import Rules
from diffsim.expr.source import row_start
from diffsim.stepping.ir.program import Nest, Place
from diffsim.stepping.source.kernel import weighted
from diffsim.stepping.source.slabs import owner
from diffsim.stepping.source.tile_loops import TileKernel


@dataclass(frozen=True)
class Fold:
    """The cotangents that a nest computes outside the grid with the same rules.

    Attributes:
        kernel: whose source this is part of.
        nest: the nest.
        name: of the functions for its cells.
        number: of this fold of the nest.
        rules: that filled the cells outside the grid.
        outside: cells outside the grid that have cotangents, along each axis.
        which: numbers of its assignments in the nest.
    """

    kernel: TileKernel
    nest: Nest
    name: str
    number: int
    rules: Rules
    outside: tuple[int, ...]
    which: tuple[int, ...]

    @cached_property
    def targets(self) -> list[Place]:
        return [self.nest.assigns[index].target for index in self.which]

    @cached_property
    def tiles(self) -> tuple[int, int]:
        """Tiles outside the grid at the low and the high end of a row."""
        layout = self.kernel.layout
        spare = layout.tiles * layout.lanes - layout.shape[-1]
        return math.ceil(self.outside[-1] / layout.lanes), math.ceil(max(0, self.outside[-1] - spare) / layout.lanes)

    def write(self) -> None:
        """Compute the cells outside the grid, axis by axis, add them to those inside, and clear them."""
        kernel, layout, outside = self.kernel, self.kernel.layout, self.outside
        folded, (left, right) = f"{self.name}_folded_{self.number}", self.tiles
        first, last = layout.halo_tiles, layout.halo_tiles + layout.tiles
        own = kernel.across | {"first": "lo", "last": "hi"}
        if left:
            self._compute(own | {"left": str(first - left), "right": str(first)})
        if right:
            self._compute(own | {"left": str(last), "right": str(last + right)})
        wide = own | {"left": str(first - left), "right": str(last + right)}
        if len(kernel.rows) == 2 and outside[1]:
            rows = layout.rows[1]
            for below, above in ((-outside[1], 0), (rows, rows + outside[1])):
                self._compute(wide | {"below": str(below), "above": str(above)})
            wide |= {"below": str(-outside[1]), "above": str(rows + outside[1])}
        if kernel.ndim > 1 and outside[0]:
            self._fold_first_axis(folded, wide)
        if len(kernel.rows) == 2 and outside[1]:
            kernel.call(f"{folded}_rows", self._fold_rows)
        if outside[-1]:
            kernel.call(f"{folded}_ends", self._fold_ends)

    def _compute(self, where: Mapping[str, str]) -> None:
        """Compute the assignments in some rows and tiles."""
        everything = self.kernel.block(self.nest) == 1 and len(self.which) == len(self.nest.assigns)
        suffix = "" if everything else f"_folded_{self.number}"  # the function for the cells of the grid computes the same
        self.kernel.write_tiles(self.nest, self.name, suffix, self.which, 1, where)

    def _fold_first_axis(self, folded: str, wide: Mapping[str, str]) -> None:
        """Compute each row (plane in three dimensions) outside the grid, add it to those that it depends on, and clear it."""
        kernel, layout = self.kernel, self.kernel.layout
        halo = layout.row_halo[0]
        for ghost in kernel.ghosts(self.rules, self.outside, 0):
            if not ghost.cells:
                continue
            row = ghost.position
            with kernel.text.block(owner(layout, ghost)):
                self._compute({**wide, "first": str(row - halo), "last": str(row - halo + 1)})
                for cell, weight in ghost.cells:
                    kernel.call(
                        f"{folded}_add_{kernel.number(weight)}",
                        lambda weight=weight: self._add_row(weight),  # type: ignore[misc]
                        {"first": str(row), "last": str(cell)},
                    )
                kernel.call(f"{folded}_clear", self._clear_row, {"first": str(row)})

    def _add_row(self, weight: float) -> None:
        """Add the row (plane in three dimensions) `first` of each target, times a weight, to the row `last`."""
        size = self.kernel.layout.strides[0]
        self._add(size, f"last * {size}", f"first * {size}", weight)

    def _clear_row(self) -> None:
        size = self.kernel.layout.strides[0]
        self._clear(size, f"first * {size}")

    def _fold_rows(self) -> None:
        """In each plane of the slab, add rows outside the grid to the rows that they depend on, and clear them."""
        layout = self.kernel.layout

        def start(row: int) -> str:
            return f"k * {layout.strides[0]} + {row * layout.stride}"

        with self.kernel.text.block(f"for k in range(lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]})"):
            for ghost in self.kernel.ghosts(self.rules, self.outside, 1):
                for cell, weight in ghost.cells:
                    self._add(layout.stride, start(cell), start(ghost.position), weight)
            halo, rows, outside = layout.row_halo[1], layout.rows[1], self.outside[1]
            for row in (*range(halo - outside, halo), *range(halo + rows, halo + rows + outside)):
                self._clear(layout.stride, start(row))

    def _add(self, tiles: int, to: str, of: str, weight: float) -> None:
        """Add `tiles` tiles that start at `of`, times a weight, to those that start at `to`."""
        kernel = self.kernel
        with kernel.text.block(f"for j in range({tiles})"):
            for place in self.targets:
                image, outside = (kernel.stored(place).tile(f"{start} + j") for start in (to, of))
                kernel.put_tile(place, f"{to} + j", f"{image} + {weighted(weight, outside)}")

    def _clear(self, tiles: int, start: str) -> None:
        with self.kernel.text.block(f"for j in range({tiles})"):
            for place in self.targets:
                self.kernel.put_tile(place, f"{start} + j", "Tile(0.0)")

    def _fold_ends(self) -> None:
        """In each row of the slab, add cells beyond its ends to the cells that they depend on, and clear them."""
        kernel, layout, text = self.kernel, self.kernel.layout, self.kernel.text
        first, last, (left, right) = layout.halo_tiles, layout.halo_tiles + layout.tiles, self.tiles
        with text.block(f"for {kernel.rows[0]} in range(lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]})"):
            planes = len(kernel.rows) == 2
            loop = f"for i in range({layout.row_halo[-1]}, {layout.row_halo[-1] + layout.rows[-1]})"
            with text.block(loop) if planes else nullcontext():
                for place in self.targets:
                    for ghost in kernel.ghosts(self.rules, self.outside, kernel.ndim - 1):
                        of = kernel.target_cell(place, kernel.rows, str(ghost.position))
                        for cell, weight in ghost.cells:
                            to = kernel.target_cell(place, kernel.rows, str(cell))
                            kernel.put_cell(place, kernel.rows, str(cell), f"{to} + {weighted(weight, of)}")
                    for tile in (*range(first - left, first), *range(last, last + right)):
                        kernel.put_tile(place, f"{row_start(kernel.rows, layout.strides)}{tile}", "Tile(0.0)")
                    for x in range(kernel.first_column + layout.shape[-1], last * kernel.lanes):
                        kernel.put_cell(place, kernel.rows, str(x), "F(0.0)")
