"""The transpose of filling the halos, by the workers of the CPU.

Cotangents of cells outside the grid are added to those of the cells from which the boundary rules filled them. The worker that owns the
target row computes the outside row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property

from diffsim.boundary import Rules
from diffsim.expr.source import row_start
from diffsim.mesh.field import Layout
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
        beyond: how far beyond the grid the loops over the cells of the nest go (`TileKernel.beyond`).
    """

    kernel: TileKernel
    nest: Nest
    name: str
    number: int
    rules: Rules
    outside: tuple[int, ...]
    which: tuple[int, ...]
    beyond: tuple[int, ...]

    @property
    def swept(self) -> bool:
        """Whether the loops over the cells compute cells outside as well."""
        return any(self.beyond)

    @cached_property
    def targets(self) -> list[Place]:
        return [self.nest.assigns[index].target for index in self.which]

    def write(self) -> None:
        """Compute the cells outside the grid, unless the loops over the cells did, and add them to those inside, axis by axis."""
        kernel, outside = self.kernel, self.outside
        if not self.swept:
            self._compute_beside()
        if kernel.ndim > 1 and outside[0]:
            self._fold_first_axis()
        for place in self.targets:
            if len(kernel.rows) == 2 and outside[1]:
                kernel.call_on(place, "fold_rows", self._fold_rows)
            if outside[-1]:
                kernel.call_on(place, "fold_ends", self._fold_ends)

    def _compute_beside(self) -> None:
        """Compute the cells outside beyond the ends of the slab's rows, and in three dimensions beside its planes."""
        kernel, outside = self.kernel, self.outside
        nowhere = (0,) * kernel.ndim
        own, beside = kernel.bounds(nowhere), kernel.bounds((*nowhere[1:], outside[-1]))
        if beside["left"] != own["left"]:
            self._compute(beside | {"right": own["left"]})
        if beside["right"] != own["right"]:
            self._compute(beside | {"left": own["right"]})
        if len(kernel.rows) == 2 and outside[1]:
            wide = kernel.bounds((0, *outside[1:]))
            self._compute(wide | {"above": own["below"]})
            self._compute(wide | {"below": own["above"]})

    def _compute(self, where: Mapping[str, str]) -> None:
        """Compute the assignments in some rows and tiles."""
        everything = self.kernel.block(self.nest) == 1 and len(self.which) == len(self.nest.assigns)
        suffix = "" if everything else f"_folded_{self.number}"  # the function for the cells of the grid computes the same
        self.kernel.write_tiles(self.nest, self.name, suffix, self.which, 1, where)

    def _fold_first_axis(self) -> None:
        """Add each row (plane in three dimensions) outside the grid to the rows that it depends on. Rows that the loops over the cells
        left out are computed before that, and cleared."""
        kernel, layout = self.kernel, self.kernel.layout
        if self.beyond[0]:
            for place in self.targets:
                kernel.call_on(place, "fold_slab", self._fold_slab)
            return
        halo, wide = layout.row_halo[0], kernel.bounds((0, *(self.beyond if self.swept else self.outside)[1:]))
        for ghost in kernel.ghosts(self.rules, self.outside, 0):
            if not ghost.cells:
                continue
            row = ghost.position
            with kernel.text.block(owner(layout, ghost)):
                self._compute({**wide, "first": str(row - halo), "last": str(row - halo + 1)})
                for place in self.targets:
                    for cell, weight in ghost.cells:
                        of = {"first": str(row), "last": str(cell)}
                        kernel.call_on(place, "add_row", lambda target, weight=weight: self._add_row(target, weight), of)  # type: ignore[misc]
                    kernel.call_on(place, "clear_row", self._clear_row, {"first": str(row)})

    def _fold_slab(self, target: Place) -> None:
        """Add all rows outside the grid of an array."""
        layout = self.kernel.layout
        for ghost in self.kernel.ghosts(self.rules, self.outside, 0):
            if ghost.cells:
                with self.kernel.text.block(owner(layout, ghost)):
                    for cell, weight in ghost.cells:
                        size = layout.strides[0]
                        self._add(target, size, str(cell * size), str(ghost.position * size), weight)

    def _add_row(self, target: Place, weight: float) -> None:
        """Add the row (plane in three dimensions) `first` of an array, times a weight, to the row `last`."""
        size = self.kernel.layout.strides[0]
        self._add(target, size, f"last * {size}", f"first * {size}", weight)

    def _clear_row(self, target: Place) -> None:
        size = self.kernel.layout.strides[0]
        _clear_tiles(self.kernel, target, size, f"first * {size}")

    def _fold_rows(self, target: Place) -> None:
        """In each plane of the slab, add rows outside the grid to the rows that they depend on, and clear those that a `Fold` computed."""
        kernel, layout = self.kernel, self.kernel.layout

        def start(row: int) -> str:
            return f"k * {layout.strides[0]} + {row * layout.stride}"

        with kernel.text.block(f"for k in range(lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]})"):
            for ghost in kernel.ghosts(self.rules, self.outside, 1):
                for cell, weight in ghost.cells:
                    self._add(target, layout.stride, start(cell), start(ghost.position), weight)
            if not self.swept:
                for row in _outside(layout, 1, self.outside[1]):
                    _clear_tiles(kernel, target, layout.stride, start(row))

    def _add(self, target: Place, tiles: int, to: str, of: str, weight: float) -> None:
        """Add `tiles` tiles that start at `of`, times a weight, to those that start at `to`."""
        kernel = self.kernel
        with kernel.along(tiles):
            image, outside = (kernel.stored(target).tile(f"{start} + j") for start in (to, of))
            kernel.put_tile(target, f"{to} + j", f"{image} + {weighted(weight, outside)}")

    def _fold_ends(self, target: Place) -> None:
        """In each row of the slab, add cells beyond its ends to the cells that they depend on, and clear those that a `Fold` computed."""
        kernel = self.kernel
        with _each_row(kernel):
            for ghost in kernel.ghosts(self.rules, self.outside, kernel.ndim - 1):
                of = kernel.target_cell(target, kernel.rows, str(ghost.position))
                for cell, weight in ghost.cells:
                    to = kernel.target_cell(target, kernel.rows, str(cell))
                    kernel.put_cell(target, kernel.rows, str(cell), f"{to} + {weighted(weight, of)}")
            if not self.swept:
                _clear_ends(kernel, target, self.outside[-1])
                _clear_spare(kernel, target)


