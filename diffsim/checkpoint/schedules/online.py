"""Checkpointing of a run whose number of steps is not known before it ends.

While the run goes on, states are kept and given up again so that wherever it ends, the gaps between them are cheap to reverse. With
gaps g_1 .. g_s from the first kept state on, reversing takes sum t(g_i, s - i + 1) advances: gap i has its own slot and those above it.

Up to beta(s, 2) = (s+1)(s+2)/2 steps that sum is the least there is. The first s states are kept. Then, with q from s down to 2, the
state q + 1 steps after the last one that stays is kept for good, and the q - 2 states behind it, one by one in the place of the newest
state that does not stay. So gap i never exceeds s - i + 2, within which t grows by one a step, the least it can.

Beyond, a state is kept every h steps, h growing as the root of the steps done, and the state is given up whose loss costs least when
the run ends h steps later. That is no more than a rule of thumb, but its price is measured, and small: see `Online`.
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
"""A new state comes sqrt(steps done / GAP_SHARE) steps after the last: the cost of so long a gap, h^2/2, is a hundredth of a sweep."""

_cost = lru_cache(maxsize=2**14)(fewest_advances)


@dataclass(frozen=True)
class Online(OnlineSchedule):
    """Keep states so that the run may end anywhere, then reverse gap after gap in the slots that are free by then.

    A run of l steps takes l advances forward, since no step can be known to be the last one and be recorded, and then those of its
    gaps. Both together are as few as for any choice of at most `slots` states, made in knowledge of l, as long as
    l <= (slots+1)(slots+2)/2. Beyond they are at most 1.15 times as many (the worst found, at 53 steps in 3 slots; 1.07 from 4 slots
    on, 1.05 from 6 on), and within 1 % on the mean.

    Args:
        slots: states kept at most, the initial one included. Good values: sqrt(2 l) for two sweeps; 25 for l = 10^4 for 3.7.

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
        """The schedule with as many slots as there is room for, or the least memory for it."""
        slots = request.slots_beside(0)
        return cls(slots) if slots >= 1 or request.slots is not None else request.least(0)

    def advances_of(self, steps: int) -> int:
        """Return the advances of a run of `steps` steps, that of every step in the forward run included."""
        return steps + gaps_advances(self.kept(steps), steps, self.slots)

    def starts_of(self, steps: int) -> int:
        """Return how often a run of consecutive steps begins: in the forward run as often as a state may be kept, and on the way back."""
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
        """Return a fresh iterator over the actions, which advances as far as to the next state to keep.

        Args:
            ended: asked after each advance of the forward run: the step at which the primal has ended, or None if it goes on.
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
    """Keep state `step` in the place of the one at an index, whose slot is returned; in a new slot if the index is None."""
    if evicted is None:
        kept.append(Kept(step, len(kept)))
        return None
    if evicted == 0:
        return None  # nothing but the first state can be kept
    slot = kept.pop(evicted).slot
    kept.append(Kept(step, slot))
    return slot


def _placements(s: int, kept: list[Kept]) -> Iterator[tuple[int, int | None]]:
    """Yield, without end, the next step to keep and the index of the kept state to give up for it, None for none, 0 for not keeping.

    The caller changes `kept` accordingly before it asks for the next.
    """
    for step in range(1, s):
        yield step, None
    if s == 1:
        step = 1
        while True:
            yield step, 0
            step *= 2
    for stays, q in enumerate(range(s, 1, -1)):  # stays: index of the last state that does
        begin = kept[stays].step + q + 1
        for step in range(begin, begin + q - 1):
            yield step, s - 1 - (step - begin)
    while True:
        done = kept[-1].step
        h = max(3, isqrt(done // GAP_SHARE))
        yield done + h, _cheapest(kept, done + h, h)


def _cheapest(kept: list[Kept], step: int, h: int) -> int:
    """Return the index, above 0, of the state without which reversing costs least, if state `step` is kept in its place.

    Args:
        kept: at least two states.
        step: where the run is.
        h: the gap that `step` begins; it makes no difference to which index is the best.
    """
    s = len(kept)
    starts = [base.step for base in kept]
    gaps = [b - a for a, b in zip(starts, [*starts[1:], step], strict=True)]
    before = [0, *accumulate(_cost(gap, s - j) for j, gap in enumerate(gaps))]  # before[i]: of gaps 0 .. i-1
    after = [0] * (s + 1)  # after[i]: of gaps i .. s-1, if each has a slot more
    for j in range(s - 1, 0, -1):
        after[j] = after[j + 1] + _cost(gaps[j], s - j + 1)
    costs = [before[i - 1] + _cost(gaps[i - 1] + gaps[i], s - i + 1) + after[i + 1] for i in range(1, s)]
    return 1 + costs.index(min(costs))
