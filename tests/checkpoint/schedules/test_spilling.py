"""Spilling to a slow tier: legal, fetched ahead, at a price a step that does not depend on the length."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import Advance, Binomial, Fetch, Load, Reverse, Save, Spilling, Tier, simulate
from diffsim.errors import PlanError, ScheduleError

from ..tables import splits_table


def disk(slots=10**6, write=0.0, read=0.0):
    return Tier("disk", slots, write, read)


def test_every_small_size():
    best = splits_table(40, 3)
    for slots, every, steps in itertools.product((1, 2, 3), (1, 2, 3, 7, 12), range(1, 41)):
        schedule = Spilling(steps, slots, disk(), every)
        summary = simulate(schedule)
        lengths = [min(every, steps - start) for start in range(0, steps, every)]
        assert summary.advances == steps - lengths[-1] + sum(best[length, slots] for length in lengths)
        assert summary.writes[1] == summary.reads[1] == schedule.spilled == len(lengths) - 1


@settings(deadline=None, max_examples=40)
@given(steps=st.integers(1, 4000), slots=st.integers(1, 30), every=st.integers(1, 300))
def test_large_sizes(steps, slots, every):
    schedule = Spilling(steps, slots, disk(), every if slots > 1 else min(every, 20))
    assert simulate(schedule).cost == schedule.cost


@pytest.mark.parametrize(("steps", "slots", "every"), [(50, 3, 7), (49, 3, 7), (100, 5, 34)])
def test_a_state_is_fetched_while_the_segment_above_is_reversed(steps, slots, every):
    actions = list(Spilling(steps, slots, disk(), every).actions())
    fetches = [n for n, action in enumerate(actions) if isinstance(action, Fetch)]
    loads = [n for n, action in enumerate(actions) if isinstance(action, Load) and action.tier == 1]
    assert len(fetches) == len(loads) == (steps - 1) // every
    for fetch, load in zip(fetches, loads, strict=True):
        reversed_meanwhile = sum(action.stop - action.start for action in actions[fetch:load] if isinstance(action, Reverse))
        assert reversed_meanwhile == min(every, steps - actions[fetch].step - every)


def test_a_slow_save_is_followed_by_as_many_steps_as_hide_it():
    actions = list(Spilling(100, 3, disk(write=8.2, read=3)).actions())
    for save, advance in itertools.pairwise(actions):
        if isinstance(save, Save) and save.tier == 1:
            assert isinstance(advance, Advance) and advance.stop - advance.start == 9


def test_the_price_a_step_does_not_depend_on_the_length():
    price = 1 + Binomial(20, 4).advances / 20
    for steps in (10**3, 10**5, 10**7):
        assert Spilling(steps, 4, disk(write=20, read=7)).cost / steps == pytest.approx(price, rel=20 / steps)


@pytest.mark.parametrize(
    ("tier", "every"),
    [
        (disk(), 1),
        (disk(write=3), 3),
        (disk(read=4.5), 5),
        (disk(9, 4, 4), 10),
        (disk(10, 4, 4), 10),
        (disk(1), 50),
        (disk(write=400), 400),
    ],
)
def test_the_default_hides_transfers_and_fits_the_slots(tier, every):
    assert Spilling(100, 5, tier).every == every


def test_what_is_not_hidden_is_counted():
    assert Spilling(100, 5, disk(write=12, read=11.5), 10).cost == Spilling(100, 5, disk(), 10).cost + 9 * (2 + 1.5)


@pytest.mark.parametrize("steps", [1, 2, 30])
def test_a_run_of_one_segment_is_binomial(steps):
    slots = min(steps, 4)
    assert list(Spilling(steps, slots, disk(), 30).actions()) == list(Binomial(steps, slots).actions())


REFUSED = {
    "too often for the slots": (
        (100, 5, disk(9), 9),
        PlanError,
        r"every = 10 or more for 100 steps with 9 slots of tier 'disk', got 9",
    ),
    "a negative cost": ((100, 5, disk(write=-1)), PlanError, "costs from 0 steps up"),
    "an infinite cost": ((100, 5, disk(read=float("inf"))), PlanError, "costs from 0 steps up"),
    "no slow slots": ((100, 5, disk(0)), ScheduleError, "slots of tier 'disk'"),
    "no steps": ((0, 5, disk()), ScheduleError, "expected steps"),
    "no slots": ((5, 0, disk()), ScheduleError, "expected slots"),
    "every none": ((5, 1, disk(), 0), ScheduleError, "expected every"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    arguments, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        Spilling(*arguments)
