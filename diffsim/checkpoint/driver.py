"""Run a schedule on a model: the one place where actions become calls."""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from diffsim.checkpoint.actions import Action, Advance, EndForward, Free, Load, Record, Reverse, Save
from diffsim.checkpoint.schedule import Schedule
from diffsim.errors import ParameterError, ScheduleError, StaleValueError

REVERSE_WEIGHT = 3.0  # the adjoint step of an explicit stencil takes about as long as three primal ones


class Stepper(Protocol):
    """A model as a schedule sees it: a working state, slots, a record, and a cotangent that `reverse` carries back.

    The cotangent and the gradients of parameters belong to the stepper and are touched by `reverse` alone. A copy in a slot must hold
    all that `advance` reads: every field, and every earlier time level of a multistep scheme.
    """

    def advance(self, start: int, stop: int) -> None:
        """Run the primal from state `start` to state `stop`."""

    def record(self, start: int, stop: int) -> None:
        """Do what `advance` does, bit for bit, and keep what the adjoints of these steps need."""

    def save(self, step: int, slot: int) -> None:
        """Copy the working state into `slot`."""

    def load(self, step: int, slot: int) -> None:
        """Copy the state in `slot` into the working state."""

    def free(self, slot: int) -> None:
        """Give up the state in `slot`."""

    def reverse(self, start: int, stop: int) -> None:
        """Run the adjoint of steps stop-1 down to `start` and drop the record, if these steps are in one.

        Without a record it is a single step, whose input is the working state.
        """


class _Phase(enum.Enum):
    READY = "not run yet"
    FORWARD = "in the forward run"
    AT_END = "at the final state"
    REVERSE = "in the reverse run"
    DONE = "used up"


class Sweep:
    """One forward and one reverse run of a stepper along a schedule.

    ```
    with Sweep(schedule, stepper) as sweep:
        sweep.forward()  # the working state is now the final one: evaluate the loss and its cotangent
        sweep.reverse()
    ```

    On leaving the `with` block, early or not, slots still in use are freed.

    Args:
        schedule: what to do; `simulate` proves one legal beforehand, the sweep itself checks no more than the two ends.
        stepper: what does it. Its working state is state 0.
        on_action: called with each action after it is done, for a progress display. It may raise to stop the run.
        reverse_weight: cost of a reversed step in primal steps. It matters to `progress` alone.

    Raises:
        ParameterError: `reverse_weight` is not a positive number.
    """

    def __init__(
        self,
        schedule: Schedule,
        stepper: Stepper,
        *,
        on_action: Callable[[Action], None] | None = None,
        reverse_weight: float = REVERSE_WEIGHT,
    ) -> None:
        if not 0.0 < reverse_weight < float("inf"):
            raise ParameterError(f"expected a finite reverse_weight above 0, got {reverse_weight!r}; give a cost in primal steps")
        self._schedule = schedule
        self._stepper = stepper
        self._on_action = on_action
        self._reverse_weight = reverse_weight
        self._actions = schedule.actions()
        self._phase = _Phase.READY
        self._in_use: set[int] = set()
        self._remaining = schedule.steps
        self._work = 0.0
        self._total = schedule.advances + schedule.recorded + reverse_weight * schedule.steps

    @property
    def progress(self) -> float:
        """Fraction of the work done, from 0 to 1: steps run forward, plus steps reversed times their weight, over their sum.

        The sum takes each recorded step as recorded once, and so comes to 1 too early on a schedule that records in several goes.
        """
        return min(self._work / self._total, 1.0)

    def forward(self) -> None:
        """Run the primal to the final state.

        Raises:
            StaleValueError: it was called before, successfully or not.
            ScheduleError: the schedule ends or reverses before the final state.
        """
        if self._phase is not _Phase.READY:
            raise self._stale("forward")
        self._phase = _Phase.FORWARD
        for action in self._actions:
            if isinstance(action, Reverse):
                raise ScheduleError(f"expected EndForward before {action}, got none; check the schedule with simulate()")
            self._execute(action)
            if isinstance(action, EndForward):
                self._phase = _Phase.AT_END
                return
        raise ScheduleError("expected EndForward, got the end of the schedule; check the schedule with simulate()")

    def reverse(self) -> None:
        """Run the adjoint from the final state back to the initial one, and use the schedule up.

        Raises:
            StaleValueError: `forward` has not been run to its end, or `reverse` was called before.
            ScheduleError: the schedule ends before all steps are reversed or with slots in use.
        """
        if self._phase is not _Phase.AT_END:
            raise self._stale("reverse")
        self._phase = _Phase.REVERSE
        for action in self._actions:
            self._execute(action)
        if self._remaining or self._in_use:
            raise ScheduleError(
                f"expected all steps reversed and all slots freed at the end of the schedule, got {self._remaining} steps left and slots "
                f"{sorted(self._in_use)} in use; check the schedule with simulate()"
            )
        self._phase = _Phase.DONE
        self._work = self._total

    def close(self) -> None:
        """Free the slots still in use; the sweep cannot go on afterwards. Closing twice is harmless."""
        self._phase = _Phase.DONE
        while self._in_use:
            self._stepper.free(self._in_use.pop())

    def __enter__(self) -> Sweep:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _execute(self, action: Action) -> None:
        stepper = self._stepper
        match action:
            case Advance(start, stop):
                stepper.advance(start, stop)
                self._work += stop - start
            case Load(step, slot, 0):
                stepper.load(step, slot)
            case Reverse(start, stop):
                stepper.reverse(start, stop)
                self._remaining -= stop - start
                self._work += self._reverse_weight * (stop - start)
            case Save(step, slot, 0):
                stepper.save(step, slot)
                self._in_use.add(slot)
            case Free(slot, 0):
                stepper.free(slot)
                self._in_use.discard(slot)
            case Record(start, stop):
                stepper.record(start, stop)
                self._work += stop - start
            case EndForward():
                pass
            case _:
                raise ScheduleError(f"expected an action of diffsim.checkpoint.actions, got {action!r}; check the schedule with simulate()")
        if self._on_action is not None:
            self._on_action(action)

    def _stale(self, method: str) -> StaleValueError:
        return StaleValueError(
            f"expected forward() once and then reverse() once, got {method}() on a sweep that is {self._phase.value}; make a new Sweep"
        )
