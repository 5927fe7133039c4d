"""The transpose of filling the halos, by the workers of the CPU.

Cotangents of cells outside the grid are added to those of the cells from which the boundary rules filled them. The worker that owns the
target row computes the outside row.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from diffsim.boundary import Ghost, Rules
from diffsim.expr.source import row_start
from diffsim.mesh.field import Layout
from diffsim.stepping.ir.program import Nest, Place
from diffsim.stepping.source.kernel import ZERO
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
        outside: cells outside the grid that have cotangents, along each axis: of the assignment with the most. Others are computed there,
            too, but read values that nothing has set, so each is added as far as it has cotangents, and cleared farther out.
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

    def write(self) -> None:
        """Compute the cells outside the grid, unless the loops over the cells did, and add them to those inside.

        One function does the latter for all axes: LLVM puts shorter ones in the place of each call.
        """
        self._compute_outside()
        for assign in (self.nest.assigns[index] for index in self.which):
            self.kernel.call_on(assign.target, "fold", functools.partial(self._fold, assign.outside))

    def _fold(self, own: tuple[int, ...], target: Place) -> None:
        """Add the cells outside the grid to those inside, axis by axis, as far as they have cotangents of their `own`, and clear them."""
        kernel, outside = self.kernel, self.outside
        if kernel.ndim > 1 and outside[0]:
            self._fold_first_axis(own, target)
        if len(kernel.rows) == 2 and outside[1]:
            self._fold_rows(own, target)
        if outside[-1]:
            self._fold_ends(own, target)
        if self.swept:
            _clear(kernel, target, self.beyond, spare=True)

    def _compute_outside(self) -> None:
        """Compute the cells outside the grid, which the loops over the cells left out.

        One call in a loop over the boxes of such cells: LLVM puts a function in the place of each of its calls.
        """
        boxes = [("", where) for where in ([] if self.swept else self._beside())]
        if not self.beyond[0]:
            boxes += [(owner(self.kernel.layout, ghost), self._beyond(ghost.position)) for ghost in self._planes()]
        if not boxes:
            return
        self.kernel.call(f"{self.name}_outside_{self.number}", lambda: self._in_boxes(boxes))

    def _compute(self) -> None:
        """Compute the assignments in the rows and tiles of a box."""
        everything = self.kernel.block(self.nest) == 1 and len(self.which) == len(self.nest.assigns)
        suffix = "" if everything else f"_folded_{self.number}"  # the function for the cells of the grid computes the same
        self.kernel.write_tiles(self.nest, self.name, suffix, self.which, 1, {})

    def _in_boxes(self, boxes: Sequence[tuple[str, Mapping[str, str]]]) -> None:
        """Compute the assignments in each of some boxes: the condition under which this worker does it, if there is one, and the bounds."""
        text, usual = self.kernel.text, boxes[0][1]
        text("box = 0")
        with text.block(f"while box < {len(boxes)}"):
            for bound, source in usual.items():
                text(f"{bound} = {source}")
            for number, (condition, where) in enumerate(boxes):
                others = {bound: source for bound, source in where.items() if source != usual[bound]}
                if condition:
                    others |= {"first": where["first"], "last": where["first"]}  # no rows, but for the owner
                if others:
                    with text.block(f"if box == {number}"):
                        for bound, source in others.items():
                            text(f"{bound} = {source}")
                        if condition:
                            with text.block(condition):
                                text(f"last = {where['last']}")
            self._compute()
            text(f"box = box + 1 + control[{ZERO}]")  # LLVM cannot compute how many there are: it would write out the loop

    def _beside(self) -> list[dict[str, str]]:
        """The bounds of the cells beyond the ends of the slab's rows, and in three dimensions beside its planes."""
        kernel, outside = self.kernel, self.outside
        nowhere = (0,) * kernel.ndim
        own, beside, boxes = kernel.bounds(nowhere), kernel.bounds((*nowhere[1:], outside[-1])), []
        if beside["left"] != own["left"]:
            boxes.append(beside | {"right": own["left"]})
        if beside["right"] != own["right"]:
            boxes.append(beside | {"left": own["right"]})
        if len(kernel.rows) == 2 and outside[1]:
            wide = kernel.bounds((0, *outside[1:]))
            boxes += [wide | {"above": own["below"]}, wide | {"below": own["above"]}]
        return boxes

    def _planes(self, outside: tuple[int, ...] | None = None) -> list[Ghost]:
        """The rows (planes in three dimensions) beyond the sides of the first axis whose cells are added to others."""
        kernel, outside = self.kernel, self.outside if outside is None else outside
        if kernel.ndim == 1 or not outside[0]:
            return []
        return [ghost for ghost in kernel.ghosts(self.rules, outside, 0) if ghost.cells]

    def _beyond(self, row: int) -> dict[str, str]:
        """The bounds of a row (plane in three dimensions) outside the grid."""
        kernel, halo = self.kernel, self.kernel.layout.row_halo[0]
        wide = kernel.bounds((0, *(self.beyond if self.swept else self.outside)[1:]))
        return wide | {"first": str(row - halo), "last": str(row - halo + 1)}

    def _fold_first_axis(self, own: tuple[int, ...], target: Place) -> None:
        """Add each row (plane in three dimensions) outside the grid to those that it depends on, and clear it if a `Fold` computed it."""
        layout = self.kernel.layout
        size = layout.strides[0]
        added = {ghost.position for ghost in self._planes(own)}
        for ghost in self._planes():
            if ghost.position not in added and self.beyond[0]:
                continue
            with self.kernel.text.block(owner(layout, ghost)):
                for cell, weight in ghost.cells if ghost.position in added else ():
                    self._add(target, size, str(cell * size), str(ghost.position * size), weight)
                if not self.beyond[0]:
                    _clear_tiles(self.kernel, target, size, str(ghost.position * size))

    def _fold_rows(self, own: tuple[int, ...], target: Place) -> None:
        """In each plane of the slab, add rows outside the grid to the rows that they depend on, and clear those that a `Fold` computed."""
        kernel, layout = self.kernel, self.kernel.layout

        def start(row: int) -> str:
            return f"k * {layout.strides[0]} + {row * layout.stride}"

        with kernel.counted("k", f"lo + {layout.row_halo[0]}", f"hi + {layout.row_halo[0]}"):
            for ghost in kernel.ghosts(self.rules, own, 1):
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
            kernel.put_tile(target, f"{to} + j", f"{image} + {kernel.weighted(weight, outside)}")

    def _fold_ends(self, own: tuple[int, ...], target: Place) -> None:
        """In each row of the slab, add cells beyond its ends to the cells that they depend on, and clear those that a `Fold` computed."""
        kernel = self.kernel
        added = [ghost for ghost in kernel.ghosts(self.rules, own, kernel.ndim - 1) if ghost.cells]
        if not added and self.swept:
            return
        with _each_row(kernel):
            for ghost in added:
                of = kernel.target_cell(target, kernel.rows, str(ghost.position))
                for cell, weight in ghost.cells:
                    to = kernel.target_cell(target, kernel.rows, str(cell))
                    kernel.put_cell(target, kernel.rows, str(cell), f"{to} + {kernel.weighted(weight, of)}")
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
            if not any(assign.outside):  # the last cells of rows are cleared with the halo
                kernel.call_on(assign.target, "clear", lambda target: _clear(kernel, target, beyond, spare=False))


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
        with kernel.counted("k", f"lo + {halo}", f"hi + {halo}"):
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
    layout = kernel.layout
    with kernel.counted(kernel.rows[0], f"lo + {layout.row_halo[0]}", f"hi + {layout.row_halo[0]}"):
        rows = str(layout.row_halo[-1]), str(layout.row_halo[-1] + layout.rows[-1])
        with kernel.counted("i", *rows) if len(kernel.rows) == 2 else nullcontext():
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
