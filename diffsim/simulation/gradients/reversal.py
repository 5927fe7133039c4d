"""The forward run of a gradient, which stores states as its schedule says, with the reverse sweep that may follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import host_array
from diffsim.base.quantities import bare
from diffsim.checkpoint import AnySchedule, GrowthMonitor, Lossy, ReplayGuard, Schedule, Store, StoreAll, Sweep
from diffsim.checkpoint.actions import Action, Reverse
from diffsim.checkpoint.brief import BriefSweep
from diffsim.checkpoint.growth import FEW_STEPS, largest
from diffsim.checkpoint.progress import Reporter
from diffsim.checkpoint.schedule import require_truth
from diffsim.checkpoint.stores import open_stores
from diffsim.domains import Domain
from diffsim.errors import ParameterError
from diffsim.simulation.prepared.checks import check_room
from diffsim.simulation.prepared.compiled import Compiled
from diffsim.simulation.prepared.options import RunOptions, Watcher
from diffsim.simulation.prepared.reading import is_function
from diffsim.simulation.prepared.report import SweepReport
from diffsim.simulation.prepared.solution import Solution
from diffsim.stepping.declare.points import PointTable
from diffsim.stepping.run.stepper import Stepper
from diffsim.stepping.trace.stages import ArrayStage
from diffsim.typing import Array

PLACES = 100
"""Places at which a sweep in domains may be saved, at most."""
Back: TypeAlias = Callable[[Solution], dict[str, Array]]
"""A reverse sweep from the storage after the forward run. It can run once, before another run uses the storage."""


@dataclass(frozen=True)
class Call:
    """Everything that decides a forward run and its reverse sweep.

    Attributes:
        fields: inputs by name, in memory that nobody else writes to.
        steps: time steps, or the most there may be.
        points: places of sources and receivers.
        options: all other settings.
    """

    fields: dict[str, Array]
    steps: int
    points: Mapping[str, PointTable]
    options: RunOptions

    @classmethod
    def of(cls, compiled: Compiled, inputs: Mapping[str, npt.ArrayLike], steps: int, options: RunOptions) -> Call:
        """Check the user's inputs, and copy those that share memory with them: the user may edit them before the reverse sweep.

        It is called in the thread's turn.
        """
        if options.policy.resume > 0 and options.online:  # a condition cannot be identified in another process
            raise ParameterError(
                "expected no until= with Policy(resume=...), got both: a sweep whose run ended by a condition is not resumed; give "
                "the number of steps, or leave resume out"
            )
        fields = compiled.checked(inputs, steps)
        check_room(steps, compiled.points.values(), compiled.dtype)
        for name in inputs:
            if _may_share(name, fields[name], inputs[name]):
                fields[name] = fields[name].copy()
        return cls(fields, steps, dict(compiled.points), options.called_within(compiled.turn))


def _may_share(name: str, value: Array, original: Any) -> bool:
    """True if an input that was checked may share memory with the user's array."""
    if value is original:
        return True
    if type(original) is np.ndarray:
        return np.may_share_memory(value, original)
    if isinstance(original, (float, int, list, tuple)) or is_function(original):
        return False
    return np.may_share_memory(value, host_array(name, bare(original)))


class UntilStepper:
    """A stepper whose run ends when the condition of its options holds, or after `most` steps."""

    def __init__(self, stepper: Stepper, options: RunOptions, most: int) -> None:
        self._stepper, self._until, self._most = stepper, options.until, most
        self._every = options.every if options.online else most
        self._end: int | None = None
        for name in ("record", "keep", "save", "load", "free", "reverse", "undo", "compare", "drift", "state_arrays", "set_state"):
            setattr(self, name, getattr(stepper, name))

    def advance(self, start: int, stop: int) -> int | None:
        """Advance, at most to the end. Return the last step if the end is reached."""
        if self._end is not None:
            self._stepper.advance(start, stop)
            return None
        at, stop = start, min(stop, self._most)
        while at < stop:
            after = min(at - at % self._every + self._every, stop)
            self._stepper.advance(at, after)
            at = after
            over = self._until is not None and at % self._every == 0 and require_truth("until", self._until(at, self._stepper.state()))
            if at == self._most or over:
                self._end = at
                self._stepper.end_at(at)
                return at
        return None


