"""The plan behind `Mixed`: when to record and when to keep a state, by dynamic programming on one or two levels.

The symbols are those of `mixed`. A *filling* is a possible amount of free memory when some states and records are stored. Tables have an
axis of fillings, by index, and an axis of numbers of steps or blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TypeAlias

import numpy as np

from diffsim.checkpoint.actions import Advance, EndForward, Free, Load, Record, Reverse, Save
from diffsim.checkpoint.schedules.splits import Kept, Pool, Share, fewest_advances, reverse_segment
from diffsim.errors import PlanError

BLOCKS = 1024
FILLINGS = 1024
RECORD, LEAF, PLAIN = 0, -1, -2
MOST_PLAIN = 16
"""Most slots with which a part of a long run may be reversed from states alone, with splits at any step."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Reverse the block of steps stop-1 down to `start` from the working state `start`, which is also kept in `slot` unless that is -1."""

    start: int
    stop: int
    filling: int
    slot: int


@dataclass(frozen=True, slots=True)
class Plain:
    """Reverse steps stop-1 down to `start` binomially with `s` slots, a record a step, the working state `start` as in a `Leaf`."""

    start: int
    stop: int
    s: int
    slot: int

    def moves(self, pool: Pool, steps: int) -> Iterator[Move]:
        """Yield the actions."""
        base = None if self.slot < 0 else Kept(self.start, self.slot)
        share = Share(pool, self.s - (base is not None))
        recorded = -1
        for action in reverse_segment(self.start, self.stop, share, base, self.stop == steps, runs=False):
            if isinstance(action, Record):
                recorded = action.stop
            elif isinstance(action, Reverse) and action.stop != recorded:
                yield Record(action.start, action.stop)
            yield action  # type: ignore[misc]


Move: TypeAlias = Advance | Record | Save | Load | Free | EndForward | Reverse


