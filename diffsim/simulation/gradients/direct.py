"""Runs that are called again and again with inputs of the same shapes: all that does not depend on their values is done once.

A call then writes inputs into the places where the kernels read them, launches, and copies results. Where a number is not finite, or
anything else is not as it was, the usual way is gone, which raises its errors. The bits are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import numpy as np

from diffsim.base import buffers
from diffsim.boundary import Rules, fills_of
from diffsim.checkpoint.growth import ALARM, FEW_STEPS, largest
from diffsim.engine import clock
from diffsim.simulation.gradients.gradient import kept_schedule
from diffsim.simulation.prepared.checks import LEAST_F32, all_finite
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.options import RunOptions
from diffsim.simulation.prepared.report import SweepReport
from diffsim.stepping.derive.forward import receiver_points, receiver_stream, source_stream
from diffsim.stepping.ir.names import bar
from diffsim.stepping.run.launches import Launch
from diffsim.typing import Array

MOST_LAUNCHES = 1000
"""Launches that are kept, whose levels take memory."""
Pull = Callable[[Sequence[Array]], Sequence[Array]]


class Run(Protocol):
    """A run as an operation on a tape, with all that decides it but its inputs."""

    @property
    def compiled(self) -> Compiled: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def steps(self) -> int: ...
    @property
    def options(self) -> RunOptions: ...
    @property
    def functions(self) -> Mapping[str, Callable[..., Any]]: ...
    def evaluate(self, *args: Array) -> tuple[Array, ...]: ...
    def with_pullback(self, *args: Array) -> tuple[tuple[Array, ...], Pull]: ...
    def is_current(self) -> bool: ...


class Put:
    """Writes the cells of a field, or of a level of a ring, and its halo.

    Args:
        compiled: the simulation.
        name: of the array.
        rules: of its halo.
        level: of the ring.
    """

    def __init__(self, compiled: Compiled, name: str, rules: Rules, level: int | None = None) -> None:
        launcher = compiled.stepper.launcher
        self._cells, extended = launcher._views_of(name, level)
        fills = fills_of(extended, launcher.layout.halo, rules)
        self._otherwise = partial(launcher.put_field, name, rules=rules, level=level)
        self._fills = fills

    def __call__(self, cells: Array) -> None:
        if self._fills is None:
            self._otherwise(cells)
            return
        self._cells[...] = cells
        for part in self._fills:
            np.add(*part)


class Direct:
    """A run, and if `pulled` its reverse sweep, for many calls.

    Args:
        run: what is run.
        pulled: whether calls return a pullback too.
    """

    def __init__(self, run: Run, pulled: bool) -> None:
        self._run, self._pulled, self._compiled = run, pulled, run.compiled
        self._usual: Callable[..., Any] = run.with_pullback if pulled else run.evaluate
        self._bindings = -1  # of the launcher when all was prepared; -1: nothing is

    def __call__(self, *args: Array) -> Any:
        compiled = self._compiled
        with compiled.turn:
            if self._bindings != compiled.stepper.launcher.bindings or compiled.grows:  # points that are moved change bindings
                return self._first(args)
            values = self._forward(args)
            if values is None:
                return self._usual(*args)
            if not self._pulled:
                return values
            return values, partial(self._back, compiled.runs, args)

    def _first(self, args: Sequence[Array]) -> Any:
        """A call by the usual way, whose launches are noted."""
        compiled, stepper = self._compiled, self._compiled.stepper
        if not self._is_simple():
            return self._usual(*args)
        with self._logged() as launches:
            result: Any = self._usual(*args)
        levels = {name: [*ring.working] for name, ring in stepper.storage.rings.items()}
        if not self._pulled:
            self._prepare(args, launches, levels, [])
            return result
        number = compiled.runs

        def pull(cts: Sequence[Array]) -> Sequence[Array]:
            with compiled.turn:
                alone = compiled.runs == number  # else the run is repeated
                with self._logged() as back:
                    bars: Sequence[Array] = result[1](cts)
                if alone and compiled.runs == number and self._is_simple():
                    self._prepare(args, launches, levels, back)
            return bars

        return result[0], pull

    @contextmanager
    def _logged(self) -> Iterator[list[Launch]]:
        """The launches in a `with` block."""
        launcher = self._compiled.stepper.launcher
        launches: list[Launch] = []
        launcher.log = launches
        try:
            yield launches
        finally:
            launcher.log = None

    # what is prepared

    def _is_simple(self) -> bool:
        """True if a call is one launch, or two, with nothing between."""
        run, compiled, stepper = self._run, self._compiled, self._compiled.stepper
        launcher, step, options = stepper.launcher, compiled.step, run.options
        if not compiled.domain.alone or launcher._threads is None or launcher.sparse or launcher.strips or run.functions:
            return False
        if step.series or step.clock or stepper._computed_slim or options.watched or compiled.grows or not run.is_current():
            return False
        if any(any(program.calls) for program in stepper.programs):
            return False
        if not self._pulled:
            return True
        if stepper.adjoint is None or stepper.adjoint.delayed or options.policy.resume or options.policy.compression is not None:
            return False
        schedule = kept_schedule(compiled, options.policy, run.steps)
        return schedule is None or not (schedule.online or schedule.runs_backwards or schedule.needs_slow_tiers)

    def _prepare(self, args: Sequence[Array], launches: list[Launch], after: Mapping[str, Sequence[int]], back: list[Launch]) -> None:
        """Prepare calls.

        Args:
            args: of a call by the usual way.
            launches: of its run.
            after: the levels of each ring after the run.
            back: the launches of its reverse sweep.
        """
        if max(len(launches), len(back)) > MOST_LAUNCHES or not launches or (self._pulled and not back):
            return
        run, compiled, stepper = self._run, self._compiled, self._compiled.stepper
        launcher, step, fields = stepper.launcher, compiled.step, compiled.traced.fields
        place, read = {name: k for k, name in enumerate(run.names)}, launcher.memory.read
        self._missing = {
            name: np.zeros(compiled.input_shape(name, run.steps), compiled.dtype) for name in compiled.inputs if name not in place
        }
        self._handed = self._sources()
        checks = compiled._checks or compiled._checks_start or compiled._checks_end
        self._by_name = checks or self._handed is None
        self._shapes = [
            np.expand_dims(arg, fields[name].constant).shape if name in fields and fields[name].axes else None
            for name, arg in zip(run.names, args, strict=True)
        ]
        levels = {name: stepper.depths[primary] - 1 - late for name, (primary, late) in stepper.delays.items()}
        self._coefficients = {name: Put(compiled, name, placed.rules) for name, placed in step.coefficients.items()}
        self._states = {name: Put(compiled, stepper.delays[name][0], step.states[name].rules, level) for name, level in levels.items()}
        if self._handed is not None:
            sources = {**self._coefficients, **self._states}
            self._puts = [(place[source], put) for name, put in sources.items() if (source := self._handed[name]) in place]
            self._zero = [(put, 0.0) for name, put in sources.items() if self._handed[name] not in place]
        self._driven = [(place[name], read(launcher.arrays[source_stream(name)])) for name in step.forcings]
        self._first_rows = [
            (
                launcher.points[receiver_points(s)],
                launcher.cells(stepper.delays[s][0], levels[s]),
                read(launcher.arrays[receiver_stream(s)]),
            )
            for s in stepper.receivers
        ]
        self._launches, self._sweep = launcher.merged(launches), launcher.merged(back)
        self._run_at_a_stroke, self._sweep_at_a_stroke = launcher.at_a_stroke(self._launches), launcher.at_a_stroke(self._sweep)
        self._final = [
            _copy_of(step.states[n].of_cells(launcher.cells(stepper.delays[n][0], after[stepper.delays[n][0]][levels[n]])))
            for n in stepper.delays
        ]
        self._traces = [read(launcher.arrays[receiver_stream(s)]) for s in stepper.receivers]
        values = [*(("final", s) for s in stepper.delays), *(("traces", s) for s in stepper.receivers)]
        self._order = None if values == list(run.outputs) else [values.index(each) for each in run.outputs]
        if self._pulled:
            self._prepare_back(place)
        self._bindings = launcher.bindings

    def _sources(self) -> dict[str, str] | None:
        """Coefficient or state -> the input that it is; None if one is computed from several, or from a coefficient."""
        compiled = self._compiled
        handed = {**compiled.coefficients.handed_on, **compiled.initial.handed_on}
        inputs = {*compiled.coefficients.traced.inputs, *compiled.initial.traced.inputs}
        sources = {name: source for name, source in handed.items() if source is not None and source in inputs}
        alone = len(set(sources.values())) == len(sources) == len(handed)
        return sources if alone and set(sources) == {*compiled.step.coefficients, *compiled.step.states} else None

    def _prepare_back(self, place: Mapping[str, int]) -> None:
        run, compiled, stepper = self._run, self._compiled, self._compiled.stepper
        launcher, step, rules = stepper.launcher, compiled.step, compiled.step.cotangent_rules
        bars, read = stepper.storage.bars, launcher.memory.read
        self._cleared = [read(launcher.field(name)) for name in stepper.cotangents._of_coefficients.values()]
        self._cleared += [read(launcher.arrays[name], level) for name, ring in bars.items() for level in range(ring.depth - 1)]
        self._cleared += [read(launcher.arrays[bar(source_stream(name))]) for name in step.forcings]
        self._seeds = []
        outputs = {each: k for k, each in enumerate(run.outputs)}
        for state in stepper.delays:
            put = Put(compiled, bar(state), rules, bars[bar(state)].depth - 1)
            plain = state not in stepper.receivers and step.states[state].axes is None
            table = launcher.points[receiver_points(state)] if state in stepper.receivers else None
            traces = outputs.get(("traces", state))
            self._seeds.append((put, outputs["final", state], None if plain else step.states[state], table, traces))
        self._trace_bars = [(outputs["traces", s], read(launcher.arrays[bar(receiver_stream(s))])) for s in stepper.receivers]
        self._swept = [(ring, [*ring.working]) for ring in bars.values()]
        ends = {s: launcher.cells(bar(s), bars[bar(s)].working[bars[bar(s)].depth - 1]) for s in stepper.delays}
        self._ends = list(ends.values())
        ends |= {name: launcher.cells(summed) for name, summed in stepper.cotangents._of_coefficients.items()}
        driven = {name: read(launcher.arrays[bar(source_stream(name))]) for name in step.forcings}
        self._bars: list[Callable[[], Array]] = []
        if self._handed is not None:
            at = {source: ends[name] for name, source in self._handed.items() if name in ends}
            for name in run.names:
                if name not in compiled.wrt:
                    self._bars.append(partial(np.zeros, compiled.input_shape(name, run.steps), compiled.dtype))
                elif name in driven:
                    self._bars.append(driven[name].copy)
                elif name in at:
                    placed = compiled.traced.fields[name]
                    self._bars.append(_copy_of(at[name]) if placed.axes is None else partial(_summed, placed.summed, at[name]))
                else:
                    self._bars.append(partial(np.zeros, compiled.input_shape(name, run.steps), compiled.dtype))

    # calls

    def _forward(self, args: Sequence[Array]) -> tuple[Array, ...] | None:
        """The values of a run; None where the usual way is to be gone."""
        compiled, run, stepper = self._compiled, self._run, self._compiled.stepper
        for value in args:
            if not (math.isfinite(value) if type(value) is np.float64 else all_finite(value)):
                return None
        compiled.give_up_waiting()
        shaped = args if not any(self._shapes) else [a if s is None else a.reshape(s) for a, s in zip(args, self._shapes, strict=True)]
        if self._by_name:
            self._start_by_name(args)
        if self._handed is not None:
            for k, put in self._puts:
                put(shaped[k])
            for put, zero in self._zero:
                put(zero)  # type: ignore[arg-type]
        for k, stream in self._driven:
            stream[...] = args[k]
        for table, cells, trace in self._first_rows:
            trace[0] = table.gather(cells)
        stepper.steps, stepper._held, stepper._whole = run.steps, [], None
        began = clock()
        self._launch(self._launches, self._run_at_a_stroke)
        self._seconds = clock() - began
        final = [copy() for copy in self._final]
        traces = [trace.copy() for trace in self._traces]
        values = final + traces if self._order is None else [(final + traces)[k] for k in self._order]
        for value in values:
            if not all_finite(value):
                return None
        if compiled._checks_end:
            compiled.equation.check_end(self._parameters, dict(zip(stepper.delays, final, strict=True)))
        return tuple(values)

    def _launch(self, launches: Sequence[Launch], at_a_stroke: Callable[[], None] | None) -> None:
        if at_a_stroke is not None:
            at_a_stroke()
            return
        for launch in launches:
            self._compiled.stepper.launcher.again(*launch)

    def _start_by_name(self, args: Sequence[Array]) -> None:
        """Let the equation check inputs, and compute what is not an input itself."""
        compiled, equation = self._compiled, self._compiled.equation
        known = {**self._missing, **dict(zip(self._run.names, args, strict=True))}
        fields = {name: compiled.traced.over_cells(name, known[name]) for name in compiled.inputs}
        self._parameters = {name: fields[name] for name in equation.parameters}
        if compiled._checks:
            equation.check(self._parameters)
        coefficients = compiled.coefficients(fields)
        states = compiled.initial({**fields, **coefficients})
        if compiled._checks_start:
            equation.check_start(self._parameters, {name: states[name] for name in equation.states})
        if self._handed is None:
            for name, put in self._coefficients.items():
                put(coefficients[name])
            for name, put in self._states.items():
                put(states[name])
        self._start = fields, coefficients

    def _back(self, number: int, args: Sequence[Array], cts: Sequence[Array]) -> Sequence[Array]:
        """The pullback of run `number` of the simulation."""
        compiled, stepper = self._compiled, self._compiled.stepper
        with compiled.turn:
            if compiled.runs == number and self._bindings == stepper.launcher.bindings and self._fit(cts):
                compiled.runs += 1  # states are overwritten
                self._seed(cts)
                began = clock()
                self._launch(self._sweep, self._sweep_at_a_stroke)
                self._note(clock() - began)
                if not self._grew(cts):
                    gradient = self._gradient()
                    if all(map(all_finite, gradient)):
                        return gradient
            return self._run.with_pullback(*args)[1](cts)

    def _grew(self, cts: Sequence[Array]) -> bool:
        """True if the cotangent of a long run grew so much that the usual way measures how."""
        if self._run.steps < FEW_STEPS:
            return False
        begin, end = largest(cts), largest(self._ends)
        return not begin or end >= ALARM * begin

    def _fit(self, cts: Sequence[Array]) -> bool:
        if self._compiled.dtype.itemsize == 4 and any(0.0 < float(np.abs(ct).max(initial=0.0)) < LEAST_F32 for ct in cts):
            return False
        return all(map(all_finite, cts))

    def _seed(self, cts: Sequence[Array]) -> None:
        shape, dtype = self._compiled.grid.shape, self._compiled.dtype
        for array in self._cleared:
            array.fill(0)
        for k, stream in self._trace_bars:
            stream[...] = cts[k]
        for put, final, placed, table, traces in self._seeds:
            if placed is None:
                put(cts[final])
                continue
            value = np.zeros(shape, dtype)
            placed.of_cells(value)[...] = cts[final]
            if table is not None and traces is not None:
                table.scatter(np.ascontiguousarray(cts[traces], dtype)[-1], value)
            put(value)

    def _gradient(self) -> Sequence[Array]:
        compiled, run = self._compiled, self._run
        if self._handed is not None:
            return [bars() for bars in self._bars]
        for ring, working in self._swept:
            ring.working = [*working]
        gradient = compiled.gradient(*self._start, run.steps)
        return [
            gradient[name] if name in gradient else np.zeros(self._compiled.input_shape(name, run.steps), compiled.dtype)
            for name in run.names
        ]

    def _note(self, seconds: float) -> None:
        done = {"advance": 0, "record": self._run.steps, "reverse": self._run.steps, "undo": 0}
        self._compiled.report = partial(SweepReport, self._seconds + seconds, done, 0.0, None, None, None, 0, 0.0, 0.0)


def _copy_of(cells: Array) -> Callable[[], Array]:
    """A function that gives a copy of the values that some cells have when it is called."""
    return cells.copy if cells.flags.c_contiguous and cells.nbytes < buffers.SMALLEST else partial(buffers.copy, cells)


def _summed(function: Callable[[Array], Array], cells: Array) -> Array:
    """A sum over cells in the order of a copy of them, which has another layout."""
    return function(cells if cells.flags.c_contiguous else buffers.copy(cells))
