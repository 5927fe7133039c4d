"""Offline binomial checkpointing: the fewest repeated steps for a given number of kept states.

The module `splits` has the theory and the symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from diffsim.checkpoint.actions import Action
from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import RecordsLast, require_count
from diffsim.checkpoint.schedules.splits import Pool, fewest_advances, repetitions, reverse_segment, starts
from diffsim.errors import PlanError


@dataclass(frozen=True)
class Binomial(RecordsLast, kind="binomial"):
    """The schedule with the fewest advances and, among these, one with few starts: states that fit into the slots are kept in one run.

    Args:
        steps: number of primal steps, at least 1.
        slots: states kept at most, the initial one included, from 1 to `steps`. Good values: 25 slots reverse 10^4 steps with 3.6
            forward sweeps in all, the first included; about sqrt(2 `steps`) slots need 2.

    Raises:
        ScheduleError: `steps` or `slots` is not a positive integer.
        PlanError: more slots than steps.

    Example:
        from diffsim.checkpoint import Binomial, simulate

        schedule = Binomial(steps=10_000, slots=25)
        assert schedule.forward < 3.7 * 10_000  # forward sweeps in all, the first included
        assert simulate(Binomial(steps=200, slots=5)).peak_slots == (5,)
    """

    steps: int
    slots: int
    states_only = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", require_count("steps", self.steps))
        object.__setattr__(self, "slots", require_count("slots", self.slots))
        if self.slots > self.steps:
            raise PlanError(
                f"expected at most {self.steps} slots for {self.steps} steps, got {self.slots}; "
                f"use Binomial({self.steps}, {self.steps}), or StoreAll({self.steps}) to run no step twice"
            )

    @property
    def repetitions(self) -> int:
        """r: the most times that a step is advanced over."""
        return repetitions(self.steps, self.slots)

    @property
    def advances(self) -> int:
        """t(l, s) = r l - beta(s+1, r-1), including the first sweep to state steps - 1."""
        return fewest_advances(self.steps, self.slots)

    @property
    def starts(self) -> int:
        """Number of `Advance`, `Keep` and `Reverse`, without the one or two actions that the recorded last step adds."""
        return starts(self.steps, self.slots)

    @classmethod
    def fitted(cls, request: Request) -> Binomial | int:
        """The schedule with as many slots as fit into the memory, or the least memory that it needs."""
        beside = request.sizes.last
        slots = request.slots_beside(beside)
        return cls(request.steps, slots) if slots >= 1 or request.slots is not None else request.least(beside)

    def actions(self) -> Iterator[Action]:
        """Return the actions in O(1) time each and O(slots) memory."""
        return reverse_segment(0, self.steps, Pool(self.slots), end=True)
