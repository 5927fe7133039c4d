"""The online schedule wherever the run ends: legal, optimal as long as it can be, and near the optimum beyond."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import Advance, Binomial, Free, Online, Save, simulate
from diffsim.errors import ScheduleError

from ..tables import gaps_table

MOST_STEPS, MOST_SLOTS = 250, 10
WORST = {2: 1.14, 3: 1.151, 4: 1.064, 5: 1.067}
"""Advances over those of the optimum; the least bounds of two or three decimals that hold up to 12 000 steps."""
WORST_BEYOND = 1.045


@pytest.mark.parametrize("slots", range(1, MOST_SLOTS + 1))
def test_the_cost_is_near_the_optimum_wherever_the_run_ends(slots):
    best = gaps_table(MOST_STEPS, MOST_SLOTS)
    schedule = Online(slots)
    for steps in range(1, MOST_STEPS + 1):
        optimum = steps + best[steps, slots]
        if steps <= (slots + 1) * (slots + 2) // 2 or slots == 1:
            assert schedule.advances_of(steps) == optimum, steps
        else:
            assert optimum <= schedule.advances_of(steps) <= WORST.get(slots, WORST_BEYOND) * optimum, steps


@pytest.mark.parametrize("slots", range(1, 8))
def test_every_small_run_is_legal(slots):
    for steps in range(1, 90):
        summary = simulate(Online(slots), steps)  # compares advances_of with the advances made
        assert summary.recorded == 0
        assert summary.peak_slots[0] <= min(slots, steps)


@settings(deadline=None, max_examples=30)
@given(slots=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_runs_of_random_length_are_legal(slots, seed):
    simulate(Online(slots), random.Random(seed).randint(1, 200 if slots == 1 else 3000))


def forward_part(slots, steps):
    for action in Online(slots).online_actions(lambda: None):
        if isinstance(action, Advance) and action.stop > steps:
            return
        yield action


def test_the_forward_part_does_not_know_the_end():
    schedule, seen = Online(4), []
    for steps in (7, 100, 1000):
        reached, actions = 0, []
        for action in schedule.online_actions(lambda: steps if reached >= steps else None):  # noqa: B023
            if isinstance(action, Advance):
                if action.stop > steps:
                    break
                reached = action.stop
            actions.append(action)
        seen.append(actions)
    assert seen[1][: len(list(forward_part(4, 7)))] == list(forward_part(4, 7))
    assert seen[2][: len(list(forward_part(4, 100)))] == list(forward_part(4, 100))


def test_advances_reach_to_the_next_kept_state():
    actions = list(forward_part(5, 5000))
    for before, action, after in zip(actions, actions[1:], actions[2:], strict=False):
        if isinstance(action, Advance):
            assert isinstance(before, Save) and isinstance(after, Save | Free)
    assert len(actions) < 4000  # kept states get rare


def test_long_runs_cost_hardly_more_than_if_their_length_were_known():
    for steps, slots in ((10**4, 25), (10**5, 50), (10**6, 50)):
        assert Online(slots).advances_of(steps) < 1.01 * Binomial(steps, slots).advances


@pytest.mark.parametrize("steps", [0, 1.5])
def test_steps_that_cannot_be_are_refused(steps):
    with pytest.raises(ScheduleError, match="expected steps"):
        Online(3).advances_of(steps)
