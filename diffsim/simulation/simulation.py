"""An equation with its sources and receivers: run it, and take derivatives through all of its time steps."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from diffsim.ad.array import Array as DifferentiatedArray
from diffsim.ad.array import core, wrap
from diffsim.ad.core import is_plain
from diffsim.ad.model import apply
from diffsim.ad.ops.structure import astype
from diffsim.arguments import flag, function, instance, mapping, names, one_of, real_array, whole
from diffsim.checkpoint import Action, Binomial, Checkpoint, Lossy, OnlineSchedule, Policy, Schedule, Sizes, parse_memory, resolve
from diffsim.checkpoint.planning.memory import least_text
from diffsim.checkpoint.progress import OnProgress
from diffsim.checkpoint.schedule import require_truth, tiers_of, undone_of
from diffsim.checkpoint.schedules.continued import Continued
from diffsim.checkpoint.stores import found_states, open_stores
from diffsim.errors import DerivativeError, ParameterError, PlanError, StorageError
from diffsim.runtime import PRECISIONS, lanes, settings
from diffsim.simulation.blown_up import CAUSE_OF_GRADIENT
from diffsim.simulation.checks import check_input, check_names, check_room, check_steps, finite_solution, places, require_finite
from diffsim.simulation.loss import Loss, value_and_cotangents
from diffsim.simulation.planning import made_up, sizes_of, undoes
from diffsim.simulation.pullback import Back, Call, RepeatablePullback
from diffsim.simulation.recorded import RecordedRun
from diffsim.simulation.reversal import Reversal, SweepReport, Until
from diffsim.simulation.solution import Pullback, Solution
from diffsim.simulation.suspended import Found, Suspension, copied, require_same_traces, run_key, same
from diffsim.simulation.traced import Traced, trace
from diffsim.simulation.turns import Turn
from diffsim.stepping.declared import check_declared
from diffsim.stepping.equation import Equation
from diffsim.stepping.forward import receiver_points, source_points
from diffsim.stepping.names import dot
from diffsim.stepping.once import Once
from diffsim.stepping.points import PointTable, linear_table
from diffsim.stepping.stepper import Stepper
from diffsim.stepping.trace import TracedStep
from diffsim.stepping.tracing import forcing_location
from diffsim.stepping.undo import why_not
from diffsim.typing import Array


class Simulation:
    """An equation, compiled for the present arch, with point sources and receivers.

    Its inputs are named: the equation's parameters (over the cells along the axes along which they vary), its initial fields (over the
    cells; zero if left out), the amplitudes of its forcings (shape (steps, sources)), and its series (shape (steps, cells along the axes
    along which they vary)).

    Args:
        equation: what is solved.
        sources: forcing -> coordinates, shape (sources, axes), in the grid's units. Between cells the amplitude is
            shared among the neighbours. An amplitude a stands for a density a * delta(x - x_source).
        receivers: state -> coordinates, shape (receivers, axes); values are interpolated linearly.
        wrt: inputs that gradients are wanted for; None: all. Leaving out parameters makes the adjoint cheaper, and a
            linear equation whose parameters are all left out needs no stored states at all.
        precision: "f32" or "f64"; None: the default of `diffsim.init`.

    Attributes:
        last_sweep: what the last gradient took, and what its states went through.

    Raises:
        ShapeError: a source or receiver outside the grid, or a grid smaller than the stencil.
        ParameterError: an unknown forcing, state or precision.
    """

    def __init__(
        self,
        equation: Equation,
        *,
        sources: Mapping[str, npt.ArrayLike] | None = None,
        receivers: Mapping[str, npt.ArrayLike] | None = None,
        wrt: Collection[str] | None = None,
        precision: str | None = None,
    ) -> None:
        precision = settings().precision if precision is None else one_of("precision", precision, PRECISIONS)
        check_declared(equation)
        self._turn = Turn()
        self.equation, self.grid, self.precision = equation, equation.grid, precision
        self.dtype = np.dtype(PRECISIONS[precision])
        sources, receivers = places("sources", sources), places("receivers", receivers)
        check_names("sources", sources, equation.forcings, "forcings")
        check_names("receivers", receivers, equation.states, "states")
        wrt = None if wrt is None else names("wrt", wrt, "['c']")
        traced, wanted = trace(equation, sources, wrt)
        points = {**self._source_tables(traced.step, sources), **self._receiver_tables(traced.step, receivers)}
        self._assemble(traced, points, tuple(receivers), wanted)

    def _assemble(
        self, traced: Traced, points: dict[str, PointTable], receivers: tuple[str, ...], wrt: tuple[str, ...], differentiable: bool = True
    ) -> None:
        """Make ready to run what was traced."""
        self._traced, self._points, self.receivers, self.wrt = traced, points, receivers, wrt
        self._coefficients = Once(traced.coefficients, self.grid, {}, self.dtype)
        self._initial = Once(traced.initial, self.grid, traced.coefficients.placed, self.dtype)
        self._step = traced.step
        self._stepper = Stepper(traced.step, points, receivers, self.dtype, differentiable)
        self._stepper.launcher.outside = self._turn.outside
        self._tangent: Simulation | None = None
        self._runs = 0  # how often what is in the storage was exchanged
        self._waiting: weakref.ref[Reversal] | None = None  # a run whose reverse sweep may still come
        self.last_sweep: SweepReport | None = None

    def tangent(self, differentiable: bool = True) -> Simulation:
        """The same equation with a tangent beside every field: x has `dot(x, order)`, in inputs and in solutions.

        It is a simulation like any other: its run is the derivative of this one's along a direction, its vjp has the second
        derivatives. It is made once and kept.

        Args:
            differentiable: whether its vjp will be wanted, which takes memory for cotangents.
        """
        differentiable = flag("differentiable", differentiable)
        with self._turn:
            if self._tangent is None or (differentiable and self._tangent._stepper.adjoint is None):
                made = Simulation.__new__(Simulation)
                made.equation, made.grid, made.precision, made.dtype = self.equation, self.grid, self.precision, self.dtype
                made._turn = self._turn  # expressions and sources of both are in the same tables
                traced = self._traced.tangent()
                receivers = (*self.receivers, *(dot(s, traced.order) for s in self.receivers))
                wrt = (*self.wrt, *(dot(name, traced.order) for name in self.wrt))
                made._assemble(traced, self._with_tangents(self._points, traced.order), receivers, wrt, differentiable)
                self._tangent = made
            return self._tangent

    def __reduce__(self) -> tuple[Any, ...]:
        """What `pickle` keeps: the equation, points and options. Kernels are compiled anew where it is loaded, storage is not kept."""
        base = len(self.receivers) >> self.order, len(self.wrt) >> self.order
        differentiable = self._stepper.adjoint is not None
        return _loaded, (
            self.equation,
            self.precision,
            self._points,
            self.receivers[: base[0]],
            self.wrt[: base[1]],
            self.order,
            differentiable,
        )

    @property
    def order(self) -> int:
        """How many times tangents were taken: 0 for the equation itself."""
        return self._traced.order

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of all inputs."""
        return (*self._coefficients.traced.inputs, *self._initial.traced.inputs, *self._step.forcings, *self._step.series)

    def input_shape(self, name: str, steps: int) -> tuple[int, ...]:
        """The shape of an input, by name, of a run of so many steps."""
        if name in self._step.forcings:
            return steps, self._points[source_points(name)].count
        placed = (self._step.series | self._coefficients.traced.inputs | self._initial.traced.inputs)[name]
        cells = self.grid.shape if placed.axes is None else tuple(self.grid.shape[axis] for axis in placed.axes)
        return (steps, *cells) if name in self._step.series else cells

    def source(self, kind: Literal["forward", "jvp", "vjp"] = "forward") -> str:
        """The generated kernel, as Taichi source."""
        if one_of("kind", kind, ("forward", "jvp", "vjp")) == "jvp":
            return self.tangent(differentiable=False).source()
        assert self._stepper.adjoint is not None
        program = self._stepper.forward if kind == "forward" else self._stepper.adjoint.program
        return self._stepper.launcher.text_of(program)

    def schedule(self, steps: int, checkpoint: Checkpoint = "auto") -> Schedule | OnlineSchedule:
        """The checkpointing schedule that `vjp` would use."""
        return self._schedule(check_steps(steps), Policy.of(checkpoint), online=False)

    def sizes(self, steps: int, inputs: Mapping[str, npt.ArrayLike] | None = None) -> Sizes:
        """Bytes of all that a gradient of so many steps allocates. The inputs are the caller's and not counted.

        Args:
            steps: time steps.
            inputs: see the class; given them, the strips of damped cells are counted that a run backwards would keep.
        """
        return sizes_of(self, check_steps(steps), None if inputs is None else self._checked(inputs, steps))

    def require_undoable(self) -> None:
        """Raise PlanError unless steps can be run backwards."""
        if self._stepper.backwards is None:
            raise PlanError(
                f'expected a step that can be undone for schedule = "reversible", got one that cannot: {why_not(self._step)}; '
                "choose another schedule"
            )

    def predicted_bytes(self, schedule: Schedule | OnlineSchedule) -> int:
        """Bytes of all fields of a gradient by `schedule`; records and amplitudes, a number a step and point, come on top, and
        so do strips of damped cells, where steps are undone."""
        storage = self._stepper.storage
        instance("schedule", schedule, (Schedule, OnlineSchedule), "a schedule", "take that of simulation.schedule(...)")
        second = storage.second_bytes() if undone_of(schedule) else 0
        return storage.working_bytes() + second + schedule.slots * storage.state_bytes() + schedule.recorded * storage.recorded_bytes()

    def allocated_bytes(self) -> int:
        """Bytes of all fields now; those of `jvp`, and strips of damped cells, are not counted."""
        return self._stepper.storage.allocated_bytes()

    def move(self, sources: Mapping[str, npt.ArrayLike] | None = None, receivers: Mapping[str, npt.ArrayLike] | None = None) -> None:
        """Put sources and receivers elsewhere, without compiling anew: for many shots by one simulation.

        Args:
            sources: forcing -> coordinates; forcings left out keep theirs. Their number may change.
            receivers: state -> coordinates, likewise.

        Raises:
            ShapeError: a source or receiver outside the grid; nothing is moved then.
            ParameterError: a forcing or state that this simulation was built without.
        """
        sources, receivers = places("sources", sources), places("receivers", receivers)
        check_names("sources", sources, self._step.forcings, "forcings with sources")
        check_names("receivers", receivers, self.receivers, "states with receivers")
        tables = {**self._source_tables(self._step, sources), **self._receiver_tables(self._step, receivers)}
        with self._turn:
            self._move(tables)

    @contextmanager
    def placed(self, points: Mapping[str, PointTable]) -> Iterator[None]:
        """Sources and receivers elsewhere for a while."""
        with self._turn:
            now = dict(self._points)
            moved = any(now[name] is not table for name, table in points.items())
            if moved:
                self._move(points)
            try:
                yield
            finally:
                if moved:
                    self._move(now)

    def _move(self, points: Mapping[str, PointTable]) -> None:
        self._give_up_waiting()  # a pullback would read the new places
        self._points |= points
        self._stepper.launcher.move(points)
        if self._tangent is not None:
            self._tangent._move(self._with_tangents(self._points, self._tangent.order))

    def _source_tables(self, step: TracedStep, sources: Mapping[str, npt.ArrayLike]) -> dict[str, PointTable]:
        out = {}
        for f, coordinates in sources.items():
            place = forcing_location(step, f)
            out[source_points(f)] = linear_table(self.grid, place, coordinates, f"source of {f}", density=True)
        return out

    def _receiver_tables(self, step: TracedStep, receivers: Mapping[str, npt.ArrayLike]) -> dict[str, PointTable]:
        states = step.states
        return {receiver_points(s): linear_table(self.grid, states[s].location, c, f"receiver of {s}") for s, c in receivers.items()}

    def _with_tangents(self, points: Mapping[str, PointTable], order: int) -> dict[str, PointTable]:
        """Point tables of the tangent: it has the same places as its primal."""
        sources = {source_points(dot(f, order)): points[source_points(f)] for f in self._step.forcings}
        return {**points, **sources, **{receiver_points(dot(s, order)): points[receiver_points(s)] for s in self.receivers}}

    def run(
        self,
        inputs: Mapping[str, Any],
        steps: int,
        every: int = 0,
        watch: Callable[[int, dict[str, Array]], None] | None = None,
        checkpoint: Checkpoint = "auto",
        until: Until | None = None,
    ) -> Solution:
        """Solve forward. Inside a differentiated function (`diffsim.grad` and the like) it is one operation of the record.

        Args:
            inputs: arrays by name, see the class. Those that are differentiated for must be in `wrt`.
            steps: time steps, or the most there may be.
            every: call `watch`, and ask `until`, after each `every` steps; 0: never watch, and ask after each step.
            watch: is given the number of steps done and the states then; not while the run is differentiated.
            checkpoint: of the reverse sweep, if it is differentiated; see `vjp`.
            until: (steps done, states) -> whether the run is over; its traces then have that many steps.
        """
        steps, every, policy = check_steps(steps), whole("every", every, 0), Policy.of(checkpoint)
        function("watch", watch, "lambda done, states: ...")
        function("until", until, "lambda done, states: bool(states['p'].max() > 1)")
        if any(isinstance(value, DifferentiatedArray) for value in mapping("inputs", inputs, "{'c': c}").values()):
            return self._run_recorded(inputs, steps, policy, until, every)
        stepper = self._stepper
        with self._turn:
            watch, until = self._turn.outside(watch), self._turn.outside(until)
            fields = self._checked(inputs, steps)
            check_room(steps, self._points.values(), self.dtype)
            self._start(stepper, fields, steps)
            interval = max(every, 1) if until is not None else every if every > 0 and watch is not None else steps
            for begin in range(0, steps, interval):
                end = min(begin + interval, steps)
                stepper.advance(begin, end)
                if watch is not None and every > 0:
                    watch(end, stepper.state())
                if until is not None and end % interval == 0 and require_truth("until", until(end, stepper.state())):
                    stepper.end_at(end)
                    break
            return self._solution(stepper)

    def _run_recorded(self, inputs: Mapping[str, Any], steps: int, checkpoint: Checkpoint, until: Until | None, every: int) -> Solution:
        """Solve forward as an operation of the record."""
        check_names("inputs", inputs, self.inputs, "inputs")
        names = tuple(inputs)
        fixed = [n for n in names if n not in self.wrt and not is_plain(core(inputs[n]))]
        if fixed:
            raise DerivativeError(
                f"the simulation was built for gradients with respect to {', '.join(self.wrt)}, but {', '.join(fixed)} is differentiated; "
                "add it to wrt=, or hold it constant with ds.stop_gradient"
            )
        cores = [core(inputs[n]) for n in names]
        cores = [c if getattr(c, "dtype", None) == self.dtype else astype(c, dtype=self.dtype) for c in cores]
        outputs = (*(("final", s) for s in self._step.states), *(("traces", s) for s in self.receivers))
        run = RecordedRun(self, names, outputs, steps, checkpoint, dict(self._points), until, max(every, 1))
        return run.solution([wrap(value) for value in apply(run, cores)])

    def vjp(
        self,
        inputs: Mapping[str, npt.ArrayLike],
        steps: int,
        checkpoint: Checkpoint = "auto",
        on_action: Callable[[Action], None] | None = None,
        until: Until | None = None,
        every: int = 1,
        on_progress: OnProgress | None = None,
    ) -> tuple[Solution, Pullback]:
        """Solve forward, ready for the reverse sweep.

        Args:
            inputs: arrays by name, see the class.
            steps: time steps, or the most there may be.
            checkpoint: "auto", a memory size such as "4 GB", a number of slots, a schedule, or a `Policy`.
            on_action: called after each action of the schedule.
            until: (steps done, states) -> whether the run is over; its traces then have that many steps.
            every: ask `until` after each so many steps.
            on_progress: told now and then the share of the work that is done and the seconds left, such as a `ProgressBar`.

        Returns:
            The solution, and a function that turns its cotangents (entries left out count as zero) into those of every
            input in `wrt`. It can be called at any time and as often as wanted; the simulation has storage for one run, so
            if it was used for something else meanwhile, or the pullback was called before, the forward run is made again.

        Raises:
            ReplayError: by the pullback: a step that was run again did not do what it did the first time.
        """
        policy, turn, steps, every = Policy.of(checkpoint), self._turn, check_steps(steps), whole("every", every, 1)
        function("on_action", on_action, "lambda action: ...")
        function("until", until, "lambda done, states: bool(states['p'].max() > 1)")
        function("on_progress", on_progress, "lambda share, seconds_left: ...")
        with turn:
            fields = self._private(self._checked(inputs, steps), inputs)
            check_room(steps, self._points.values(), self.dtype)
            on_progress = turn.outside(policy.progress if on_progress is None else on_progress)
            watcher = turn.outside(on_action)
            watchers = () if watcher is None else (watcher,)
            call = Call(fields, steps, policy, dict(self._points), watchers, on_progress, turn.outside(until), every)
            solution, back = self._forward(call)
            return solution, RepeatablePullback(self, call, solution, back)

    def _forward(self, call: Call) -> tuple[Solution, Back]:
        """Make a forward run, ready for its reverse sweep, in the storage that there is."""
        fields, steps, policy, until = call.fields, call.steps, call.policy, call.until
        if policy.resume > 0 and until is not None:  # a condition has no name by which to know it again
            raise ParameterError(
                "expected no until= with Policy(resume=...), got both: a sweep whose run ended by a condition is not resumed; give "
                "the number of steps, or leave resume out"
            )
        schedule = self._schedule(steps, policy, until is not None, fields)
        self._plan(schedule, policy)
        coefficients = self._start(self._stepper, fields, steps, undone=bool(undone_of(schedule)))
        keeps = policy.resume > 0
        key = self._key(fields, steps, schedule, policy) if keeps else ""
        suspension = Suspension(policy, key) if keeps else None
        if suspension is not None and (found := suspension.found()) is not None:
            return self._resumed(call, coefficients, suspension, found)
        reversal = Reversal(self._stepper, schedule, policy, steps, call.watchers, call.on_progress, until, call.every, key)
        self._waiting = weakref.ref(reversal)
        solution = self._solution(self._stepper)
        kept = None if suspension is None else copied(solution)  # a user may edit what is returned

        def back(cotangents: Solution) -> dict[str, Array]:
            keeper = None
            if suspension is not None and kept is not None:
                keeper = suspension.keeper(kept, cotangents, self._stepper.cotangent_arrays)
            self.last_sweep = reversal.reverse(lambda: self._stepper.seed(cotangents.final, cotangents.traces), keeper)
            if suspension is not None:
                suspension.remove()
            return self._gradient(fields, coefficients, steps)

        return solution, back

    def _resumed(self, call: Call, coefficients: dict[str, Array], suspension: Suspension, found: Found) -> tuple[Solution, Back]:
        """What `_forward` gives, of a run whose reverse sweep was cut off."""
        fields, steps, policy, remaining = call.fields, call.steps, call.policy, found.remaining
        whole = self._schedule(steps, policy, False, fields)
        rest = replace(policy, schedule=whole, memory=None, slots=None) if undone_of(whole) else policy  # of the same period
        schedule = self._schedule(remaining, rest.for_rest(remaining), False, fields)
        if isinstance(schedule, OnlineSchedule):  # the end is known now
            schedule = Binomial(remaining, min(schedule.slots, remaining))
        stores, first = None, 0
        if len(tiers_of(whole)) > 1:
            stores = open_stores(whole, self._stepper.state_arrays, policy, suspension.key, again=True)
            schedule = Continued(remaining, tiers_of(whole), found_states(stores))
            first = schedule.first
        self._plan(schedule, policy)
        self._start(self._stepper, fields, steps, undone=bool(undone_of(schedule)))
        reversal = Reversal(self._stepper, schedule, policy, remaining, call.watchers, call.on_progress, key=suspension.key, stores=stores)
        self._waiting = weakref.ref(reversal)
        try:
            require_same_traces(self._stepper.traces(), found.solution.traces, range(first + 1, remaining + 1))
        except StorageError:
            reversal.close()
            raise

        def back(cotangents: Solution) -> dict[str, Array]:
            if not same(cotangents, found.seeds):  # another loss: the sweep that was kept is of no use
                reversal.close()
                suspension.remove()
                return self._forward(call)[1](cotangents)

            def seed() -> None:
                self._stepper.seed(found.seeds.final, found.seeds.traces)
                self._stepper.set_cotangent(found.moving)

            keeper = suspension.keeper(found.solution, found.seeds, self._stepper.cotangent_arrays)
            self.last_sweep = reversal.reverse(seed, keeper)
            suspension.remove()
            return self._gradient(fields, coefficients, steps)

        return copied(found.solution), back

    @staticmethod
    def _private(fields: dict[str, Array], inputs: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """The fields in memory of their own: what the user gave may be edited before the reverse sweep reads it again."""
        shared = {n for n, value in fields.items() if n in inputs and np.may_share_memory(value, np.asarray(inputs[n]))}
        return {name: value.copy() if name in shared else value for name, value in fields.items()}

    def _gradient(self, fields: dict[str, Array], coefficients: dict[str, Array], steps: int) -> dict[str, Array]:
        """Cotangents of the inputs, after the reverse sweep."""
        states, coefficient_bars, driven = self._stepper.cotangents()
        initial = self._initial.vjp({**fields, **coefficients}, states)
        for name in coefficients:
            through_start = initial.pop(name, None)
            if name in coefficient_bars and through_start is not None:
                coefficient_bars[name] += through_start
        for name, bars in driven.items():  # a run that ended early did not see the rest
            driven[name] = np.pad(bars, ((0, len(fields[name]) - len(bars)), *(((0, 0),) * (bars.ndim - 1))))
        given = {**self._coefficients.vjp(fields, coefficient_bars), **initial}
        found = {**{name: self._traced.given(name).summed(bars) for name, bars in given.items()}, **driven}
        return require_finite({name: found[name] for name in self.wrt}, steps, lambda: CAUSE_OF_GRADIENT, "the gradient for ")

    def _schedule(self, steps: int, policy: Policy, online: bool, fields: Mapping[str, Array] | None = None) -> Schedule | OnlineSchedule:
        """The schedule of a policy. Without inputs, damped cells are counted as if parameters were 1."""
        if not undoes(policy):
            return resolve(policy, steps, sizes_of(self, steps), online)
        self.require_undoable()
        sizes = sizes_of(self, steps, made_up(self, steps) if fields is None else fields)
        found = resolve(policy, steps, sizes, online)
        if policy.memory is not None and sizes.peak(found) > parse_memory(policy.memory):
            raise PlanError(
                f"expected a memory of at least {least_text(sizes.peak(found))} for {found!r} with the cells that these inputs damp, got "
                f"{policy.memory}; plan with these inputs, or raise the memory"
            )
        return found

    def _key(self, fields: Mapping[str, Array], steps: int, schedule: Schedule | OnlineSchedule, policy: Policy) -> str:
        """What tells a run from all others. How its states are kept counts only where it rounds them."""
        kind, grid = type(self.equation), self.grid
        step, before, start = self._traced.step, self._traced.coefficients, self._traced.initial
        parts = [
            kind.__module__,
            kind.__qualname__,
            steps,
            self.dtype,
            self.wrt,
            self.receivers,
            grid.shape,
            grid.uniform_spacing,
            step.states,
        ]
        parts += [step.coefficients, sorted(step.active), step.forcings, step.series, step.clock, before.placed, start.placed]
        parts += [[s.identity() for s in step.stages], settings().arch, lanes(self.dtype), schedule if undone_of(schedule) else None]
        parts += [policy.compression.relative_error if isinstance(policy.compression, Lossy) else None]
        expressions = [step.outputs.values(), [n for s in step.stages for n in s.roots()], before.outputs.values(), start.outputs.values()]
        profiles = {**before.profiles, **start.profiles, **step.profiles}
        arrays = {**fields, **{f"profile {name}, {each.axis}, {each.location}": np.asarray(each.values) for name, each in profiles.items()}}
        return run_key(parts, expressions, arrays, self._points)

    def value_and_grad(
        self,
        loss: Loss,
        inputs: Mapping[str, npt.ArrayLike],
        steps: int,
        checkpoint: Checkpoint = "auto",
        on_action: Callable[[Action], None] | None = None,
        until: Until | None = None,
        every: int = 1,
        on_progress: OnProgress | None = None,
    ) -> tuple[float, dict[str, Array]]:
        """Value of a loss and its gradient for every input in `wrt`.

        Args:
            loss: solution -> a number, computed with `diffsim.numpy`; or (value, cotangents of the solution) in NumPy.
            inputs: and all others: see `vjp`.

        Raises:
            DerivativeError: the loss gives a number alone, and does what loses a derivative.
        """
        function("loss", loss, "lambda solution: (solution.traces['p'] ** 2).sum()", optional=False)
        solution, pullback = self.vjp(inputs, steps, checkpoint, on_action, until, every, on_progress)
        value, cotangents = value_and_cotangents(loss, solution)
        return value, pullback(cotangents)

    def jvp(self, inputs: Mapping[str, npt.ArrayLike], tangents: Mapping[str, npt.ArrayLike], steps: int) -> tuple[Solution, Solution]:
        """Solution and its derivative along `tangents` (inputs left out are fixed). Nothing is stored."""
        mapping("inputs", inputs, "{'c': c}")
        check_names("tangents", mapping("tangents", tangents, "{'c': c_dot}"), self.inputs, "inputs")
        with self._turn:
            tangent = self.tangent(differentiable=False)
            order = tangent.order
            both = tangent.run({**inputs, **{dot(name, order): value for name, value in tangents.items()}}, steps)
        primal = Solution({s: both.final[s] for s in self._step.states}, {s: both.traces[s] for s in self.receivers})
        moved = {s: both.final[dot(s, order)] for s in self._step.states}
        return primal, Solution(moved, {s: both.traces[dot(s, order)] for s in self.receivers})

    def _plan(self, schedule: Schedule | OnlineSchedule, policy: Policy) -> None:
        """Make room for a schedule; within a budget, what an earlier run left and this one does not need is given back."""
        self._give_up_waiting()
        if policy.memory is not None or not undone_of(schedule):
            self._stepper.launcher.put_strips({}, 0)
        self._stepper.storage.plan(schedule.slots, schedule.recorded, exact=policy.memory is not None, undone=undone_of(schedule) > 0)

    def _give_up_waiting(self) -> None:
        """An earlier run cannot go back any more: what it went by is about to change. So it gives up its slots, files and threads."""
        self._runs += 1
        reversal = None if self._waiting is None else self._waiting()
        self._waiting = None
        if reversal is not None:
            reversal.close()

    def _start(self, stepper: Stepper, fields: dict[str, Array], steps: int, undone: bool = False) -> dict[str, Array]:
        self._give_up_waiting()
        if not stepper.storage.rings:
            stepper.storage.plan(0, 0)
        coefficients = self._coefficients(fields)
        stepper.set_coefficients(coefficients)
        driven = {name: fields[name] for name in (*self._step.forcings, *self._step.series)}
        stepper.start(self._initial({**fields, **coefficients}), driven, steps, undone)
        return coefficients

    def _solution(self, stepper: Stepper) -> Solution:
        return finite_solution(stepper.state(), stepper.traces(), stepper.steps)

    def _known_at_order_zero(self) -> set[str]:
        """Inputs that are not tangents."""
        equation = self.equation
        return {*equation.parameters, *equation.initials, *equation.states, *equation.forcings, *equation.series}

    def _checked(self, inputs: Mapping[str, npt.ArrayLike], steps: int) -> dict[str, Array]:
        """All inputs as arrays of this precision; zero for initial fields and tangents that are left out."""
        steps = check_steps(steps)
        check_names("inputs", mapping("inputs", inputs, "{'c': c}"), self.inputs, "inputs")
        out: dict[str, Array] = {}
        for name in self.inputs:
            shape = self.input_shape(name, steps)
            if name not in inputs:
                if name in self._initial.traced.inputs or name not in self._known_at_order_zero():
                    out[name] = self._traced.over_cells(name, np.zeros(shape, self.dtype))
                    continue
                raise ParameterError(f"input {name} is missing, expected an array of shape {shape}; give it")
            value = real_array(f"input {name}", inputs[name], self.dtype)
            check_input(name, value, shape)
            out[name] = self._traced.over_cells(name, value)
        self.equation.check({name: out[name] for name in self.equation.parameters})
        return out


def _loaded(
    equation: Equation,
    precision: str,
    points: dict[str, PointTable],
    receivers: tuple[str, ...],
    wrt: tuple[str, ...],
    order: int,
    differentiable: bool,
) -> Simulation:
    """A simulation that was pickled."""
    made = Simulation.__new__(Simulation)
    made._turn, made.equation, made.grid, made.precision = Turn(), equation, equation.grid, precision
    made.dtype = np.dtype(PRECISIONS[precision])
    traced = trace(equation, [f for f in equation.forcings if source_points(f) in points], wrt)[0]
    places = [*map(source_points, traced.step.forcings), *map(receiver_points, receivers)]
    made._assemble(traced, {name: points[name] for name in places}, receivers, wrt, differentiable or order > 0)
    for number in range(order):
        made = made.tangent(differentiable or number + 1 < order)
    return made
