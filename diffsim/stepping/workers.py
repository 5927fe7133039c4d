"""The CPU kernel: the time loop runs inside it, on persistent workers.

Each thread of Taichi's pool runs one worker, with a slab of the first axis and a spin barrier after each loop nest. The
pool has exactly as many threads as there are workers. The same instructions compute each cell in every slab, so the
number of workers never changes a bit.

No worker spins for long. If other workers have no core, a waiting worker abandons the launch, and so do all others at the
same barrier. Then all work before this barrier is done, and another launch continues from there. One word decides whether
a barrier is abandoned. It counts arrivals and has a flag. The flag is valid if it was set before the last worker arrived,
and that worker sees whether it was. The others wait until it has opened or closed the gate.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import cached_property

from diffsim.boundary import Ghost, Rules, fills
from diffsim.engine import reads_unaligned
from diffsim.expr.graph import Graph, reads
from diffsim.expr.source import Sources, Text, TileWriter, identifier, ring_row, row_start
from diffsim.field import Layout
from diffsim.stepping.kernel import (
    ARRIVALS,
    BEGIN,
    DONE,
    FIRST,
    GATE,
    LEFT_BEGIN,
    LEFT_DONE,
    LOOKS,
    STEPS,
    Kernel,
    annotation,
    combined,
    weighted,
)
from diffsim.stepping.program import Assign, Box, Group, Loop, Nest, Operation, Place, PointGather, Program, Strip, Total
from diffsim.stepping.stored import StoredFields
from diffsim.stepping.streams import rows_together

TALLEST_BLOCK = 4
INDICES = ("w", "lo", "hi", "n", "lap", "first", "last", "below", "above", "left", "right", "k", "i")
"""Integer arguments of functions in the source."""
PATIENCE = 20_000
"""Polls of a gate before a worker abandons it, 0.1 - 0.4 ms: about the cost of waking a thread twice. A scheduler tick is 4 ms. Long
steps get more (`Pace.patience`)."""
LEAST_CYCLES = 12_000
"""Approximate cycles of a step that are worth a thread: about 1 us, in which a barrier takes 0.3 us and to wake a thread 10 us a launch."""
FLAG = 1 << 30
"""In arrivals: a worker wants to abandon the launch. In openings: a gate is closed, and all abandon it. Larger than either count."""
NOTHING = 1 << 20
"""More operations than a step has. A worker that abandoned the launch begins with this one."""


def useful_workers(layout: Layout, threads: int, cycles: float = math.inf) -> int:
    """The number of threads that get a slab.

    Args:
        layout: of the fields.
        threads: that there are.
        cycles: for a step, by `sharing.cost`. Where they are few, a barrier takes longer than what another thread saves.
    """
    worth = max(1, int(min(cycles / LEAST_CYCLES, threads)))
    return max(1, min(worth, layout.rows[0] // grain(layout)))


def grain(layout: Layout) -> int:
    """Slabs have a multiple of so many rows (planes in three dimensions), but for the last one."""
    return layout.joined if len(layout.rows) == 2 else TALLEST_BLOCK * math.ceil(layout.joined / TALLEST_BLOCK)


def slab_bounds(layout: Layout, workers: int) -> list[int]:
    """First row (plane in three dimensions) of each worker's slab, and the end. Blocks of rows never depend on the workers."""
    n, unit = layout.rows[0], grain(layout)
    return [worker * (n // unit) // workers * unit for worker in range(workers)] + [n]


class WorkerKernel(Kernel):
    """Source of a program for `workers` CPU threads."""

    def __init__(self, program: Program, graph: Graph, fields: StoredFields, workers: int) -> None:
        super().__init__(program, graph, fields)
        self.workers = workers

    @cached_property
    def _displaced(self) -> dict[tuple[str, int], str]:
        """Arrays that nests read at other lanes, displaced: (array, cells) -> identifier. Of sparse fields, tiles are not neighbours."""
        found: dict[tuple[str, int], str] = {}
        if not reads_unaligned() or self.lanes == 1:
            return found
        for nest in self._variants:
            roots = [*(nest.roots or [a.node for a in nest.assigns]), *(node for group in nest.groups for node in group.values.values())]
            for name, offsets in reads(roots).items():
                place = self.program.places.get(name)
                if place is None or name in self.program.inline or place.array in self.sparse or place.array in self.slim:
                    continue
                for cells in sorted({offset[-1] for offset in offsets if offset[-1] % self.lanes}):
                    found[place.array, cells] = f"{identifier(place.array)}__by_{cells}".replace("-", "m")
        return found

    def _write(self) -> None:
        text = self.text
        self._defined: dict[str, list[str]] = {}  # arguments of each function
        self._functions = Text()
        self._weights: dict[float, int] = {}
        text("@ti.kernel")
        with text.block(self.header()):
            text("ti.loop_config(serialize=True)" if self.workers == 1 else "ti.loop_config(block_dim=1)")
            with text.block(f"for w in range({self.workers})"):
                bounds = slab_bounds(self.layout, self.workers)
                text(f"lo, hi = {bounds[0]}, {bounds[1]}")
                for worker in range(1, self.workers):
                    with text.block(f"if w == {worker}"):
                        text(f"lo, hi = {bounds[worker]}, {bounds[worker + 1]}")
                text("source_digest()")
                text(f"begin = control[{BEGIN}]")
                if self.workers > 1:
                    text("arrivals = 0")
                    text("openings = 0")
                self._time_loop()
        text.lines[:0] = self._functions.lines  # before the kernel, which calls them

    def _time_loop(self) -> None:
        program, text = self.program, self.text
        with text.block(f"for t in range(control[{DONE}], control[{STEPS}])"):
            text(f"n = {self.step_index('t')}")
            self._levels(turning=False)
            done = 0
            for index, operation in enumerate(program.operations):
                if isinstance(operation, Loop):
                    self._loop(operation, index, done)
                    done += operation.count * len(operation.operations)
                else:
                    with text.block(f"if begin <= {done}"):
                        self._operation(operation, str(index), str(done + 1))
                    done += 1
            with text.block(f"if begin < {NOTHING}"):
                text("begin = 0")

    def step_index(self, local: str) -> str:
        """Source of the index of a local step."""
        return f"control[{FIRST}] {'+' if self.program.direction > 0 else '-'} {local}"

    def _levels(self, turning: bool) -> None:
        """The first tiles of the levels that this step, or this lap, uses."""
        for place in self.levels_used:
            if place.turns is turning:
                self.text(f"{self.level(place)} = {self.level_start(place)}")

    def _loop(self, loop: Loop, index: int, done: int) -> None:
        """The laps of a loop. `done` operations precede it."""
        text, length = self.text, len(loop.operations)
        with text.block(f"for round in range({loop.count})"):
            text(f"lap = {loop.count - 1} - round" if loop.down else "lap = round")
            self._levels(turning=True)
            for number, operation in enumerate(loop.operations):
                before = f"{done + number} + round * {length}"
                with text.block(f"if begin <= {before}"):
                    self._operation(operation, f"{index}_{number}", f"{before} + 1")

    def _call(self, name: str, write: Callable[[], None], given: Mapping[str, str] | None = None) -> None:
        """Call a function of the source with some arguments by name. Write the function first if it does not exist yet.

        Taichi's compile time grows with the square of the lines of one function, so a kernel is cut into many.

        Args:
            name: name of the function.
            write: writes its body.
            given: source of arguments that differ from the caller's variables of the same name.
        """
        if name not in self._defined:
            caller, self.text = self.text, Text()
            self.text.depth = 1
            write()
            body, self.text = self.text.lines, caller
            used = set(re.findall(r"[A-Za-z_]\w*", "\n".join(body)))
            numbers = (*INDICES, *(self.level(place) for place in self.levels_used))
            kinds = {a.name: annotation(a) for a in self.arguments} | dict.fromkeys(numbers, "ti.i32")
            assigned = {match for line in body for match in re.findall(r"^\s*(?:for )?(\w+) (?:in|=) ", line)}
            kinds = {n: kind for n, kind in kinds.items() if n in used - assigned}
            self._defined[name] = list(kinds) if body else []
            if body:
                declared = ", ".join(f"{n}: {kind}" for n, kind in kinds.items())
                self._functions.lines += ["@ti.real_func", f"def {name}({declared}) -> ti.i32:", *body, "    return 0", ""]
        if self._defined[name]:
            self.text(f"called = {name}({', '.join((given or {}).get(n, n) for n in self._defined[name])})")

    def _operation(self, operation: Operation, index: str, done: str) -> None:
        """One operation. `done` is the number of finished operations, including this one."""
        if isinstance(operation, Nest):
            self._nest(operation, f"nest_{index}")
            if self.workers > 1:
                self._barrier(done)
        elif isinstance(operation, Strip):
            self._call(f"strip_{index}", lambda: self._strip(operation, back=False))
        elif isinstance(operation, PointGather):
            self._call(f"gather_{index}", lambda: self._gather(operation, index))
        elif isinstance(operation, Total):
            self._call(f"total_{index}", lambda: self._total(operation))
            if self.workers > 1:
                self._barrier(done)

    def _total(self, total: Total) -> None:
        """A total: each worker computes the rows of its slab, workers share other places in turns, and the first one computes a number."""
        text, layout, last = self.text, self.layout, self.ndim - 1
        kept = {axis: self.rows[axis] if axis < last else "j" for axis in total.slim.axes}
        first = dict(enumerate((*layout.halo[:-1], layout.halo_tiles)))
        counts = dict(enumerate((*layout.shape[:-1], layout.tiles)))
        with ExitStack() as loops:
            for number, (axis, name) in enumerate(kept.items()):
                if axis == 0 < last:
                    loops.enter_context(text.block(f"for {name} in range(lo + {first[axis]}, hi + {first[axis]})"))
                elif number == 0:
                    turns = f"({counts[axis] + self.workers - 1} - w) // {self.workers}"
                    loops.enter_context(text.block(f"for turn in range({turns})"))
                    text(f"{name} = {first[axis]} + w + turn * {self.workers}")
                else:
                    loops.enter_context(text.block(f"for {name} in range({first[axis]}, {first[axis] + counts[axis]})"))
            if not kept:
                loops.enter_context(text.block("if w == 0"))
            self.write_total(total, kept)

    def _gather(self, gather: PointGather, index: str) -> None:
        count = f"{identifier(gather.points)}_point_starts.shape[0] - 1"
        with self.text.block(f"for turn in range(({count} - w + {self.workers - 1}) // {self.workers})"):
            self.text(f"r = w + turn * {self.workers}")
            self.write_gather(gather, index)

    def _barrier(self, done: str) -> None:
        """Wait until all workers have done `done` operations of this step, or abandon the launch with all of them."""
        text = self.text
        text(f"arrivals = arrivals + {self.workers}")
        text("openings = openings + 1")
        text(f"seen = ti.atomic_add(control[{ARRIVALS}], 1)")
        with text.block(f"if seen & {FLAG - 1} == arrivals - 1"):  # the last one
            with text.block(f"if seen < {FLAG}"):
                text(f"ti.atomic_add(control[{GATE}], 1)")
            with text.block("else"):
                text(f"control[{LEFT_DONE}] = t")
                text(f"control[{LEFT_BEGIN}] = {done}")
                text(f"ti.atomic_add(control[{GATE}], {FLAG})")
                text(f"begin = {NOTHING}")
        with text.block("else"):
            text(f"gate = ti.atomic_add(control[{GATE}], 0)")
            text("looks = 0")
            with text.block(f"while gate < openings and begin < {NOTHING}"):
                text("looks = looks + 1")
                with text.block(f"if looks == control[{LOOKS}]"):
                    text(f"seen = ti.atomic_or(control[{ARRIVALS}], {FLAG})")
                    with text.block(f"if seen & {FLAG - 1} < arrivals"):
                        text(f"begin = {NOTHING}")
                text(f"gate = ti.atomic_add(control[{GATE}], 0)")
            with text.block(f"if gate >= {FLAG}"):
                text(f"begin = {NOTHING}")

    def _nest(self, nest: Nest, name: str) -> None:
        """The cells of the slab, then contributions from outside the grid, then points and halos."""
        if nest.assigns:
            self._cells(nest, name)
        for number, (rules, outside, which) in enumerate(self.folds(nest)):
            self._outside(nest, name, f"_folded_{number}", rules, outside, which)
        self._call(f"{name}_points", lambda: self._after(nest))
        self._call(f"{name}_halo", lambda: self._halos(nest))

    def _after(self, nest: Nest) -> None:
        for index, scatter in enumerate(nest.scatters):
            points = identifier(scatter.points)
            with self.text.block(f"for e in range({points}_rows[lo], {points}_rows[hi])"):
                self.write_scatter(scatter, index)
        for strip in nest.restores:
            self._strip(strip, back=True)

    def _halos(self, nest: Nest) -> None:
        for assign in nest.assigns:
            self._extend(assign)

    def _strip(self, strip: Strip, back: bool) -> None:
        name = identifier(strip.name)
        with self.text.block(f"for e in range({name}_slabs[w], {name}_slabs[w + 1])"):
            self.write_strip(strip, back)

    # loops over tiles

    @property
    def _across(self) -> dict[str, str]:
        """The bounds of the rows of a plane and of the tiles of a row."""
        layout = self.layout
        rows = {"below": "0", "above": str(layout.rows[1])} if len(self.rows) == 2 else {}
        return {**rows, "left": str(layout.halo_tiles), "right": str(layout.halo_tiles + layout.tiles)}

    def _cells(self, nest: Nest, name: str) -> None:
        """All cells of the slab, in blocks of rows where that saves loads."""
        everywhere = self._across | {"first": "lo", "last": "hi"}
        if nest.interior is None:
            self._rows(nest, name, everywhere)
            return
        inside, around = self._split(everywhere, nest.interior.box, any(assign.outside[-1] for assign in nest.folded))
        self._rows(nest.interior.nest, f"{name}_within", inside)
        for part in around:
            self._rows(nest, name, part)

    def _split(self, everywhere: dict[str, str], box: Box, beyond: bool) -> tuple[dict[str, str], list[dict[str, str]]]:
        """Rows and tiles inside of a box, and the parts around it. No block of rows or tiles crosses its edge.

        If cells `beyond` the ends of rows are needed, the last tile, which contains some of them, is not inside.
        """
        layout, inside, around = self.layout, dict(everywhere), []

        def cut(low: str, high: str, begin: str, end: str) -> None:
            around.extend([{**inside, high: begin}, {**inside, low: end}])
            inside.update({low: begin, high: end})

        *rows, (left, right) = box
        names = [("first", "last"), ("below", "above")]
        for (low, high), (begin, end), n in zip(names, rows, layout.rows, strict=False):
            whole = TALLEST_BLOCK
            begin = min(n, -(-begin // whole) * whole)
            end = max(begin, n if end == n else end // whole * whole)
            bounds = [f"ti.max(lo, ti.min(hi, {bound}))" if low == "first" else str(bound) for bound in (begin, end)]
            if (begin, end) != (0, n):
                cut(low, high, *bounds)
        begin, n = min(layout.tiles, -(-left // layout.lanes)), layout.shape[-1]
        end = max(begin, layout.tiles if right == n and not beyond else right // layout.lanes)
        if (begin, end) != (0, layout.tiles):
            cut("left", "right", str(layout.halo_tiles + begin), str(layout.halo_tiles + end))
        return inside, around

    def _rows(self, nest: Nest, name: str, where: dict[str, str]) -> None:
        """Compute the cells of some rows and tiles. Bounds of rows are multiples of a block, or the end."""
        block, every = self._block(nest), range(len(nest.assigns))
        if block == 1:
            self._tiles(nest, name, "", every, 1, where)
            return
        low, high = ("first", "last") if len(self.rows) == 1 else ("below", "above")
        end = where[high]
        cut = str(int(end) // block * block) if end.isdecimal() else f"({end}) // {block} * {block}"
        self._tiles(nest, name, f"_by_{block}", every, block, where | {high: cut})
        if self.layout.rows[-1] % block:
            self._tiles(nest, name, "", every, 1, where | {low: f"ti.max({where[low]}, {cut})"})

    def _block(self, nest: Nest) -> int:
        return 1 if nest.groups or self.ndim == 1 else rows_together(self.program, nest)

    def _tiles(self, nest: Nest, name: str, suffix: str, which: Sequence[int], block: int, where: Mapping[str, str]) -> None:
        """Compute some assignments of the nest `name` in the rows and tiles `where`. The suffix makes names of functions unique."""
        self._call(name + suffix, lambda: self._sweep(nest, name, which, block), where)

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
        with text.block(f"for {row} in range(first + {halo - start}, last + {halo})"):
            for number, (group, (low, high)) in enumerate(zip(nest.groups, ahead, strict=True)):
                with text.block(f"if {row} >= first + {halo - low - high}"):
                    wider = self._wider(group, f"{row} + {high}")
                    self._call(f"{name}_kept_{number}", lambda group=group: self._keep(group), wider)  # type: ignore[misc]
            with text.block(f"if {row} >= first + {halo}") if nest.groups else nullcontext():
                self._plane(lambda: self._tile_loop(nest, which, block), block)

    def _wider(self, group: Group, row: str) -> dict[str, str]:
        """Arguments of the function that keeps a group's values in one row."""
        left, right = (math.ceil(max(0, far) / self.lanes) for far in (group.low[-1], group.high[-1]))
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
        self._plane(lambda: self._kept_loop(group))

    def _kept_loop(self, group: Group) -> None:
        text, sources = self.text, self.sources
        with text.block("for j in range(left, right)"):
            text(f"at = {row_start(self.rows, self.layout.strides)}j")
            writer = TileWriter(text, sources)
            stores = [(ring_row(sources.rings[name], sources, (0,) * self.ndim), writer(node)) for name, node in group.values.items()]
            for row, value in stores:
                text(f"rolled[{row}j] = {value}")

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

    # kept values

    @property
    def sources(self) -> Sources:
        return dataclasses.replace(super().sources, rings=self._rings)

    @cached_property
    def _rolled_size(self) -> int:
        """Tiles of the values that one worker keeps. Nests use the same memory one after the other."""
        sizes = (sum(self._ring_tiles(group) * len(group.values) for group in nest.groups) for nest in self._variants)
        return max(sizes, default=0)

    @property
    def _variants(self) -> list[Nest]:
        """All nests, and the nests of their interiors."""
        return [each for nest in self.program.nests for each in nest.variants]

    def _ring_tiles(self, group: Group) -> int:
        """Tiles of one value's ring: a power of two of rows (planes in three dimensions)."""
        rows = 1 if self.ndim == 1 else 1 << (group.low[0] + group.high[0]).bit_length()
        return rows * self.layout.strides[0]

    @cached_property
    def _rings(self) -> dict[str, tuple[str, int, int]]:
        """The ring of each value that nests keep, see `Sources.rings`."""
        found: dict[str, tuple[str, int, int]] = {}
        row = self.layout.strides[0]
        for nest in self._variants:
            at = 0
            for group in nest.groups:
                size = self._ring_tiles(group)
                for name in group.values:
                    found[name] = (f"w * {self._rolled_size} + {at}", size // row - 1, row)
                    at += size
        return found

    @property
    def rolled_tiles(self) -> int:
        return self.workers * self._rolled_size

    # what lies outside the grid

    def _outside(self, nest: Nest, name: str, suffix: str, rules: Rules, outside: tuple[int, ...], which: Sequence[int]) -> None:
        """Add cotangents of cells outside the grid to the cells from which the boundary rules filled them.

        The worker that owns the target row computes the outside row.
        """
        folded = name + suffix
        if self._block(nest) == 1 and len(which) == len(nest.assigns):
            suffix = ""  # the function for the cells of the grid computes the same
        text, layout = self.text, self.layout
        spare = layout.tiles * self.lanes - layout.shape[-1]
        left, right = math.ceil(outside[-1] / self.lanes), math.ceil(max(0, outside[-1] - spare) / self.lanes)
        first, last = layout.halo_tiles, layout.halo_tiles + layout.tiles
        own = self._across | {"first": "lo", "last": "hi"}
        if left:
            self._tiles(nest, name, suffix, which, 1, own | {"left": str(first - left), "right": str(first)})
        if right:
            self._tiles(nest, name, suffix, which, 1, own | {"left": str(last), "right": str(last + right)})
        wide = own | {"left": str(first - left), "right": str(last + right)}
        if len(self.rows) == 2 and outside[1]:
            rows = layout.rows[1]
            for below, above in ((-outside[1], 0), (rows, rows + outside[1])):
                self._tiles(nest, name, suffix, which, 1, wide | {"below": str(below), "above": str(above)})
            wide |= {"below": str(-outside[1]), "above": str(rows + outside[1])}
        targets = [nest.assigns[index].target for index in which]
        if self.ndim > 1 and outside[0]:
            halo = layout.row_halo[0]
            for ghost in self.ghosts(rules, outside, 0):
                if not ghost.cells:
                    continue
                row = ghost.position
                with text.block(self._owner(ghost)):
                    self._tiles(nest, name, suffix, which, 1, wide | {"first": str(row - halo), "last": str(row - halo + 1)})
                    for cell, weight in ghost.cells:
                        self._call(
                            f"{folded}_add_{self._number(weight)}",
                            lambda weight=weight: self._add_rows(targets, weight),  # type: ignore[misc]
                            {"first": str(row), "last": str(cell)},
                        )
                    self._call(f"{folded}_clear", lambda: self._clear_row(targets), {"first": str(row)})
        if len(self.rows) == 2 and outside[1]:
            self._call(f"{folded}_rows", lambda: self._fold_rows(targets, rules, outside))
        if outside[-1]:
            self._call(f"{folded}_ends", lambda: self._fold_ends(targets, rules, outside, left, right))

    def _owner(self, ghost: Ghost) -> str:
        """The condition under which a worker fills, or folds, a row outside the grid: it owns the rows that this row depends on."""
        halo, rows = self.layout.row_halo[0], self.layout.rows[0]
        row = ghost.cells[0][0] if ghost.cells else min(max(ghost.position, halo), halo + rows - 1)
        return f"if lo + {halo} <= {row} and {row} < hi + {halo}"

    def _number(self, weight: float) -> int:
        """A unique number for each weight, for names of functions."""
        return self._weights.setdefault(weight, len(self._weights))

    def _add_rows(self, targets: Sequence[Place], weight: float) -> None:
        """Add the row (plane in three dimensions) `first` of each target, times a weight, to the row `last`."""
        size = self.layout.strides[0]
        self._add(targets, size, f"last * {size}", f"first * {size}", weight)

    def _clear_row(self, targets: Sequence[Place]) -> None:
        size = self.layout.strides[0]
        self._clear(targets, size, f"first * {size}")

    def _fold_rows(self, targets: Sequence[Place], rules: Rules, outside: tuple[int, ...]) -> None:
        """In each plane of the slab, add rows outside the grid to the rows that they depend on, and clear them."""
        layout = self.layout

        def start(row: int) -> str:
            return f"k * {layout.strides[0]} + {row * layout.stride}"

        with self.text.block(f"for k in range(lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]})"):
            for ghost in self.ghosts(rules, outside, 1):
                for cell, weight in ghost.cells:
                    self._add(targets, layout.stride, start(cell), start(ghost.position), weight)
            halo, rows = layout.row_halo[1], layout.rows[1]
            for row in (*range(halo - outside[1], halo), *range(halo + rows, halo + rows + outside[1])):
                self._clear(targets, layout.stride, start(row))

    def _add(self, targets: Sequence[Place], tiles: int, to: str, of: str, weight: float) -> None:
        """Add `tiles` tiles that start at `of`, times a weight, to those that start at `to`."""
        with self.text.block(f"for j in range({tiles})"):
            for place in targets:
                image, outside = (self.stored(place).tile(f"{start} + j") for start in (to, of))
                self.put_tile(place, f"{to} + j", f"{image} + {weighted(weight, outside)}")

    def _clear(self, targets: Sequence[Place], tiles: int, start: str) -> None:
        with self.text.block(f"for j in range({tiles})"):
            for place in targets:
                self.put_tile(place, f"{start} + j", "Tile(0.0)")

    def _fold_ends(self, targets: Sequence[Place], rules: Rules, outside: tuple[int, ...], left: int, right: int) -> None:
        """In each row of the slab, add cells beyond its ends to the cells that they depend on, and clear them."""
        layout, text = self.layout, self.text
        first, last = layout.halo_tiles, layout.halo_tiles + layout.tiles
        with text.block(f"for {self.rows[0]} in range(lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]})"):
            planes = len(self.rows) == 2
            loop = f"for i in range({layout.row_halo[-1]}, {layout.row_halo[-1] + layout.rows[-1]})"
            with text.block(loop) if planes else nullcontext():
                for place in targets:
                    for ghost in self.ghosts(rules, outside, self.ndim - 1):
                        of = self.target_cell(place, self.rows, str(ghost.position))
                        for cell, weight in ghost.cells:
                            to = self.target_cell(place, self.rows, str(cell))
                            self.put_cell(place, self.rows, str(cell), f"{to} + {weighted(weight, of)}")
                    for tile in (*range(first - left, first), *range(last, last + right)):
                        self.put_tile(place, f"{row_start(self.rows, layout.strides)}{tile}", "Tile(0.0)")
                    end = self.first_column + layout.shape[-1]
                    for x in range(end, last * self.lanes):
                        self.put_cell(place, self.rows, str(x), "F(0.0)")

    def _extend(self, assign: Assign) -> None:
        """Fill the halo of the slab's own rows. The owner of the source copies rows of the halo."""
        array = assign.target.array
        reach = self.reach.get(array, (0,) * self.ndim)
        if not any(reach):
            return
        text, layout, rules = self.text, self.layout, assign.rules
        planes = len(self.rows) == 2
        if reach[-1] and (fills(rules[-1]) or layout.shape[-1] % self.lanes):
            if planes:
                text(f"for k in range(lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]}):")
                text.depth += 1
                bounds = f"{layout.row_halo[1]}, {layout.row_halo[1] + layout.rows[1]}"
            else:
                bounds = f"lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]}"
            with text.block(f"for i in range({bounds})"):
                self._extend_row(assign, reach[-1])
            text.depth -= planes
        if planes and reach[1] and fills(rules[1]):
            with text.block(f"for k in range(lo + {layout.row_halo[0]}, hi + {layout.row_halo[0]})"):
                text(f"plane = k * {layout.strides[0]}")
                for ghost in self.ghosts(rules, reach, 1):
                    self._extend_tiles(assign.target, "plane + ", layout.stride, ghost)
        if self.ndim > 1 and reach[0]:
            for ghost in self.ghosts(rules, reach, 0):
                with text.block(self._owner(ghost)):
                    self._extend_tiles(assign.target, "", layout.strides[0], ghost)

    def _extend_tiles(self, target: Place, start: str, size: int, ghost: Ghost) -> None:
        """Fill a row, or a plane, outside the grid."""
        with self.text.block(f"for j in range({size})"):
            terms = [(weight, self.stored(target).tile(f"{start}{cell * size} + j")) for cell, weight in ghost.cells]
            self.put_tile(target, f"{start}{ghost.position * size} + j", combined(terms, ghost.constant, "Tile(0.0)"))

    def _extend_row(self, assign: Assign, reach: int) -> None:
        n, first = self.layout.shape[-1], self.first_column
        if not assign.rules[-1][1].fills:  # clear the values that whole tiles wrote beyond the last cell
            for x in range(n, min(n + reach, self.layout.tiles * self.lanes)):
                self.put_cell(assign.target, self.rows, str(x + first), "F(0.0)")
        for ghost in self.ghosts(assign.rules, (reach,) * self.ndim, self.ndim - 1):
            terms = [(weight, self.target_cell(assign.target, self.rows, str(cell))) for cell, weight in ghost.cells]
            self.put_cell(assign.target, self.rows, str(ghost.position), combined(terms, ghost.constant, "F(0.0)"))
