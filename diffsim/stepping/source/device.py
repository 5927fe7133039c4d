"""The GPU kernel: each loop nest is a parallel top-level loop over the cells, a few steps unrolled in one launch."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from types import MappingProxyType

from diffsim.boundary import Rules, fills
from diffsim.engine import backend
from diffsim.expr.graph import Graph, Node
from diffsim.expr.source import Sources, StoredSource, TileWriter, identifier, row_start
from diffsim.stepping.ir.program import Assign, Loop, Nest, Operation, Place, PointGather, PointScatter, Program, Strip, Total, Written
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.passes.sharing import cost
from diffsim.stepping.source.kernel import FIRST, STEPS, Kernel

UNROLL, LONG = 4, 128
"""Steps in one launch, and the cost of a step of which a launch does one alone: it takes the device longer than a launch takes the host,
and the engine's compile time grows faster than the text."""
POINT_THREADS = 1024
"""Threads for the points of a table, each of which takes every so many. With a number that only the table knows, Taichi starts as many
threads as the device holds."""


WIDE, FEW = 2**18, 256
"""Cells of a grid from which on the device is full, so that blocks of threads are large, and the cost of a loop up to which they may be:
each thread of a large block has few registers."""
LARGE_BLOCKS, SMALL_BLOCKS = ((1, 512), (16, 32), (4, 4, 32)), ((1, 128), (4, 32), (2, 2, 32))
"""Threads of a block, by the number of axes: neighbours of neighbours along all axes are then mostly in the nearest cache."""
ROWS = ((4, 128), (2, 256))
"""Cells in a column that a thread computes on a wide grid, and the cost of a cell up to which it does. It waits for the memory of all of
them together, and reads what they share once."""


CONTROL, ROLLED = "control", "rolled"
"""Names of the arrays that loops use beside fields: that of the steps, and that of kept values."""


def unrolled(program: Program) -> int:
    """Most steps in one launch of a program."""
    if program.alone:
        return 1
    laps = sum(loop.count for loop in program.loops)
    return UNROLL if laps <= 1 and sum(cost(nest.roots or [each.node for each in nest.assigns]) for nest in program.nests) <= LONG else 1


