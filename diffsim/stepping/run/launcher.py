"""Compile kernels, bind them to arrays, and launch them for a bounded time each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.base.messages import shown
from diffsim.base.system import without_collection
from diffsim.engine import BoundKernel, DeviceArray, backend, check_generation, displaced, lock, settings
from diffsim.errors import BackendError
from diffsim.expr.graph import Graph
from diffsim.expr.shapes import Shape
from diffsim.stepping.declare.points import PointTable
from diffsim.stepping.ir.names import strip
from diffsim.stepping.ir.program import HostCall, Place, Program, Written
from diffsim.stepping.ir.sparse import Sparse
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.passes.sharing import cost
from diffsim.stepping.run.arrays import FieldArrays
from diffsim.stepping.run.host_calls import call_name
from diffsim.stepping.run.launches import Allocated, Launch, Launches, Packed, Tables, merged
from diffsim.stepping.run.pace import Pace
from diffsim.stepping.run.queue import Entries, Queue
from diffsim.stepping.run.stepwise import StepPart, in_one, prepared, solving
from diffsim.stepping.run.strips import tile_addresses
from diffsim.stepping.source import barrier
from diffsim.stepping.source.device import DeviceKernel, unrolled
from diffsim.stepping.source.kernel import (
    ARRIVALS,
    BEGIN,
    CAPACITY,
    DONE,
    FIRST,
    GATE,
    LEFT_BEGIN,
    LEFT_DONE,
    LOOKS,
    NARROW,
    NARROWING,
    STEPS,
    Argument,
    Kernel,
    control_size,
    table_offset,
)
from diffsim.stepping.source.parts import PartKernel, shared_parts
from diffsim.stepping.source.sequence import LONGEST, SequenceKernel
from diffsim.stepping.source.slabs import slab_bounds, useful_workers
from diffsim.stepping.source.tile_loops import repeated_bodies
from diffsim.stepping.source.wavefront import TOGETHER, Wavefront, WavefrontKernel, ways
from diffsim.stepping.source.whole_step import Solving, WholeStep
from diffsim.stepping.source.workers import WorkerKernel
from diffsim.typing import Array, IntArray

LEAST_TOGETHER = 3
"""Launches that are worth a kernel that does them in one."""


class Launcher(FieldArrays):
    """The arrays of a simulation and the kernels that work on them.

    Args:
        graph: graph of the programs' expressions.
        fields: the storage of the arrays.
        points: point tables by name.
        generation: generation of the settings for which the layout was made.
    """

    def __init__(self, graph: Graph, fields: StoredFields, points: Mapping[str, PointTable], generation: int) -> None:
        super().__init__(fields)
        self.generation, self.graph, self.points = generation, graph, dict(points)
        self._compiled: dict[tuple[str, int, Wavefront | None], object] = {}
        self._bound: dict[tuple[str, int, Wavefront | None], BoundKernel] = {}
        self._wavefronts: dict[tuple[str, int], list[Wavefront]] = {}
        self._scratch: Allocated | None = None
        self._known: dict[str, Launches] = {}  # by program
        self._tables: dict[tuple[Sparse, str], object] = {}
        self.packed: dict[str, Packed] = {}  # fields of programs with calls of host functions, of which one level is stored for kernels
        self._queue = Queue(backend().wait)
        self._parts: dict[str, list[Program | HostCall]] = {}
        self._peers: dict[str, list[Program]] = {}  # the kernels' parts of a program with calls, by the name of each
        self._common: dict[str, set[tuple[Shape, ...]]] = {}  # shapes of bodies that these have in common
        self._shared: dict[tuple[str, int], WorkerKernel | PartKernel] = {}  # their kernels, by name and workers
        self._prepared: dict[str, list[StepPart]] = {}  # parts of programs with calls, for the present arrays
        self.log: list[Launch] | None = None  # gets the launches on a CPU while it is a list
        self.outside: Callable[[Callable[..., Any]], Any] = lambda function: function
        """Wraps a function of the user for calls during a run."""

    def unbind(self) -> None:
        super().unbind()
        self._bound.clear()
        self._prepared.clear()

    def move(self, points: Mapping[str, PointTable]) -> None:
        """Replace point tables. They are arguments of the kernels, so kernels are bound anew but not compiled anew."""
        self.points |= points
        self.unbind()
        self._wavefronts.clear()

    # launches

    def source_of(self, program: Program, workers: int | None = None, wavefront: Wavefront | None = None) -> Kernel:
        """The kernel of a program, as source, for a number of workers (None: all threads), on a GPU for a number of steps."""
        threads = self._threads
        if threads is None:
            return DeviceKernel(program, self.graph, self.fields, workers)
        if wavefront is not None:
            return WavefrontKernel(program, self.graph, self.fields, workers or threads, wavefront)
        return WorkerKernel(program, self.graph, self.fields, workers or threads, common=self._common.get(program.name))

    def _kernel_of(self, program: Program, workers: int, wavefront: Wavefront | None) -> Kernel | PartKernel:
        """The kernel of a program. Parts of a step that are alike share one."""
        peers = self._peers.get(program.name, ())
        if len(peers) < 2 or self._threads is None:
            return self.source_of(program, workers, wavefront)
        if (program.name, workers) not in self._shared:
            common = self._common[program.name]
            kernels = [WorkerKernel(each, self.graph, self.fields, workers, common=common) for each in peers]
            self._shared |= {(each.name, workers): kernel for each, kernel in zip(peers, shared_parts(kernels), strict=True)}
        return self._shared[program.name, workers]

    def text_of(self, program: Program) -> str:
        """The source of a program, with a line for each call of a function on the host. Each part is shown with a kernel of its own."""
        texts = []
        for part in program.parts(self._threads is not None) if any(program.calls) else [program]:
            texts.append(f"# {call_name(part)}: {', '.join(part.inputs)}" if isinstance(part, HostCall) else self.source_of(part).source)
        return "\n\n".join(texts)

    def pace(self, program: Program) -> Pace:
        """The measured pace of the program's launches."""
        return self._launches(program).pace

    def _launches(self, program: Program) -> Launches:
        known = self._known.get(program.name)
        if known is None:
            roots = [nest.roots or [each.node for each in nest.assigns] for nest in program.nests]
            cycles = self.layout.tile_count * sum(cost(each) + 2 * len(each) for each in roots)
            workers = 1 if self._threads is None else useful_workers(self.layout, self._threads, cycles)
            control = self.memory.allocate((control_size(program),), np.int32)
            known = self._known[program.name] = Launches(
                control,
                Pace(workers),
                {array: table_offset(program, array) for array in program.entries} | {NARROWING: NARROW},
                CAPACITY - max(program.entries.values(), default=0),
                any(program.calls),
                unrolled(program),
                Entries(control) if isinstance(control, DeviceArray) else None,
            )
        return known

    def at_once(self, program: Program, first: int, steps: int, levels: Mapping[str, IntArray]) -> bool:
        """Do all steps of `sweep` in one launch, with these level tables. Return False, and do nothing, if it takes several."""
        known = self._known.get(program.name) or self._launches(program)
        if steps > known.most or steps > known.pace.steps() or known.stepwise or not isinstance(known.control, np.ndarray):
            return False
        self.again(program, first, steps, levels)
        return True

    def again(self, program: Program, first: int, steps: int, levels: Mapping[str, IntArray]) -> None:
        """Do a launch of `log`. Levels that are written by now are not written again: they must not change."""
        known = self._known[program.name]
        if known.written is not levels:
            self._describe(program, known, first, steps, levels)
            known.written = levels
        if self.log is not None:
            self.log.append((program, first, steps, levels))
        self._launch(program, known, steps)

    def merged(self, launches: Sequence[Launch]) -> list[Launch]:
        """Launches of `log`, joined where they may be one."""
        most = {program.name: min(self._known[program.name].most, self.pace(program).steps()) for program, *_ in launches}
        return merged(launches, most)

    def at_a_stroke(self, launches: Sequence[Launch]) -> Callable[[], None] | None:
        """A function that does all of these launches of `log` in one. None where they are few, or where the kernel is large, takes several
        workers, or would run for longer than a launch may."""
        programs = list({program.name: program for program, *_ in launches}.values())
        if len(launches) < LEAST_TOGETHER or any(not self._is_alone(program) for program in programs):
            return None
        if sum(steps / self.pace(program).steps() for program, _, steps, _ in launches) > 1:
            return None
        kernel = SequenceKernel(programs, self.graph, self.fields)
        if kernel.source.count("\n") > LONGEST:
            return None
        known = [self._launches(program) for program in programs]
        plan = kernel.plan(launches)
        controls = iter([self._copied(plan, plan.dtype), *(each.control for each in known)])
        arguments = [
            next(controls) if a.kind == "control" else self._rolled(kernel, a.cells) if a.kind == "rolled" else self._argument(a, 1)
            for a in kernel.arguments
        ]
        with lock:
            check_generation(self.generation)
            bound = BoundKernel(kernel.compile(), arguments)

        def launch() -> None:
            for each in known:
                each.written = None
            bound()

        return launch

    def _is_alone(self, program: Program) -> bool:
        """True if one worker does the launches of a program, step by step."""
        known = self._launches(program)
        on_host = isinstance(known.control, np.ndarray)
        return on_host and not known.stepwise and known.pace.all == 1 and self._wavefront(program, 1) is None

    def sweep(self, program: Program, first: int, steps: int, tables: Tables) -> None:
        """Launch `program` for `steps` steps from index `first`, in launches of a bounded time.

        Args:
            program: the program of a step.
            first: index of its first step.
            steps: number of steps.
            tables: returns the rings' level tables. It is called once for each launch, in order.
        """
        known = self._launches(program)
        if known.stepwise:
            self._stepwise(program, first, steps, tables)
            return
        done, pace = 0, known.pace
        while done < steps:
            count = min(steps - done, self._steps_of_launch(program, pace), known.most)
            levels = tables(done, count)
            self._describe(program, known, first + program.direction * done, count, levels)
            if isinstance(known.control, np.ndarray):
                if self.log is not None:
                    kept = {name: table.copy() for name, table in levels.items()}
                    self.log.append((program, first + program.direction * done, count, kept))
                self._launch(program, known, count)
            else:
                self._queue.begin(pace)
                for t in range(0, count - count % known.unrolled, known.unrolled):
                    self._kernel(program, known.unrolled)(t)
                for t in range(count - count % known.unrolled, count):
                    self._kernel(program, 1)(t)
                self._queue.end(pace, count)
            done += count

    def _steps_of_launch(self, program: Program, pace: Pace) -> int:
        """Steps of the coming launch by the pace; where steps are computed together, a multiple of their number."""
        wavefront = self._wavefront(program, pace.workers())
        return pace.steps() if wavefront is None else -(-pace.steps() // wavefront.steps) * wavefront.steps

    def _stepwise(self, program: Program, first: int, steps: int, tables: Tables) -> None:
        """`sweep` for a program with calls of host functions: run its parts one after the other, step by step."""
        packed = {name: self.packed[name] for name in program.entries if name in self.packed}
        if program.name not in self._parts:
            unpacked = tuple(Written(name, Place(name, 0), each.rules) for name, each in packed.items() if program.direction < 0)
            self._parts[program.name] = program.parts(self._threads is not None, unpacked)
            own = [part for part in self._parts[program.name] if isinstance(part, Program)]
            self._peers |= {part.name: own for part in own}
            if self._threads is not None:
                self._common |= dict.fromkeys((part.name for part in own), repeated_bodies(own))
        kernels = [part for part in self._parts[program.name] if isinstance(part, Program)]
        most = self._launches(program).most
        for done in range(0, steps, most):
            count, start = min(steps - done, most), first + program.direction * done
            levels = tables(done, count)
            kept = [(self.cells(name, 0), each.rows, levels[name]) for name, each in packed.items()]
            levels = {name: np.zeros_like(table) if name in packed else table for name, table in levels.items()}
            for part in (program, *kernels):
                self._describe(part, self._launches(part), start, count, levels)
            for t in range(count):
                if program.direction < 0:
                    for cells, rows, table in kept:
                        cells[...] = rows[table[t]]
                for run in self._prepared_parts(program):
                    run(t, start + program.direction * t, levels)
                if program.direction > 0:
                    for cells, rows, table in kept:
                        rows[table[t]] = cells

    def _prepared_parts(self, program: Program) -> list[StepPart]:
        """The parts of a program with calls of host functions, prepared for the present arrays."""
        while program.name not in self._prepared:
            bindings, moving = self.bindings, set(program.entries)
            whole = self._whole_step(program, moving)
            parts = [whole] if whole else self._one_by_one(program, moving)
            if bindings == self.bindings:  # else an array was allocated meanwhile
                self._prepared[program.name] = parts
        return self._prepared[program.name]

    def _one_by_one(self, program: Program, moving: set[str]) -> list[StepPart]:
        """The kernels and calls of a step."""
        return [
            prepared(part, program, self, self.outside, moving) if isinstance(part, HostCall) else self._kernel_part(part)
            for part in self._parts[program.name]
        ]

    def _whole_step(self, program: Program, moving: set[str]) -> StepPart | None:
        """A step with calls of host functions in one launch, if one worker does it and a kernel can do what the functions do."""
        own = [part for part in self._parts[program.name] if isinstance(part, Program)]
        known = self._launches(program)
        control = known.control
        if not isinstance(control, np.ndarray) or not own or any(self._launches(part).pace.all > 1 for part in own):
            return None
        parts: list[Program | Solving] = []
        for part in self._parts[program.name]:
            each = part if isinstance(part, Program) else solving(part, program, self, self.outside, moving)
            if each is None:
                return None
            parts.append(each)
        calls = [part for part in self._parts[program.name] if isinstance(part, HostCall)]
        kernel = WholeStep(program, parts, self.graph, self.fields, self._common.get(own[0].name))
        if not kernel.has_one_system:
            return None
        key = program.name, 1, None
        with lock, without_collection():
            check_generation(self.generation)
            if key not in self._compiled:
                self._compiled[key] = kernel.compile()
            arguments = self._arguments(kernel, control, 1)
            arrays, sums = kernel.arrays()
            bound = BoundKernel(self._compiled[key], [*arguments, *arrays])
        checks = [(call, each.inside.check, left) for call, each, left in zip(calls, kernel.solvings, sums, strict=True)]
        return in_one(bound, control, checks)

    def _kernel_part(self, program: Program) -> StepPart:
        """The launch of one step, whose levels `_describe` wrote."""
        known = self._launches(program)
        control = known.control
        if not isinstance(control, np.ndarray):
            return lambda t, step, levels: self._kernel(program, 1)(t)
        if known.pace.all > 1:
            return lambda t, step, levels: self._launch(program, known, t + 1, t)
        kernel = self._kernel(program, 1)

        def run(t: int, step: int, levels: Mapping[str, IntArray]) -> None:
            control[STEPS], control[DONE], control[BEGIN] = t + 1, t, 0
            kernel()

        return run

    def _describe(self, program: Program, known: Launches, first: int, steps: int, tables: Mapping[str, IntArray]) -> None:
        """Write the control data of the coming steps for the kernels, over those that `at_once` left."""
        control = known.control
        known.written = None
        if isinstance(control, np.ndarray):
            control[FIRST] = first
            for array, table in tables.items():
                if array in known.tables:
                    at = known.tables[array]
                    control[at : at + len(table)] = table
            return
        parts = {STEPS: np.array((steps, first), np.int32)} | {known.tables[a]: t for a, t in tables.items() if a in known.tables}
        if known.entries is not None and known.entries.put(parts):
            return
        values = np.zeros(control_size(program), np.int32)
        for at, part in parts.items():
            values[at : at + len(part)] = part
        self.memory.write(control, values)

    def _launch(self, program: Program, known: Launches, end: int, done: int = 0) -> None:
        """Launch the steps of `_describe` from `done` to `end`. Steps that workers abandon are launched again."""
        control, pace = known.control, known.pace
        assert isinstance(control, np.ndarray)  # workers are of a CPU
        workers, wavefront, again = 0, None, 0  # the operation of the step, or of the wavefront, at which the launch begins
        if pace.all == 1 and self._wavefronts.get((program.name, 1)) == []:  # one worker waits for nobody
            control[STEPS], control[DONE], control[BEGIN] = end, done, 0
            kernel = self._bound.get((program.name, 1, None)) or self._kernel(program, 1)
            begin = time.perf_counter()
            kernel()
            pace.note(end - done, time.perf_counter() - begin)
            return
        while done < end:
            if not again:
                workers = pace.workers()
                wavefront = self._wavefront(program, workers, end - done)
            elif wavefront is None:  # between operations the slabs may change, but not within a wavefront
                workers = pace.workers()
            together = 1 if wavefront is None else wavefront.steps
            stop = end - (end - done) % together
            control[STEPS], control[DONE], control[BEGIN] = stop, done, again
            control[ARRIVALS] = control[GATE] = control[LEFT_BEGIN] = 0
            control[LOOKS] = int(barrier.PATIENCE * pace.patience(together))
            kernel = self._kernel(program, workers, wavefront)
            begin = time.perf_counter()
            kernel()
            seconds = time.perf_counter() - begin
            left = int(control[LEFT_BEGIN])
            reached = int(control[LEFT_DONE]) if left else stop
            steps = reached - done - (together if again else 0)  # without those of which an earlier launch did a part
            if steps > 0 or left:
                pace.note(max(steps, 0), seconds, left > 0)
            done, again = reached, left

    def _wavefront(self, program: Program, workers: int, most: int = TOGETHER[0]) -> Wavefront | None:
        """The way to compute up to `most` steps together, or None if each is computed alone."""
        known = self._wavefronts.get((program.name, workers))
        if known is None:
            known = self._wavefronts[program.name, workers] = self._wavefronts_of(program, workers)
        return next((each for each in known if each.steps <= most), None) if known else None

    def _wavefronts_of(self, program: Program, workers: int) -> list[Wavefront]:
        """The ways to compute steps together, the most steps first."""
        if self._threads is None:
            return []
        tallest = max((self.points[gather.points].tallest for gather in program.gathers), default=0)
        return ways(program, self.fields, workers, tallest)

    def _kernel(self, program: Program, workers: int, wavefront: Wavefront | None = None) -> BoundKernel:
        key = (program.name, workers, wavefront)
        if key not in self._bound:
            with lock:
                check_generation(self.generation)
                with without_collection():
                    source = self._kernel_of(program, workers, wavefront)
                    self._bound[key] = self._bind(key, source, self._launches(program).control, workers)
        return self._bound[key]

    def _bind(self, key: tuple[str, int, Wavefront | None], kernel: Kernel | PartKernel, control: Allocated, workers: int) -> BoundKernel:
        if key not in self._compiled:
            self._compiled[key] = kernel.compile()
        arguments = self._arguments(kernel, control, workers)
        plain = [a.data if isinstance(a, DeviceArray) else a for a in arguments]
        if isinstance(kernel, DeviceKernel):
            most = backend().most_arrays
            if most is not None and kernel.most_arrays > most:
                raise BackendError(
                    f"a loop over the cells uses {kernel.most_arrays} arrays, expected at most {most} on arch "
                    f"{shown(settings().arch)}, where "
                    "drivers take wrong ones beyond; give arch='cpu' or arch='cuda' to diffsim.init"
                )
            plain.append(0)
        return BoundKernel(self._compiled[key], plain)

    def _arguments(self, kernel: Kernel | PartKernel | WholeStep, control: object, workers: int) -> list[object]:
        """The arguments of a kernel with its control array."""
        own: dict[str, Callable[[int], object]] = {"control": lambda cells: control, "rolled": lambda cells: self._rolled(kernel, cells)}
        if isinstance(kernel, PartKernel):
            own["levels"] = lambda cells: self._copied(kernel.levels, kernel.levels.dtype)
            own["numbers"] = lambda cells: self._copied(kernel.numbers, self.layout.dtype)
        return [own[a.kind](a.cells) if a.kind in own else self._argument(a, workers) for a in kernel.arguments]

    def _rolled(self, kernel: Kernel | PartKernel | SequenceKernel | WholeStep, cells: int) -> object:
        """Memory for the values that a kernel keeps, displaced by some cells. Kernels run one after the other, so they share it."""
        size = kernel.rolled_tiles * self.layout.lanes
        if self._scratch is None or self._scratch.shape[0] < size:
            self._scratch = self.memory.allocate((size,), self.layout.dtype, flat=True)
        flat = self.memory.flat(self._scratch, self.layout.lanes)
        return displaced(flat, cells) if cells else flat

    def _argument(self, argument: Argument, workers: int) -> object:
        if argument.kind in ("ring", "field", "slim", "stream"):
            array = self.field(argument.key)
            tiled = argument.kind != "slim" or self.layout.tiled(self.slim[argument.key])
            if argument.kind == "stream":
                return array
            flat = self.memory.flat(array, self.layout.lanes if tiled else 1)
            return displaced(flat, argument.cells) if argument.cells else flat
        if argument.key in self.strips:
            return self._strip_argument(argument, workers)
        if argument.kind in ("chunks", "inside"):
            return self._table(self.sparse[argument.key], argument.kind)
        table = self.points[argument.key]
        cells, starts, members, weights = table.by_cell
        pieces: dict[str, Callable[[], Array | IntArray]] = {
            "point starts": lambda: table.starts,
            "point cells": lambda: self._stored(table.cells),
            "point weights": lambda: table.weights,
            "point order": lambda: table.by_row[0],
            "point last rows": lambda: table.last_rows(1),
            "point rows": lambda: np.searchsorted(table.by_row[1], np.arange(self.layout.rows[0] + 1)),
            "cells": lambda: self._stored(cells),
            "starts": lambda: starts,
            "members": lambda: members,
            "weights": lambda: weights,
            "rows": lambda: self._first_of_rows(cells),
        }
        return self._copied(pieces[argument.kind](), self.layout.dtype if "weights" in argument.kind else np.dtype(np.int32))

    def _table(self, sparse: Sparse, kind: str) -> object:
        """The chunk table of a sparse field, or its region. All fields and kernels share the array."""
        if (sparse, kind) not in self._tables:
            values = sparse.table if kind == "chunks" else sparse.inside.reshape(-1)
            array = self.memory.allocate(values.shape, values.dtype, flat=True)
            self.memory.write(array, values)
            self._tables[sparse, kind] = array if kind == "chunks" else self.memory.flat(array, self.layout.lanes)
        return self._tables[sparse, kind]

    def _strip_argument(self, argument: Argument, workers: int) -> object:
        if argument.kind == "strip":
            return self.memory.flat(self.arrays[argument.key], self.layout.lanes)
        tiles = self.strips[argument.key]
        values = self._slabs(tiles, workers) if argument.kind == "slabs" else self._addresses(argument.key, tiles)
        return self._copied(values, np.dtype(np.int32))

    def _copied(self, values: Array | IntArray, dtype: np.dtype) -> Allocated:
        array: Allocated = self.memory.allocate(values.shape, dtype)
        self.memory.write(array, values.astype(dtype))
        return array

    def stored_tiles(self, name: str, tiles: IntArray) -> IntArray:
        """The tiles (see `damped_tiles`) that a field stores."""
        if name not in self.sparse:
            return tiles
        sparse = self.sparse[name]
        return tiles[sparse.table[tile_addresses(tiles, self.layout) // sparse.chunk] > 0]

    def _addresses(self, name: str, tiles: IntArray) -> IntArray:
        """The storage addresses of the tiles of a state that the array `name` keeps."""
        addresses = tile_addresses(tiles, self.layout)
        sparse = next((each for state, each in self.sparse.items() if strip(state) == name), None)
        return addresses if sparse is None else sparse.addresses(addresses)

    def _first_of_rows(self, cells: IntArray) -> IntArray:
        """The index of the first cell of each row of the first axis, and the number of cells. Cells are in C order."""
        rows = cells[:, 0] if self.layout.rows == self.layout.shape[:-1] else np.zeros(len(cells))
        return np.searchsorted(rows, np.arange(self.layout.rows[0] + 1))

    def _slabs(self, tiles: IntArray, workers: int) -> IntArray:
        """The index of the first tile of each worker's slab, and the number of tiles."""
        return self._first_of_rows(tiles)[slab_bounds(self.layout, workers)]

    def _stored(self, cells: IntArray) -> IntArray:
        """Cells as row indices in storage and a padded position along the last axis."""
        layout = self.layout
        out = cells + np.array([*layout.halo[:-1], layout.halo_tiles * layout.lanes])
        return np.pad(out, ((0, 0), (1, 0))) if len(layout.shape) == 1 else out
