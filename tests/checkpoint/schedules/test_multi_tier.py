"""The schedule of several tiers: equal to a recursion from the model's definition, legal, within limits, at the cost it predicts."""

from __future__ import annotations

import functools
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import Binomial, Fetch, Load, MultiTier, Reverse, Tier, simulate
from diffsim.checkpoint.schedules.tier_plan import GridPlan, best_plan
from diffsim.errors import PlanError, ScheduleError

ROUND_OFF = 1e-9
GRID_LOSS = 0.07  # over the optimum; what is stated for runs of more than 1024 steps


def optimum(steps, tiers):
    """Least cost of the hierarchical model beside the recorded step: each segment either splits in its tier or is left to faster ones."""

    @functools.cache
    def reverse(length, k, free, kept):
        """From the working state, with `free` empty slots in tier k and all faster tiers empty; `kept`: tier k has that state as well."""
        if length == 1:
            return 0
        tier, best = tiers[k], float("inf")
        if k > 0:
            best = reverse(length, k - 1, tiers[k - 1][1], False)
        if not kept:
            return min(best, tier[2] + reverse(length, k, free - 1, True)) if free else best
        for j in range(1, length):
            right = reverse(length - j, k, free, False)
            best = min(best, j + right + tier[3] + reverse(j, k, free, True))
        return best

    return reverse(steps, len(tiers) - 1, tiers[-1][1], False)


def test_two_tiers_of_every_small_size():
    for slots, disk, (write, read) in itertools.product((1, 2, 4), (1, 2, 3), ((0, 0), (1, 1), (2.5, 0.5), (0, 7))):
        tiers = (("ram", slots, 0, 0), ("disk", disk, write, read))
        for steps in range(1, 31):
            schedule = MultiTier(steps, tiers)
            assert schedule.cost == pytest.approx(1 + optimum(steps, tiers), abs=ROUND_OFF), (steps, tiers)
            summary = simulate(schedule)  # refuses what exceeds a tier and compares the advances
            assert summary.cost == pytest.approx(schedule.cost, abs=ROUND_OFF)


@pytest.mark.parametrize("costs", [(0.5, 0.5, 2, 3), (1, 0, 1, 5), (3, 3, 1, 1)])
def test_three_tiers(costs):
    for counts in itertools.product((1, 2), repeat=3):
        tiers = (("gpu", counts[0], 0, 0), ("ram", counts[1], *costs[:2]), ("disk", counts[2], *costs[2:]))
        for steps in (1, 2, 5, 9, 14, 23):
            schedule = MultiTier(steps, tiers)
            assert schedule.cost == pytest.approx(1 + optimum(steps, tiers), abs=ROUND_OFF), (steps, tiers)
            assert simulate(schedule).cost == pytest.approx(schedule.cost, abs=ROUND_OFF)


PUBLISHED = [
    (5, 10**6, 1, 2.157), (5, 10**6, 2, 2.483), (5, 10**6, 5, 3.107), (5, 10**6, 20, 4.108), (10, 10**6, 10, 3.010),
    (20, 10**6, 20, 2.747), (10, 10, 1, 2.822), (10, 10, 2, 2.847), (10, 10, 5, 2.922), (10, 10, 20, 3.256),
]  # fmt: skip


@pytest.mark.parametrize(("slots", "disk", "transfer", "expected"), PUBLISHED)
def test_published_costs_of_a_thousand_steps(slots, disk, transfer, expected):
    schedule = MultiTier(1000, (("ram", slots, 0, 0), ("disk", disk, transfer, transfer)))
    assert round((schedule.cost - 1) / 1000, 3) == expected
    assert simulate(schedule).cost == schedule.cost


@pytest.mark.parametrize(("steps", "slots", "disk"), [(10, 1, 2), (60, 1, 12), (50, 4, 3), (300, 5, 15), (1000, 3, 997)])
def test_a_second_tier_that_costs_nothing_is_more_slots(steps, slots, disk):
    assert MultiTier(steps, (("ram", slots, 0, 0), ("disk", disk, 0, 0))).cost == 1 + Binomial(steps, slots + disk).advances


