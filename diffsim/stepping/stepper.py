"""A traced step with its storage and kernels: what a checkpointing schedule drives.

The stepper holds one working state. It can be advanced, recorded, saved, loaded and reversed; saving and loading move
no data (`diffsim.stepping.levels`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.errors import ShapeError, StaleValueError
from diffsim.expr.evaluate import evaluate, pad
from diffsim.expr.graph import Node, Offset, reads
from diffsim.field import Layout
from diffsim.runtime import BoundKernel, check_generation, lanes, settings
from diffsim.stepping.adjoint import Adjoint, adjoint_program, bar
from diffsim.stepping.device import UNROLL, DeviceKernel
from diffsim.stepping.forward import forward_program, receiver_points, receiver_stream, ring_depths, source_points, source_stream
from diffsim.stepping.kernel import BARRIER, CAPACITY, FIRST, STEPS, Argument, Kernel, control_size, table_offset
from diffsim.stepping.levels import Ring
from diffsim.stepping.memory import memory
from diffsim.stepping.pace import Pace
from diffsim.stepping.points import PointTable
from diffsim.stepping.program import Nest, Place, Program
from diffsim.stepping.residuals import recorded_programs
from diffsim.stepping.trace import TracedStep, profile_array
from diffsim.stepping.workers import WorkerKernel, slab_bounds
from diffsim.typing import Array


class Stepper:
    """Kernels and storage of a step on the present arch.

    Args:
        step: the traced step.
        points: table of each point set that the programs name (`source_points`, `receiver_points`).
        records: states that are sampled at receivers.
        dtype: np.float32 or np.float64.
        differentiable: whether `reverse` will be wanted.
    """

    def __init__(
        self, step: TracedStep, points: Mapping[str, PointTable], records: Sequence[str], dtype: np.dtype, differentiable: bool = True
    ) -> None:
        self.step, self.points, self.records, self.dtype = step, dict(points), tuple(records), np.dtype(dtype)
        self.generation = settings().generation
        self.delays, self.depths = step.delays(), ring_depths(step)
        for state in records:
            if state not in self.depths:
                raise ShapeError(f"receivers record {state}, which is an earlier value of {self.delays[state][0]}; record that one")
        self.forward = forward_program(step, records)
        self.adjoint: Adjoint | None = adjoint_program(step, records) if differentiable else None
        self.recorded = recorded_programs(step, self.forward, self.adjoint) if self.adjoint else None
        """Programs for records, where they are better than those for states."""
        programs = self._programs()
        self.reach = _reach(programs)
        ndim = step.grid.ndim
        halo = tuple(max((r[axis] for r in self.reach.values()), default=0) for axis in range(ndim))
        self._check_halo(halo)
        self.layout = Layout(step.grid.shape, halo, lanes(dtype), self.dtype)
        self.memory = memory()
        self.arrays: dict[str, Any] = {}
        self.kernels: dict[tuple[str, int], tuple[BoundKernel, Kernel, Any]] = {}
        self.pace = {program.name: Pace(settings().threads if settings().arch == "cpu" else 1) for program in programs}
        self.in_place = {p.name: {a: _in_place(p, a) for a in p.entries} for p in programs}
        self.needs_primal = bool(self.adjoint) and any(a in self.depths for a in self.adjoint.program.arrays())
        """Whether the adjoint reads the states of the forward run; a linear step with fixed coefficients does not."""
        self.rings: dict[str, Ring] = {}
        self.bars: dict[str, Ring] = {}
        self.streams: dict[str, Any] = {}
        self._extended: dict[str, Array] = {}
        self._write_profiles()

    def _check_halo(self, halo: tuple[int, ...]) -> None:
        grid = self.step.grid
        for axis, (n, h) in enumerate(zip(grid.shape, halo, strict=True)):
            if n < h:
                raise ShapeError(
                    f"the grid has {n} cells along {grid.axes[axis]}, fewer than the stencil's reach of {h}; enlarge it or lower the order"
                )

    # memory

    def plan(self, slots: int, recorded: int) -> None:
        """Make room for `slots` saved states and a record of `recorded` steps; keeps what is large enough."""
        kept = recorded if self.needs_primal and not self.recorded else 0
        needs = {name: self._levels(name, slots, kept) for name in self.depths}
        for name in self.recorded.names if self.recorded else ():
            if name not in self.arrays or self.arrays[name].shape[0] < recorded:
                self._allocate(name, (max(recorded, 1), *self.layout.storage))
        for name, capacity in needs.items():
            if name not in self.rings or self.rings[name].capacity < capacity:
                self.rings[name] = Ring(self.depths[name], self.in_place["forward"][name], capacity)
                self._allocate(name, (capacity, *self.layout.storage))
        if self.adjoint:
            for name, depth in self.adjoint.depths.items():
                if name not in self.bars:
                    in_place = self.in_place[self.adjoint.program.name][name]
                    self.bars[name] = Ring(depth, in_place, Ring.working_levels(depth, in_place))
                    self._allocate(name, (self.bars[name].capacity, *self.layout.storage))

    def _levels(self, name: str, slots: int, recorded: int) -> int:
        return slots * self.depths[name] + Ring.working_levels(self.depths[name], self.in_place["forward"][name]) + recorded

    def state_bytes(self) -> int:
        """Bytes of one saved state."""
        return sum(self.depths.values()) * self.layout.nbytes

    def recorded_bytes(self) -> int:
        """Bytes that each step of a record keeps: none if the adjoint needs no states."""
        if not self.needs_primal:
            return 0
        return len(self.recorded.names if self.recorded else self.depths) * self.layout.nbytes

    def working_bytes(self) -> int:
        """Bytes of everything else: the working state, cotangents, coefficients and their gradients, intermediate fields."""
        levels = sum(self._levels(name, 0, 0) for name in self.depths)
        if self.adjoint:
            levels += sum(Ring.working_levels(d, self.in_place["adjoint"][b]) for b, d in self.adjoint.depths.items())
        plain = {a for program in self._programs() for a in program.arrays()} - {*self.depths, *self.step.profiles}
        plain -= set(self.recorded.names if self.recorded else ())
        return (levels + len(plain - {*(self.adjoint.depths if self.adjoint else ())})) * self.layout.nbytes

    def allocated_bytes(self) -> int:
        """Bytes of all field storage now."""
        return sum(math.prod(a.shape) * self.dtype.itemsize for name, a in self.arrays.items() if name not in self.step.profiles)

    def _programs(self) -> list[Program]:
        more = [self.recorded.forward, self.recorded.adjoint] if self.recorded else []
        return [self.forward] + ([self.adjoint.program] if self.adjoint else []) + more

    def _allocate(self, name: str, shape: tuple[int, ...]) -> None:
        self.arrays[name] = self.memory.allocate(shape, self.dtype)
        self.kernels.clear()

    def _field(self, name: str) -> Any:
        if name not in self.arrays:
            self._allocate(name, self.layout.storage)
        return self.arrays[name]

    def _write_profiles(self) -> None:
        layout = self.layout
        for name, profile in self.step.profiles.items():
            values = profile_array(profile, self.step.grid, layout.halo, self.dtype)
            shape = list(values.shape)
            self._extended[name] = values.reshape([shape[0] if axis == profile.axis else 1 for axis in range(self.step.grid.ndim)])
            if profile.axis == self.step.grid.ndim - 1:
                stored = np.zeros(layout.stride * layout.lanes, self.dtype)
                first = layout.halo_tiles * layout.lanes - layout.halo[-1]
                stored[first : first + len(values)] = values
                values = stored.reshape(-1, layout.lanes) if layout.lanes > 1 else stored
            self.arrays[name] = self.memory.allocate(values.shape, self.dtype)
            self.memory.write(self.arrays[name], values)

    # input and output

    def move(self, points: Mapping[str, PointTable]) -> None:
        """Exchange point tables. They are arguments of the kernels, so that these are bound anew but not compiled anew."""
        self.points |= points
        self.kernels.clear()

    def set_coefficients(self, values: Mapping[str, Array]) -> None:
        """Coefficients over the cells; their halos follow their boundary rules."""
        for name, placed in self.step.coefficients.items():
            self._extended[name] = extended = pad(np.ascontiguousarray(values[name], self.dtype), self.layout.halo, placed.rules)
            self.memory.write(self._field(name), self._stored(extended))

    def _stored(self, extended: Array) -> Array:
        stored = np.zeros(self.layout.storage, self.dtype)
        self.layout.extended(stored)[...] = extended
        return stored

    def start(self, states: Mapping[str, Array], amplitudes: Mapping[str, Array], steps: int) -> None:
        """Set the state before step 0, the forcings' amplitudes (shape (steps, points)), and clear the records."""
        check_generation(self.generation)
        self.steps, self._residuals = steps, range(0)
        for ring in self.rings.values():
            ring.clear()
        for name, (primary, late) in self.delays.items():
            level = self.rings[primary].working[self.depths[primary] - 1 - late]
            padded = pad(np.ascontiguousarray(states[name], self.dtype), self.layout.halo, self.step.states[name].rules)
            self.memory.write(self.arrays[primary], self._stored(padded), level)
        for forcing in self.step.forcings:
            self._set_stream(source_stream(forcing), np.ascontiguousarray(amplitudes[forcing], self.dtype))
        for state in self.records:
            trace = np.zeros((steps + 1, self.points[receiver_points(state)].count), self.dtype)
            trace[0] = self.points[receiver_points(state)].gather(np.asarray(states[state], self.dtype))
            self._set_stream(receiver_stream(state), trace)

    def _set_stream(self, name: str, values: Array) -> None:
        if name not in self.streams or tuple(self.streams[name].shape) != values.shape:
            self.streams[name] = self.memory.allocate(values.shape, self.dtype)
            self.kernels.clear()
        self.memory.write(self.streams[name], values)

    def _level(self, array: str, level: int) -> Array:
        return self.memory.read(self.arrays[array], level)

    def state(self) -> dict[str, Array]:
        """Copies of the working state's fields, over the cells."""
        out = {}
        for name, (primary, late) in self.delays.items():
            level = self.rings[primary].working[self.depths[primary] - 1 - late]
            out[name] = self.layout.cells(self._level(primary, level)).copy()
        return out

    def traces(self) -> dict[str, Array]:
        """What the receivers recorded, shape (steps + 1, receivers) a state."""
        return {state: self.memory.read(self.streams[receiver_stream(state)]).copy() for state in self.records}

    def seed(self, final: Mapping[str, Array], traces: Mapping[str, Array]) -> None:
        """Start the reverse sweep: cotangents of the final state (states left out count as zero) and of the records."""
        if self.adjoint is None:
            raise StaleValueError("this stepper was built without its adjoint; build it with differentiable=True")
        check_generation(self.generation)
        for state in self.records:
            shape = (self.steps + 1, self.points[receiver_points(state)].count)
            bars = np.zeros(shape, self.dtype) if state not in traces else np.ascontiguousarray(traces[state], self.dtype)
            self._set_stream(bar(receiver_stream(state)), bars)
        for forcing in self.step.forcings:
            self._set_stream(bar(source_stream(forcing)), np.zeros((self.steps, self.points[source_points(forcing)].count), self.dtype))
        for name in self.step.active:
            self.memory.write(self._field(bar(name)), np.zeros(self.layout.storage, self.dtype))
        self._pending: dict[str, dict[int, Array]] = {}
        blank = np.zeros(self.layout.storage, self.dtype)
        for name in self.adjoint.depths:
            ring = self.bars[name]
            ring.clear()
            for level in ring.working[:-1]:
                self.memory.write(self.arrays[name], blank, level)
        for state, (primary, late) in self.delays.items():
            value = np.zeros(self.step.grid.shape, self.dtype)
            if state in final:
                value += final[state]
            if state in self.records:
                self.points[receiver_points(state)].scatter(
                    np.asarray(traces[state][-1], self.dtype)
                    if state in traces
                    else np.zeros(self.points[receiver_points(state)].count, self.dtype),
                    value,
                )
            if state in self.adjoint.delayed:
                if value.any():
                    self._pending.setdefault(primary, {})[late] = value
            else:
                self._write_bar(bar(state), value)

    def _write_bar(self, name: str, cells: Array) -> None:
        rules: tuple[Any, ...] = ("zero",) * cells.ndim
        self.memory.write(self.arrays[name], self._stored(pad(cells, self.layout.halo, rules)), self.bars[name].working[-1])

    def cotangents(self) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
        """After the sweep: cotangents of the initial state, of the coefficients, and of the forcings' amplitudes."""
        assert self.adjoint is not None
        states = {}
        for state, (primary, late) in self.delays.items():
            if state not in self.adjoint.delayed:
                states[state] = self._bar(bar(state), 0).copy()
                continue
            total = np.zeros(self.step.grid.shape, self.dtype)
            for other, (its_primary, its_late) in self.delays.items():
                if its_primary == primary and its_late >= late:
                    total += self._evaluate_delayed(other, 1 + its_late - late)
            for pending_late, value in self._pending.get(primary, {}).items():
                if pending_late == late:
                    total += value
            states[state] = total
        coefficients = {name: self.layout.cells(self.memory.read(self._field(bar(name)))).copy() for name in sorted(self.step.active)}
        amplitudes = {f: self.memory.read(self.streams[bar(source_stream(f))]).copy() for f in self.step.forcings}
        return states, coefficients, amplitudes

    def _bar(self, name: str, later: int) -> Array:
        """Cotangent of a state `later` steps after the present one, over the cells."""
        ring = self.bars[name]
        return self.layout.cells(self._level(name, ring.working[ring.depth - 1 - later]))

    def _evaluate_delayed(self, state: str, later: int) -> Array:
        assert self.adjoint is not None
        node = self.adjoint.delayed[state]
        fields = dict(self._extended)
        for name in reads([node]):
            if name in self.adjoint.depths:
                fields[name] = pad(self._bar(name, later), self.layout.halo, ("zero",) * self.step.grid.ndim)
        return evaluate([node], fields, self.step.grid.shape, self.layout.halo)[0].astype(self.dtype)

    # the protocol of schedules

    def save(self, step: int, slot: int) -> None:
        for ring in self.rings.values():
            ring.save(slot)

    def load(self, step: int, slot: int) -> None:
        for ring in self.rings.values():
            ring.load(slot)

    def free(self, slot: int) -> None:
        for ring in self.rings.values():
            ring.release(slot)

    def advance(self, start: int, stop: int) -> None:
        """Advance the working state from step `start` to `stop`."""
        self._sweep(self.forward, start, stop - start, lambda done, count: {name: ring.advance(count) for name, ring in self.rings.items()})

    def record(self, start: int, stop: int) -> None:
        """The same, keeping every state that the adjoints of these steps need."""
        if not self.needs_primal:
            return self.advance(start, stop)
        if self.recorded:
            names, self._residuals = self.recorded.names, range(start, stop)

            def levels(done: int, count: int) -> dict[str, Array]:
                mine = np.arange(done, done + count, dtype=np.int32)
                return {name: ring.advance(count) for name, ring in self.rings.items()} | dict.fromkeys(names, mine)

            return self._sweep(self.recorded.forward, start, stop - start, levels)
        tables = {name: ring.record(stop - start, start) for name, ring in self.rings.items()}

        def cut(done: int, count: int) -> dict[str, Array]:
            return {name: table[done : done + count + self.depths[name]] for name, table in tables.items()}

        self._sweep(self.forward, start, stop - start, cut)

    def reverse(self, start: int, stop: int) -> None:
        """Adjoints of steps stop - 1 down to start, from a record, or of one step from the working state."""
        assert self.adjoint is not None
        program = self.adjoint.program
        if self.recorded and stop - 1 in self._residuals:
            program = self.recorded.adjoint
        recorded = any(ring.recorded for ring in self.rings.values())

        def primal(last: int, count: int) -> dict[str, Array]:
            if not self.needs_primal:
                return {}
            if self.recorded and program is self.recorded.adjoint:
                first = last - 1 - self._residuals.start
                return dict.fromkeys(self.recorded.names, np.arange(first, first - count, -1, dtype=np.int32))
            if recorded:
                return {name: ring.recorded_before(last, count) for name, ring in self.rings.items()}
            return {name: np.array(ring.working[::-1], np.int32) for name, ring in self.rings.items()}

        def tables(done: int, count: int) -> dict[str, Array]:
            return primal(stop - done, count) | {name: ring.advance(count) for name, ring in self.bars.items()}

        while self._pending and stop > start:  # cotangents of delayed final states enter one step at a time
            self._sweep(program, stop - 1, 1, tables)
            stop -= 1
            self._add_pending()
        self._sweep(program, stop - 1, stop - start, tables)
        self._residuals = range(0)
        for ring in self.rings.values():
            ring.drop_record()

    def _add_pending(self) -> None:
        for primary, waiting in list(self._pending.items()):
            value = waiting.pop(1, None)
            if value is not None:
                self._write_bar(bar(primary), self._bar(bar(primary), 0) + value)
            self._pending[primary] = {late - 1: v for late, v in waiting.items()}
            if not self._pending[primary]:
                del self._pending[primary]

    # launches

    def _sweep(self, program: Program, first: int, steps: int, tables: Any) -> None:
        """Launch `program` for `steps` steps from index `first`, a bounded time a launch."""
        done, pace = 0, self.pace[program.name]
        while done < steps:
            count = min(steps - done, pace.steps(), CAPACITY)
            kernel, source, control = self._kernel(program, pace.workers())
            values = np.zeros(control_size(program), np.int32) if not isinstance(control, np.ndarray) else control
            values[STEPS], values[FIRST], values[BARRIER] = count, first + program.direction * done, 0
            for name, table in tables(done, count).items():
                if name in program.entries:
                    offset = table_offset(program, name)
                    values[offset : offset + len(table)] = table
            begin = time.perf_counter()
            if isinstance(control, np.ndarray):
                kernel()
            else:
                self.memory.write(control, values)
                for t in range(0, count, UNROLL):
                    kernel(t)
            pace.note(count, time.perf_counter() - begin)
            done += count

    def _kernel(self, program: Program, workers: int) -> tuple[BoundKernel, Kernel, Any]:
        key = (program.name, workers)
        if key not in self.kernels:
            kernel = self.source_of(program, workers)
            control = self.memory.allocate((control_size(program),), np.int32)
            arguments = [self._argument(argument, control, workers) for argument in kernel.arguments]
            if isinstance(kernel, DeviceKernel):
                arguments.append(0)
            self.kernels[key] = (BoundKernel(self._compiled(kernel, key), arguments), kernel, control)
        return self.kernels[key]

    def _compiled(self, kernel: Kernel, key: tuple[str, int]) -> Any:
        cache: dict[tuple[str, int], Any] = self.__dict__.setdefault("_taichi_kernels", {})
        if key not in cache:
            cache[key] = kernel.compile()
        return cache[key]

    def source_of(self, program: Program, workers: int) -> Kernel:
        """The kernel of a program, as source."""
        common = (program, self.step.graph, self.layout, self.reach, self.step.profiles)
        return WorkerKernel(*common, workers) if settings().arch == "cpu" else DeviceKernel(*common)

    def _argument(self, argument: Argument, control: Any, workers: int) -> Any:
        match argument.kind:
            case "control":
                return control
            case "ring" | "field" | "profile":
                return self._field(argument.key)
            case "stream":
                return self.streams[argument.key]
        table = self.points[argument.key]
        if argument.kind.startswith("point"):
            found = {"point starts": table.starts, "point cells": self._stored_cells(table.cells), "point weights": table.weights}[
                argument.kind
            ]
        else:
            cells, starts, members, weights = table.by_cell
            slabs = np.searchsorted(cells[:, 0] if cells.shape[1] > 1 else np.zeros(len(cells)), slab_bounds(self.layout.rows[0], workers))
            slabs[-1] = len(cells)
            found = {"cells": self._stored_cells(cells), "starts": starts, "members": members, "weights": weights, "slabs": slabs}[
                argument.kind
            ]
        array = self.memory.allocate(found.shape, self.dtype if "weights" in argument.kind else np.int32)
        self.memory.write(array, found.astype(self.dtype if "weights" in argument.kind else np.int32))
        return array

    def _stored_cells(self, cells: Array) -> Array:
        """Cells as row indices in storage and a padded position along the last axis."""
        layout = self.layout
        shift = [*layout.halo[:-1], layout.halo_tiles * layout.lanes]
        out = cells + np.array(shift)
        return np.concatenate([np.zeros((len(out), 1), out.dtype), out], axis=1) if len(shift) == 1 else out


def _reach(programs: Sequence[Program]) -> dict[str, tuple[int, ...]]:
    out: dict[str, tuple[int, ...]] = {}
    for program in programs:
        for array, reach in program.reach().items():
            out[array] = tuple(map(max, out.get(array, reach), reach))
    return out


def _in_place(program: Program, array: str) -> bool:
    """Whether the new level of a ring may overwrite the oldest: that one is read at the same cell only, and not after it is written."""
    written = False
    for operation in program.operations:
        nodes = [a.node for a in operation.assigns] if isinstance(operation, Nest) else [operation.node]
        later = [n for a in operation.assigns for n in a.scatter.values()] if isinstance(operation, Nest) else []
        here = _offsets_of_oldest(program, array, nodes)
        if isinstance(operation, Nest):
            now = any(a.target.array == array for a in operation.assigns)
        else:
            now = False
        if (written and here) or any(any(o) for o in here) or ((written or now) and _offsets_of_oldest(program, array, later)):
            return False
        written = written or now
    return True


def _offsets_of_oldest(program: Program, array: str, nodes: list[Node]) -> set[Offset]:
    return {o for name, offsets in program.reads(nodes).items() if program.places.get(name) == Place(array, 0) for o in offsets}
