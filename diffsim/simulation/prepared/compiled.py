"""A compiled equation with its points: it takes inputs, and returns a solution and gradients."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from diffsim.base.arguments import mapping
from diffsim.base.messages import warn_user
from diffsim.checkpoint import AnySchedule, Policy
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.domains import Domain, Whole
from diffsim.engine import PRECISIONS, require_precision, settings
from diffsim.errors import ParameterError, StillWarning
from diffsim.simulation.prepared.beginnings import Began, beginning
from diffsim.simulation.prepared.blown_up import FEWER, cause_of_gradient, cause_of_run
from diffsim.simulation.prepared.checks import check_names, finite_solution, require_finite
from diffsim.simulation.prepared.groups import Gradient, Groups
from diffsim.simulation.prepared.locks import Turn
from diffsim.simulation.prepared.points import with_tangents
from diffsim.simulation.prepared.reading import checked_array, in_memory, whole_array
from diffsim.simulation.prepared.report import SweepReport
from diffsim.simulation.prepared.solution import Solution
from diffsim.simulation.prepared.traced import Traced
from diffsim.stepping.declare.equation import Equation
from diffsim.stepping.declare.points import PointTable
from diffsim.stepping.derive.forward import source_points
from diffsim.stepping.derive.once import Once
from diffsim.stepping.ir.names import dot, primal
from diffsim.stepping.trace.fields import Placed
from diffsim.typing import Array


class Waiting(Protocol):
    """A run whose reverse sweep may still come."""

    def close(self) -> None:
        """Free the states that are kept."""


class Compiled:
    """An equation with its points, its kernels and one storage.

    Args:
        equation: the equation to solve.
        traced: the equation as expressions.
        points: where sources and receivers are.
        receivers: states that are sampled.
        wrt: inputs that have gradients.
        precision: "f32" or "f64".
        turn: the lock that threads take in turns. A tangent shares that of its primal, because both use the same tables.
        differentiable: whether a reverse sweep will run.
        domain: the part of the grid that this process has.

    Attributes:
        runs: number of times that the contents of the storage were replaced.
        batches: batches of its runs that other packages asked for, by their number of runs.
        tangent: the same equation with its tangent, after the first call of `with_tangent`.
        report: returns the steps and seconds of the last gradient.
        step_seconds: seconds of a step of each kind in it.
        schedules: schedules of small gradients, by the policy, the steps, and the numbers of points.
        grows: whether cotangents were seen to grow much, so that each sweep measures how.
    """

    def __init__(
        self,
        equation: Equation,
        traced: Traced,
        points: Mapping[str, PointTable],
        receivers: tuple[str, ...],
        wrt: tuple[str, ...],
        precision: str,
        turn: Turn,
        differentiable: bool = True,
        domain: Domain | None = None,
    ) -> None:
        self.equation, self.traced, self.grid = equation, traced, equation.grid
        self.domain: Domain = Whole(equation.grid) if domain is None else domain
        self.points, self.receivers, self.wrt, self.turn = dict(points), receivers, wrt, turn
        require_precision(settings().arch, precision)
        self.precision, self.dtype = precision, np.dtype(PRECISIONS[precision])
        self.step = traced.step
        self._driven = *self.step.forcings, *self.step.series
        step, before, start = self.domain.step(traced.step), self.domain.map(traced.coefficients), self.domain.map(traced.initial)
        self.coefficients = Once(before, step.grid, {}, self.dtype)
        self.initial = Once(start, step.grid, before.placed, self.dtype)
        self.stepper = self.domain.stepper(step, self.points, receivers, self.dtype, differentiable)
        self.stepper.launcher.outside = turn.outside
        self.runs = 0
        self.tangent: Compiled | None = None
        self.batches: dict[int, object] = {}
        self.report: Callable[[], SweepReport] | None = None
        self.step_seconds: dict[str, float] = {}
        self.schedules: dict[object, AnySchedule] = {}
        self.grows = False
        own = getattr(equation, "checks_of", type(equation))  # methods that an equation does not have are not called
        self._checks, self._checks_series = own.check is not Equation.check, own.check_series is not Equation.check_series
        self._checks_start, self._checks_end = own.check_start is not Equation.check_start, own.check_end is not Equation.check_end
        self._checks_still = own.still is not Equation.still
        self._shapes = {name: self._cells(placed) for name, placed in traced.fields.items()}
        self._waiting: weakref.ref[Waiting] | None = None
        self._began: Began | None = None

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.inputs)

    @cached_property
    def groups(self) -> Groups:
        """The components of each vector or tensor of the equation that is known by its own name, too."""
        return Groups.of(self.equation, {*self.inputs, *self.step.states})

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of all inputs."""
        return (*self.coefficients.traced.inputs, *self.initial.traced.inputs, *self.step.forcings, *self.step.series)

    def input_shape(self, name: str, steps: int) -> tuple[int, ...]:
        """The shape of the input `name` in a run of `steps` steps."""
        if name in self._shapes:
            return self._shapes[name]
        if name in self.step.forcings:
            return steps, self.points[source_points(name)].count
        return steps, *self._cells(self.step.series[name])

    def _cells(self, placed: Placed) -> tuple[int, ...]:
        """The shape of a field along its axes."""
        return self.grid.shape if placed.axes is None else tuple(self.grid.shape[axis] for axis in placed.axes)

    def with_tangent(self, differentiable: bool) -> Compiled:
        """The same equation with its tangent. It is built once."""
        if self.tangent is None or (differentiable and self.tangent.stepper.adjoint is None):
            traced = self.traced.tangent()
            receivers = (*self.receivers, *(dot(s, traced.order) for s in self.receivers))
            wrt = (*self.wrt, *(dot(name, traced.order) for name in self.wrt))
            points = with_tangents(self.points, self.step.forcings, self.receivers, traced.order)
            parts = self.equation, traced, points, receivers, wrt, self.precision, self.turn, differentiable
            self.tangent = Compiled(*parts, domain=self.domain)
        return self.tangent

    def move(self, points: Mapping[str, PointTable]) -> None:
        """Put sources and receivers elsewhere."""
        self.give_up_waiting()  # a pullback would read the new places
        self.points |= points
        self.stepper.move(points)
        if self.tangent is not None:
            self.tangent.move(with_tangents(self.points, self.step.forcings, self.receivers, self.tangent.traced.order))

    @contextmanager
    def placed(self, points: Mapping[str, PointTable]) -> Iterator[None]:
        """Move sources and receivers inside of the `with` block."""
        with self.turn:
            now = dict(self.points)
            moved = any(now[name] is not table for name, table in points.items())
            if moved:
                self.move(points)
            try:
                yield
            finally:
                if moved:
                    self.move(now)

    def checked(self, inputs: Mapping[str, Any], steps: int) -> dict[str, Array]:
        """All inputs as arrays of this precision, at the cells of this process; zero for initial fields and tangents that are left out.

        In domains each process reads and checks its own cells of functions and of mapped files (`_by_box`), and finds those that neighbours
        have too to be the same. Other inputs must be the same as a whole.
        """
        domain, whole = self.domain, dict[str, Array]()  # of inputs that are compared as a whole
        if domain.alone:
            return self._checked(inputs, steps, whole)

        def same(fields: dict[str, Array]) -> object:
            places = [each for table in self.points.values() for each in (table.cells, table.weights)]
            return steps, sorted(inputs), [*whole], fingerprint([*whole.values(), *places])

        fields = domain.agreed(lambda: self._checked(inputs, steps, whole), same)
        parts = {name: fields[name] for name in self.traced.fields if name in inputs and name not in whole}
        domain.require_same_ghosts(parts)
        self._judge(inputs, steps, fields, bool(parts.keys() & self.equation.parameters))
        return fields

    def at_cells(self, name: str, value: Array) -> Array:
        """An input at the cells of this process. Amplitudes are returned unchanged."""
        if name in self.step.forcings:
            return value
        series = self.step.series.get(name)
        if series is None:
            return self.domain.cut(value)
        return self.domain.cut(value, series.axes or (), rows=1)

    def _checked(self, inputs: Mapping[str, Any], steps: int, whole: dict[str, Array]) -> dict[str, Array]:
        """All inputs as arrays of this precision, at the cells of this process. In domains `whole` gets those not read by box."""
        if type(inputs) is not dict or not inputs.keys() <= self._names:
            check_names("inputs", mapping("inputs", inputs, "{'c': c}"), self.inputs, "inputs", self.equation)
        equation, alone, fields = self.equation, self.domain.alone, self.traced.fields
        cells = None if alone else self.domain.wide
        cells_here = self.coefficients.grid.shape
        out: dict[str, Array] = {}
        for name in self.inputs:
            if name in inputs:
                value = inputs[name]
                if not alone and not self._by_box(name, value):
                    value = whole[name] = whole_array(self, name, value)
                array = checked_array(self, name, value, steps, cells)
                out[name] = fields[name].over_cells(array, cells_here) if name in fields else self.at_cells(name, array)
            elif name in self.initial.traced.inputs or name != primal(name):
                empty = np.zeros(self.input_shape(name, steps), self.dtype)
                out[name] = self.at_cells(name, self.traced.over_cells(name, empty))
            else:
                shape = self.input_shape(name, steps)
                expected = f"an array of shape {shape}" if shape else "one number"
                raise ParameterError(f"input {name} is missing, expected {expected}; give it")
        if alone and self._checks:
            equation.check({name: out[name] for name in equation.parameters})
        if self._checks_series:
            read = {name: out[name] for name in {**equation.initials, **equation.states, **equation.parameters} if name in out}
            equation.check_series(read, {name: out[name] for name in equation.series})
        return out

    def _by_box(self, name: str, value: Any) -> bool:
        """True if each process reads an input at its own cells alone: a field along an axis that is cut, of a function or a mapped file.

        This is the same on all processes. Of a series, a number, or amplitudes, each reads all that there is.
        """
        if name not in self.traced.fields or in_memory(value):
            return False
        axes = self.traced.fields[name].axes
        return axes is None or not set(axes).isdisjoint(self.domain.cut_axes)

    def _judge(self, inputs: Mapping[str, Any], steps: int, fields: Mapping[str, Array], parts: bool) -> None:
        """Let the equation check the parameters in domains, with the verdict of one process.

        If no process holds all of them (`parts`), each checks its own cells. Some equations look at neighbours or sides of the grid, and
        would refuse cells for what lies outside of them: what a part refuses is judged by the whole.
        """
        names = self.equation.parameters
        if type(self.equation).check is Equation.check:
            return
        if parts and all(self.domain.every(self._passes({name: fields[name] for name in names}))):
            return

        def whole(name: str) -> Array:
            return self.traced.over_cells(name, checked_array(self, name, inputs[name], steps))

        self.domain.agreed(lambda: self.equation.check({name: whole(name) for name in names}))

    def _passes(self, parameters: Mapping[str, Array]) -> bool:
        """True if the equation accepts the parameters of some cells.

        Any error counts as a refusal: one that left this process would leave the others waiting. The whole raises it on all of them.
        """
        try:
            self.equation.check(parameters)
        except Exception:
            return False
        return True

    def reserve(self, schedule: AnySchedule, policy: Policy) -> None:
        """Allocate memory for a schedule. Within a budget, free memory of an earlier run that this one does not need."""
        self.give_up_waiting()
        if policy.memory is not None or not schedule.runs_backwards:
            self.stepper.launcher.put_strips({}, 0)
        self.stepper.storage.plan(schedule.slots, schedule.recorded, exact=policy.memory is not None, undone=schedule.runs_backwards)

    def start(self, fields: Mapping[str, Array], steps: int, undone: bool = False, judged: bool = True) -> dict[str, Array]:
        """Put the storage at state 0, and return the coefficients. `judged`: whether the equation checks the states."""
        self.give_up_waiting()
        if not self.stepper.storage.rings:
            self.stepper.storage.plan(0, 0)
        coefficients = self.coefficients(fields)
        self.stepper.set_coefficients(coefficients)
        driven = {name: fields[name] for name in self._driven}
        if self._checks_end:
            self._parameters = {name: fields[name] for name in self.equation.parameters}
        states = self.initial({**fields, **coefficients})
        if judged and self._checks_start:
            own = self.domain.inner
            parameters = {name: fields[name][own] for name in self.equation.parameters}
            self.domain.agreed(lambda: self.equation.check_start(parameters, {name: states[name][own] for name in self.equation.states}))
        if judged and self._checks_still:
            self._warn_if_still(fields, states)
        self.stepper.start(states, driven, steps, undone)
        if isinstance(self.domain, Whole) and not undone:
            self._began = Began(fields, lambda: self._again(fields, steps), time.monotonic())
        return coefficients

    def _again(self, fields: Mapping[str, Array], steps: int) -> Mapping[str, Array]:
        """Begin a run once more, and return the coefficients."""
        coefficients = self.coefficients(fields)
        self.stepper.start(self.initial({**fields, **coefficients}), {name: fields[name] for name in self._driven}, steps)
        return coefficients

    def _warn_if_still(self, fields: Mapping[str, Array], states: Mapping[str, Array]) -> None:
        own = self.domain.inner
        parameters = {name: fields[name][own] for name in self.equation.parameters}
        reasons = self.domain.every(self.equation.still(parameters, {name: states[name][own] for name in self.equation.states}))
        if all(reasons):
            warn_user(f"nothing can move in this run: {reasons[0]}", StillWarning)

    def solution(self) -> Solution:
        """The solution of the run.

        Raises:
            DivergenceError: a value is no longer finite.
            StabilityError: the run went where the time step is not stable.
        """
        state, traces = self.stepper.state(), self.stepper.traces()
        began, self._began = self._began, None

        def cause() -> str:
            hint = f". {self.equation.unstable}" if self.equation.unstable else ""
            if (exceeded := self.stepper.exceeded()) is None:
                where = beginning(began, self.stepper, self.dtype) if began is not None and self.stepper.steps else ""
                return where + cause_of_run(traces) + ("" if where else FEWER) + hint
            step, needed, laps = exceeded
            return f"Step {step} of {self.stepper.steps} needed {needed:.0f} laps of a loop that has at most {laps}" + hint

        def judged() -> Solution:
            solution = finite_solution(state, traces, self.stepper.steps, cause, self.groups)
            if self._checks_end:
                self.equation.check_end(*self.domain.side_by_side(self._parameters, solution.final))
            return solution

        return self.domain.agreed(judged)

    def gradient(self, fields: Mapping[str, Array], coefficients: Mapping[str, Array], steps: int) -> dict[str, Array]:
        """Cotangents of the inputs, after the reverse sweep."""
        states, coefficient_bars, driven = self.stepper.input_cotangents()
        initial = self.initial.vjp({**fields, **coefficients}, states)
        for name in coefficients:
            through_start = initial.pop(name, None)
            if name in coefficient_bars and through_start is not None:
                coefficient_bars[name] += through_start
        for name, bars in driven.items():  # a run that ended early did not see the rest
            driven[name] = np.pad(bars, ((0, len(fields[name]) - len(bars)), *(((0, 0),) * (bars.ndim - 1))))
        cotangents = {**self.coefficients.vjp(fields, coefficient_bars), **initial}
        gradient = {**self.domain.cotangents(cotangents, self.traced.fields), **driven}
        wanted = {name: gradient[name] for name in self.wrt}
        finite = self.domain.agreed(lambda: require_finite(wanted, steps, lambda: cause_of_gradient(self.dtype), "the gradient for "))
        return Gradient(finite, self.groups) if self.groups.parts else finite

    def wait(self, run: Waiting) -> None:
        """The storage holds a run whose reverse sweep may still come."""
        self._waiting = weakref.ref(run)

    def give_up_waiting(self) -> None:
        """Close an earlier run that waits for its reverse sweep, since its data are about to change. It frees its slots, files and
        threads."""
        self.runs += 1
        run = None if self._waiting is None else self._waiting()
        self._waiting = None
        if run is not None:
            run.close()
