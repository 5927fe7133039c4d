"""The CPU kernel: the time loop runs inside it, on persistent workers.

Each thread of Taichi's pool runs one worker, with a slab of the first axis (`slabs.py`) and a spin barrier after each loop nest
(`barrier.py`). The pool has exactly as many threads as there are workers. A nest is loops over the cells of the slab (`tile_loops.py`),
then what cells outside the grid give back to it (`folds.py`), then points, then the halos (`halos.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from diffsim.expr.source import identifier
from diffsim.stepping.ir.program import Loop, Nest, Operation, Place, PointGather, Strip, Total
from diffsim.stepping.source.barrier import NOTHING, write_barrier, write_start
from diffsim.stepping.source.folds import write_folds
from diffsim.stepping.source.halos import write_halo
from diffsim.stepping.source.kernel import BEGIN, DONE, FIRST, STEPS
from diffsim.stepping.source.slabs import slab_bounds
from diffsim.stepping.source.tile_loops import TileKernel


class WorkerKernel(TileKernel):
    """Source of a program for `workers` CPU threads."""

    def _write(self) -> None:
        text = self.text
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
                    write_start(text)
                self._time_loop()
        self.finish()

    def _time_loop(self) -> None:
        program, text = self.program, self.text
        barriers = self._barriers() if self.workers > 1 else set()
        with text.block(f"for t in range(control[{DONE}], control[{STEPS}])"):
            text(f"n = {self.step_index('t')}")
            self._levels([place for place in self.levels_used if not place.turns and place.first is None])
            late = [place for place in self.levels_used if place.first is not None]  # known after their number
            done = 0
            for index, operation in enumerate(program.operations):
                if isinstance(operation, Loop):
                    self._loop(operation, index, done)
                    done += operation.count * len(operation.operations)
                else:
                    with text.block(f"if begin <= {done}"):
                        self._levels(late if isinstance(operation, Nest) else [])
                        self._operation(operation, str(index))
                        if index in barriers:
                            write_barrier(text, self.workers, str(done + 1))
                    done += 1
            with text.block(f"if begin < {NOTHING}"):
                text("begin = 0")

    def _barriers(self) -> set[int]:
        """Numbers of the operations after which workers wait for one another.

        These are all nests and totals, except for point sums alone whose cells only their own worker reads before the next barrier. Sums
        of points, which read cells of other workers, are among them if these cells change before the next barrier.
        """
        operations, found = self.program.operations, set[int]()
        for number, operation in enumerate(operations):
            if isinstance(operation, PointGather):
                if any(
                    self.program.changes(operation, nest, later) for nest, later in self._until_barrier(number) if isinstance(nest, Nest)
                ):
                    after = number
                    while after + 1 < len(operations) and isinstance(operations[after + 1], PointGather):
                        after += 1
                    found.add(after)
            elif isinstance(operation, Total) or (isinstance(operation, Nest) and not self._is_own(operation, number)):
                found.add(number)
        return found

    def _until_barrier(self, number: int) -> Iterator[tuple[Operation, int]]:
        """The operations after one up to the next that certainly ends with a barrier, each with the steps by which it is later."""
        operations = self.program.operations
        for after in range(number + 1, number + 1 + len(operations)):
            operation, later = operations[after % len(operations)], after // len(operations)
            if isinstance(operation, Loop):
                yield from ((each, later) for each in operation.operations)
            else:
                yield operation, later
            if isinstance(operation, Total | Loop) or (isinstance(operation, Nest) and operation.assigns):
                return

    def _is_own(self, nest: Nest, number: int) -> bool:
        """Whether a nest is point sums alone, whose cells no other worker reads before the next barrier."""
        if nest.assigns or nest.restores:
            return False
        program, changed = self.program, {each.target.array for each in (*nest.scatters, *nest.refills)}
        for following, _ in self._until_barrier(number):
            if isinstance(following, Nest):
                read, own = program.reads([assign.node for assign in following.assigns]), not following.folded
            elif isinstance(following, PointGather):
                read, own = program.reads([following.node]), False
            elif isinstance(following, Total):
                read, own = {following.source: set()}, False
            else:
                continue  # a strip: its worker copies its own cells
            arrays = {program.places[name].array if name in program.places else name: offsets for name, offsets in read.items()}
            if any(name in changed and not (own and not any(map(any, offsets))) for name, offsets in arrays.items()):
                return False
        return True

    def step_index(self, local: str) -> str:
        """Source of the index of a local step."""
        return f"control[{FIRST}] {'+' if self.program.direction > 0 else '-'} {local}"

    def _levels(self, places: Iterable[Place]) -> None:
        """The first tiles of levels."""
        for place in places:
            self.text(f"{self.level(place)} = {self.level_start(place)}")

    def _loop(self, loop: Loop, index: int, done: int) -> None:
        """The laps of a loop. `done` operations precede it."""
        text, length = self.text, len(loop.operations)
        with text.block(f"for round in range({self.laps_run(loop.laps) if loop.laps else loop.count})"):
            first = f"{self.first_lap(loop.laps)} + " if loop.laps else ""
            text(f"lap = {loop.count - 1} - round" if loop.down else f"lap = {first}round")
            self._levels([place for place in self.levels_used if place.turns])
            for number, operation in enumerate(loop.operations):
                before = f"{done + number} + round * {length}"
                with text.block(f"if begin <= {before}"):
                    self._operation(operation, f"{index}_{number}")
                    if self.workers > 1 and isinstance(operation, Nest | Total):
                        write_barrier(text, self.workers, f"{before} + 1")

    def _operation(self, operation: Operation, index: str) -> None:
        """One operation, without the barrier after it."""
        if isinstance(operation, Nest):
            self._nest(operation, f"nest_{index}")
        elif isinstance(operation, Strip):
            self.call(f"strip_{index}", lambda: self._strip(operation, back=False))
        elif isinstance(operation, PointGather):
            self.call(f"gather_{index}", lambda: self._gather(operation, index))
        elif isinstance(operation, Total):
            self.call(f"total_{index}", lambda: self._total(operation))

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

    def _nest(self, nest: Nest, name: str) -> None:
        """The cells of the slab, then contributions from outside the grid, then points and halos."""
        if nest.assigns:
            self.write_cells(nest, name)
        write_folds(self, nest, name)
        self.call(f"{name}_points", lambda: self._after(nest))
        for assign in (*nest.assigns, *nest.refills):
            write_halo(self, assign)

    def _after(self, nest: Nest) -> None:
        for index, scatter in enumerate(nest.scatters):
            points = identifier(scatter.points)
            with self.text.block(f"for e in range({points}_rows[lo], {points}_rows[hi])"), ExitStack() as band:
                if self.banded:
                    row, (first, end) = f"{points}_cells[e, 1]", self.across(self.layout.row_halo[1])
                    band.enter_context(self.text.block(f"if {first} <= {row} and {row} < {end}"))
                self.write_scatter(scatter, index)
        for strip in nest.restores:
            self._strip(strip, back=True)

    def _strip(self, strip: Strip, back: bool) -> None:
        name = identifier(strip.name)
        with self.text.block(f"for e in range({name}_slabs[w], {name}_slabs[w + 1])"):
            self.write_strip(strip, back)

    @property
    def rolled_tiles(self) -> int:
        return self.workers * self.rolled_size
