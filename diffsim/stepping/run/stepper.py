"""A traced step with its states, which a checkpointing schedule drives.

The stepper holds one working state. It can be advanced, recorded, saved, loaded and reversed. Saving and loading move
no data (`diffsim.stepping.ir.levels`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from diffsim.base import buffers
from diffsim.base.system import without_collection
from diffsim.boundary import extend, zero_rules
from diffsim.engine import check_generation, settings
from diffsim.errors import ScheduleError, ShapeError
from diffsim.stepping.declare.points import PointTable
from diffsim.stepping.derive.forward import receiver_points, receiver_stream, ring_depths, source_stream
from diffsim.stepping.derive.programs import Programs
from diffsim.stepping.derive.undo import why_not
from diffsim.stepping.ir.levels import ResidualLevels
from diffsim.stepping.ir.program import Program
from diffsim.stepping.run.backwards import Backwards
from diffsim.stepping.run.cotangents import Cotangents
from diffsim.stepping.run.launcher import Launcher
from diffsim.stepping.run.launches import Tables
from diffsim.stepping.run.looks import bits_of, size_of
from diffsim.stepping.run.rounding import Rounding
from diffsim.stepping.run.storage import Storage
from diffsim.stepping.run.whole import Whole
from diffsim.stepping.stages.repeat import Repeat
from diffsim.stepping.trace.trace import TracedStep, profile_array
from diffsim.typing import Array, IntArray

Before: TypeAlias = Callable[[int], Mapping[str, Sequence[int]]]
"""Steps done -> the levels of the state before the next step, oldest first."""
Recording: TypeAlias = tuple[Program, Tables, Before]
MOST_WHOLES, MOST_STEPS = 16, 2000
"""Numbers of steps for which the levels of whole runs are kept, and the largest of them."""
ERRORS = "errors of rounding"
"""Key of the estimated errors in `cotangent_arrays`."""


class Held(NamedTuple):
    """Steps whose values wait for their adjoints: with residuals or without, and with the levels of these states."""

    steps: range
    residuals: bool
    states: frozenset[str]


class Stepper:
    """A step on the present arch.

    Args:
        step: the traced step.
        points: table of each point set that the programs name (`source_points`, `receiver_points`).
        receivers: states that are sampled at receivers.
        dtype: np.float32 or np.float64.
        differentiable: whether `reverse` will be called.
    """

    _alone = True  # False where other processes have cells too, so that exchanges stand between the steps

    def __init__(
        self, step: TracedStep, points: Mapping[str, PointTable], receivers: Sequence[str], dtype: np.dtype, differentiable: bool = True
    ) -> None:
        self.step, self.receivers, self.dtype = step, tuple(receivers), np.dtype(dtype)
        generation = settings().generation
        self.delays, self.depths = step.delays(), ring_depths(step)
        for state in receivers:
            if state not in self.depths:
                raise ShapeError(f"receivers record {state}, which is an earlier value of {self.delays[state][0]}; record that one")
        with without_collection():
            self.programs = self._programs(differentiable)
        self.forward, self.adjoint, self.with_residuals = self.programs.forward, self.programs.adjoint, self.programs.with_residuals
        self.needs_primal, self.layout = self.programs.needs_primal, self.programs.layout
        self.launcher = Launcher(step.graph, self.programs.stored_fields(), points, generation)
        self._computed_slim = tuple(self.launcher.slim.keys() - step.fixed)
        self.storage = Storage(self.programs, self.launcher)
        self.steps = 0
        self._wholes: dict[int, Whole] = {}  # by their number of steps
        self._whole: Whole | None = None  # of the present run, if it was recorded so and nothing else happened since
        self._held: list[Held] = []  # the newest last
        self._residual_levels = ResidualLevels(0)
        self._undoing: Backwards | None = None  # if the steps of this run will be undone
        self._profiles: dict[str, Array] = {}  # with their halo, for `evaluate`
        self._put_profiles()
        self.cotangents = Cotangents(self.programs, self.launcher, self.storage, self.receivers, self._profiles)

    def _programs(self, differentiable: bool) -> Programs:
        return Programs(self.step, self.receivers, self.dtype, differentiable)

    # input and output

    def _put_profiles(self) -> None:
        layout, ndim = self.layout, self.step.grid.ndim
        for name, profile in self.step.profiles.items():
            values = profile_array(profile, self.step.grid, layout.halo, self.dtype)
            self._profiles[name] = values.reshape([-1 if axis == profile.axis else 1 for axis in range(ndim)])
            self.launcher.put_slim(name, values)

    def move(self, points: Mapping[str, PointTable]) -> None:
        """Put sources and receivers elsewhere."""
        self.launcher.move(points)

    def set_coefficients(self, values: Mapping[str, Array]) -> None:
        """Set the coefficients over the cells. Boundary rules fill their halos."""
        for name, placed in self.step.coefficients.items():
            self.launcher.put_field(name, values[name], placed.rules)

    def start(self, states: Mapping[str, Array], driven: Mapping[str, Array], steps: int, undone: bool = False) -> None:
        """Set the state before step 0 and the driving amplitudes and series, and clear the traces.

        Args:
            states: states over the cells.
            driven: amplitudes of the forcings, shape (steps, points), and series, shape (steps, cells along each of their axes).
            steps: number of steps in the run.
            undone: whether steps will be undone. Then values that cannot be computed backwards are kept.
        """
        check_generation(self.launcher.generation)
        self.storage.require(self.storage.rings)
        self.steps, self._held, self._whole = steps, [], None
        self._residual_levels = ResidualLevels(self.storage.capacity if self._records_residuals else 0)
        for ring in self.storage.rings.values():
            ring.clear()
        for name in self.delays:
            self.launcher.put_field(self.delays[name][0], states[name], self.step.states[name].rules, self._level(name))
        for forcing in self.step.forcings:
            self.launcher.put(source_stream(forcing), np.ascontiguousarray(driven[forcing], self.dtype))
        self._start_slim(driven, steps)
        for state in self.receivers:
            table = self.launcher.points[receiver_points(state)]
            trace = np.zeros((steps + 1, table.count), self.dtype)
            trace[0] = table.gather(self.launcher.cells(state, self._level(state)))
            self.launcher.put(receiver_stream(state), trace)
        self._undoing = self.backwards if undone else None
        if self._rounding is not None:
            self._rounding.begin()
        if self._undoing is not None:
            self._undoing.start({name: self.launcher.cells(name) for name in self.step.coefficients}, steps)
        elif self.launcher.strips:
            self.launcher.put_strips({}, 0)

    def _start_slim(self, driven: Mapping[str, Array], steps: int) -> None:
        """Write the arrays with a value for each step: series with their halos, times, and zeros for numbers that steps compute."""
        layout = self.layout
        for name, placed in self.step.series.items():
            axes = placed.axes or ()
            values = np.zeros((steps, *(layout.shape[a] + 2 * layout.halo[a] for a in axes)), self.dtype)
            values[(slice(None), *(slice(layout.halo[a], layout.halo[a] + layout.shape[a]) for a in axes))] = driven[name]
            none = zero_rules(1)
            extend(values, (0, *(layout.halo[a] for a in axes)), (*none, *(placed.rules[a] for a in axes)))
            self.launcher.put_slim(name, values, steps)
        for name in self.step.clock:
            self.launcher.put_slim(name, np.arange(steps) * (self.step.graph.dt if name == "t" else 1), steps)
        for name in self._computed_slim:
            self.launcher.put_slim(name, None, steps)

    def _level(self, state: str) -> int:
        """The present pool level of a state."""
        primary, late = self.delays[state]
        return self.storage.rings[primary].working[self.depths[primary] - 1 - late]

    def state(self) -> dict[str, Array]:
        """Copies of the working state's fields, over the cells along their axes."""
        cells = {name: self.launcher.cells(self.delays[name][0], self._level(name)) for name in self.delays}
        return {name: buffers.copy(self.step.states[name].of_cells(value)) for name, value in cells.items()}

    def traces(self) -> dict[str, Array]:
        """The traces of the receivers, shape (steps + 1, receivers) for each state."""
        return {state: self._read(receiver_stream(state))[: self.steps + 1] for state in self.receivers}

    def exceeded(self) -> tuple[int, float, int] | None:
        """The first step that needed more laps of a loop than it has: its number from 1, laps that it needed, and those of the loop."""
        each = []
        for loop in self.step.stages:
            if isinstance(loop, Repeat) and loop.number:
                laps = self.launcher.slim_cells(loop.number)[: self.steps]
                if (beyond := laps > loop.count).any():
                    step = int(np.nonzero(beyond)[0][0])
                    each.append((step + 1, float(np.nanmax(laps[step])), loop.count))
        return min(each, default=None)

    def end_at(self, steps: int) -> None:
        """End the run after `steps` steps, fewer than it was started for."""
        self.steps = steps

    def _read(self, stream: str) -> Array:
        return self.launcher.memory.read(self.launcher.arrays[stream]).copy()

    # the protocol of schedules

    def save(self, step: int, slot: int) -> None:
        """Save the working state in a slot."""
        self._whole = None
        for ring in self.storage.rings.values():
            ring.save(slot)

    def load(self, step: int, slot: int) -> None:
        """Make the state in a slot the working state."""
        self._whole = None
        if self._rounding is not None:
            self._rounding.drop(self.storage.rings)
        for ring in self.storage.rings.values():
            ring.load(slot)

    def free(self, slot: int) -> None:
        """Free the state in a slot."""
        for ring in self.storage.rings.values():
            ring.release(slot)

    def advance(self, start: int, stop: int) -> None:
        """Advance the working state from step `start` to `stop`."""
        self._whole = None
        program = self.forward if self._undoing is None else self._undoing.forward

        def sweep() -> None:
            self._sweep(program, start, stop - start, lambda done, count: self._advanced(count), self._working)

        if self._rounding is not None and self._rounding.forked:  # first, so that the working state's traces overwrite its traces
            with self._rounding.second(self.storage.rings):
                sweep()
        sweep()

    def _sweep(self, program: Program, start: int, steps: int, tables: Tables, before: Before, kept: bool = False) -> None:
        """Run a forward program.

        Args:
            program: the program.
            start: number of the first step.
            steps: number of steps.
            tables: see `Launcher.sweep`.
            before: steps done -> the levels of the state then, oldest first.
            kept: whether the adjoints of these steps will read what they keep.
        """
        self.launcher.sweep(program, start, steps, tables)

    def _working(self, done: int) -> dict[str, list[int]]:
        return {name: ring.working for name, ring in self.storage.rings.items()}

    def _advanced(self, count: int) -> dict[str, IntArray]:
        return {name: ring.advance(count) for name, ring in self.storage.rings.items()}

    def record(self, start: int, stop: int) -> None:
        """Advance, and keep the values that the adjoints of these steps need: nothing, residuals, or the states that they read.

        Raises:
            ScheduleError: steps are undone in this run. That needs stored damped cells, which a recorded step does not keep.
        """
        self._require_recordable(start, stop)
        residuals, whole = self._records_residuals, self._whole_of(stop) if start == 0 else None
        if whole is not None and whole.record(self.launcher):
            self._whole = whole
            if residuals:
                self._residual_levels.hold(stop)
        else:
            self._sweep_keeping(self._recording(start, stop), start, stop)
        self._held.append(Held(range(start, stop), residuals, self.programs.read_states[residuals]))

    @property
    def _records_residuals(self) -> bool:
        return self.programs.records_residuals(self.storage.recorded)

    def keep(self, start: int, stop: int) -> None:
        """Advance, and keep every state in free levels if the adjoints need states. The levels of n slots are enough for n states.

        Raises:
            ScheduleError: see `record`.
        """
        self._require_recordable(start, stop)
        if self.needs_primal:
            self._sweep_keeping(self._keeping(start, stop, self.storage.rings), start, stop)
        else:
            self.advance(start, stop)
        self._held.append(Held(range(start, stop), False, frozenset(self.storage.rings if self.needs_primal else ())))

    def _sweep_keeping(self, how: Recording, start: int, stop: int) -> None:
        self._whole = None
        program, tables, before = how
        self._sweep(program, start, stop - start, tables, before, kept=self.needs_primal)

    def _recording(self, start: int, stop: int) -> Recording:
        """The program that records steps, and its levels, which are in use from now on."""
        advanced: Recording = self.forward, lambda done, count: self._advanced(count), self._working
        if not self.needs_primal:
            return advanced
        read = self.programs.read_states[self._records_residuals]
        for name, ring in self.storage.rings.items():
            if name not in read:
                ring.release_end()
        if self.with_residuals is None or not self._records_residuals:
            return self._keeping(start, stop, read)
        names, levels = self.with_residuals.names, self._residual_levels.hold(stop - start)
        _, of_states, before = self._keeping(start, stop, read) if read else advanced

        def residual_levels(done: int, count: int) -> dict[str, IntArray]:
            return {**of_states(done, count), **dict.fromkeys(names, levels[done : done + count])}

        return self.with_residuals.forward, residual_levels, before

    def _keeping(self, start: int, stop: int, names: Collection[str]) -> Recording:
        """The same for steps of which the states with these names are kept. The others advance."""
        rings = self.storage.rings
        tables = {name: ring.hold(stop - start, start) for name, ring in rings.items() if name in names}

        def state_levels(done: int, count: int) -> dict[str, IntArray]:
            kept = {name: table[done : done + count + self.depths[name]] for name, table in tables.items()}
            return {name: kept[name] if name in kept else ring.advance(count) for name, ring in rings.items()}

        def before(done: int) -> Mapping[str, Sequence[int]]:
            kept = {name: table[done : done + self.depths[name]].tolist() for name, table in tables.items()}
            return {name: kept.get(name, ring.working) for name, ring in rings.items()}

        return self.forward, state_levels, before

    def _whole_of(self, steps: int) -> Whole | None:
        """The run of all steps from state 0; None if something is held or saved, or it may be more than one launch."""
        if steps != self.steps or steps > MOST_STEPS or self._held or self._undoing is not None or not self._alone:
            return None
        if any(ring.slots for ring in self.storage.rings.values()):
            return None
        whole = self._wholes.get(steps)
        if whole is not None and whole.fits(self.storage):
            return whole
        if len(self._wholes) >= MOST_WHOLES:
            self._wholes.clear()
        whole = self._wholes[steps] = self._levels_of(steps)
        return whole

    def _levels_of(self, steps: int) -> Whole:
        """The levels of a recorded run from state 0 and of its reverse sweep. The rings are left at state 0."""
        rings, bars = self.storage.rings.values(), self.storage.bars.values()
        start = [(ring, ring.present()) for ring in rings]
        program, tables, _ = self._recording(0, steps)
        forward = dict(tables(0, steps))
        kept = [(ring, ring.present()) for ring in rings]
        for ring in bars:
            ring.clear()
        self._held.append(Held(range(steps), self._records_residuals, self.programs.read_states[self._records_residuals]))
        back = self._levels_back(steps, steps, True)
        self._drop_newest()
        swept = [(ring, ring.present()) for ring in (*bars, *rings)]
        for ring, state in start:
            ring.restore(state)
        return Whole(steps, program, forward, kept, self._adjoint_of(True, self._records_residuals), back, swept)

    def _require_recordable(self, start: int, stop: int) -> None:
        if self._undoing is not None and self._undoing.forward is not self.forward:
            raise ScheduleError(f"steps {start} to {stop} cannot be recorded in a run whose steps are undone; advance them, and undo them")
        if self._rounding is not None and self._rounding.forked:
            raise ScheduleError(
                f"steps {start} to {stop} cannot be recorded from a state that was computed backwards; load a kept one first"
            )

    def reverse(self, start: int, stop: int) -> None:
        """Run the adjoints of steps stop - 1 down to start: those held last, one step from the working state, or both if states are
        kept."""
        assert self.adjoint is not None
        whole, self._whole = self._whole, None
        if whole is not None and start == 0 and stop == whole.steps and not self.cotangents.waiting and whole.reverse(self.launcher):
            self._held.pop()
            if self._records_residuals:
                self._residual_levels.drop_newest()
            return
        steps, residuals, _ = self._held[-1] if self._held else Held(range(0), False, frozenset())
        held = bool(steps) and (steps == range(start, stop) or (not residuals and steps == range(start, stop - 1)))
        if self.needs_primal and stop - start > 1 and not held:
            raise ScheduleError(f"steps {start} to {stop} cannot be reversed at once: they were not recorded; record them, or reverse one")
        program = self._adjoint_of(held, residuals)
        rounding = None if held or self._undoing is None else self._undoing.rounding
        while stop > start:
            # cotangents of delayed final states enter one step at a time, in the first steps of the sweep
            count = 1 if self.cotangents.waiting else stop - start
            adjoint = functools.partial(self._reverse, program, stop, count, held)
            if rounding is not None and rounding.forked and rounding.wants():
                rounding.sample(self.storage.rings, self.storage.bars, start, adjoint)
            else:
                adjoint()
            self.cotangents.enter()
            stop -= count
        if held:
            self._drop_newest()

    def _adjoint_of(self, held: bool, residuals: bool) -> Program:
        assert self.adjoint is not None
        return self.with_residuals.adjoint if self.with_residuals and held and residuals else self.adjoint.program

    def _reverse(self, program: Program, stop: int, count: int, held: bool) -> None:
        self.launcher.sweep(program, stop - 1, count, lambda done, number: self._levels_back(stop - done, number, held))

    def _levels_back(self, stop: int, count: int, held: bool) -> dict[str, IntArray]:
        """Levels that the adjoints of steps stop - 1, stop - 2, ... read and write. Those of cotangents are in use from now on."""
        return self._primal_levels(stop, count, held) | {name: ring.advance(count) for name, ring in self.storage.bars.items()}

    def _drop_newest(self) -> None:
        _, residuals, states = self._held.pop()
        if residuals:
            self._residual_levels.drop_newest()
        for name in states:
            self.storage.rings[name].drop_newest()

    def _primal_levels(self, stop: int, count: int, held: bool) -> dict[str, IntArray]:
        """Levels of the forward run's fields that the adjoints of steps stop - 1, stop - 2, ... read."""
        if not self.needs_primal:
            return {}
        if not held:
            return {name: np.array(ring.working[::-1], np.int32) for name, ring in self.storage.rings.items()}
        steps, residuals, states = self._held[-1]
        levels: dict[str, IntArray] = {}
        if self.with_residuals and residuals:
            levels = dict.fromkeys(self.with_residuals.names, self._residual_levels.held_before(stop - steps.start, count))
        if not states:
            return levels
        for name, ring in self.storage.rings.items():  # the adjoint has a table for each, and reads those that are held
            levels[name] = ring.held_before(stop, count) if name in states else np.zeros(count + ring.depth - 1, np.int32)
        return levels

    # steps run backwards

    @functools.cached_property
    def backwards(self) -> Backwards | None:
        """The object that undoes steps, or None."""
        how = self.programs.undone
        if how is None or any(how.program.in_place(n) != self.forward.in_place(n) for n, depth in self.depths.items() if depth > 1):
            return None
        rules = {name: placed.rules for name, placed in self.step.coefficients.items()}
        return Backwards(how, self.forward, self.launcher, self._profiles, rules, self._second_run())

    def _second_run(self) -> Rounding | None:
        """The object that estimates the effect of the states' rounding errors on the gradient, or None if there is no effect."""
        if self.adjoint is None or not self.needs_primal:
            return None
        carried = sorted(self.adjoint.depths.keys() & self.adjoint.program.affected_by(self.depths))
        rules = {name: self.step.states[name].rules for name in self.depths}
        return Rounding(self.launcher, rules, self.programs.coefficient_bars(), self.cotangents.driven(), carried)

    def undo(self, start: int, stop: int) -> None:
        """Undo the working state from step `stop` to `start`."""
        if self.backwards is None:
            raise ScheduleError(f"this step cannot be undone: {why_not(self.step)}; use another schedule")
        if self._undoing is None:
            raise ScheduleError("expected a run that was started to be undone, got one that was not; let the schedule say so, by `undone`")
        self.backwards.undo(self.storage.rings, start, stop)

    def compare(self, step: int, slot: int) -> None:
        """Compare the working state, which was computed backwards, with the kept state `step`."""
        if self._rounding is not None and self._rounding.forked and self.adjoint is not None:
            adjoint = functools.partial(self._reverse, self.adjoint.program, step + 1, 1, False)
            self._rounding.compare(self.storage.rings, self.storage.bars, slot, step, adjoint)

    def drift(self) -> float:
        """Estimated relative error of the gradient by states that were computed backwards; NaN if a value is NaN."""
        return 0.0 if self._rounding is None else self._rounding.drift(self.storage.rings)

    @property
    def _rounding(self) -> Rounding | None:
        return None if self._undoing is None else self._undoing.rounding

    @property
    def tolerated_drift(self) -> float:
        """Largest allowed drift if the schedule sets none: 1e-3 in f32, 1e-6 in f64."""
        return 1e-3 if self.dtype == np.float32 else 1e-6

    # states outside of this stepper

    def state_arrays(self) -> list[Array]:
        """The working state over the cells, with its earlier values, oldest first. On the host these are views, valid until the stepper
        runs on.

        Halos follow from the cells, and the padding in memory has no meaning. For a state that exists only in a region, the stored values
        are returned.
        """
        return [self.launcher.kept(name, level) for name, ring in self.storage.rings.items() for level in ring.working]

    def compared(self) -> Sequence[Array | IntArray]:
        """Arrays on the host that change if a bit of the working state does: the state itself, or sums of its bits on a GPU."""
        return [bits_of(self.launcher, name, level) for name, ring in self.storage.rings.items() for level in ring.working]

    def state_size(self) -> float:
        """The largest magnitude in the working state; NaN if a value is NaN."""
        sizes = [size_of(self.launcher, name, level) for name, ring in self.storage.rings.items() for level in ring.working]
        return float(np.max(sizes))

    def set_state(self, arrays: Sequence[Array]) -> None:
        """Copy a state from `state_arrays` to the working state."""
        values = iter(arrays)
        for name, ring in self.storage.rings.items():
            for level in ring.renew():
                self.launcher.put_kept(name, next(values), self.step.states[name].rules, level)

    def seed(self, final: Mapping[str, Array], traces: Mapping[str, Array]) -> None:
        """Start the reverse sweep from cotangents of the final state and of the traces. Entries left out count as zero."""
        self.cotangents.seed(final, traces, self.steps)

    def cotangent_size(self) -> float:
        """The largest magnitude in the state's present cotangent."""
        return self.cotangents.largest()

    def cotangent_arrays(self) -> dict[str, Array]:
        """Copies of all values that `reverse` propagates, with the estimated errors of rounding if steps are undone."""
        return self.cotangents.arrays() | ({} if self._rounding is None else {ERRORS: self._rounding.errors.copy()})

    def set_cotangent(self, arrays: Mapping[str, Array]) -> None:
        """Continue from arrays of `cotangent_arrays`, after `seed`."""
        if self._rounding is not None and ERRORS in arrays:
            self._rounding.errors[...] = arrays[ERRORS]
        self.cotangents.put_back({name: values for name, values in arrays.items() if name != ERRORS})

    def input_cotangents(self) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]]:
        """After the sweep: cotangents of the initial state, of the active coefficients, and of amplitudes and series."""
        return self.cotangents.inputs()

    def adjoint_states(self) -> dict[str, Array]:
        """In the sweep: cotangents of the states at the present step, over the cells."""
        return self.cotangents.states()

    def outputs(self) -> list[Array]:
        """The stored traces of the receivers."""
        return [self.launcher.memory.read(self.launcher.arrays[receiver_stream(state)]) for state in self.receivers]
