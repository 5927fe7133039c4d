"""Reverse a run whose steps can be undone: states are recomputed backwards, and kept states remove the drift now and then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from diffsim.base.messages import shown
from diffsim.checkpoint.actions import Action, Advance, EndForward, Free, Load, Reverse, Save, Undo
from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import Schedule, require_count
from diffsim.errors import ParameterError, PlanError

DEFAULT_SLOTS = 10


@dataclass(frozen=True)
class Reversible(Schedule, kind="reversible"):
    """Undo step after step from the final state. Keep every `period`-th state, and load it when undoing reaches it.

    Each step runs once forward. A stepper may run it twice backwards, to estimate the effect of rounding errors. Undone states differ from
    true ones by round-off, which grows from each kept state down to the next. There it can be measured, because `Undo` precedes `Load`.

    Args:
        steps: number of primal steps, at least 1.
        period: steps between kept states, by default a tenth of the run. Good values: those for which the drift over `period` steps is well
            below the required accuracy of the gradient.
        tolerance: largest relative error of the gradient, by the stepper's estimate. Above it, the sweep raises ReplayError at its end.
            The default is the stepper's: 1e-3 in f32, 1e-6 in f64. `Sweep.drift` and `Simulation.last_sweep` have the estimate.

    Raises:
        ScheduleError: a count is not a positive integer.
        ParameterError: `tolerance` is not a positive number.

    Example:
        from diffsim.checkpoint import Reversible, Undo, simulate

        schedule = Reversible(steps=100, period=25)
        assert any(isinstance(action, Undo) for action in schedule.actions())
        assert simulate(schedule).advances < 100 + 25
    """

    steps: int
    period: int | None = None
    tolerance: float | None = None
    runs_backwards = True
    recorded = all_recorded = 0  # each step is reversed from its state, in the working state

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", require_count("steps", self.steps))
        period = -(-self.steps // DEFAULT_SLOTS) if self.period is None else require_count("period", self.period)
        object.__setattr__(self, "period", period)
        if self.tolerance is not None and not self.tolerance > 0:
            raise ParameterError(f"expected a tolerance above 0, got {shown(self.tolerance)}; give the largest allowed relative drift")

    @property
    def slots(self) -> int:
        """One for each kept state. The first is state 0."""
        return -(-self.steps // self._period)

    @property
    def advances(self) -> int:
        """All of `steps`."""
        return self.steps

    @property
    def undone(self) -> int:
        """All of `steps`."""
        return self.steps

    @property
    def starts(self) -> int:
        """The number of starts: each step is undone and reversed by itself."""
        return 2 * self.steps

    @classmethod
    def fitted(cls, request: Request) -> Reversible | int:
        """The schedule with a tenth of the run between kept states, or more steps if so many states do not fit.

        Raises:
            PlanError: a step cannot be undone.
        """
        if request.costs is not None and request.costs.undo is None:
            raise PlanError('expected a step that can be undone for schedule = "reversible", got one that cannot; choose another schedule')
        beside = request.sizes.backwards
        slots = request.slots_beside(beside, DEFAULT_SLOTS)
        if slots < 1 and request.slots is None:
            return request.least(beside)
        return cls(request.steps, -(-request.steps // max(slots, 1)))

    @property
    def _period(self) -> int:
        assert self.period is not None
        return self.period

    def actions(self) -> Iterator[Action]:
        """Return the actions."""
        for slot in range(self.slots):
            start = slot * self._period
            yield Save(start, slot)
            yield Advance(start, min(start + self._period, self.steps))
        yield EndForward(self.steps)
        stop = self.steps
        for slot in reversed(range(self.slots)):
            start = slot * self._period
            for step in range(stop - 1, start, -1):
                yield Undo(step, step + 1)
                yield Reverse(step, step + 1)
            yield Undo(start, start + 1)
            yield Load(start, slot)
            yield Free(slot)
            yield Reverse(start, start + 1)
            stop = start