@pytest.mark.parametrize("tiers", [(Tier("ram", 7),), (Tier("ram", 7), Tier("disk", 9, 1e6, 0.0))])
def test_the_first_tier_alone_is_binomial(tiers):
    schedule = MultiTier(60, tiers)
    assert list(schedule.actions()) == list(Binomial(60, 7).actions())
    assert schedule.advances == Binomial(60, 7).advances


@pytest.mark.parametrize("steps", [40, 2000])
def test_a_load_begins_as_the_segment_above_is_reversed(steps):
    """Each is fetched before the steps above it are reversed, and nothing is fetched that is not loaded next."""
    schedule = MultiTier(steps, (("ram", 3, 0, 0), ("host", 2, 1, 1), ("disk", 4, 3, 3)))
    simulate(schedule)
    fetched, reversed_since, loads = None, 0, 0
    for action in schedule.actions():
        match action:
            case Fetch(step, slot, tier):
                assert fetched is None
                fetched, reversed_since = Load(step, slot, tier), 0
            case Reverse():
                reversed_since += 1
            case Load(tier=tier) if tier:
                assert action == fetched and reversed_since
                fetched, loads = None, loads + 1
    assert fetched is None and loads > 2


def test_one_step():
    assert MultiTier(1, (("ram", 1, 0, 0), ("disk", 1, 1, 1))).cost == simulate(MultiTier(1, (("ram", 1, 0, 0),))).cost == 1


@settings(deadline=None, max_examples=25)
@given(
    steps=st.integers(1025, 6000),
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    costs=st.lists(st.floats(0, 60), min_size=4, max_size=4),
)
def test_long_runs_cost_what_is_predicted(steps, counts, costs):
    tiers = [("gpu", counts[0], 0, 0), *((str(k), n, *costs[2 * k : 2 * k + 2]) for k, n in enumerate(counts[1:]))]
    if steps > 1500 and counts[0] == 1:
        tiers[0] = ("gpu", 2, 0, 0)
    schedule = MultiTier(steps, tiers)
    assert simulate(schedule).cost == pytest.approx(schedule.cost, rel=ROUND_OFF)


@pytest.mark.parametrize(("slots", "disk", "transfer"), [(1, 3, 5), (5, 30, 5), (5, 1000, 5), (20, 1000, 50), (20, 20, 0.5)])
def test_the_grid_loses_little(slots, disk, transfer):
    tiers = (Tier("ram", slots), Tier("disk", disk, transfer, transfer))
    for steps in (211, 300, 413):
        best, coarse = GridPlan(steps, tiers, 1).cost, best_plan(steps, tiers, blocks=100).cost
        assert best <= coarse + ROUND_OFF
        assert coarse <= (1 + GRID_LOSS) * best


def test_the_protocol():
    schedule = MultiTier(9, (("ram", 2, 0, 0), ("disk", 2, 1, 1)))
    assert schedule.tiers == (Tier("ram", 2), Tier("disk", 2, 1.0, 1.0))


REFUSED = {
    "none": ((), PlanError, "at least one tier, got none; give"),
    "costs of the first": ((("ram", 2, 1, 0),), PlanError, r"a first tier that costs nothing, got Tier.*: put the memory"),
    "a negative cost": ((("ram", 2, 0, 0), ("disk", 2, -1, 0)), PlanError, r"costs of tier 'disk' from 0 steps up, got write_cost = -1"),
    "an infinite cost": ((("ram", 2, 0, 0), ("disk", 2, 0, float("inf"))), PlanError, "costs of tier 'disk'"),
    "a cost that is no number": ((("ram", 2, 0, 0), ("disk", 2, 0, float("nan"))), PlanError, "costs of tier 'disk'"),
    "no slots": ((("ram", 2, 0, 0), ("disk", 0, 1, 1)), ScheduleError, "slots of tier 'disk' to be an integer of at least 1, got 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tiers_that_cannot_be_are_refused(name):
    tiers, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        MultiTier(10, tiers)
