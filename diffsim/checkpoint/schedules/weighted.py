"""Reverse from kept states when some steps cost more than others, such as steps that adapt a mesh or in which a solver iterates long.

The cost of a step is given for blocks of steps, and constant in a block. Let C(i, j, s) be the least cost of the advances that
reverse blocks i .. j-1 from the first state, which is kept in one of s slots:

    C(i, i+1, s) = c_i t(l_i, s) for a block of l_i steps of cost c_i each
    C(i, j, 1) = the cost of running up to each of the steps in turn
    C(i, j, s) = min over i < k < j of cost(i..k) + C(k, j, s-1) + C(i, k, s)

So a split is at the edge of a block, and binomial inside of a block. If a gap has few blocks, they are first cut into smaller ones. If
plain binomial splits cost no more for a gap, they are used.

Reference: A. Griewank and A. Walther, 2008, Evaluating Derivatives, 2nd ed., SIAM, section 12.3, doi:10.1137/1.9780898717761.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import numpy as np

from diffsim.checkpoint.actions import Action, Advance, Free, Load, Save
from diffsim.checkpoint.schedule import require_count
from diffsim.checkpoint.schedules.gaps import require_kept
from diffsim.checkpoint.schedules.splits import Kept, Pool, beta, fewest_advances, first_advance, repetitions, reverse_segment
from diffsim.errors import PlanError

MOST_BLOCKS = 256
"""Most blocks that a caller may give."""
WORK = 200**3 * 25
"""Limit of the sum over gaps of blocks^3 slots, up to which blocks are cut. It takes a tenth of a second."""


@dataclass(frozen=True)
class Weighted:
    """The cheapest reversal of gaps between kept states for steps of unequal cost.

    It never costs more than `reverse_gaps` with the same states, whose cost is `plain_cost`. Use it if `cost` is clearly lower.

    Args:
        kept: the kept states in ascending order, the first of them state 0.
        stop: steps that are still to be reversed.
        slots: number of slots in the first tier, including those in use.
        bounds: the first step of each block and the end of the last, from 0 to at least `stop`. A block is cut at a kept state and at
            `stop`. At most 256 blocks; good values: 50 to 200.
        costs: cost of running each block once, in any unit.

    Raises:
        ScheduleError: the kept states are invalid, see `reverse_gaps`.
        PlanError: the blocks are invalid.

    Example:
        from diffsim.checkpoint import Weighted
        from diffsim.checkpoint.schedules.splits import Kept

        # From step 50 on a step costs ten times as much, as where a mesh was refined.
        schedule = Weighted((Kept(0, 0),), stop=100, slots=5, bounds=(0, 50, 100), costs=(50.0, 500.0))
        assert schedule.cost <= schedule.plain_cost
    """

    kept: tuple[Kept, ...]
    stop: int
    slots: int
    bounds: tuple[int, ...]
    costs: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", tuple(self.kept))
        object.__setattr__(self, "bounds", tuple(int(bound) for bound in self.bounds))
        object.__setattr__(self, "costs", tuple(float(cost) for cost in self.costs))
        require_count("slots", self.slots)
        require_kept(self.kept, self.stop, self.slots)
        _require_blocks(self.bounds, self.costs, self.stop)

    @property
    def cost(self) -> float:
        """Cost of the advances, in the unit of `costs`."""
        return sum(plan.cost for plan in self._plans)

    def cost_if(self, bounds: Sequence[int], costs: Sequence[float]) -> float:
        """Cost of this plan's advances at other costs of blocks. A cost of 1 a step gives their number."""
        known = _Costs(bounds, costs)
        return sum(plan.cost_if(known) for plan in self._plans)

    @cached_property
    def plain_cost(self) -> float:
        """Cost of the advances of `reverse_gaps`, in the unit of `costs`."""
        known = _Costs(self.bounds, self.costs)
        return sum(_binomial_cost(known, start, stop, s) for start, stop, s in self._gaps())

    def actions(self) -> Iterator[Action]:
        """Return the actions. The first one loads a state, so the working state before it does not matter."""
        pool = Pool(self.slots, {base.slot for base in self.kept if base.tier == 0})
        for base, plan in zip(reversed(self.kept), self._plans, strict=True):
            yield Load(base.step, base.slot, base.tier)
            yield from plan.actions(base, pool)

    def _gaps(self) -> Iterator[tuple[int, int, int]]:
        """First step, end and slots of each gap, from the last."""
        free, stop = self.slots - sum(base.tier == 0 for base in self.kept), self.stop
        for base in reversed(self.kept):
            free += base.tier == 0
            yield base.step, stop, max(free, 1)
            stop = base.step

    @cached_property
    def _plans(self) -> list[_Plan]:
        known = _Costs(self.bounds, self.costs)
        return [_Plan(known, start, stop, s, WORK / len(self.kept)) for start, stop, s in self._gaps()]