def write_folds(kernel: TileKernel, nest: Nest, name: str) -> None:
    """Add the cotangents of a nest outside the grid to those of the cells inside, and clear them."""
    beyond = kernel.beyond(nest)
    for number, (rules, outside, which) in enumerate(kernel.folds(nest)):
        Fold(kernel, nest, name, number, rules, outside, tuple(which), beyond).write()
    if any(beyond):
        for assign in nest.assigns:
            spare = any(assign.outside)  # others have theirs cleared with their halo
            kernel.call_on(assign.target, "clear", lambda target, spare=spare: _clear(kernel, target, beyond, spare))  # type: ignore[misc]


def _clear(kernel: TileKernel, target: Place, beyond: tuple[int, ...], spare: bool) -> None:
    """Clear an array in the cells outside the grid to which the loops of its nest go, and with `spare` in the last tile of each row."""
    layout, text = kernel.layout, kernel.text
    halo = layout.row_halo[0]
    if kernel.ndim > 1 and beyond[0]:
        size, rows = layout.strides[0], _outside(layout, 0, beyond[0])
        for condition, part in (("lo == 0", rows[: beyond[0]]), (f"hi == {layout.rows[0]}", rows[beyond[0] :])):
            with text.block(f"if {condition}"):
                _clear_tiles(kernel, target, size * len(part), str(size * part[0]))
    if len(kernel.rows) == 2 and beyond[1]:
        with text.block(f"for k in range(lo + {halo}, hi + {halo})"):
            for row in _outside(layout, 1, beyond[1]):
                _clear_tiles(kernel, target, layout.stride, f"k * {layout.strides[0]} + {row * layout.stride}")
    if beyond[-1]:
        with _each_row(kernel):
            _clear_ends(kernel, target, beyond[-1])
            if spare:
                _clear_spare(kernel, target)


def _outside(layout: Layout, axis: int, far: int) -> list[int]:
    """Rows (planes in three dimensions) beyond both sides of a leading axis, counted in storage."""
    halo, rows = layout.row_halo[axis], layout.rows[axis]
    return [*range(halo - far, halo), *range(halo + rows, halo + rows + far)]


@contextmanager
def _each_row(kernel: TileKernel) -> Iterator[None]:
    """A loop over the rows of the slab."""
    layout, text = kernel.layout, kernel.text
    with text.block(f"for {kernel.rows[0]} in range(lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]})"):
        loop = f"for i in range({layout.row_halo[-1]}, {layout.row_halo[-1] + layout.rows[-1]})"
        with text.block(loop) if len(kernel.rows) == 2 else nullcontext():
            yield


def _clear_tiles(kernel: TileKernel, place: Place, tiles: int, start: str) -> None:
    with kernel.along(tiles):
        kernel.put_tile(place, f"{start} + j", "Tile(0.0)")


def _clear_ends(kernel: TileKernel, place: Place, far: int) -> None:
    """Clear the tiles beyond both ends of a row."""
    layout, (left, right) = kernel.layout, kernel.tiles_beyond(far)
    first, last = layout.halo_tiles, layout.halo_tiles + layout.tiles
    for tile in (*range(first - left, first), *range(last, last + right)):
        kernel.put_tile(place, f"{row_start(kernel.rows, layout.strides)}{tile}", "Tile(0.0)")


def _clear_spare(kernel: TileKernel, place: Place) -> None:
    """Clear the cells of the last tile of a row beyond its last cell."""
    layout, first = kernel.layout, kernel.first_column
    for x in range(first + layout.shape[-1], first + layout.tiles * kernel.lanes):
        kernel.put_cell(place, kernel.rows, str(x), "F(0.0)")
