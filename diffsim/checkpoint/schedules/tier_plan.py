"""The plan behind `MultiTier`: dynamic programming over blocks of steps chooses the states that slower tiers keep.

The symbols are those of `multi_tier`, with lengths counted in blocks of `unit` steps; the last block of a run may be shorter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from diffsim.checkpoint.actions import Advance, Free, Load, Save
from diffsim.checkpoint.schedule import Tier
from diffsim.checkpoint.schedules.splits import fewest_advances

BLOCKS = 1024


@dataclass(frozen=True, slots=True)
class Leaf:
    """Reverse steps stop-1 down to `start` in the first tier, from the working state `start`."""

    start: int
    stop: int


Move: TypeAlias = Advance | Save | Load | Free | Leaf


@dataclass(frozen=True)
class EvenPlan:
    """Keep every `period`-th state in the tier `level`, written once and read once. The last segment needs no such state."""

    steps: int
    tiers: tuple[Tier, ...]
    level: int
    period: int

    @property
    def kept(self) -> int:
        """States in the slow tier."""
        return (self.steps - 1) // self.period

    @property
    def advances(self) -> int:
        """Advances, including those of the leaves."""
        slots, rest = self.tiers[0].slots, self.steps - self.kept * self.period
        return self.kept * (self.period + fewest_advances(self.period, slots)) + fewest_advances(rest, slots)

    @property
    def cost(self) -> float:
        """Advances plus costs of transfers."""
        tier = self.tiers[self.level]
        return self.advances + self.kept * (tier.write_cost + tier.read_cost)

    def moves(self) -> Iterator[Move]:
        """A fresh iterator over the moves."""
        period, level = self.period, self.level
        for slot in range(self.kept):
            yield Save(slot * period, slot, level)
            yield Advance(slot * period, (slot + 1) * period)
        yield Leaf(self.kept * period, self.steps)
        for slot in reversed(range(self.kept)):
            yield Load(slot * period, slot, level)
            yield Free(slot, level)
            yield Leaf(slot * period, (slot + 1) * period)


def even_plan(steps: int, tiers: tuple[Tier, ...], level: int) -> EvenPlan | None:
    """Return the cheapest even plan in one slow tier, or None if no period below `steps` is possible.

    The cost a step, (w + r + t(p, s)) / p + 1, is smallest at a period where t changes its slope, p = beta(s, x): between these it is
    monotone except for the shorter last segment. The slots of the tier bound p from below.
    """
    tier, s = tiers[level], tiers[0].slots
    least = -(-steps // (tier.slots + 1))
    periods, p, x = {least}, 1, 0
    while p < steps:
        x += 1
        p = p * (s + x) // x
        periods.add(p)
        if s == 1 and x > 2 * (tier.write_cost + tier.read_cost) + 2:
            break
    plans = [EvenPlan(steps, tiers, level, p) for p in periods if least <= p < steps]
    return min(plans, key=lambda plan: plan.cost, default=None)


class GridPlan:
    """The optimal plan with states of slower tiers at multiples of `unit` steps."""

    def __init__(self, steps: int, tiers: tuple[Tier, ...], unit: int) -> None:
        self.steps, self.tiers, self.unit = steps, tiers, unit
        self.blocks = -(-steps // unit)
        lengths = unit * np.arange(self.blocks + 1)
        cost = np.array([0, *(fewest_advances(length, tiers[0].slots) for length in lengths[1:].tolist())], dtype=float)
        self._levels: list[_Level] = []
        for tier in tiers[1:]:
            self._levels.append(_Level(cost, tier, unit))
            cost = self._levels[-1].cost

    def moves(self) -> Iterator[Move]:
        """A fresh iterator over the moves. The tree of segments is traversed with a stack."""
        free = [list(range(level.slots - 1, -1, -1)) for level in self._levels]
        # segments: level, free slots in it, first and last block, and the slot of that tier with the first state, -1 for none
        stack: list[tuple[int, int, int, int, int]] = [(len(self._levels), -1, 0, self.blocks, -1)]
        while stack:
            k, m, first, last, slot = stack.pop()
            start = first * self.unit
            if slot == -2:
                yield Load(start, m, k)
                continue
            if k == 0:
                yield Leaf(start, min(last * self.unit, self.steps))
                continue
            level = self._levels[k - 1]
            m = level.slots if m < 0 else m
            if slot < 0:
                if not level.saves(m, last - first):
                    stack.append((k - 1, -1, first, last, -1))
                    continue
                slot = free[k - 1].pop()
                yield Save(start, slot, k)
            j = level.split(m, last - first)
            if j == 0:
                yield Free(slot, k)
                free[k - 1].append(slot)
                stack.append((k - 1, -1, first, last, -1))
                continue
            yield Advance(start, start + j * self.unit)
            stack.append((k, m, first, first + j, slot))
            stack.append((k, slot, first, first, -2))
            stack.append((k, m - 1, first + j, last, -1))

    @property
    def advances(self) -> int:
        """Advances, including those of the leaves."""
        return self._totals[0]

    @property
    def cost(self) -> float:
        """Advances plus costs of transfers."""
        return self._totals[1]

    @cached_property
    def _totals(self) -> tuple[int, float]:
        """Advances and cost, counted from the moves. There are a few moves for each block."""
        advances, transfers = 0, 0.0
        for move in self.moves():
            match move:
                case Leaf(start, stop):
                    advances += fewest_advances(stop - start, self.tiers[0].slots)
                case Advance(start, stop):
                    advances += stop - start
                case Save(_, _, k):
                    transfers += self.tiers[k].write_cost
                case Load(_, _, k):
                    transfers += self.tiers[k].read_cost
        return advances, advances + transfers


Plan: TypeAlias = EvenPlan | GridPlan
"""The moves of slower tiers, and between them segments for the first tier."""


def best_plan(steps: int, tiers: tuple[Tier, ...], blocks: int = BLOCKS) -> Plan:
    """Return the cheaper of two plans: on a grid, which is optimal if steps <= blocks, or with even spacing."""
    plans: list[Plan] = [GridPlan(steps, tiers, -(-steps // blocks))]
    if steps > blocks:
        plans += [plan for level in range(1, len(tiers)) if (plan := even_plan(steps, tiers, level)) is not None]
    return min(plans, key=lambda plan: plan.cost)


class _Level:
    """Slow tier k: O and P for all lengths, up to the largest useful number of slots. `faster` is F_{k-1}(l) for l = 0.. blocks."""

    def __init__(self, faster: np.ndarray, tier: Tier, unit: int) -> None:
        self._faster = faster
        used = _most_used(faster, tier, unit)
        self.slots = min(tier.slots, used)
        self._kept, self._split = _tables(faster, tier, unit, self.slots)
        self._write = tier.write_cost
        self.cost = np.minimum(faster, self._write + self._kept[self.slots]) if self.slots else faster

    def saves(self, m: int, length: int) -> bool:
        """Return whether this tier keeps the first state of a segment, with m slots left."""
        return m > 0 and bool(self._write + self._kept[m, length] < self._faster[length])

    def split(self, m: int, length: int) -> int:
        """Return the first advance in a segment whose first state this tier keeps; 0 leaves the segment to faster tiers."""
        return int(self._split[m, length])


def _tables(faster: np.ndarray, tier: Tier, unit: int, slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Return P_m(l) and its split, 0 for none, for m = 0..slots (row 0 is unused) and l = 0..blocks."""
    blocks = len(faster) - 1
    kept = np.zeros((slots + 1, blocks + 1))
    split = np.zeros((slots + 1, blocks + 1), dtype=np.int16)
    other = np.zeros((slots, blocks + 1))  # O_{m-1} in row m-1, with reversed lengths: column blocks - l is for l
    left = np.zeros((slots, blocks + 1))  # left part and its cost: j + r + P_m(j)
    space, rows = np.empty(slots * blocks), np.arange(slots)
    for length in range(1, blocks + 1):
        best = np.full(slots, faster[length])
        used = min(slots, length)  # more slots than blocks make no difference
        if length > 1 and slots:
            costs = space[: used * (length - 1)].reshape(used, length - 1)
            np.add(left[:used, 1:length], other[:used, blocks - length + 1 : blocks], out=costs)
            where = costs.argmin(axis=1)
            lowest = costs[rows[:used], where]
            where = np.where(lowest < faster[length], where + 1, 0)
            best[:used] = np.minimum(lowest, faster[length])
            best[used:] = best[used - 1]
            split[1 : used + 1, length], split[used + 1 :, length] = where, where[-1]
        kept[1:, length] = best
        left[:, length] = length * unit + tier.read_cost + best
        if slots:
            other[0, blocks - length] = faster[length]
            other[1:, blocks - length] = np.minimum(faster[length], tier.write_cost + best[:-1])
    return kept, split


def _most_used(faster: np.ndarray, tier: Tier, unit: int) -> int:
    """Return the most slots that the optimum without a limit uses at a time, over all lengths. More slots gain nothing."""
    blocks = len(faster) - 1
    left, other = np.zeros(blocks + 1), np.zeros(blocks + 1)
    in_left, in_other = np.zeros(blocks + 1, dtype=int), np.zeros(blocks + 1, dtype=int)  # slots used, including that of the first state
    for length in range(1, blocks + 1):
        best, used = faster[length], 1
        if length > 1:
            costs = left[1:length] + other[blocks - length + 1 : blocks]
            slots = np.maximum(in_left[1:length], 1 + in_other[blocks - length + 1 : blocks])
            where = np.flatnonzero(costs <= costs.min())
            least = where[slots[where].argmin()]
            if costs[least] < best:
                best, used = costs[least], int(slots[least])
        left[length], in_left[length] = length * unit + tier.read_cost + best, used
        save = tier.write_cost + best < faster[length]
        other[blocks - length], in_other[blocks - length] = (tier.write_cost + best, used) if save else (faster[length], 0)
    return int(in_other.max(initial=0))