class _Costs:
    """Costs of running between steps, and their sums over starts, for steps of equal cost within blocks."""

    def __init__(self, bounds: Sequence[int], costs: Sequence[float]) -> None:
        self.bounds = bounds
        self._each = [cost / (b - a) for a, b, cost in zip(bounds, bounds[1:], costs, strict=False)]
        self._before, self._summed = [0.0], [0.0]  # at each bound: cost of running there from step 0, and its sum over earlier steps
        for a, b, each in zip(bounds, bounds[1:], self._each, strict=False):
            n, before = b - a, self._before[-1]
            self._summed.append(self._summed[-1] + n * before + each * n * (n - 1) / 2)
            self._before.append(before + n * each)

    def block(self, step: int) -> int:
        """Return the block of a step."""
        return min(bisect_right(self.bounds, step) - 1, len(self._each) - 1)

    def each(self, step: int) -> float:
        """Return the cost of a step."""
        return self._each[self.block(step)]

    def before(self, step: int) -> float:
        """Return the cost of running from step 0 to `step`."""
        k = self.block(step)
        return self._before[k] + (step - self.bounds[k]) * self._each[k]

    def in_one_slot(self, start: int, stop: int) -> float:
        """Return the cost of running from `start` up to each of the steps before `stop`."""
        return self._sum(stop) - self._sum(start) - (stop - start) * self.before(start)

    def _sum(self, step: int) -> float:
        k = self.block(step)
        n = step - self.bounds[k]
        return self._summed[k] + n * self._before[k] + self._each[k] * n * (n - 1) / 2


class _Plan:
    """The cheapest splits of one gap.

    Args:
        known: costs of the steps.
        start: first step of the gap.
        stop: its end.
        s: number of slots, including that of the first state.
        work: limit of blocks^3 slots up to which blocks are cut.
    """

    def __init__(self, known: _Costs, start: int, stop: int, s: int, work: float) -> None:
        self._s = s = min(s, stop - start)
        self.cost, self._edges, self._split = _binomial_cost(known, start, stop, s), [start, stop], np.zeros((1, 2, s + 1), dtype=np.int16)
        if known.block(start) < known.block(stop - 1):
            edges = _cut(known, start, stop, int((work / s) ** (1 / 3)))
            cost, split = _best_splits(known, edges, s)
            if cost < self.cost:
                self.cost, self._edges, self._split = cost, edges, split

    def cost_if(self, known: _Costs) -> float:
        """Return the cost of the advances at other costs of blocks."""
        total, open_segments = 0.0, [(0, len(self._edges) - 1, self._s)]
        while open_segments:
            first, last, s = open_segments.pop()
            start, stop = self._edges[first], self._edges[last]
            k = int(self._split[first, last - first, s]) if stop - start > 1 else 0
            if k:
                total += known.before(self._edges[first + k]) - known.before(start)
                open_segments += (first, first + k, s), (first + k, last, s - 1)
            else:
                total += _binomial_cost(known, start, stop, s)
        return total

    def actions(self, base: Kept, pool: Pool) -> Iterator[Action]:
        """Return the actions, from the working state that `base` keeps."""
        edges, split = self._edges, self._split
        first, last = 0, len(edges) - 1
        if base.tier and pool.free and split[first, last - first, self._s] > 0:
            slot = pool.take()
            yield Save(base.step, slot)
            yield Free(base.slot, base.tier)
            base = Kept(base.step, slot)
        below: list[tuple[int, Kept]] = []  # open segments below the one from block `first`, whose state `held` keeps
        held: Kept | None = base
        while True:
            s = min(pool.free + 1, self._s)
            k = int(split[first, last - first, s]) if held is not None else 0
            if held is not None and k:
                middle = first + k
                yield Advance(edges[first], edges[middle])
                below.append((first, held))
                first, held = middle, None
                if edges[last] - edges[first] > 1:
                    held = Kept(edges[first], pool.take())
                    yield Save(held.step, held.slot)
                continue
            yield from reverse_segment(edges[first], edges[last], pool, held)
            if not below:
                return
            last = first
            first, held = below.pop()
            yield Load(held.step, held.slot)