class DeviceKernel(Kernel):
    """Source of a program for a GPU. Besides the arrays it takes `begin`, the local index of its first step.

    Args:
        program, graph, fields: see `Kernel`.
        steps: steps in one launch; None: as many as are best.
    """

    def __init__(self, program: Program, graph: Graph, fields: StoredFields, steps: int | None = None) -> None:
        super().__init__(program, graph, fields)
        self.steps = steps or unrolled(program)

    def _write(self) -> None:
        text, program = self.text, self.program
        text("@ti.kernel")
        with text.block(self.header(", begin: ti.i32")):
            joins = self._joining()
            for step in range(self.steps):
                for index, operation in enumerate(program.operations):
                    if isinstance(operation, Loop):
                        self._loop(operation, step)
                    elif index not in joins or step == self.steps - 1:
                        self._operation(operation, str(index), step)

    @property
    def most_arrays(self) -> int:
        """The most arrays that one of its loops uses."""
        names = {argument.name for argument in self.arguments}
        return max(len(names.intersection(re.findall(r"\w+", loop))) for loop in re.split(r"\n    (?=for )", self.source)[1:])

    @cached_property
    def _host(self) -> int | None:
        """The operation that may compute the sums with which the step before ended: the first nest, or on wide grids the first one with
        forcings, in their loop. There the registers that such sums take from all cells cost more than a loop."""
        for index, operation in enumerate(self.program.operations):
            if not isinstance(operation, Nest) or not (operation.assigns or index):
                return None
            if not self._wide or operation.scatters:
                return index
        return None

    def _joining(self) -> dict[int, PointGather]:
        """The sums at points with which a step ends, if the next step can compute them in a loop that it has anyway.

        No loop up to that one may write what they read. Both are levels of a ring, in its entries t + a and t + 1 + b, which are other
        memory unless they are a multiple of the ring's period apart. The next step must use entry t + a too: an older one may be lost.
        """
        operations, program, host = self.program.operations, self.program, self._host
        out: dict[int, PointGather] = {}
        if self.steps == 1 or host is None:
            return out
        nests = [nest for nest in operations[: host + 1] if isinstance(nest, Nest)]
        targets = [assign.target for nest in nests for assign in nest.assigns] + [each.target for nest in nests for each in nest.scatters]
        targets += [strip.place for nest in nests for strip in nest.restores]
        for index in reversed(range(host + 1, len(operations))):
            gather = operations[index]
            if not isinstance(gather, PointGather):
                break
            places = [program.places[name] for name in program.reads([gather.node]) if name not in self.slim]
            if any(not self._untouched(place, targets) for place in places):
                break
            out[index] = gather
        return dict(sorted(out.items()))

    def _untouched(self, place: Place, targets: Sequence[Place]) -> bool:
        """Whether the next step's assignments to `targets` leave what this step has at `place`."""
        same = [target for target in targets if target.array == place.array]
        if not same:
            return True
        if place.level is None or place.size or any(target.level is None or target.size for target in same):
            return False
        used = {other.level for other in self.levels_used if other.array == place.array}
        period = self.program.period(place.array)
        return place.level - 1 in used and all((target.level + 1 - place.level) % period for target in same if target.level is not None)

    @contextmanager
    def _each(self, name: str, count: str, step: int, first: str = "w", threads: int | None = None) -> Iterator[None]:
        """Turns `name` = 0 ... `count` - 1, one for each of the threads, or more. They are a top-level loop, unless `first` is given, the
        number of a thread of the loop around, which has so many `threads`.
        """
        text = self.text
        with ExitStack() as blocks:
            if threads is None:
                threads = POINT_THREADS
                blocks.enter_context(text.block(f"for {first} in range({threads})"))
            text(f"{name} = {first}")
            with text.block(f"while {name} < {count}"):
                with self._step(step):
                    yield
                text(f"{name} = {name} + {threads}")

    _lap = 0
    _guard = ""
    """Source of the condition under which a lap runs."""

    def _loop(self, loop: Loop, step: int) -> None:
        """Unroll all laps in the source, because the outermost loops of a GPU kernel are those over cells."""
        laps = range(loop.count)
        for self._lap in reversed(laps) if loop.down else laps:
            self._guard = f"if {self._lap} >= {self.first_lap(loop.laps)}" if loop.laps else ""
            for number, operation in enumerate(loop.operations):
                self._operation(operation, f"lap_{number}", step)
        self._guard = ""

    def _operation(self, operation: Operation, index: str, step: int) -> None:
        if isinstance(operation, Nest):
            joins = step and self._host is not None and operation is self.program.operations[self._host]
            self._nest(operation, step, self._joining() if joins else {})
        elif isinstance(operation, Strip):
            self._strip(operation, step, back=False)
        elif isinstance(operation, PointGather):
            with self._each("r", f"{identifier(operation.points)}_point_starts.shape[0] - 1", step):
                self.write_gather(operation, index)
        elif isinstance(operation, Total):
            self._total(operation, step)

    def _total(self, total: Total, step: int) -> None:
        """Compute each place of the target by one thread."""
        layout, last = self.layout, self.ndim - 1
        kept = {axis: self.rows[axis] if axis < last else "j" for axis in total.slim.axes}
        first, counts = (*layout.halo[:-1], layout.halo_tiles), (*layout.shape[:-1], layout.tiles)
        ranges = [f"({first[axis]}, {first[axis] + counts[axis]})" for axis in kept] or ["1"]
        with self.text.block(f"for {', '.join(kept.values()) or 'e'} in ti.ndrange({', '.join(ranges)})"), self._step(step):
            self.write_total(total, kept)

    @contextmanager
    def _step(self, step: int) -> Iterator[None]:
        """The locals of a step, and the guard that ends a launch early. Every top-level loop needs its own."""
        text, program = self.text, self.program
        text(f"t = begin + {step}")
        with text.block(f"if t < control[{STEPS}]"), ExitStack() as guard:
            text(f"n = control[{FIRST}] {'+' if program.direction > 0 else '-'} t")
            if self._guard:
                guard.enter_context(text.block(self._guard))
            if any(place.turns for place in self.levels_used):
                text(f"lap = {self._lap}")
            for place in self.levels_used:
                text(f"{self.level(place)} = {self.level_start(place)}")
            yield

    def _nest(self, nest: Nest, step: int, joined: Mapping[int, PointGather]) -> None:
        """The loops of a nest. One of them also computes the sums `joined` of the step before; see `_host`."""
        joined, beside = ({}, joined) if self._wide else (joined, {})
        text, folds = self.text, self.folds(nest)
        beyond = tuple(max((far[axis] for _, far, _ in folds), default=0) for axis in range(self.ndim))
        for group in nest.groups:
            low, high = ([a + b for a, b in zip(ends, beyond, strict=True)] for ends in (group.low, group.high))
            with self._cells(low, high, step, joined):
                text(self._place)
                writer = TileWriter(text, self.sources)
                for name, value in [(name, writer(node)) for name, node in group.values.items()]:
                    text(f"{ROLLED}[{self._kept[name]} + at] = {value}")
            joined = {}
        for part in self._parts(nest):
            none, rows = (0,) * self.ndim, self._rows_of(part)
            with self._cells(none, none, step, joined, rows):
                if not self.layout.rows[-1] % rows:
                    self._put_rows(part, rows)
                else:
                    i, end = self.rows[-1], self.layout.row_halo[-1] + self.layout.rows[-1]
                    with text.block(f"if {i} <= {end - rows}"):
                        self._put_rows(part, rows)
                    with text.block("else"), text.block(f"while {i} < {end}"):
                        self._put_rows(part, 1)
                        text(f"{i} = {i} + 1")
            joined = {}
        for rules, outside, which in folds:
            self._fold(nest, rules, outside, which, step)
        for index, scatter in enumerate(nest.scatters):
            self._scatter(scatter, index, step, beside)
            beside = {}
        for strip in nest.restores:
            self._strip(strip, step, back=True)
        self._extend((*nest.assigns, *nest.refills), step)

    def _parts(self, nest: Nest) -> list[Nest]:
        """The assignments of a nest as several loops, each of which uses no more arrays than a loop may. No loop writes what a later one
        reads, so assignments of which each reads what another writes are in one loop."""
        roots = nest.roots or [each.node for each in nest.assigns]
        most, waiting = backend().most_arrays, [*zip(nest.assigns, roots, strict=True)]
        if most is None:
            return [nest] if waiting else []
        parts: list[tuple[list[tuple[Assign, Node]], set[str]]] = []  # assignments, and the arrays that they use
        read = {id(assign): [self.program.places[name] for name in self._stored(root)] for assign, root in waiting}
        while waiting:
            reads = {id(assign): read[id(assign)] for assign, _ in waiting}
            together = next(([each] for each in waiting if not self._is_read(each[0], reads)), waiting)
            waiting = [each for each in waiting if each not in together]
            uses = {place.array for assign, _ in together for place in (assign.target, *read[id(assign)])} | {CONTROL, ROLLED}
            if not parts or len(parts[-1][1] | uses) > most:
                parts.append(([], set()))
            parts[-1][0].extend(together)
            parts[-1][1].update(uses)
        assigns = [tuple(zip(*part, strict=True)) for part, _ in parts]
        return [dataclasses.replace(nest, assigns=targets, roots=values) for targets, values in assigns]

    def _stored(self, root: Node) -> list[str]:
        """The stored fields that an expression reads, without kept values."""
        return [name for name in self.program.reads([root]) if name not in self._kept]

    def _is_read(self, assign: Assign, reads: Mapping[int, Iterable[Place]]) -> bool:
        """True if others read what an assignment writes. `reads`: by the id of each."""
        others = (places for number, places in reads.items() if number != id(assign))
        return any(self._is_same(place, assign.target) for places in others for place in places)

    def _is_same(self, one: Place, other: Place) -> bool:
        """True if two places of a step may be the same memory."""
        if one.array != other.array or one.level is None or other.level is None or one.size or other.size:
            return one.array == other.array
        return not (one.level - other.level) % self.program.period(one.array)

    def _scatter(self, scatter: PointScatter, index: int, step: int, beside: Mapping[int, PointGather]) -> None:
        """A loop over the cells of a forcing. Threads beside compute the sums of the step before."""
        text, cells = self.text, f"{identifier(scatter.points)}_starts.shape[0] - 1"
        if not beside:
            with self._each("e", cells, step):
                self.write_scatter(scatter, index)
            return
        with text.block(f"for w in range({2 * POINT_THREADS})"):
            with text.block(f"if w < {POINT_THREADS}"), self._each("e", cells, step, "w", POINT_THREADS):
                self.write_scatter(scatter, index)
            with text.block("else"):
                self._sums(beside, step - 1, f"w - {POINT_THREADS}", POINT_THREADS)

    def _sums(self, gathers: Mapping[int, PointGather], step: int, first: str, threads: int) -> None:
        """Sums at points, each by one of some threads of a loop, whose number is `first`."""
        for index, gather in gathers.items():
            with self._each(f"r{index}", f"{identifier(gather.points)}_point_starts.shape[0] - 1", step, first, threads):
                self.text(f"r = r{index}")
                self.write_gather(gather, str(index))

    @property
    def _place(self) -> str:
        """Source that names the place of the present cell."""
        return f"at = {row_start(self.rows, self.layout.strides)}j"

    @cached_property
    def _wide(self) -> bool:
        return math.prod(self.layout.shape) >= WIDE

    def _rows_of(self, nest: Nest) -> int:
        """Cells, one below the other, that a thread computes."""
        if not self._wide or self.ndim == 1 or self.sparse:
            return 1
        each = cost(nest.roots or [assign.node for assign in nest.assigns])
        return next((rows for rows, most in ROWS if each <= most), 1)

    def _put_rows(self, nest: Nest, rows: int) -> None:
        """Compute the cell of row `i`, and those of the next ones, and write them."""
        self.text(self._place)
        roots, values = nest.roots or tuple(a.node for a in nest.assigns), []
        for row in range(rows):
            below = (*(0 for _ in range(self.ndim - 2)), row, 0) if row else ()
            place = f"at + {row * self.layout.strides[-1]}" if row else "at"
            values += [
                (a.target, place, self.graph.shift(root, below) if row else root, a.accumulate)
                for a, root in zip(nest.assigns, roots, strict=True)
            ]
        self.put_values(values)

    @contextmanager
    def _cells(
        self, low: Sequence[int], high: Sequence[int], step: int, joined: Mapping[int, PointGather] = MappingProxyType({}), rows: int = 1
    ) -> Iterator[None]:
        """A loop over the cells of the grid and `low` and `high` cells beyond it, or the first of each `rows` cells in a column. It also
        computes the sums `joined` of the step before."""
        layout = self.layout
        shape, halo = (*layout.rows, layout.tiles), (*layout.row_halo, layout.halo_tiles)
        low, high = ((0, *low), (0, *high)) if self.ndim == 1 else (low, high)
        names, counts = (*self.rows, "j"), [n + a + b for n, a, b in zip(shape, low, high, strict=True)]
        first = [h - a for h, a in zip(halo, low, strict=True)]
        blocks = LARGE_BLOCKS if math.prod(counts) >= WIDE and self._largest <= FEW else SMALL_BLOCKS
        each = [1] * len(counts)  # cells of a thread
        each[-2] = rows
        threads = [-(-n // cells) for n, cells in zip(counts, each, strict=True)]
        block = [min(most, 2 ** (n - 1).bit_length()) for most, n in zip(blocks[self.ndim - 1], threads, strict=True)]
        self.text(f"ti.loop_config(block_dim={max(math.prod(block), 32)})")
        places = [f"{name}_{kind}" for kind in ("block", "in_block") for name in names]
        ranges = ", ".join(str(n) for n in (*(-(-n // size) for n, size in zip(threads, block, strict=True)), *block))
        with self.text.block(f"for {', '.join(places)} in ti.ndrange({ranges})"), ExitStack() as guard:
            for name, start, size, cells in zip(names, first, block, each, strict=True):
                thread = f"{name}_block * {size} + {name}_in_block"
                self.text(f"{name} = {thread if cells == 1 else f'({thread}) * {cells}'} + {start}")
            inside = [f"{name} < {h + n}" for name, h, n, m, size in zip(names, first, counts, threads, block, strict=True) if m % size]
            if inside:
                guard.enter_context(self.text.block(f"if {' and '.join(inside)}"))
            number = "0"
            for name, start, count in zip(names, first, counts, strict=True):
                number = f"{name} - {start}" if number == "0" else f"({number}) * {count} + {name} - {start}"
            self._sums(joined, step - 1, number, math.prod(counts))
            with self._step(step):
                yield

    @contextmanager
    def _outside(self, far: Sequence[int], step: int) -> Iterator[None]:
        """A loop over the cells outside the grid, up to `far` cells beyond its sides."""
        layout, text = self.layout, self.text
        far = (0, *far) if self.ndim == 1 else tuple(far)
        inside = [(h, h + n) for h, n in zip((*layout.row_halo, layout.halo_tiles), (*layout.rows, layout.tiles), strict=True)]
        whole = [(low - f, high + f) for (low, high), f in zip(inside, far, strict=True)]
        sides = [
            [*inside[:axis], side, *whole[axis + 1 :]]
            for axis, ((low, high), f) in enumerate(zip(inside, far, strict=True))
            if f
            for side in ((low - f, low), (high, high + f))
        ]
        names, ends = (*self.rows, "j"), list(itertools.accumulate(math.prod(b - a for a, b in side) for side in sides))
        with text.block(f"for e in range({ends[-1]})"), self._step(step):
            for name in (*names, "r"):
                text(f"{name} = 0")
            for number, (side, begin, end) in enumerate(zip(sides, [0, *ends], ends, strict=False)):
                with text.block("else" if number == len(sides) - 1 else f"{'elif' if number else 'if'} e < {end}"):
                    text(f"r = e - {begin}")
                    for name, (low, high) in zip(reversed(names), reversed(side), strict=True):
                        text(f"{name} = {low} + r % {high - low}")
                        text(f"r = r // {high - low}")
            yield

    @cached_property
    def _largest(self) -> int:
        """The largest cost of a loop."""
        bodies = [nest.roots or [each.node for each in nest.assigns] for nest in self.program.nests]
        return max(map(cost, bodies), default=0)

    @cached_property
    def _kept(self) -> dict[str, int]:
        """The first tile of the field of each value that nests keep. Nests use the same memory one after the other."""
        return {
            name: number * self.layout.tile_count
            for nest in self.program.nests
            for number, name in enumerate(name for group in nest.groups for name in group.values)
        }

    @property
    def rolled_tiles(self) -> int:
        return max((start + self.layout.tile_count for start in self._kept.values()), default=0)

    @property
    def sources(self) -> Sources:
        plain = super().sources
        kept = {name: StoredSource(ROLLED, f"{start} + ") for name, start in self._kept.items()}
        return dataclasses.replace(plain, arrays={**plain.arrays, **kept})

    def _strip(self, strip: Strip, step: int, back: bool) -> None:
        with self._each("e", f"{identifier(strip.name)}_tiles.shape[0]", step):
            self.write_strip(strip, back)

    def _fold(self, nest: Nest, rules: Rules, outside: tuple[int, ...], which: Sequence[int], step: int) -> None:
        """Compute cells outside the grid, and add them to the cells from which the boundary rules filled them, axis by axis."""
        text, layout = self.text, self.layout
        roots = nest.roots or tuple(a.node for a in nest.assigns)
        with self._outside(outside, step):
            text(self._place)
            self.put_values([(nest.assigns[i].target, "at", roots[i], nest.assigns[i].accumulate) for i in which])
        for axis in range(self.ndim):
            if not outside[axis]:
                continue
            with self._across(axis, step) as stored:
                targets = [nest.assigns[index].target for index in which]
                far = {index: {ghost.position for ghost in self.ghosts(rules, nest.assigns[index].outside, axis)} for index in which}
                for ghost in self.ghosts(rules, outside, axis):
                    for target in (nest.assigns[index].target for index in which if ghost.position in far[index]):
                        of = self.stored(target).tile(self._along(stored, ghost.position))
                        for cell, weight in ghost.cells:
                            to = self._along(stored, cell)
                            self.put_tile(target, to, f"{self.stored(target).tile(to)} + {self.weighted(weight, of)}")
                n, halo_cells = layout.shape[axis], layout.halo_tiles if axis == self.ndim - 1 else layout.halo[axis]
                for cell in (*range(halo_cells - outside[axis], halo_cells), *range(halo_cells + n, halo_cells + n + outside[axis])):
                    for target in targets:
                        self.put_tile(target, self._along(stored, cell), "F(0.0)")

    @contextmanager
    def _across(self, axis: int, step: int) -> Iterator[int]:
        """A loop over all lines of cells along an axis. Gives the place of the axis among the stored ones."""
        sizes = self.layout.storage
        stored = axis + len(sizes) - self.ndim
        others = {f"o{a}": str(size) for a, size in enumerate(sizes) if a != stored}
        with self.text.block(f"for {', '.join(others)} in ti.ndrange({', '.join(others.values())})"), self._step(step):
            yield stored

    def _along(self, stored: int, cell: int) -> str:
        """Address of a cell by its position along one stored axis. The other positions are the variables of the loop."""
        row: list[str | int] = [cell if a == stored else f"o{a}" for a in range(len(self.layout.storage))]
        return row_start(row[:-1], self.layout.strides) + str(row[-1])

    def _extend(self, assigns: Sequence[Assign | Written], step: int) -> None:
        """Fill the halos axis by axis, the last axis first, so that corners are right. The halo of a zero rule is never written.

        One loop fills those of all assignments along an axis.
        """
        for axis in reversed(range(self.ndim)):
            filled = [a for a in assigns if self.reach.get(a.target.array, (0,) * self.ndim)[axis] and fills(a.rules[axis])]
            if not filled:
                continue
            with self._across(axis, step) as stored:
                for assign in filled:
                    for ghost in self.ghosts(assign.rules, self.reach[assign.target.array], axis):
                        terms = [(weight, self.stored(assign.target).tile(self._along(stored, cell))) for cell, weight in ghost.cells]
                        self.put_tile(assign.target, self._along(stored, ghost.position), self.combined(terms, ghost.constant, "F(0.0)"))
