"""Checkpointing with a slow tier whose transfers overlap with steps: its cost a step does not grow with the length of the run.

Every p-th state is written to the slow tier while the next p steps run, and read while the later segment is reversed. A segment of p
steps is reversed binomially in the s slots of the first tier, so each step costs 1 + t(p, s) / p for any number of steps. The first
state of the last segment is needed at once and stays in the first tier.

Reference: N. Kukreja et al., 2018, Backpropagation for long sequences: beyond memory constraints with constant overheads,
    arXiv:1806.01117.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, isfinite

from diffsim.base.messages import shown
from diffsim.checkpoint.actions import Action, Advance, EndForward, Fetch, Free, Load, Save
from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import RecordsLast, Tier, require_count
from diffsim.checkpoint.schedules.splits import Pool, fewest_advances, reverse_segment, starts
from diffsim.errors import PlanError


@dataclass(frozen=True)
class Spilling(RecordsLast, kind="spilling"):
    """Save every `every`-th state to a slow tier without waiting, and fetch it ahead in the reverse sweep.

    Args:
        steps: number of primal steps, at least 1.
        slots: number of slots in the first tier, at least 1.
        tier: the slow tier, with costs of a transfer in steps of the primal.
        every: steps between states of the slow tier. The default is the smallest number that overlaps the transfers,
            max(write_cost, read_cost), and that the slots allow, ceil(steps / (slow slots + 1)).

    Raises:
        ScheduleError: a count is not a positive integer.
        PlanError: a cost is negative or not finite, or the slow tier has too few slots for `every`.

    Example:
        from diffsim.checkpoint import Fetch, Spilling, Tier, simulate

        schedule = Spilling(steps=400, slots=12, tier=Tier("disk", 50, write_cost=8.0, read_cost=8.0))
        assert any(isinstance(action, Fetch) for action in schedule.actions())  # ahead of the load, so that nothing waits
        assert simulate(schedule).writes[1] > 10
    """

    steps: int
    slots: int
    tier: Tier
    every: int | None = None
    states_only = True
    needs_slow_tiers = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", require_count("steps", self.steps))
        object.__setattr__(self, "slots", require_count("slots", self.slots))
        tier = self.tier
        require_count(f"slots of tier {tier.name!r}", tier.slots)
        slowest = max(tier.write_cost, tier.read_cost)
        if not (isfinite(slowest) and min(tier.write_cost, tier.read_cost) >= 0):
            raise PlanError(f"expected costs from 0 steps up, got {tier}; give the cost of a transfer in steps of the primal")
        least = ceil(self.steps / (tier.slots + 1))
        every = max(ceil(slowest), least, 1) if self.every is None else require_count("every", self.every)
        if every < least:
            raise PlanError(
                f"expected every = {least} or more for {self.steps} steps with {tier.slots} slots of tier {shown(tier.name)}, got {every}; "
                "keep states less often, or give the tier more slots"
            )
        object.__setattr__(self, "every", every)

    @property
    def slow_tiers(self) -> tuple[Tier, ...]:
        """The slow tier."""
        return (self.tier,)

    @property
    def spilled(self) -> int:
        """Number of states in the slow tier: the first states of all segments but the last."""
        return (self.steps - 1) // self._every

    @property
    def advances(self) -> int:
        """Primal steps run by `Advance`."""
        last = self.steps - self.spilled * self._every
        return self.spilled * (self._every + fewest_advances(self._every, self.slots)) + fewest_advances(last, self.slots)

    @property
    def starts(self) -> int:
        """How many runs over consecutive steps start, without the one or two that the recorded last step adds."""
        last = self.steps - self.spilled * self._every
        return self.spilled * (1 + starts(self._every, self.slots)) + starts(last, self.slots)

    @property
    def waits(self) -> float:
        """The part of the transfers that does not overlap with `every` steps."""
        return self.spilled * (max(0.0, self.tier.write_cost - self._every) + max(0.0, self.tier.read_cost - self._every))

    @classmethod
    def fitted(cls, request: Request) -> Spilling | int:
        """The schedule with as many slots as fit into the memory, or the least memory that it needs."""
        tier = request.require_tiers()[-1]  # the slowest has most room, and its transfers overlap with steps
        beside = request.beside_tiers([tier])
        slots = request.slots_beside(beside)
        return cls(request.steps, slots, tier) if slots >= 1 or request.slots is not None else request.least(beside)

    @property
    def _every(self) -> int:
        assert self.every is not None
        return self.every

    def actions(self) -> Iterator[Action]:
        """Return the actions. A state is fetched as soon as the reversal of the later segment begins."""
        every, pool = self._every, Pool(self.slots)
        for slot in range(self.spilled):
            yield Save(slot * every, slot, 1)
            yield Advance(slot * every, (slot + 1) * every)
        for action in reverse_segment(self.spilled * every, self.steps, pool, end=True):
            yield action
            if self.spilled and isinstance(action, EndForward):
                yield Fetch((self.spilled - 1) * every, self.spilled - 1, 1)
        for slot in reversed(range(self.spilled)):
            yield Load(slot * every, slot, 1)
            yield Free(slot, 1)
            if slot:
                yield Fetch((slot - 1) * every, slot - 1, 1)
            yield from reverse_segment(slot * every, (slot + 1) * every, pool)
