"""Splits for unequal steps: optimal where splits may be anywhere, never dearer than binomial ones, and at the predicted cost."""

from __future__ import annotations

import functools
import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import Advance, EndForward, Keep, Save, Tier, Weighted, simulate
from diffsim.checkpoint.schedules.gaps import reverse_gaps
from diffsim.checkpoint.schedules.splits import Kept
from diffsim.errors import PlanError, ScheduleError

from ..toy_model import scripted

ROUND_OFF = 1e-9


def whole(plan, actions, disk=0):
    """Return the schedule that keeps the states on the way forward and then does `actions`."""
    begin = []
    for base, stop in itertools.zip_longest(plan.kept, (base.step for base in plan.kept[1:]), fillvalue=plan.stop):
        begin += [Save(base.step, base.slot, base.tier), Advance(base.step, stop)]
    listed = (*begin, EndForward(plan.stop), *actions)
    return scripted(plan.stop, plan.slots, listed, (Tier("disk", disk),))


def cost_of(actions, plan):
    each = [cost / (b - a) for a, b, cost in zip(plan.bounds, plan.bounds[1:], plan.costs, strict=False) for _ in range(a, b)]
    before = np.array([0, *itertools.accumulate(each)])
    return sum(before[action.stop] - before[action.start] for action in actions if isinstance(action, (Advance, Keep)))


def optimum(costs, slots):
    """Least cost of reversing all steps from the first state, kept in one of the slots."""
    before = [0, *itertools.accumulate(costs)]

    @functools.cache
    def reverse(i, j, s):
        if j - i == 1:
            return 0
        if s == 0:
            return float("inf")
        return min(before[k] - before[i] + reverse(k, j, s - 1) + reverse(i, k, s) for k in range(i + 1, j))

    return reverse(0, len(costs), slots)


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_a_block_a_step_is_the_optimum(slots):
    rng = random.Random(slots)
    for steps in (1, 2, 3, 7, 12, 22):
        costs = tuple(rng.choice([1, 1, 2, 20]) * rng.uniform(0.5, 2) for _ in range(steps))
        plan = Weighted((Kept(0, 0),), steps, slots, tuple(range(steps + 1)), costs)
        assert plan.cost == pytest.approx(optimum(costs, slots), rel=ROUND_OFF)


@st.composite
def plans(draw):
    stop = draw(st.integers(1, 120))
    slots, disk = draw(st.integers(1, 6)), draw(st.integers(0, 2))
    numbers = [0, *sorted(draw(st.permutations(range(1, stop)))[: draw(st.integers(0, slots + disk - 1))])]
    places = draw(st.permutations([(0, slot) for slot in range(slots)] + [(1, slot) for slot in range(disk)]))
    kept = tuple(Kept(step, slot, tier) for step, (tier, slot) in zip(numbers, places, strict=False))
    inner = sorted(draw(st.sets(st.integers(1, stop + 19), max_size=15)))
    bounds = (0, *(bound for bound in inner if bound < stop), draw(st.integers(stop, stop + 5)))
    costs = draw(st.lists(st.floats(0, 50), min_size=len(bounds) - 1, max_size=len(bounds) - 1))
    return Weighted(kept, stop, slots, bounds, tuple(costs)), disk


@settings(deadline=None, max_examples=150)
@given(plans())
def test_any_plan_is_legal_and_costs_what_it_predicts(drawn):
    plan, disk = drawn
    actions = list(plan.actions())
    simulate(whole(plan, actions, disk))
    assert cost_of(actions, plan) == pytest.approx(plan.cost, rel=ROUND_OFF, abs=ROUND_OFF)
    plain = list(reverse_gaps(plan.kept, plan.stop, plan.slots))
    assert cost_of(plain, plan) == pytest.approx(plan.plain_cost, rel=ROUND_OFF, abs=ROUND_OFF)
    assert plan.cost <= plan.plain_cost * (1 + ROUND_OFF)


@pytest.mark.parametrize("slots", [2, 4, 9])
def test_blocks_of_many_steps_cost_what_is_predicted(slots):
    rng = random.Random(5)
    costs = tuple(rng.choice([1.0, 30.0]) * rng.uniform(50, 200) for _ in range(30))
    plan = Weighted((Kept(0, 0), Kept(1234, 1)), 3000, slots, tuple(range(0, 3001, 100)), costs)
    assert cost_of(plan.actions(), plan) == pytest.approx(plan.cost, rel=ROUND_OFF)
    assert plan.cost < plan.plain_cost


@pytest.mark.parametrize("kept", [(Kept(0, 0),), tuple(Kept(100 * n, n) for n in range(10))])
def test_equal_costs_leave_the_binomial_splits(kept):
    plan = Weighted(kept, 1000, 10, tuple(range(0, 1001, 20)), (20.0,) * 50)
    assert plan.cost == pytest.approx(plan.plain_cost, rel=ROUND_OFF)


def test_what_is_to_be_saved_is_saved():
    bounds = tuple(range(0, 2001, 10))
    for costs, saving in (
        ([20.0 if n % 10 == 0 else 1.0 for n in range(200)], 0.10),
        ([100.0 if n in (60, 140) else 1.0 for n in range(200)], 0.15),
    ):
        plan = Weighted((Kept(0, 0),), 2000, 12, bounds, tuple(costs))
        assert plan.cost < (1 - saving) * plan.plain_cost
        assert simulate(whole(plan, plan.actions())).peak_slots[0] <= 12


def test_a_state_on_disk_without_a_free_slot_is_read_in_place():
    plan = Weighted((Kept(0, 0), Kept(4, 0, 1)), 9, 1, (0, 2, 6, 9), (1.0, 5.0, 2.0))
    found = simulate(whole(plan, plan.actions(), disk=1))
    assert found.reads == (3, 5)
    assert found.writes == (1, 1)


def test_plans_compare_by_value():
    plan = Weighted((Kept(0, 0),), 9, 2, (0, 4, 9), (1, 2))
    assert plan == Weighted([Kept(0, 0)], 9, 2, np.array([0, 4, 9]), np.array([1.0, 2.0]))
    assert type(plan.bounds[0]) is int and type(plan.costs[0]) is float


REFUSED = {
    "a cost too few": ({"costs": (1.0,)}, PlanError, "a cost each, got 3 bounds and 1 costs; give"),
    "no block": ({"bounds": (0,), "costs": ()}, PlanError, "1 to 256 blocks"),
    "too many": ({"bounds": tuple(range(1000)), "costs": (1.0,) * 999}, PlanError, "1 to 256 blocks .* got 1000 bounds"),
    "not from 0": ({"bounds": (1, 4, 9)}, PlanError, r"rise from 0 to at least 9, got 1 \.\. 9"),
    "not to the end": ({"bounds": (0, 4, 8)}, PlanError, r"rise from 0 to at least 9, got 0 \.\. 8"),
    "not rising": ({"bounds": (0, 9, 9)}, PlanError, "rise from 0"),
    "a negative cost": ({"costs": (-1.0, 2.0)}, PlanError, r"costs from 0 up, got -1\.0"),
    "no number": ({"costs": (float("nan"), 2.0)}, PlanError, "costs from 0 up"),
    "kept states": ({"kept": (Kept(1, 0),)}, ScheduleError, "begin at 0"),
    "no slots": ({"slots": 0}, ScheduleError, "expected slots"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    changes, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        replace(Weighted((Kept(0, 0),), 9, 2, (0, 4, 9), (1.0, 2.0)), **changes)
