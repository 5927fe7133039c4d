"""Binomial splits: reverse one segment of steps from its first state with the fewest repeated steps.

Symbols of this file, after the reference:
    l: number of steps of a segment that is still to be reversed.
    s: slots that the segment may use, including the one that keeps its first state.
    beta(s, r) = C(s + r, s): the longest segment reversible with s slots if no step is run forward more than r times.
    r: the repetition number of (l, s), the one integer with beta(s, r-1) < l <= beta(s, r).

Reversing a segment costs at least t(l, s) = r l - beta(s+1, r-1) steps run forward without being reversed. To reach that bound,
advance by some k, keep the state there, reverse the right part (l - k, s - 1), then load the first state and reverse the left
part (k, s). A right part of a single step needs no slot: its state is the working state.

Reference: A. Griewank and A. Walther, 2000, Algorithm 799: Revolve, ACM TOMS 26(1), 19-45, doi:10.1145/347837.347846.
    Departures: a step's adjoint needs only the step's input state, so only the last step is run once more in the forward run, for
    the loss. A slot is freed after its last use. And where all states of a segment fit into its slots, r = 1, they are kept in one run
    and reversed in one, since on small models a start costs more than a step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import comb

from diffsim.checkpoint.actions import Action, Advance, EndForward, Free, Keep, Load, Record, Reverse, Save


@dataclass(frozen=True, slots=True)
class Kept:
    """State `step`, kept in `slot` of a tier."""

    step: int
    slot: int
    tier: int = 0


class Pool:
    """The free slots of the first tier.

    The slot that was freed last is taken first, and an unused slot only if there is no other. So slot numbers stay low, and the pool takes
    O(slots in use) memory.

    Args:
        slots: number of slots in the tier.
        taken: the slots that hold a state already.
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
        """Return a slot to the pool."""
        self.free += 1
        self._freed.append(slot)


class Share(Pool):
    """A number of the free slots of a pool."""

    def __init__(self, pool: Pool, free: int) -> None:
        self._pool, self.free = pool, free

    def take(self) -> int:
        """Return a slot that was free."""
        self.free -= 1
        return self._pool.take()

    def give(self, slot: int) -> None:
        """Return a slot to the pool."""
        self.free += 1
        self._pool.give(slot)


def fewest_advances(length: int, s: int) -> int:
    """Return t(l, s) = r l - beta(s+1, r-1), the advances that reverse `length` >= 1 steps with s >= 1 slots."""
    r = repetitions(length, s)
    return r * length - beta(s + 1, r - 1)


def reverse_segment(start: int, stop: int, pool: Pool, base: Kept | None = None, end: bool = False, runs: bool = True) -> Iterator[Action]:
    """Yield the actions that reverse steps stop-1 down to `start` from the working state `start`, in O(1) time each and O(slots) memory.

    Uses all free slots of the pool and gives them back, and that of the base as well if it is of the first tier. A segment whose states
    all fit into the slots is kept by one action and reversed by one; it takes the advances that it would take with one action a step.

    Args:
        start: first step of the segment; the working state is that state.
        stop: one past the last step.
        pool: free slots of the first tier; at least one unless there is a base or a single step.
        base: where state `start` is kept, if it is. From a slower tier it moves to the first one if that has a slot.
        end: the primal has not ended yet: the last step is recorded for the final state.
        runs: keep runs of states by `Keep`; otherwise states are kept and steps reversed one by one.
    """
    slot, tier = (-1, 0) if base is None else (base.slot, base.tier)
    if base is not None and tier and pool.free and stop - start > (pool.free if runs else 0) + 1:
        slot, tier = pool.take(), 0
        yield Save(start, slot)
        yield Free(base.slot, base.tier)
    s = max(pool.free + (slot >= 0 and not tier), 1)  # a base that stays in a slower tier is a slot as well, with no other beside it

    # The open segments form a stack: each starts at a kept state and ends where the next one starts, the top one at `stop`.
    # For each, r and beta(s, r-1) are carried along and only ever fall, by exact integer ratios of neighbouring binomials.
    below: list[tuple[int, int, int, int]] = []  # start, slot, r and beta of the segments under the top one
    r = repetitions(stop - start, s)
    near = beta(s, r - 1)
    while True:  # the working state is state `start`, which `slot` keeps unless that is -1
        length = stop - start
        room = pool.free + (slot >= 0 and not tier)
        if length == 1 or (runs and length - 1 <= room):
            if slot >= 0:
                yield Free(slot, tier)
                if not tier:
                    pool.give(slot)
            yield from _reverse_run(start, stop, end)
            end = False
            if not below:
                return
            stop = start
            start, slot, r, near = below.pop()
            s += 1
            yield Load(start, slot)
            continue

        if slot < 0:
            slot = pool.take()
            yield Save(start, slot)
        while near >= length:  # a segment shrinks to its left part, and a right part is shorter: r may fall
            r -= 1
            near = near * r // (s + r)  # beta(s, r-1) of the new r

        middle = start + first_advance(length, s, r, near)
        yield Advance(start, middle)
        if stop - middle > 1:
            below.append((start, slot, r, near))
            start, slot = middle, -1
            near = near * s // (s + r - 1)  # beta(s-1, r-1); r stays an upper bound for the right part, as l - k <= beta(s-1, r)
            s -= 1
            continue

        yield from _reverse_run(middle, stop, end)
        end = False
        stop = middle
        yield Load(start, slot, tier)


def _reverse_run(start: int, stop: int, end: bool) -> Iterator[Action]:
    """Yield the actions that reverse steps from the working state `start`, with a free slot for each but the last."""
    last = stop - 1
    if last > start:
        yield Keep(start, last)
    if end:
        yield Record(last, stop)
        yield EndForward(stop)
        yield Reverse(last, stop)
        if last > start:
            yield Reverse(start, last)
    else:
        yield Reverse(start, stop)


def first_advance(length: int, s: int, r: int, near: int) -> int:
    """Return k, where to split a segment of l = `length` > 1 steps: the largest that has the fewest advances.

    These are k from max(beta(s, r-2), l - beta(s-1, r)) to min(beta(s, r-1), l - beta(s-1, r-1)). The largest leaves the longest parts
    whose states can be kept in one run, so there are few starts. `near` is beta(s, r-1).
    """
    return min(near, length - near * s // (s + r - 1))


def starts(length: int, s: int) -> int:
    """Return the number of `Advance`, `Keep` and `Reverse` that reverse `length` >= 1 steps with s >= 1 slots, without those of the end.

    With F(s, r) those of beta(s, r) steps: F(s, r) = 1 + F(s, r-1) + F(s-1, r), F(s, 1) = 2, F(0, r) = 1.
    """
    total = 0
    while length > s + 1:
        r = repetitions(length, s)
        near, less = beta(s, r - 1), beta(s - 1, r - 1)
        if length >= near + less:  # the left part is beta(s, r-1) steps
            total += 1 + _starts_of_full(s, r - 1)
            length, s = length - near, s - 1
        else:  # the right part is beta(s-1, r-1) steps
            total += 1 + _starts_of_full(s - 1, r - 1)
            length -= less
    return total + (1 if length == 1 else 2)


def _starts_of_full(s: int, r: int) -> int:
    """Return F(s, r) for r >= 1."""
    if s == 0 or r == 1:
        return 2 if s else 1
    return 3 * comb(s + r - 2, r - 1) + 2 * comb(s + r - 2, s) - 1


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
