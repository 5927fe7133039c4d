"""Checkpointing of a run whose number of steps is unknown before it ends.

During the run, states are kept and freed again so that, wherever the run ends, the gaps between them are cheap to reverse. With
gaps g_1 .. g_s from the first kept state on, reversing takes sum t(g_i, s - i + 1) advances: gap i has its own slot and those of later
gaps.

Up to beta(s, 2) = (s+1)(s+2)/2 steps that sum is minimal. The first s states are kept. Then, with q from s down to 2, the
state q + 1 steps after the last permanent one is kept permanently. The q - 2 states behind it are kept one by one, each in the place of
the newest state that is not permanent. So gap i never exceeds s - i + 2, and within that length t grows by one a step, its least slope.

Beyond, a state is kept every h steps, where h grows as the square root of the steps done. The state to free is the one whose loss costs
least if the run ends h steps later. This is a heuristic, but its cost is measured, and small: see `Online`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import isqrt

from diffsim.checkpoint.actions import Action, Advance, EndForward, Free, Save
from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import OnlineSchedule, require_count
from diffsim.checkpoint.schedules.gaps import gaps_advances, gaps_starts, reverse_gaps
from diffsim.checkpoint.schedules.splits import Kept, fewest_advances

GAP_SHARE = 50
"""A new state follows sqrt(steps done / GAP_SHARE) steps after the last. The cost of such a gap, h^2/2, is a hundredth of a sweep."""

_cost = lru_cache(maxsize=2**14)(fewest_advances)


@dataclass(frozen=True)
class Online(OnlineSchedule, kind="online"):
    """Keep states so that the run may end at any step, then reverse gap after gap in the free slots.

    A run of l steps takes l advances forward, because the last step is unknown and cannot be recorded, and then the advances of its
    gaps. For l <= (slots+1)(slots+2)/2 their sum is minimal, even among choices of at most `slots` states that know l. Beyond, it is at
    most 1.15 times the minimum (the worst case found, at 53 steps in 3 slots; 1.07 from 4 slots on, 1.05 from 6 on), and within 1 % on
    average.

    Args:
        slots: most states kept, including the initial one. Good values: sqrt(2 l) slots take two sweeps, 25 slots take 3.7 for l = 10^4.

    Raises:
        ScheduleError: `slots` is not a positive integer.

    Example:
        from diffsim.checkpoint import AnySchedule, Online, OnlineSchedule, simulate

        schedule: AnySchedule = Online(slots=10)  # for a run that ends when it has converged
        assert isinstance(schedule, OnlineSchedule)
        assert simulate(schedule, steps=60).peak_slots == (10,)
    """

    slots: int
    states_only = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "slots", require_count("slots", self.slots))

    @classmethod
    def fitted(cls, request: Request) -> Online | int:
        """The schedule with as many slots as fit into the memory, or the least memory that it needs."""
        slots = request.slots_beside(0)
        return cls(slots) if slots >= 1 or request.slots is not None else request.least(0)

    def advances_of(self, steps: int) -> int:
        """Return the advances of a run of `steps` steps, including every step of the forward run."""
        return steps + gaps_advances(self.kept(steps), steps, self.slots)

    def starts_of(self, steps: int) -> int:
        """Return how many runs over consecutive steps start: one for each state that may be kept, and those of the reverse sweep."""
        kept, forward = [Kept(0, 0)], 1
        for step, evicted in _placements(self.slots, kept):
            if step >= steps:
                break
            _keep(kept, step, evicted)
            forward += 1
        return forward + gaps_starts(kept, steps, self.slots)

    def kept(self, steps: int) -> list[Kept]:
        """Return the states that are kept when the run ends after `steps` steps."""
        kept = [Kept(0, 0)]
        for step, evicted in _placements(self.slots, kept):
            if step >= require_count("steps", steps):
                break
            _keep(kept, step, evicted)
        return kept

    def online_actions(self, ended: Callable[[], int | None]) -> Iterator[Action]:
        """Return a fresh iterator over the actions, which advances to the next state to keep.

        Args:
            ended: called after each advance of the forward run. It returns the step at which the primal ended, or None if the run
                continues.
        """
        kept = [Kept(0, 0)]
        yield Save(0, 0)
        reached = 0
        for step, evicted in _placements(self.slots, kept):
            yield Advance(reached, step)
            end = ended()
            if end is not None:
                break
            reached = step
            freed = _keep(kept, step, evicted)
            if freed is not None:
                yield Free(freed)
            if kept[-1].step == step:
                yield Save(step, kept[-1].slot)
        assert end is not None
        yield EndForward(end)
        yield from reverse_gaps(kept, end, self.slots)


def _keep(kept: list[Kept], step: int, evicted: int | None) -> int | None:
    """Keep state `step` in place of the state at index `evicted`, or in a new slot if that is None. Return the slot."""
    if evicted is None:
        kept.append(Kept(step, len(kept)))
        return None
    if evicted == 0:
        return None  # only the first state can be kept
    slot = kept.pop(evicted).slot
    kept.append(Kept(step, slot))
    return slot


def _placements(s: int, kept: list[Kept]) -> Iterator[tuple[int, int | None]]:
    """Yield, without end, the next step to keep and the index of the kept state to free for it; None frees none, 0 keeps nothing.

    The caller updates `kept` before it takes the next.
    """
    for step in range(1, s):
        yield step, None
    if s == 1:
        step = 1
        while True:
            yield step, 0
            step *= 2
    for stays, q in enumerate(range(s, 1, -1)):  # stays: index of the last permanent state
        begin = kept[stays].step + q + 1
        for step in range(begin, begin + q - 1):
            yield step, s - 1 - (step - begin)
    while True:
        done = kept[-1].step
        h = max(3, isqrt(done // GAP_SHARE))
        yield done + h, _cheapest(kept, done + h)


def _cheapest(kept: list[Kept], step: int) -> int:
    """Return the index, above 0, of the state whose replacement by state `step` makes reversing cheapest.

    It does not depend on the gap that starts at `step`. There are at least two states.
    """
    s = len(kept)
    starts = [base.step for base in kept]
    gaps = [b - a for a, b in zip(starts, [*starts[1:], step], strict=True)]
    before = [0, *accumulate(_cost(gap, s - j) for j, gap in enumerate(gaps))]  # before[i]: of gaps 0 .. i-1
    after = [0] * (s + 1)  # after[i]: of gaps i .. s-1, if each has one more slot
    for j in range(s - 1, 0, -1):
        after[j] = after[j + 1] + _cost(gaps[j], s - j + 1)
    costs = [before[i - 1] + _cost(gaps[i - 1] + gaps[i], s - i + 1) + after[i + 1] for i in range(1, s)]
    return 1 + costs.index(min(costs))
