"""Keep every state, and residuals of as many of the last steps as fit: no step runs twice.

Where residuals take more memory than states, a step that was recorded is reversed in less time than one of which the state alone is kept.
Between the memory of all states and that of all residuals, each recorded step takes the same further memory and saves the same time. So
with the memory in between, the time lies on the line between both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from diffsim.checkpoint.actions import Action, EndForward, Keep, Record, Reverse
from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import Schedule, require_count
from diffsim.checkpoint.schedules.store_all import StoreAll
from diffsim.errors import PlanError

FEWEST = 2
"""Recorded steps of the least memory: a single recorded step keeps no more than its state."""


@dataclass(frozen=True)
class PartlyRecorded(Schedule, kind="partly_recorded"):
    """Keep the states of the first steps, and record the last ones, in one forward run. Then reverse all.

    Args:
        steps: number of primal steps, at least 2.
        last: recorded steps, fewer than `steps`.

    Raises:
        ScheduleError: an argument is not a positive integer.
        PlanError: no step is left whose state is kept.

    Example:
        from diffsim.checkpoint import PartlyRecorded, simulate

        summary = simulate(PartlyRecorded(steps=100, last=30))
        assert summary.advances + summary.recorded == 100  # no step runs twice
        assert (summary.peak_slots, summary.peak_record) == ((70,), 30)
    """

    steps: int
    last: int
    takes_slots = False
    starts = 4

    def __post_init__(self) -> None:
        for name in ("steps", "last"):
            object.__setattr__(self, name, require_count(name, getattr(self, name)))
        if self.last >= self.steps:
            raise PlanError(f"expected fewer than {self.steps} recorded steps, got last = {self.last}; use StoreAll({self.steps})")

    @property
    def slots(self) -> int:
        """A state for each step that is not recorded."""
        return self.steps - self.last

    @property
    def advances(self) -> int:
        """The steps that are not recorded."""
        return self.steps - self.last

    @property
    def recorded(self) -> int:
        """The last steps."""
        return self.last

    @property
    def all_recorded(self) -> int:
        """The last steps."""
        return self.last

    @classmethod
    def fitted(cls, request: Request) -> Schedule | int:
        """The schedule that records the most steps, `StoreAll` if all fit, or the least memory that it needs."""
        stored, sizes, steps = StoreAll.fitted(request), request.sizes, request.steps
        if not isinstance(stored, int) or steps <= FEWEST or sizes.record <= sizes.state:
            return stored
        assert request.budget is not None
        least = sizes.peak(cls(steps, FEWEST))
        if least > request.budget:
            return least
        return cls(steps, min(FEWEST + (request.budget - least) // (sizes.record - sizes.state), steps - 1))

    def actions(self) -> Iterator[Action]:
        """Return the five actions."""
        yield Keep(0, self.slots)
        yield Record(self.slots, self.steps)
        yield EndForward(self.steps)
        yield Reverse(self.slots, self.steps)
        yield Reverse(0, self.slots)

    def shortened(self, steps: int) -> Schedule:
        """The schedule of the first `steps` steps, in the same memory: as many states, or fewer."""
        return PartlyRecorded(steps, min(self.last, steps - 1)) if steps > 1 else StoreAll(steps)
