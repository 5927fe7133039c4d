"""How to reverse one segment of steps from its first state with the fewest repeated steps: the binomial splits.

Symbols of this file, after the reference:
    l: number of steps of a segment that is still to be reversed.
    s: slots that segment may use, the one that keeps its first state included.
    beta(s, r) = C(s + r, s): the longest segment reversible with s slots if no step is run forward more than r times.
    r: the repetition number of (l, s), the one integer with beta(s, r-1) < l <= beta(s, r).

Reversing a segment costs at least t(l, s) = r l - beta(s+1, r-1) steps run forward without being reversed. To reach that bound,
advance by some k, keep the state there, reverse the right part (l - k, s - 1), then load the first state and reverse the left
part (k, s). A right part of a single step needs no slot: its state is the working state.

Reference: A. Griewank and A. Walther, 2000, Algorithm 799: Revolve, ACM TOMS 26(1), 19-45, doi:10.1145/347837.347846.
    Departures: a step's adjoint needs the step's input state and nothing else, so only the last step is run once more on the way
    forward, for the loss; and a slot is emptied as soon as its last use is over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import comb

from diffsim.checkpoint.actions import Action, Advance, EndForward, Free, Load, Record, Reverse, Save


@dataclass(frozen=True, slots=True)
class Kept:
    """State `step`, kept in `slot` of a tier."""

    step: int
    slot: int
    tier: int = 0


class Pool:
    """The slots of the first tier that are free.

    A slot given back last is taken first, and one never used only when there is no other: low numbers, in O(slots in use) memory.

    Args:
        slots: of the tier.
        taken: those that keep something already.
    """

    def __init__(self, slots: int, taken: Collection[int] = ()) -> None:
        self._fresh = iter(range(slots)) if not taken else (slot for slot in range(slots) if slot not in taken)
        self._freed: list[int] = []
        self.free = slots - len(taken)

    def take(self) -> int:
        """Return a slot that was free."""
        self.free -= 1
        return self._freed.pop() if self._freed else next(self._fresh)

    def give(self, slot: int) -> None:
        """Take back a slot that is free again."""
        self.free += 1
        self._freed.append(slot)


class Share(Pool):
    """Some of the free slots of a pool.

    Args:
        pool: has at least as many.
        free: of them.
    """

    def __init__(self, pool: Pool, free: int) -> None:
        self._pool, self.free = pool, free

    def take(self) -> int:
        """Return a slot that was free."""
        self.free -= 1
        return self._pool.take()

    def give(self, slot: int) -> None:
        """Take back a slot that is free again."""
        self.free += 1
        self._pool.give(slot)


def fewest_advances(length: int, s: int) -> int:
    """Return t(l, s) = r l - beta(s+1, r-1), the advances that reverse `length` >= 1 steps with s >= 1 slots."""
    r = repetitions(length, s)
    return r * length - beta(s + 1, r - 1)


def reverse_segment(start: int, stop: int, pool: Pool, base: Kept | None = None, end: bool = False) -> Iterator[Action]:
    """Yield what reverses steps stop-1 down to `start` from the working state `start`, in O(1) time each and O(slots) memory.

    Uses all free slots of the pool and gives them back, and that of the base as well if it is of the first tier.

    Args:
        start: first step of the segment; the working state is that state.
        stop: one past the last step.
        pool: free slots of the first tier; at least one unless there is a base or a single step.
        base: where state `start` is kept, if it is. From a slower tier it moves to the first one if that has a slot.
        end: the primal has not ended yet: the last step is recorded for the final state.
    """
    length = stop - start
    slot, tier = (-1, 0) if base is None else (base.slot, base.tier)
    if length > 1 and (base is None or (tier and pool.free)):
        slot = pool.take()
        yield Save(start, slot)
        if base is not None:
            yield Free(base.slot, tier)
            tier = 0
    s = pool.free + (tier == 0)
    s = max(s, 1)  # a base that stays in a slower tier is a slot as well, with no other beside it

    # The open segments form a stack: each starts at a kept state and ends where the next one starts, the top one at `stop`.
    # For each, r and beta(s, r-1) are carried along and only ever fall, by exact integer ratios of neighbouring binomials.
    below: list[tuple[int, int, int, int]] = []  # start, slot, r and beta of the segments under the top one
    r = repetitions(length, s)
    near = beta(s, r - 1)
    while True:  # the working state is state `start`, which `slot` keeps
        length = stop - start
        if length == 1:
            if slot >= 0:
                yield Free(slot, tier)
                if not tier:
                    pool.give(slot)
            if end:
                yield Record(start, stop)
                yield EndForward(stop)
            yield Reverse(start, stop)
            if not below:
                return
            stop = start
            start, slot, r, near = below.pop()
            s += 1
            yield Load(start, slot)
            continue

        while near >= length:  # a segment shrinks to its left part, and a right part is shorter: r may fall
            r -= 1
            near = near * r // (s + r)  # beta(s, r-1) of the new r

        middle = start + first_advance(length, s, r, near)
        yield Advance(start, middle)
        if stop - middle > 1:
            below.append((start, slot, r, near))
            start = middle
            near = near * s // (s + r - 1)  # beta(s-1, r-1); r stays an upper bound for the right part, as l - k <= beta(s-1, r)
            s -= 1
            slot = pool.take()
            yield Save(start, slot)
            continue

        if end:
            yield Record(middle, stop)
            yield EndForward(stop)
            end = False
        yield Reverse(middle, stop)
        stop = middle
        yield Load(start, slot, tier)


def first_advance(length: int, s: int, r: int, near: int) -> int:
    """Return k, where to split a segment of l = `length` > 1 steps for the fewest advances and then the fewest saves.

    Args:
        length: l.
        s: slots of the segment.
        r: its repetition number.
        near: beta(s, r-1).
    """
    if s == 1:
        return length - 1  # beta(0, r-1) = 1 and beta(-1, r-1) = 0
    if r == 1:
        return 1
    less = near * s // (s + r - 1)  # beta(s-1, r-1)
    rest = less * (s - 1) // (s + r - 2)  # beta(s-2, r-1)
    if length >= near + less + rest:
        return near
    if length <= near + rest:
        return near * (r - 1) // (s + r - 1)  # beta(s, r-2)
    return length - less - rest


def beta(s: int, r: int) -> int:
    """Return C(s + r, s), which is 0 where r is negative."""
    return comb(s + r, s) if r >= 0 else 0


def repetitions(length: int, s: int) -> int:
    """Return the r with beta(s, r-1) < length <= beta(s, r), in O(r) time but for s = 1, where it is length - 1 at once."""
    if s == 1:
        return length - 1
    r, reach = 0, 1
    while reach < length:
        r += 1
        reach = reach * (s + r) // r
    return r
