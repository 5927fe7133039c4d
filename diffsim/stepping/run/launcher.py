"""Compile kernels, bind them to arrays, and launch them for a bounded time each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.boundary import Fill, Rules, extend, fills, fills_of
from diffsim.engine import BoundKernel, DeviceArray, backend, check_generation, displaced, lock, settings
from diffsim.errors import BackendError, PlanError
from diffsim.expr.graph import Graph
from diffsim.stepping.declare.points import PointTable
from diffsim.stepping.ir.names import strip
from diffsim.stepping.ir.program import HostCall, Place, Program, Total
from diffsim.stepping.ir.sparse import Sparse
from diffsim.stepping.ir.stored import StoredFields
from diffsim.stepping.passes.sharing import cost
from diffsim.stepping.run.host_calls import call_name, errors_of
from diffsim.stepping.run.launches import Allocated, Launch, Launches, Tables, merged
from diffsim.stepping.run.pace import Pace
from diffsim.stepping.run.queue import Entries, Queue
from diffsim.stepping.run.strips import strip_rows, tile_addresses
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
    STEPS,
    Argument,
    Kernel,
    control_size,
    table_offset,
)
from diffsim.stepping.source.slabs import slab_bounds, useful_workers
from diffsim.stepping.source.wavefront import TOGETHER, Wavefront, WavefrontKernel, ways
from diffsim.stepping.source.workers import WorkerKernel
from diffsim.typing import Array, IntArray


class Launcher:
    """The arrays of a simulation and the kernels that work on them.

    Args:
        graph: graph of the programs' expressions.
        fields: the storage of the arrays.
        points: point tables by name.
        generation: generation of the settings for which the layout was made.
    """

    def __init__(self, graph: Graph, fields: StoredFields, points: Mapping[str, PointTable], generation: int) -> None:
        self.generation = generation
        self.graph, self.fields, self.points = graph, fields, dict(points)
        self.layout, self.slim, self.sparse, self.stacks = fields.layout, fields.slim, fields.sparse, fields.stacks
        self.strips: dict[str, IntArray] = {}  # array of kept tiles -> the tiles, as `damped_tiles` gives them
        self.memory = backend().memory
        self.bindings = 0  # how often arrays were replaced
        self.arrays: dict[str, Allocated] = {}
        self._compiled: dict[tuple[str, int, Wavefront | None], object] = {}
        self._bound: dict[tuple[str, int, Wavefront | None], BoundKernel] = {}
        self._views: dict[tuple[str, int | None], tuple[Array, Array]] = {}  # of the cells of a field, and with their halo
        self._fills: dict[tuple[str, int | None], tuple[Rules, list[Fill] | None]] = {}  # of the halos of fields
        self._wavefronts: dict[tuple[str, int], list[Wavefront]] = {}
        self._scratch: Allocated | None = None
        self._known: dict[str, Launches] = {}  # by program
        self._tables: dict[tuple[Sparse, str], object] = {}
        self._threads = backend().threads
        self._queue = Queue(backend().wait)
        self._parts: dict[str, list[Program | HostCall]] = {}
        self.log: list[Launch] | None = None  # gets the launches on a CPU while it is a list
        self.outside: Callable[[Callable[..., Any]], Any] = lambda function: function
        """Wraps a function of the user for calls during a run."""

    # arrays

    def allocate(self, name: str, shape: tuple[int, ...]) -> Allocated:
        """Allocate a zeroed array `name`. An earlier array of that name is freed first.

        Kernels are bound anew at their next launch.
        """
        self.arrays.pop(name, None)
        self.unbind()
        self.arrays[name] = self.memory.allocate(shape, self.layout.dtype, flat=True)
        return self.arrays[name]

    def unbind(self) -> None:
        """Release all arrays that kernels are bound to. Kernels are bound anew at their next launch."""
        self.bindings += 1
        self._bound.clear()
        self._views.clear()
        self._fills.clear()

    def field(self, name: str) -> Allocated:
        """The array `name`. If there is none, one field is allocated."""
        levels = (self.stacks[name],) if name in self.stacks else ()
        return self.arrays[name] if name in self.arrays else self.allocate(name, (*levels, *self.storage(name)))

    def storage(self, name: str) -> tuple[int, ...]:
        """Shape of the storage of a field, or of a level of a ring."""
        return self.sparse[name].storage if name in self.sparse else self.layout.storage

    def field_bytes(self, name: str) -> int:
        """Bytes of a field, or of a level of a ring."""
        return self.sparse[name].nbytes if name in self.sparse else self.layout.nbytes

    def table_bytes(self) -> int:
        """Bytes of the tables with the storage and the regions of sparse fields."""
        return sum(sparse.table.nbytes + sparse.inside.nbytes for sparse in set(self.sparse.values()))

    def put(self, name: str, values: Array) -> None:
        """Write an array that is no field (a profile, a stream). Allocate it if there is none of its shape."""
        if name not in self.arrays or tuple(self.arrays[name].shape) != values.shape:
            self.arrays[name] = self.memory.allocate(values.shape, self.layout.dtype)
            self.unbind()
        self.memory.write(self.arrays[name], values)

    def put_slim(self, name: str, values: Array | None, steps: int = 1) -> None:
        """Write a slim field with its halo, shape (steps, ...) if it is a series; None: zero. Allocate it if necessary."""
        slim, layout = self.slim[name], self.layout
        shape = (*((steps,) if slim.series else ()), *layout.slim_storage(slim))
        if math.prod(shape) >= 2**31:
            raise PlanError(
                f"{name} has {math.prod(shape)} values in all steps, more than the 2^31 that a kernel can count; take fewer steps"
            )
        if name not in self.arrays or tuple(self.arrays[name].shape) != (shape or (1,)):
            self.allocate(name, shape or (1,))

        def write(stored: Array) -> None:
            stored.fill(0)
            if values is not None:
                layout.slim_extended(slim, stored)[...] = values
                layout.go_on(slim, stored)

        self.memory.fill(self.arrays[name], None, write)

    def slim_cells(self, name: str) -> Array:
        """The values of a slim field, without its halo: a view on the host, a copy from a GPU."""
        return self.layout.slim_cells(self.slim[name], self.memory.read(self.arrays[name]))

    def clear(self, name: str, level: int | None = None) -> None:
        """Set a field, or a level of a ring, to zero."""
        array = self.field(name)
        if isinstance(array, np.ndarray):
            (array if level is None else array[level]).fill(0)
        else:
            self.memory.clear(array, level)

    def put_field(self, name: str, cells: Array, rules: Rules, level: int | None = None) -> None:
        """Write the cells of a field, or of a level of a ring, and its halo by the rules. Cells outside of its region are dropped."""
        layout = self.layout
        known, bound = self._fills.get((name, level), (None, None))
        if known is rules and bound:
            self._views[name, level][0][...] = cells
            for part in bound:
                np.add(*part)
            return
        sparse = self.sparse.get(name)
        if self._has_views(name):
            place, extended = self._views_of(name, level)
            place[...] = cells
            extend(extended, layout.halo, rules)
            again = known is rules and bound is None  # only what is written again and again is worth it
            self._fills[name, level] = rules, (fills_of(extended, layout.halo, rules) or []) if again else bound if known is rules else None
            return

        def write(stored: Array) -> None:
            full = stored if sparse is None else np.zeros(layout.storage, layout.dtype)
            layout.cells(full)[...] = cells
            if sparse is not None:
                full[sparse.spread(sparse.inside) == 0] = 0
            extend(layout.extended(full), layout.halo, rules)
            if sparse is not None:
                stored[...] = sparse.gathered(full)

        self.memory.fill(self.field(name), level, write)

    def _has_views(self, name: str) -> bool:
        """True if the cells of a field can be seen in its storage: not on a GPU, nor where it exists in a region alone."""
        return name not in self.sparse and self._threads is not None

    def _views_of(self, name: str, level: int | None) -> tuple[Array, Array]:
        """The cells of a field, or of a level of a ring, and the cells with their halo, as views."""
        views = self._views.get((name, level))
        if views is None:
            stored = self.memory.read(self.field(name), level)
            views = self._views[name, level] = self.layout.cells(stored), self.layout.extended(stored)
        return views

    def pack(self, name: str, where: tuple[slice, ...], into: Array, level: int | None = None) -> None:
        """Copy the values of a part of the cells, in C order, to an array of one dimension. Of a sparse field those are left out that do
        not exist."""
        if name in self.sparse:
            stored = self.memory.read(self.field(name), level).reshape(-1)
            np.take(stored, self.sparse[name].places(where)[1], out=into)
        else:
            part = self.cells(name, level)[where]
            into.reshape(part.shape)[...] = part

    def owned(self, name: str, where: tuple[slice, ...], level: int | None = None) -> Array:
        """The values of a part of the cells: a view, or for a sparse field those that `pack` gives."""
        if name not in self.sparse:
            return self.cells(name, level)[where]
        values = np.empty(self.packed_size(name, where), self.layout.dtype)
        self.pack(name, where, values, level)
        return values

    def packed_size(self, name: str, where: tuple[slice, ...]) -> int:
        """The number of values that `pack` gives."""
        return len(self.sparse[name].places(where)[0]) if name in self.sparse else math.prod(along.stop - along.start for along in where)

    def unpack(self, name: str, parts: Sequence[tuple[tuple[slice, ...], Array]], rules: Rules, level: int | None = None) -> None:
        """Write some parts of the cells, as `pack` gives them, and the halo by the rules."""
        array, layout, sparse = self.field(name), self.layout, self.sparse.get(name)
        if not isinstance(array, np.ndarray) or (sparse is not None and any(map(fills, rules))):
            cells = self.cells(name, level)  # a copy
            for where, values in parts:
                part = cells[where]
                flat = part.reshape(-1)  # a copy unless the part is contiguous
                flat[slice(None) if sparse is None else sparse.places(where)[0]] = values
                cells[where] = flat.reshape(part.shape)
            self.put_field(name, cells, rules, level)
        elif sparse is not None:
            stored = self.memory.read(array, level).reshape(-1)
            for where, values in parts:
                stored[sparse.places(where)[1]] = values
        else:
            stored = self.memory.read(array, level)
            for where, values in parts:
                part = layout.cells(stored)[where]
                part[...] = values.reshape(part.shape)
            if any(map(fills, rules)):  # else there is 0 beyond all sides, as before
                extend(layout.extended(stored), layout.halo, rules)

    def cells(self, name: str, level: int | None = None) -> Array:
        """The cells of a field, without its halo: a view on the host, a copy from a GPU or of a sparse field."""
        if self._has_views(name):
            return self._views_of(name, level)[0]
        stored = self.memory.read(self.field(name), level)
        return self.layout.cells(self.sparse[name].spread(stored) if name in self.sparse else stored)

    def kept(self, name: str, level: int) -> Array:
        """The values that a saved level of a ring needs: the cells, or the stored values of a sparse field. A view on the host."""
        return self.memory.read(self.field(name), level) if name in self.sparse else self.cells(name, level)

    def put_kept(self, name: str, values: Array, rules: Rules, level: int) -> None:
        """Write the values that `kept` returned."""
        if name in self.sparse:
            self.memory.write(self.field(name), values, level)
        else:
            self.put_field(name, values, rules, level)

    def put_strips(self, strips: Mapping[str, IntArray], steps: int) -> None:
        """Replace the kept tiles by name, and allocate memory for `steps` steps of them. Tiles that are left out are freed.

        Memory of the right size is reused: touching new memory costs more than all work on it.
        """
        if not (strips or self.strips):
            return
        lanes = (self.layout.lanes,) if self.layout.lanes > 1 else ()
        shapes = {name: (count, *lanes) for name, count in strip_rows(strips, steps).items()}
        self.unbind()
        present = {name: tuple(self.arrays[name].shape) for name in self.strips if name in self.arrays}
        self.strips = dict(strips)  # set before the allocation: if that fails, the allocated arrays are known and freed
        if present != shapes:
            for name in present:
                del self.arrays[name]
            for name, shape in shapes.items():
                self.allocate(name, shape)

    def nbytes(self, name: str) -> int:
        """Bytes of an array."""
        return math.prod(self.arrays[name].shape) * self.layout.dtype.itemsize

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
        return WorkerKernel(program, self.graph, self.fields, workers or threads)

    def text_of(self, program: Program) -> str:
        """The source of a program, with a line for each call of a function on the host."""
        texts = []
        for part in program.parts() if any(program.calls) else [program]:
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
                {array: table_offset(program, array) for array in program.entries},
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
        if program.name not in self._parts:
            self._parts[program.name] = program.parts()
        parts = self._parts[program.name]
        most = self._launches(program).most
        for done in range(0, steps, most):
            count, start = min(steps - done, most), first + program.direction * done
            levels = tables(done, count)
            for part in parts:
                if isinstance(part, Program):
                    self._describe(part, self._launches(part), start, count, levels)
            for t in range(count):
                for part in parts:
                    if isinstance(part, Program):
                        self._one_step(part, t)
                    elif part.total is not None:
                        self._add_rows(part, part.total, start + program.direction * t)
                    else:
                        with errors_of(part, start + program.direction * t):
                            self._call(part, program, {name: table[t:] for name, table in levels.items()})

    def _one_step(self, program: Program, t: int) -> None:
        known = self._launches(program)
        if isinstance(known.control, np.ndarray):
            self._launch(program, known, t + 1, t)
        else:
            self._kernel(program, 1)(t)

    def _call(self, call: HostCall, program: Program, levels: Mapping[str, IntArray]) -> None:
        """Call a host function. `levels` has the levels of this step, for each ring."""

        def level(place: Place) -> int | None:
            if place.level is None or place.array not in levels:  # the arrays of a loop have fixed levels, and no table
                return place.level
            return int(levels[place.array][place.level])

        arguments = []
        for place in (program.places[name] for name in call.inputs):
            arguments.append(self.cells(place.array, level(place)).view())
            arguments[-1].flags.writeable = False
        for written, cells in zip(call.outputs, self.outside(call.function)(*arguments), strict=True):
            self.put_field(written.target.array, cells, written.rules, level(written.target))

    def _add_rows(self, call: HostCall, total: Total, step: int) -> None:
        """Let a host function add up the totals of rows, in one step."""
        (number,), values = call.function(self.slim_cells(total.source)), self.slim_cells(total.target)
        at: int | tuple[()] = step if total.slim.series else ()
        values[at] = values[at] + number if total.accumulate else number

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
                self._bound[key] = self._bind(key, self.source_of(program, workers, wavefront), self._launches(program).control, workers)
        return self._bound[key]

    def _bind(self, key: tuple[str, int, Wavefront | None], kernel: Kernel, control: Allocated, workers: int) -> BoundKernel:
        if key not in self._compiled:
            self._compiled[key] = kernel.compile()
        own: dict[str, Callable[[], object]] = {"control": lambda: control, "rolled": lambda: self._rolled(kernel)}
        arguments = [own[a.kind]() if a.kind in own else self._argument(a, workers) for a in kernel.arguments]
        plain = [a.data if isinstance(a, DeviceArray) else a for a in arguments]
        if isinstance(kernel, DeviceKernel):
            most = backend().most_arrays
            if most is not None and kernel.most_arrays > most:
                raise BackendError(
                    f"a loop over the cells uses {kernel.most_arrays} arrays, expected at most {most} on arch {settings().arch!r}, where "
                    "drivers take wrong ones beyond; give arch='cpu' or arch='cuda' to diffsim.init"
                )
            plain.append(0)
        return BoundKernel(self._compiled[key], plain)

    def _rolled(self, kernel: Kernel) -> object:
        """Memory for the values that a kernel keeps. Kernels run one after the other, so they share it."""
        size = kernel.rolled_tiles * self.layout.lanes
        if self._scratch is None or self._scratch.shape[0] < size:
            self._scratch = self.memory.allocate((size,), self.layout.dtype, flat=True)
        return self.memory.flat(self._scratch, self.layout.lanes)

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