def _cut(known: _Costs, start: int, stop: int, count: int) -> list[int]:
    """Return the edges of the blocks of a gap. If there are fewer than `count`, cut them to about `count` of similar lengths."""
    inner = [bound for bound in known.bounds if start < bound < stop]
    edges = [start]
    for a, b in pairwise([start, *inner, stop]):
        parts = min(max(1, round(count * (b - a) / (stop - start))), b - a)
        edges += [a + (b - a) * part // parts for part in range(1, parts + 1)]
    return edges


def _best_splits(known: _Costs, edges: list[int], slots: int) -> tuple[float, np.ndarray]:
    """Return C(0, blocks, slots), and split[i, d, s]: k - i for the best split of blocks i .. i+d-1 with s slots, 0 for none."""
    blocks = len(edges) - 1
    before = np.array([known.before(edge) for edge in edges])
    split = np.zeros((blocks, blocks + 1, slots + 1), dtype=np.int16)
    left = np.full((blocks, slots, blocks + 1), np.inf)  # [i, s-1, d]: cost of running over d blocks, and C(i, i+d, s)
    right = np.full((blocks + 1, slots, blocks + 1), np.inf)  # [j, s-1, d]: C(j-d, j, s)
    of_block = np.array([known.block(edge) for edge in edges[:-1]])
    advances = cache(lambda length: np.array([fewest_advances(length, s) for s in range(1, slots + 1)], dtype=float))
    space = np.empty(blocks * blocks * slots // 2 + blocks * slots)
    for d in range(1, blocks + 1):
        n = blocks - d + 1
        best = np.full((n, slots), np.inf)
        best[:, 0] = [known.in_one_slot(edges[i], edges[i + d]) for i in range(n)]
        if slots > 1 and d > 1:
            costs = space[: n * (slots - 1) * (d - 1)].reshape(n, slots - 1, d - 1)
            np.add(left[:n, 1:, 1:d], right[d:, :-1, d - 1 : 0 : -1], out=costs)
            where = costs.argmin(axis=2)
            best[:, 1:] = np.take_along_axis(costs, where[:, :, None], axis=2)[:, :, 0]
            split[:n, d, 2:] = where + 1
        for i in np.flatnonzero(of_block[:n] == of_block[d - 1 :]).tolist():  # within a block, binomial splits are the best
            best[i] = known.each(edges[i]) * advances(edges[i + d] - edges[i])
            split[i, d] = 0
        right[d:, :, d] = best
        left[:n, :, d] = (before[d:] - before[:n])[:, None] + best
    return float(right[blocks, slots - 1, blocks]), split


def _binomial_cost(known: _Costs, start: int, stop: int, s: int) -> float:
    """Return the cost of the binomial splits of a segment. Splits are followed only while they cross edges of blocks."""
    total, open_segments = 0.0, [(start, stop, s)]
    while open_segments:
        start, stop, s = open_segments.pop()
        length = stop - start
        if length == 1:
            continue
        if known.block(start) == known.block(stop - 1):
            total += known.each(start) * fewest_advances(length, s)
        elif s == 1:
            total += known.in_one_slot(start, stop)
        else:
            r = repetitions(length, s)
            middle = start + first_advance(length, s, r, beta(s, r - 1))
            total += known.before(middle) - known.before(start)
            open_segments += (start, middle, s), (middle, stop, s - 1)
    return total


def _require_blocks(bounds: tuple[int, ...], costs: tuple[float, ...], stop: int) -> None:
    if len(bounds) != len(costs) + 1 or not 1 <= len(costs) <= MOST_BLOCKS:
        raise PlanError(
            f"expected 1 to {MOST_BLOCKS} blocks with a cost each, got {len(bounds)} bounds and {len(costs)} costs; "
            "give one bound more than costs, and join blocks that are too many"
        )
    if bounds[0] != 0 or bounds[-1] < stop or any(b <= a for a, b in pairwise(bounds)):
        raise PlanError(
            f"expected bounds that rise from 0 to at least {stop}, got {bounds[0]} .. {bounds[-1]}; give the steps at which blocks begin"
        )
    if not all(0 <= cost < float("inf") for cost in costs):
        raise PlanError(f"expected costs from 0 up, got {min(costs)} .. {max(costs)}; give the cost of running each block, in one unit")
