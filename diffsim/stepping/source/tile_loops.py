"""Loops over the tiles of a slab: in blocks of rows where that saves loads, apart for the interior of the grid, and with values that are
kept for the next rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Literal

from diffsim.boundary import ghosts
from diffsim.engine import reads_unaligned
from diffsim.expr.graph import Graph, Node, reads
from diffsim.expr.shapes import Shape, repeated, shapes
from diffsim.expr.source import Ring, Sources, TileWriter, identifier, row_start
from diffsim.stepping.ir.program import Box, Group, Nest, Program
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.passes.streams import rows_together
from diffsim.stepping.source.alike import LEAST
from diffsim.stepping.source.functions import FunctionKernel
from diffsim.stepping.source.kernel import FIRST, NARROW, NARROWER
from diffsim.stepping.source.slabs import TALLEST_BLOCK, slab_bounds

FEW_DISPLACED = 8
"""Arrays, each for one distance along the lanes, that a run's step reads unaligned with registers of 64 bytes too: a processor has ports
for loads that stand idle while splices wait for the one that shuffles. With more, stages of a method are no longer one function. With
narrower registers all steps read so many unaligned."""
FAR_DISPLACED = 2
"""Distances for each array from which on adjoints, and steps that keep residuals, read more arrays unaligned as well. One splice of two
tiles that are read anyway costs less than a further argument and address, one for each of several distances more."""


class TileKernel(FunctionKernel):
    """Source of a program whose nests are loops over the tiles of each worker's slab, for `workers` CPU threads.

    Args:
        program, graph, fields, banded: see `FunctionKernel`.
        workers: number of threads.
        common: shapes of bodies that it has in common with other programs, from `repeated_bodies`; None: those of its own functions.
        resumed: whether a nest computes a few rows of its slab at a time, and other nests in between. Then each nest's kept values have
            their own memory, and where `fresh` is 0 those of the rows before are still there (see `_rows`).
    """

    def __init__(
        self,
        program: Program,
        graph: Graph,
        fields: StoredFields,
        workers: int,
        banded: bool = False,
        common: set[tuple[Shape, ...]] | None = None,
        resumed: bool = False,
    ) -> None:
        super().__init__(program, graph, fields, banded)
        self.workers, self._common, self.resumed = workers, common, resumed

    # which rows and tiles

    def write_cells(self, nest: Nest, name: str) -> None:
        """All cells of the slab, in blocks of rows where that saves loads."""
        beyond = self.beyond(nest)
        everywhere = self.bounds(beyond)
        if nest.narrowest is not None:
            past = f"n - control[{FIRST}]" if self.program.direction > 0 else f"control[{FIRST}] - n"
            self.text(f"narrow = control[{NARROW}] + ({past}) * control[{NARROWER}]")
        if nest.interior is None:
            self._rows(nest, name, self._in_window(everywhere, nest), goes_on=True)
            return
        inside, around = self._split(everywhere, nest.interior.box, beyond, any(assign.outside[-1] for assign in nest.folded))
        self._rows(nest.interior.nest, f"{name}_within", self._in_window(inside, nest), goes_on=True)
        for part in around:
            self._rows(nest, name, self._in_window(part, nest))

    def beyond(self, nest: Nest) -> tuple[int, ...]:
        """How far beyond the grid the loops over its cells go, along each axis, to compute the cotangents there.

        They go there in nests that are `swept`. Along the first axis all cells on which those outside depend must be in the slab at that
        end. If they are not, and in other nests, `Fold` computes what is outside.
        """
        far = tuple(max((each.outside[axis] for each in nest.folded), default=0) for axis in range(self.ndim))
        if not nest.swept:
            return (0,) * self.ndim
        return far if self.ndim == 1 or self._in_end_slabs(nest) else (0, *far[1:])

    def _in_end_slabs(self, nest: Nest) -> bool:
        """True if the cells inside that get something from beyond a side of the first axis are all in the slab at that side."""
        bounds, halo = slab_bounds(self.layout, self.workers), self.layout.row_halo[0]
        slabs = {-1: range(bounds[0] + halo, bounds[1] + halo), 1: range(bounds[-2] + halo, bounds[-1] + halo)}
        return all(
            cell in slabs[-1 if ghost.position < halo else 1]
            for rules, outside, _ in self.folds(nest)
            for ghost in self.ghosts(rules, outside, 0)
            for cell, _ in ghost.cells
        )

    def tiles_beyond(self, cells: int) -> tuple[int, int]:
        """Tiles that hold the first `cells` cells outside the grid, at the low and at the high end of a row."""
        spare = self.layout.tiles * self.lanes - self.layout.shape[-1]
        return math.ceil(max(0, cells) / self.lanes), math.ceil(max(0, cells - spare) / self.lanes)

    def bounds(self, beyond: tuple[int, ...]) -> dict[str, str]:
        """The bounds of rows and tiles of a slab, and so far beyond the grid along each axis."""
        layout, (left, right) = self.layout, self.tiles_beyond(beyond[-1])
        begin, end = layout.halo_tiles - left, layout.halo_tiles + layout.tiles + right
        bounds = {"first": "lo", "last": "hi", "left": str(begin), "right": str(end)}
        if self.ndim > 1 and beyond[0]:
            low, high = f"ti.select(lo == 0, {-beyond[0]}, lo)", f"ti.select(hi == {layout.rows[0]}, {layout.rows[0] + beyond[0]}, hi)"
            bounds |= {"first": low, "last": high}
        if len(self.rows) == 2:
            below, above = (str(-beyond[1]), str(layout.rows[1] + beyond[1])) if beyond[1] else self.across()
            bounds |= {"below": below, "above": above}
        return bounds

    def _in_window(self, where: dict[str, str], nest: Nest) -> dict[str, str]:
        """The rows and tiles of `where` that have a cell of the window of a nest, in whole blocks of rows and whole tiles.

        Where a cell of these gets something from beyond a side of the grid, which the loops compute, they go beyond this side.
        """
        if nest.window is None:
            return where
        layout, out = self.layout, dict(where)
        *rows, (left, right) = self._window(nest)
        for axis, ((low, high), (begin, end)) in enumerate(zip((("first", "last"), ("below", "above")), rows, strict=False)):
            if axis == 0 and nest.narrowest is not None:
                self._narrow(out, nest)
                continue
            if begin > 0:
                out[low] = _bound("max", out[low], begin)
            if end < layout.rows[axis]:
                out[high] = _bound("min", out[high], end)
        if left > 0:
            out["left"] = _bound("max", out["left"], layout.halo_tiles + left // layout.lanes)
        if right < layout.shape[-1]:
            out["right"] = _bound("min", out["right"], layout.halo_tiles + right // layout.lanes)
        return out

    def _narrow(self, out: dict[str, str], nest: Nest) -> None:
        """Bound the rows by a window that gets narrower.

        It begins so far beyond a side that it has all cells there as long as it has a row that gets something from them.
        """
        assert nest.window is not None and nest.narrowest is not None
        (begin, end), (least, most), (near_low, near_high) = nest.window[0], nest.narrowest, self._near_sides(nest)[0]
        whole, beyond = self._whole(0), self.beyond(nest)[0]
        if begin < least and least >= near_low:
            begin -= near_low + beyond if near_low else 0
            out["first"] = f"ti.max({out['first']}, ti.min({begin} + narrow, {least}) // {whole} * {whole})"
        if most < end and most <= self.layout.rows[0] - near_high:
            end += near_high + beyond if near_high else 0
            out["last"] = f"ti.min({out['last']}, (ti.max({end} - narrow, {most}) + {whole - 1}) // {whole} * {whole})"

    def _window(self, nest: Nest) -> Box:
        """The window of a nest in whole blocks of rows and whole tiles, to the end of the grid where it has a cell near a side."""
        window, out = nest.window or tuple((0, n) for n in self.layout.shape), []
        for axis, ((begin, end), n, (low, high)) in enumerate(zip(window, self.layout.shape, self._near_sides(nest), strict=True)):
            whole = self._whole(axis)
            first, last = begin // whole * whole, -(-end // whole) * whole
            out.append((first if first >= low else 0, last if last <= n - high else n))
        return tuple(out)

    def _whole(self, axis: int) -> int:
        """The cells along an axis that a window has together."""
        return {self.ndim - 1: self.lanes, self.ndim - 2: TALLEST_BLOCK}.get(axis, 1)

    def _near_sides(self, nest: Nest) -> list[tuple[int, int]]:
        """How many cells at the low and at the high side, along each axis, get something from cells beyond it that the loops compute."""
        out = []
        for axis, (n, far) in enumerate(zip(self.layout.shape, self.beyond(nest), strict=True)):
            added = [ghost for rules, outside, _ in self.folds(nest) if far for ghost in ghosts(rules[axis], n, outside[axis])]
            low = max((1 + cell for ghost in added if ghost.position < 0 for cell, _ in ghost.cells), default=0)
            high = max((n - cell for ghost in added if ghost.position >= n for cell, _ in ghost.cells), default=0)
            out.append((low, high))
        return out

    def _split(
        self, everywhere: dict[str, str], box: Box, beyond: tuple[int, ...], at_ends: bool
    ) -> tuple[dict[str, str], list[dict[str, str]]]:
        """Rows and tiles inside of a box, and the parts around it, which go `beyond` the grid along each axis.

        No block of rows or tiles crosses the edge of the box. If cells outside are needed `at_ends` of rows, the last tile, which contains
        some of them, is not inside.
        """
        layout, inside, around = self.layout, dict(everywhere), []

        def cut(low: str, high: str, begin: str, end: str) -> None:
            around.extend([{**inside, high: begin}, {**inside, low: end}])
            inside.update({low: begin, high: end})

        *rows, (left, right) = box
        names = [("first", "last"), ("below", "above")]
        for (low, high), (begin, end), n, far in zip(names, rows, layout.rows, beyond, strict=False):
            whole = TALLEST_BLOCK
            begin = min(n, -(-begin // whole) * whole)
            end = max(begin, n if end == n else end // whole * whole)
            bounds = [str(begin), str(end)]
            if low == "first":
                bounds = [f"ti.max(lo, ti.min(hi, {bound}))" for bound in bounds]
            elif self.banded:
                bounds = [f"ti.max(front, ti.min(back, {bound}))" for bound in bounds]
            if (begin, end) != (0, n) or far:
                cut(low, high, *bounds)
                if low == "first" and self.resumed:  # the rows before are no part of the interior, which keeps values of its own
                    inside["fresh"] = f"ti.select({inside[low]} == {begin}, 1, fresh)"
        begin, n = min(layout.tiles, -(-left // layout.lanes)), layout.shape[-1]
        end = max(begin, layout.tiles if right == n and not at_ends else right // layout.lanes)
        if (begin, end) != (0, layout.tiles) or beyond[-1]:
            cut("left", "right", str(layout.halo_tiles + begin), str(layout.halo_tiles + end))
        return inside, around

    def _rows(self, nest: Nest, name: str, where: dict[str, str], goes_on: bool = False) -> None:
        """Compute the cells of some rows and tiles. Bounds of rows are multiples of a block, or the end.

        If kernels are resumed, it `goes_on` with the values that it keeps of the rows before. Parts around an interior cannot, for they
        share the memory of these values. Rows beyond a side are computed at the end of a slab, where values begin anew.
        """
        block, every = self.block(nest), range(len(nest.assigns))
        if block == 1:
            self.write_tiles(nest, name, "", every, 1, where if goes_on else where | {"fresh": "1"})
            return
        low, high = ("first", "last") if len(self.rows) == 1 else ("below", "above")
        end = where[high]
        cut = str(int(end) // block * block) if end.isdecimal() else f"({end}) // {block} * {block}"
        self.write_tiles(nest, name, f"_by_{block}", every, block, where | {high: cut})
        if self.layout.rows[-1] % block:
            self.write_tiles(nest, name, "", every, 1, where | {low: f"ti.max({where[low]}, {cut})"})

    def block(self, nest: Nest) -> int:
        """Rows that a nest computes together."""
        return 1 if nest.groups or nest.swept or self.ndim == 1 else rows_together(self.program, nest)

    def write_tiles(self, nest: Nest, name: str, suffix: str, which: Sequence[int], block: int, where: Mapping[str, str]) -> None:
        """Compute some assignments of the nest `name` in the rows and tiles `where`. The suffix makes names of functions unique."""
        self.call(name + suffix, lambda: self._sweep(nest, name, which, block), where)

    def _sweep(self, nest: Nest, name: str, which: Sequence[int], block: int) -> None:
        """Loops over the rows (planes in three dimensions) from `first` to `last`. Kept values are computed ahead, as far as needed."""
        text, halo, row = self.text, self.layout.row_halo[0], self.rows[0]
        if block > 1 and len(self.rows) == 1:
            with text.block(f"for b in range(first // {block}, last // {block})"):
                text(f"{row} = b * {block} + {halo}")
                self._tile_loop(nest, which, block)
            return
        along = self.ndim > 1
        ahead = [(group.low[0], group.high[0]) if along else (0, 0) for group in nest.groups]
        start = max((low + high for low, high in ahead), default=0)
        begin = f"first + {halo - start}"
        if self.resumed and start:
            text(f"start = first + {halo}")
            with text.block("if fresh == 1"), text.block("if first < last"):
                text(f"start = {begin}")
            begin = "start"
        with text.block(f"for {row} in range({begin}, last + {halo})"):
            for number, (group, (low, high)) in enumerate(zip(nest.groups, ahead, strict=True)):
                with text.block(f"if {row} >= first + {halo - low - high}"):
                    wider = self._wider(nest, group, f"{row} + {high}")
                    self.call(f"{name}_kept_{number}", lambda group=group: self._keep(group), wider)  # type: ignore[misc]
            with text.block(f"if {row} >= first + {halo}") if nest.groups else nullcontext():
                self._plane(lambda: self._tile_loop(nest, which, block), block)

    def _wider(self, nest: Nest, group: Group, row: str) -> dict[str, str]:
        """Arguments of the function that keeps a group's values in one row."""
        left, right = (math.ceil(max(0, far) / self.lanes) for far in (group.low[-1], group.high[-1]))
        beyond = self.beyond(nest)[-1]
        if beyond and nest.interior is None:  # whole rows, with cells outside that may share a tile with those of the group
            computed, (begin, end) = self.tiles_beyond(beyond), self._window(nest)[-1]
            if begin == 0:  # else the loop begins inside of the grid
                left = max(0, self.tiles_beyond(beyond + group.low[-1])[0] - computed[0])
            if end == self.layout.shape[-1]:
                right = max(0, self.tiles_beyond(beyond + group.high[-1])[1] - computed[1])
        out = {self.rows[0]: row, "left": f"left - {left}", "right": f"right + {right}"}
        if len(self.rows) == 2:
            out |= {"below": f"below - {group.low[1]}", "above": f"above + {group.high[1]}"}
        return out

    def _plane(self, write: Callable[[], None], block: int = 1) -> None:
        """`write` for the present row, or in three dimensions in a loop over the rows of a plane."""
        if len(self.rows) == 1:
            write()
            return
        text, halo = self.text, self.layout.row_halo[1]
        if block > 1:
            with text.block(f"for b in range(below // {block}, above // {block})"):
                text(f"i = b * {block} + {halo}")
                write()
        else:
            with text.block(f"for i in range(below + {halo}, above + {halo})"):
                write()

    def _keep(self, group: Group) -> None:
        """Compute a group's values in the present row, or plane; beyond the grid only where they may be other than 0."""
        bounds = self._support(group)
        self._plane(lambda: self._bounded_loop(group, bounds) if bounds else self._kept_loop(group))

    def _support(self, group: Group) -> dict[str, tuple[int, int]]:
        """The rows, and tiles `j`, outside of which a group's values are 0."""
        bounds: dict[str, tuple[int, int]] = {}
        starts = [*self.layout.row_halo, self.first_column][-self.ndim :]
        for axis, (start, n, ends) in enumerate(zip(starts, self.layout.shape, group.support, strict=False)):
            if not all(map(math.isinf, ends)):
                whole = self.lanes if axis == self.ndim - 1 else 1
                low, high = (int(min(max(far, -n), start)) for far in ends)  # the halo has all cells that are ever computed
                bounds["j" if axis == self.ndim - 1 else self.rows[axis]] = (start - low) // whole, -(-(start + n + high) // whole)
        return bounds

    def _bounded_loop(self, group: Group, bounds: Mapping[str, tuple[int, int]]) -> None:
        """Compute a group's values in the present row within its bounds, and set them to 0 in the tiles beyond."""
        text, (begin, end) = self.text, bounds.get("j", (0, self.layout.stride))
        text(f"begin, end = ti.max(left, {begin}), ti.min(right, {end})")
        for row, (first, last) in bounds.items():
            if row != "j":
                with text.block(f"if {row} < {first} or {row} >= {last}"):
                    text("end = left")
        self._kept_loop(group, "begin", "end")
        sources = self.sources
        rings = [sources.rings[name] for name in group.values]
        for low, high in (("left", "ti.min(begin, right)"), ("ti.max(begin, end)", "right")):
            with self.counted("j", low, high):
                for ring in rings:
                    text(f"rolled[{ring.row(sources, (0,) * self.ndim)} + {ring.at}] = Tile(0.0)")

    def _kept_loop(self, group: Group, begin: str = "left", end: str = "right") -> None:
        text, sources = self.text, self.sources
        with text.block(f"for j in range({begin}, {end})"):
            text(f"at = {row_start(self.rows, self.layout.strides)}j")
            writer = TileWriter(text, sources, self.order([*group.values.values()]))
            values = {name: writer(node) for name, node in group.values.items()}
            for name, value in values.items():
                text(f"{writer.kept(name, (0,) * self.ndim)} = {value}")

    def _tile_loop(self, nest: Nest, which: Sequence[int], rows: int) -> None:
        text, layout = self.text, self.layout
        roots = nest.roots or tuple(a.node for a in nest.assigns)
        with text.block("for j in range(left, right)"):
            text(f"at = {row_start(self.rows, layout.strides)}j")
            values = []
            for row in range(rows):
                ahead = row * layout.strides[-1]
                for index in which:
                    assign, node = nest.assigns[index], roots[index]
                    node = node if row == 0 else self.graph.shift(node, (*(0,) * (self.ndim - 2), row, 0))
                    values.append((assign.target, f"at{f' + {ahead}' if ahead else ''}", node, assign.accumulate))
            self.put_values(values)

    def order(self, body: Sequence[Node]) -> Mapping[int, Shape]:
        known = shapes(body)
        return known if tuple(sorted(known[node.id] for node in body)) in self._repeated else {}

    @cached_property
    def _repeated(self) -> set[tuple[Shape, ...]]:
        """The shapes that bodies of several functions have."""
        return repeated_bodies([self.program]) if self._common is None else self._common

    # kept values

    @property
    def sources(self) -> Sources:
        return dataclasses.replace(super().sources, rings=self._rings, displaced_kept=self._displaced_kept)

    @cached_property
    def rolled_size(self) -> int:
        """Tiles of the values that one worker keeps. Nests use the same memory one after the other, unless they are resumed."""
        sizes = [sum(self._ring_rows(nest).values()) * self.layout.strides[0] for nest in self._variants]
        return sum(sizes) if self.resumed else max(sizes, default=0)

    @property
    def _variants(self) -> list[Nest]:
        """All nests, and the nests of their interiors."""
        return [each for nest in self.program.nests for each in nest.variants]

    def _ring_rows(self, nest: Nest) -> dict[str, int]:
        """Rows (planes in three dimensions) for which each value is kept: a power of two, from the one in which it is computed back to the
        last one that is read."""
        if self.ndim == 1:
            return {name: 1 for group in nest.groups for name in group.values}
        read: dict[str, list[int]] = {}
        for row, nodes in [*((group.high[0], [*group.values.values()]) for group in nest.groups), (0, nest.roots)]:
            for name, offsets in reads(nodes).items():
                read.setdefault(name, []).extend(row + offset[0] for offset in offsets)
        return {name: 1 << (group.high[0] - min(read[name])).bit_length() for group in nest.groups for name in group.values}

    @cached_property
    def _rings(self) -> dict[str, Ring]:
        """The ring of each value that nests keep, see `Sources.rings`."""
        found: dict[str, Ring] = {}
        row = self.layout.strides[0]
        at = 0
        for nest in self._variants:
            at = at if self.resumed else 0
            for name, rows in self._ring_rows(nest).items():
                found[name] = Ring(f"w * {self.rolled_size}", at, rows - 1, row)
                at += rows * row
        return found

    # reads at other lanes

    @cached_property
    def _displaced_kept(self) -> dict[int, str]:
        """Distances at which kept values are read from their memory. With registers of 64 bytes a splice is one instruction."""
        cells: set[int] = set()
        if self.lanes == 1 or not reads_unaligned():
            return {}
        for nest in self._variants:
            kept = {name for group in nest.groups for name in group.values}
            for nodes in [*([*group.values.values()] for group in nest.groups), nest.roots]:
                for name in (known := reads(nodes)).keys() & kept:
                    cells |= {offset[-1] for offset in known[name] if offset[-1] % self.lanes}
        return {each: f"rolled__by_{each}".replace("-", "m") for each in sorted(cells)}

    @cached_property
    def _displaced(self) -> dict[tuple[str, int], str]:
        """Arrays that nests read at other lanes, displaced: (array, cells) -> identifier. Of sparse fields, tiles are not neighbours."""
        found: dict[tuple[str, int], str] = {}
        if self.lanes == 1:
            return found
        for nest in self._variants:
            roots = [*(nest.roots or [a.node for a in nest.assigns]), *(node for group in nest.groups for node in group.values.values())]
            for name, offsets in reads(roots).items():
                place = self.program.places.get(name)
                if place is None or name in self.program.inline or place.array in self.sparse or place.array in self.slim:
                    continue
                for cells in sorted({offset[-1] for offset in offsets if offset[-1] % self.lanes}):
                    found[place.array, cells] = f"{identifier(place.array)}__by_{cells}".replace("-", "m")
        few, run = len(found) <= FEW_DISPLACED, self.program.direction > 0 and not self.program.keeps_residuals
        if not reads_unaligned():
            return found if few and run else {}
        return found if few or run or len(found) >= FAR_DISPLACED * len({array for array, _ in found}) else {}


def repeated_bodies(programs: Sequence[Program]) -> set[tuple[Shape, ...]]:
    """The shapes that several bodies of nests, and of values that they keep, have in some programs."""
    variants = [each for program in programs for nest in program.nests for each in nest.variants]
    groups = [tuple(group.values.values()) for nest in variants for group in nest.groups]
    return repeated([*groups, *(nest.roots or tuple(a.node for a in nest.assigns) for nest in variants)], LEAST)


def _bound(which: Literal["min", "max"], bound: str, other: int) -> str:
    """Source of the smaller or the larger one of two bounds."""
    try:
        return str({"min": min, "max": max}[which](int(bound), other))
    except ValueError:
        return f"ti.{which}({bound}, {other})"