def _spacing(steps: int) -> int:
    """Steps between the states of a sweep in domains that may be saved. All ranks reach these, however each cuts its work into pieces."""
    return -(-steps // PLACES)


class Reversal:
    """A forward run along a schedule in the storage of a simulation, and its reverse sweep, with all that watches them.

    Args:
        compiled: the simulation.
        call: inputs, steps and the user's options.
        schedule: which states are kept, and when. It may end before the last step of the call.
        key: identifies this run, if its sweep may be resumed.
        stores: for the schedule's slow tiers, with states that another process left; None: new ones.
    """

    def __init__(self, compiled: Compiled, call: Call, schedule: AnySchedule, key: str = "", stores: Sequence[Store] | None = None) -> None:
        self._schedule, self._compiled, self._call = schedule, compiled, call
        self._sampled = compiled.grows or call.options.watched
        self._exchanged = compiled.domain.spent
        compiled.reserve(schedule, call.options.policy)
        self._coefficients = compiled.start(call.fields, call.steps, undone=schedule.runs_backwards)
        self._guard: ReplayGuard | None = None
        self._growth: GrowthMonitor | None = None
        self._piece_watchers: list[Watcher] = []
        brief = type(schedule) is StoreAll and call.steps < FEW_STEPS and not self._sampled and not key and stores is None
        self._sweep = BriefSweep(compiled.stepper, call.steps) if brief else self._along(schedule, key, stores)
        try:
            self._sweep.forward()
        except BaseException as error:  # its states are freed
            self._sweep.__exit__(type(error), error, error.__traceback__)
            raise
        compiled.wait(self)

    def _along(self, schedule: AnySchedule, key: str, stores: Sequence[Store] | None) -> Sweep:
        """The sweep along a schedule, with all that watches it."""
        compiled, call = self._compiled, self._call
        options, policy, stepper = call.options, call.options.policy, compiled.stepper
        replays = not isinstance(schedule, Schedule) or schedule.recorded != schedule.steps
        verify = policy.verify and replays and not isinstance(policy.compression, Lossy)  # which changes states
        outputs = stepper.outputs if stores is None else None  # a run that resumes from stored states computes only a part of its traces
        foreign = any(isinstance(stage, ArrayStage) for stage in compiled.step.stages)
        self._guard = (
            ReplayGuard(stepper.compared, outputs, foreign=foreign, steps=None if schedule.online else call.steps) if verify else None
        )
        precision = float(np.finfo(stepper.dtype).eps)
        self._growth = GrowthMonitor(stepper.cotangent_size, precision, stepper.state_size)
        if self._sampled or call.steps >= FEW_STEPS:
            self._piece_watchers.append(self._growth)
        runs: Any = UntilStepper(stepper, options, call.steps) if schedule.online else stepper
        resumed = stores is not None
        if stores is None:
            stores = open_stores(schedule, stepper.state_arrays, policy, key)
        every = options.every if options.watch is not None else _spacing(call.steps) if key and not compiled.domain.alone else 0
        sweep = Sweep(
            schedule,
            runs,
            stores=stores,
            guard=self._guard,
            on_action=options.on_action,
            on_piece=self._watch_piece if self._piece_watchers else None,
            sampled=self._sampled,
            step_seconds=compiled.step_seconds,
            every=every,
        )
        self._every, sweep.resumable = every, resumed
        if options.on_progress is not None:
            self._piece_watchers.append(Reporter(sweep, options.on_progress))
        return sweep

    def back(self, seeds: Solution) -> dict[str, Array]:
        """Run the reverse sweep from cotangents of the solution, and return those of the inputs.

        If few samples of the cotangent's size show that it grew, all is run again, with enough samples to see how it grew.
        """
        self.reverse(seeds)
        if self._call.steps < FEW_STEPS:  # whose growth is not measured
            return self.gradient()
        suspected = self._growth is not None and self._growth.suspected
        if not any(self._compiled.domain.every(suspected)):  # all ranks repeat it, or none does
            return self.gradient()
        self._compiled.grows = True
        return Reversal(self._compiled, self._call, self._schedule).back(seeds)

    def reverse(self, seeds: Solution, start: Mapping[str, Array] | None = None, save: Callable[[Action], bool] | None = None) -> None:
        """Run the reverse sweep.

        Args:
            seeds: cotangents of the solution.
            start: all that the sweep propagates, where it starts; None: it starts at the final state, and only the seeds are known.
            save: called after each piece of the sweep. It may save all that the sweep propagates, and returns True if it did.
        """
        stepper, sweep = self._compiled.stepper, self._sweep
        with sweep:
            stepper.seed(seeds.final, seeds.traces)
            if start is not None:
                stepper.set_cotangent(start)
            self._call_watch(sweep.remaining)
            if self._growth is not None and not self._sampled:
                self._growth.begin(sweep.remaining, lambda: max(stepper.cotangent_size(), largest(seeds.traces.values())))
            if save is not None:
                self._piece_watchers.append(partial(self._save, save))
            sweep.reverse()
        if self._growth is not None:
            self._growth.warn()
        if isinstance(sweep, Sweep):
            self._compiled.step_seconds = sweep.clock.measured
        report = partial(_report, sweep, self._guard, self._growth, self._call.options.policy.compression, self._compiled.domain)
        if isinstance(sweep, BriefSweep) and self._compiled.domain.alone:  # it holds no states, so it can wait until somebody asks
            self._compiled.report = partial(report, (0, 0.0))
        else:
            now = report(self._exchanged)
            self._compiled.report = lambda: now

    def gradient(self) -> dict[str, Array]:
        """The cotangents of the inputs, after the reverse sweep."""
        return self._compiled.gradient(self._call.fields, self._coefficients, self._call.steps)

    def close(self) -> None:
        """Free the states that are kept."""
        self._sweep.close()

    def _watch_piece(self, action: Action) -> None:
        for watcher in self._piece_watchers:
            watcher(action)
        if isinstance(action, Reverse):
            self._call_watch(action.start)

    def _call_watch(self, step: int) -> None:
        options = self._call.options
        if options.watch is not None and step % options.every == 0:
            options.watch(step, self._compiled.stepper.adjoint_states())

    def _save(self, save: Callable[[Action], bool], action: Action) -> None:
        common = self._compiled.domain.alone or (isinstance(action, Reverse) and action.start % self._every == 0)
        if common and self._sweep.exact and save(action):  # a resumed run must start from an exact state
            self._sweep.resumable = True


def _report(
    sweep: Sweep | BriefSweep, guard: ReplayGuard | None, growth: GrowthMonitor | None, compression: Any, domain: Domain, before: tuple
) -> SweepReport:
    """The cost of a sweep, with the exchanges between domains since `before`."""
    done, (exchanges, seconds) = sweep.done, domain.spent
    return SweepReport(
        sweep.seconds,
        done,
        0.0 if guard is None else guard.seconds,
        compression.error if isinstance(compression, Lossy) else None,
        sweep.drift if done["undo"] else None,
        None if growth is None else growth.found(),
        exchanges - before[0],
        seconds - before[1],
        domain.ghost_share,
    )
