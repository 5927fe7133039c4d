"""Keep every state: no step runs twice, but all states need memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from diffsim.checkpoint.actions import Action, EndForward, Record, Reverse
from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import Schedule, require_count


@dataclass(frozen=True)
class StoreAll(Schedule, kind="store_all"):
    """Record all steps in one forward run, then reverse them in one go.

    Args:
        steps: number of primal steps, at least 1.

    Raises:
        ScheduleError: `steps` is not a positive integer.

    Example:
        from diffsim.checkpoint import EndForward, Record, Reverse, StoreAll

        assert list(StoreAll(100).actions()) == [Record(0, 100), EndForward(100), Reverse(0, 100)]
    """

    steps: int
    takes_slots = False
    slots = 0  # the residuals hold the states
    advances = 0
    starts = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", require_count("steps", self.steps))

    @property
    def recorded(self) -> int:
        """All of `steps`."""
        return self.steps

    @property
    def all_recorded(self) -> int:
        """All of `steps`."""
        return self.steps

    @classmethod
    def fitted(cls, request: Request) -> StoreAll | int:
        """The schedule, or the least memory that it needs."""
        schedule = cls(request.steps)
        need = request.sizes.peak(schedule)
        return schedule if request.fits(need) else need

    def actions(self) -> Iterator[Action]:
        """Return the three actions: record, evaluate the loss, reverse."""
        yield Record(0, self.steps)
        yield EndForward(self.steps)
        yield Reverse(0, self.steps)
