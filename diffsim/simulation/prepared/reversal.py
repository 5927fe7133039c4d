"""One run of a simulation with its reverse sweep: along a schedule, guarded, and able to go on after it was killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from diffsim.checkpoint import AnySchedule, Growth, GrowthMonitor, Lossy, ReplayGuard, Schedule, Store, Sweep
from diffsim.checkpoint.actions import Action, Reverse
from diffsim.checkpoint.growth import largest
from diffsim.checkpoint.progress import Teller
from diffsim.checkpoint.schedule import require_truth
from diffsim.checkpoint.stores import open_stores
from diffsim.simulation.prepared.options import RunOptions, Watcher
from diffsim.stepping.run.stepper import Stepper


@dataclass(frozen=True)
class SweepReport:
    """Time and steps of a gradient, and the errors of its states.

    Attributes:
        seconds: time of the forward and the reverse run together, without the time between them.
        steps: run of each kind: "advance", "record", "undo", "reverse".
        guard_seconds: time to compare states.
        compression_error: largest relative error of `Lossy` compression; None: there was no such compression.
        drift: relative error of the gradient from states computed backwards, as a second run with other rounding errors shows it; None: no
            step was undone.
        growth: how the cotangent grew, if exponentially.
    """

    seconds: float
    steps: Mapping[str, int]
    guard_seconds: float = 0.0
    compression_error: float | None = None
    drift: float | None = None
    growth: Growth | None = None


class UntilStepper:
    """A stepper whose run ends when a condition on its state holds, or after `most` steps.

    Args:
        stepper: the stepper to run.
        options: contain the condition that ends the run.
        most: the largest number of steps.
    """

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


class Reversal:
    """The sweep of a run, with all that watches it. The sweep's `forward` comes first, then `reverse` here.

    Args:
        stepper: ready to run, at state 0.
        schedule: which states are kept, and when.
        options: the user's options.
        steps: time steps, or their maximum.
        key: identifies this run, if its sweep may be resumed.
        stores: for the schedule's slow tiers; None: new ones.
    """

    def __init__(
        self,
        stepper: Stepper,
        schedule: AnySchedule,
        options: RunOptions,
        steps: int,
        key: str = "",
        stores: Sequence[Store] | None = None,
    ) -> None:
        policy = options.policy
        self.stepper, self.policy = stepper, policy
        replays = not isinstance(schedule, Schedule) or schedule.recorded != schedule.steps
        verify = policy.verify and replays and not isinstance(policy.compression, Lossy)  # which changes states
        outputs = stepper.outputs if stores is None else None  # a run that resumes from stored states has recorded only a part
        self._guard = ReplayGuard(stepper.state_arrays, outputs) if verify else None
        precision = float(np.finfo(stepper.dtype).eps)
        self.growth = GrowthMonitor(stepper.cotangent_size, precision, lambda: largest(stepper.state_arrays()))
        self._piece_watchers: list[Watcher] = [self.growth]
        runs: Any = UntilStepper(stepper, options, steps) if schedule.online else stepper
        resumed = stores is not None
        if stores is None:
            stores = open_stores(schedule, stepper.state_arrays, policy, key)
        self._watch, self._every = options.watch, options.every
        every = 0 if options.watch is None else options.every
        self.sweep = Sweep(
            schedule, runs, stores=stores, guard=self._guard, on_action=options.on_action, on_piece=self._watch_piece, every=every
        )
        self.sweep.resumable = resumed
        if options.on_progress is not None:
            self._piece_watchers.append(Teller(self.sweep, options.on_progress))

    @contextmanager
    def freed_on_error(self) -> Iterator[None]:
        """Free the states that are kept, if what runs inside of the `with` block fails."""
        with ExitStack() as stack:
            stack.push(self.sweep)
            yield
            stack.pop_all()

    def _watch_piece(self, action: Action) -> None:
        for watcher in self._piece_watchers:
            watcher(action)
        if isinstance(action, Reverse):
            self._call_watch(action.start)

    def _call_watch(self, step: int) -> None:
        if self._watch is not None and step % self._every == 0:
            self._watch(step, self.stepper.cotangents.states())

    def reverse(self, seed: Callable[[], None], keeper: Callable[[Action], bool] | None = None) -> SweepReport:
        """Seed the cotangents, run the reverse sweep, and return its report."""
        with self.sweep:
            seed()
            self._call_watch(self.sweep.remaining)
            if keeper is not None:  # a resumed run must start from an exact state
                self._piece_watchers.append(partial(self._keep, keeper))
            self.sweep.reverse()
        self.growth.warn()
        compression, done = self.policy.compression, dict(self.sweep.clock.done)
        return SweepReport(
            self.sweep.seconds,
            done,
            0.0 if self._guard is None else self._guard.seconds,
            compression.error if isinstance(compression, Lossy) else None,
            self.sweep.drift if done["undo"] else None,
            self.growth.found(),
        )

    def _keep(self, keeper: Callable[[Action], bool], action: Action) -> None:
        if self.sweep.exact and keeper(action):
            self.sweep.resumable = True

    def close(self) -> None:
        """Free the states that are kept."""
        self.sweep.close()