class MixedPlan:
    """When to record and when to keep a state.

    Args:
        steps: time steps, more than fit into the memory as records.
        memory: its size, in any unit.
        state: size of a kept state.
        record: size of the record of a step.
        blocks: most blocks of the coarse level.
        fillings: most distinct fillings.

    Raises:
        PlanError: after rounding sizes up, the memory does not hold a state and a record.
    """

    def __init__(self, steps: int, memory: int, state: int, record: int, blocks: int = BLOCKS, fillings: int = FILLINGS) -> None:
        self.steps = steps
        self._unit = unit = -(-steps // blocks)
        self._blocks = -(-steps // unit)
        self._fillings = _Fillings(memory, state, record, fillings)
        step = _Leaves.of_a_step(self._fillings)
        self._fine = _Table(self._fillings, step, RECORD, unit, 1) if unit > 1 else None
        self._coarse = _Table(self._fillings, self._fine.leaves(unit), LEAF, self._blocks, unit) if self._fine else None
        self._only = None if self._coarse else _Table(self._fillings, step, RECORD, self._blocks, 1)
        if not np.isfinite(self._top.fewest[self._blocks, -1]):
            raise PlanError(
                f"expected a memory that holds a state of {state} and a record of {record} after rounding both up to "
                f"1/{fillings} of it, got {memory}; raise the memory a little"
            )

    @property
    def forward(self) -> int:
        """Steps run."""
        return self._totals[0]

    @property
    def recorded(self) -> int:
        """Most steps in records at a time."""
        return self._totals[1]

    @property
    def slots(self) -> int:
        """Most states kept at a time."""
        return self._totals[2]

    def moves(self, pool: Pool) -> Iterator[Move]:
        """Yield the actions."""
        for move in self._coarse_moves(pool):
            if isinstance(move, Leaf):
                assert self._fine is not None
                yield from _moves(self._fine, move, 1, self.steps, pool)  # type: ignore[misc]
            elif isinstance(move, Plain):
                yield from move.moves(pool, self.steps)
            else:
                yield move

    def _coarse_moves(self, pool: Pool) -> Iterator[Move | Leaf | Plain]:
        """Yield the actions, a `Leaf` for each block that is planned on the fine level, a `Plain` for each part that is not planned."""
        whole = Leaf(0, self.steps, len(self._fillings) - 1, -1)
        return _moves(self._top, whole, self._unit, self.steps, pool)

    @property
    def _top(self) -> _Table:
        table = self._coarse or self._only
        assert table is not None
        return table

    @cached_property
    def _totals(self) -> tuple[int, int, int]:
        """Steps run, most recorded and most kept, counted along the coarse moves, of which there are a few for each block."""
        pool = Pool(self.steps)
        forward = records = slots = most_records = most_slots = 0
        for move in self._coarse_moves(pool):
            match move:
                case Leaf(start, stop, filling, slot):
                    if slot >= 0:
                        pool.give(slot)
                        slots -= 1
                    assert self._fine is not None
                    length = stop - start
                    forward += int(self._fine.fewest[length, filling])
                    most_records = max(most_records, records + int(self._fine.records[length, filling]))
                    most_slots = max(most_slots, slots + int(self._fine.slots[length, filling]))
                case Plain(start, stop, s, slot):
                    if slot >= 0:
                        pool.give(slot)
                        slots -= 1
                    forward += stop - start + fewest_advances(stop - start, s)
                    most_records, most_slots = max(most_records, records + 1), max(most_slots, slots + min(s, stop - start - 1))
                case Record(start, stop):
                    forward += stop - start
                    records += stop - start
                case Reverse(start, stop):
                    records -= stop - start
                case Advance(start, stop):
                    forward += stop - start
                case Save():
                    slots += 1
                case Free():
                    slots -= 1
            most_records, most_slots = max(most_records, records), max(most_slots, slots)
        return forward, most_records, most_slots


class _Fillings:
    """The possible amounts of free memory, in ascending order, and the index of the amount that remains after a state or a record.

    If there were more than `most`, sizes are rounded up to a fraction of the memory.
    """

    def __init__(self, memory: int, state: int, record: int, most: int) -> None:
        common = gcd(state, record)
        if memory // common >= most and sum((memory - x) // record + 1 for x in range(0, memory + 1, state)[: most + 1]) > most:
            memory, state, record = _rounded(memory, state, record, most - 1)
        amounts = np.array(sorted({y for x in range(0, memory + 1, state) for y in range(memory - x, -1, -record)}))
        self._amounts = amounts
        self.after_state = self._after(state)
        self.plain_slots = np.minimum((amounts - record) // state, MOST_PLAIN)  # with room for the record of a step
        self._record = record

    def __len__(self) -> int:
        return len(self._amounts)

    def after_records(self, count: int) -> np.ndarray:
        """Return the index of the remaining memory after `count` records, for each filling; -1 where they do not fit."""
        return self._after(count * self._record)

    def _after(self, size: int) -> np.ndarray:
        left = self._amounts - size
        return np.where(left >= 0, np.searchsorted(self._amounts, np.maximum(left, 0)), -1)


def _rounded(memory: int, state: int, record: int, most: int) -> tuple[int, int, int]:
    """Return the sizes in a unit that divides the memory into at most `most`, chosen to lose least by rounding up."""
    choices = [(units, -(-state * units // memory), -(-record * units // memory)) for units in range(3 * most // 4, most + 1)]
    return min(choices, key=lambda sizes: (sizes[1] / state + sizes[2] / record) / sizes[0])


@dataclass(frozen=True)
class _Leaves:
    """Costs of a block, for each filling: steps run, most recorded, most kept."""

    fewest: np.ndarray
    records: np.ndarray
    slots: np.ndarray

    @classmethod
    def of_a_step(cls, fillings: _Fillings) -> _Leaves:
        """Return the costs of a single step, which is recorded."""
        fits = fillings.after_records(1) >= 0
        return cls(np.where(fits, 1.0, np.inf), np.ones(len(fillings), dtype=np.int32), np.zeros(len(fillings), dtype=np.int32))


class _Table:
    """W(n, m) for n = 0.. blocks of `unit` steps and all fillings m, with the first move, and the most recorded and kept steps.

    Args:
        fillings: m.
        leaves: of a single block.
        leaf: the move for a single block, RECORD or LEAF.
        blocks: the largest n.
        unit: steps of a block.
    """

    def __init__(self, fillings: _Fillings, leaves: _Leaves, leaf: int, blocks: int, unit: int) -> None:
        count = len(fillings)
        self.after_state, self.after_record, self.plain_slots = fillings.after_state, fillings.after_records(unit), fillings.plain_slots
        self.fewest = np.zeros((blocks + 1, count))
        self.choice = np.full((blocks + 1, count), leaf, dtype=np.int16)
        self.records = np.zeros((blocks + 1, count), dtype=np.int32)
        self.slots = np.zeros((blocks + 1, count), dtype=np.int16)
        self.fewest[1], self.records[1], self.slots[1] = leaves.fewest, leaves.records, leaves.slots
        least = int(np.argmax(self.after_state >= 0)) if (self.after_state >= 0).any() else count  # fillings from here on hold a state
        held = self.after_state[least:]
        records_fit = self.after_record >= 0
        left = np.empty((count - least, blocks + 1))  # [m, i]: i + W(i, m)
        right = np.empty((count - least, blocks + 1))  # [m, blocks - n]: W(n, m - a)
        space, rows = np.empty((count - least) * blocks), np.arange(count - least)
        left[:, 1], right[:, blocks - 1] = unit + self.fewest[1, least:], self.fewest[1, held]
        for n in range(2, blocks + 1):
            best = np.where(records_fit, unit + self.fewest[n - 1, self.after_record], np.inf)
            choice = np.full(count, RECORD)
            records = unit + self.records[n - 1, self.after_record]
            slots = self.slots[n - 1, self.after_record].astype(np.int32)

            # Fillings in which all steps fit as records, which come last, need no search.
            some = int(np.searchsorted(best[least:] <= n * unit, True)) if leaf == RECORD else count - least
            if some:
                costs = space[: some * (n - 1)].reshape(some, n - 1)
                np.add(left[:some, 1:n], right[:some, blocks - n + 1 : blocks], out=costs)
                where = costs.argmin(axis=1)
                lowest, where = costs[rows[:some], where], where + 1
                better = np.flatnonzero(lowest < best[least : least + some])
                at, i = least + better, where[better]
                best[at], choice[at] = lowest[better], i
                after = self.after_state[at]
                records[at] = np.maximum(self.records[n - i, after], self.records[i, at])
                slots[at] = np.maximum(1 + self.slots[n - i, after], self.slots[i, at])
            if leaf == LEAF:
                with_slots = [np.inf] + [n * unit + fewest_advances(n * unit, s) for s in range(1, MOST_PLAIN + 1)]
                plain = np.array(with_slots)[np.maximum(self.plain_slots, 0)]
                at = np.flatnonzero(plain < best)
                best[at], choice[at], records[at] = plain[at], PLAIN, 1
                slots[at] = np.minimum(self.plain_slots[at], n * unit - 1)
            self.fewest[n], self.choice[n], self.records[n], self.slots[n] = best, choice, records, slots
            left[:, n], right[:, blocks - n] = n * unit + best[least:], best[held]

    def leaves(self, n: int) -> _Leaves:
        """Return the costs of a run of n blocks, as one block of a coarser table."""
        return _Leaves(self.fewest[n], self.records[n], self.slots[n])


def _moves(table: _Table, whole: Leaf, unit: int, steps: int, pool: Pool) -> Iterator[Move | Leaf | Plain]:
    """Yield the moves that reverse the steps of a leaf, with a stack of later moves."""
    choice, after_state, after_record = table.choice, table.after_state.tolist(), table.after_record.tolist()
    open_parts: list[Leaf | Load | Reverse] = [whole]
    while open_parts:
        part = open_parts.pop()
        if not isinstance(part, Leaf):
            yield part
            continue
        start, stop, m, slot = part.start, part.stop, part.filling, part.slot
        n = -(-(stop - start) // unit)
        first = choice.item(n, m)
        if first == LEAF:
            yield part
        elif first == PLAIN:
            yield Plain(start, stop, table.plain_slots.item(m), slot)
        elif first == RECORD:
            if slot >= 0:
                yield Free(slot)
                pool.give(slot)
            middle = start
            while first == RECORD and n > 0:  # one record of all steps that are recorded in a row
                middle = min(middle + unit, stop)
                n, m = n - 1, after_record[m]
                first = choice.item(n, m) if n else LEAF
            yield Record(start, middle)
            if middle == steps:
                yield EndForward(steps)
            open_parts.append(Reverse(start, middle))
            if middle < stop:
                open_parts.append(Leaf(middle, stop, m, -1))
        else:
            if slot < 0:
                slot = pool.take()
                yield Save(start, slot)
            middle = start + first * unit
            yield Advance(start, middle)
            open_parts += Leaf(start, middle, m, slot), Load(start, slot), Leaf(middle, stop, after_state[m], -1)
