"""Reverse a run from its kept states: gap after gap, from the last one.

A gap reaches from one kept state to the next. It is reversed by binomial splits in the slots of the first tier that are free at that time:
its own slot, the slots that were never used, and the slots of later gaps, which are reversed already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from diffsim.checkpoint.actions import Action, Fetch, Load
from diffsim.checkpoint.schedule import require_count
from diffsim.checkpoint.schedules.splits import Kept, Pool, fewest_advances, reverse_segment, starts
from diffsim.errors import ScheduleError


def reverse_gaps(kept: Sequence[Kept], stop: int, slots: int, end: bool = False, ahead: bool = False) -> Iterator[Action]:
    """Return the actions that reverse steps stop-1 down to 0, each gap with the fewest advances that its slots allow.

    Their number of advances is `gaps_advances`. A state in a slower tier is moved to the first tier when its gap is reversed. If no slot is
    free there, it is read from the slower tier as often as needed.

    Args:
        kept: the kept states in ascending order, the first of them state 0.
        stop: steps that are still to be reversed.
        slots: number of slots in the first tier, including those in use.
        end: the working state is the last kept state and the primal has not ended: the last step is recorded for the final state.
            Otherwise the working state does not matter, and the last kept state is loaded.
        ahead: fetch the next state of a slower tier before it is needed.

    Raises:
        ScheduleError: the kept states are not in order, do not start at 0, reach `stop` or share a slot.
    """
    require_kept(kept, stop, slots)
    return _reverse_gaps(kept, stop, slots, end, ahead)


def _reverse_gaps(kept: Sequence[Kept], stop: int, slots: int, end: bool, ahead: bool) -> Iterator[Action]:
    pool = Pool(slots, {base.slot for base in kept if base.tier == 0})
    for index in reversed(range(len(kept))):
        base = kept[index]
        if not end:
            yield Load(base.step, base.slot, base.tier)
        if ahead and index and kept[index - 1].tier:
            below = kept[index - 1]
            yield Fetch(below.step, below.slot, below.tier)
        yield from reverse_segment(base.step, stop, pool, base, end)
        stop, end = base.step, False


def gaps_advances(kept: Sequence[Kept], stop: int, slots: int) -> int:
    """Return the advances of `reverse_gaps` with these arguments: the sum of t(length, slots free by then) over the gaps."""
    return sum(fewest_advances(length, free) for length, free in _gaps(kept, stop, slots))


def gaps_starts(kept: Sequence[Kept], stop: int, slots: int) -> int:
    """Return how many runs over consecutive steps `reverse_gaps` starts. The arguments are those of `gaps_advances`."""
    return sum(starts(length, free) for length, free in _gaps(kept, stop, slots))


def _gaps(kept: Sequence[Kept], stop: int, slots: int) -> Iterator[tuple[int, int]]:
    """The length of each gap, from the last one, and the slots that are free by then, at least 1."""
    require_kept(kept, stop, slots)
    free = slots - sum(base.tier == 0 for base in kept)
    for base in reversed(kept):
        free += base.tier == 0
        yield stop - base.step, max(free, 1)
        stop = base.step


def require_kept(kept: Sequence[Kept], stop: int, slots: int) -> None:
    """Refuse kept states from which a run of `stop` steps cannot be reversed."""
    require_count("stop", stop)
    steps = [base.step for base in kept]
    if not steps or steps[0] != 0 or steps[-1] >= stop or any(b <= a for a, b in pairwise(steps)):
        raise ScheduleError(
            f"expected kept states that begin at 0 and rise to at most {stop - 1}, got {_shown(steps)}; "
            f"give the states kept of the first {stop} steps in ascending order"
        )
    places = [(base.tier, base.slot) for base in kept]
    if len(set(places)) < len(places) or any(not 0 <= slot < slots for tier, slot in places if tier == 0):
        raise ScheduleError(
            f"expected each state in a slot of its own, those of tier 0 among {slots}, got (tier, slot) {_shown(places)}; "
            "give the slots in which the states are"
        )


def _shown(values: Sequence[object]) -> str:
    return str(list(values)) if len(values) <= 12 else f"{list(values[:6])[:-1]} ... {values[-1]}"
