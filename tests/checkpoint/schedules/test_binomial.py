"""The binomial schedule against a table of the best reachable, against published counts, and against its own promises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import Advance, Binomial, EndForward, Free, Keep, Load, Record, Reverse, Save, simulate
from diffsim.errors import PlanError

MOST_STEPS, MOST_SLOTS = 130, 9
MOST_STARTS = 1.25  # times the fewest that go with the fewest advances: 1.22 is the most found, for 65 steps in 7 slots


@pytest.fixture(scope="module")
def best():
    """(steps, slots) -> fewest (advances, starts), in this order, by dynamic programming; what fits into the slots is kept in one run."""
    table = {(1, slots): (0, 1) for slots in range(MOST_SLOTS + 1)}
    for slots in range(1, MOST_SLOTS + 1):
        for steps in range(2, MOST_STEPS + 1):
            splits = [(steps - 1, 2)] if steps <= slots + 1 else []
            for k in range(1, steps):
                if (steps - k, slots - 1) in table:  # with no slot left only a single step can be reversed
                    left, right = table[k, slots], table[steps - k, slots - 1]
                    splits.append((k + left[0] + right[0], 1 + left[1] + right[1]))
            table[steps, slots] = min(splits)
    return table


def starts(schedule):
    """Starts of a schedule on a machine, but for those that the end adds: the last step is recorded, and reversed by itself."""
    actions = list(schedule.actions())
    record = next(n for n, action in enumerate(actions) if isinstance(action, Record))
    return simulate(schedule).starts - 1 - isinstance(actions[record - 1], Keep)


@pytest.mark.parametrize("slots", range(1, MOST_SLOTS + 1))
def test_every_small_schedule_is_legal_and_optimal(best, slots):
    for steps in range(slots, MOST_STEPS + 1):
        schedule = Binomial(steps, slots)
        summary = simulate(schedule)
        advances, fewest = best[steps, slots]
        assert summary.advances == schedule.advances == advances, schedule
        assert starts(schedule) == schedule.starts, schedule
        assert fewest <= schedule.starts <= MOST_STARTS * fewest, schedule
        assert summary.peak_slots == (min(slots, steps - 1),), schedule


PUBLISHED = [(10, 3, 15), (50, 7, 105), (100, 5, 316), (100, 10, 222), (1000, 20, 2747), (13465, 116, 33374), (10_000, 25, 36_346)]


@pytest.mark.parametrize(("steps", "slots", "advances"), PUBLISHED)
def test_published_counts(steps, slots, advances):
    assert Binomial(steps, slots).advances == advances
    assert simulate(Binomial(steps, slots)).advances == advances


def test_starts_of_ten_thousand_steps():
    assert Binomial(10_000, 25).starts == starts(Binomial(10_000, 25)) == 3171


def test_million_steps_in_closed_form():
    assert Binomial(10**6, 50).advances == 4_658_945
    assert Binomial(10**6, 1000).advances == 2_497_497
    assert Binomial(10**6, 1).advances == 10**6 * (10**6 - 1) // 2


@pytest.mark.slow
def test_million_steps_by_iteration():
    summary = simulate(Binomial(10**6, 50))
    assert summary.advances == 4_658_945
    assert summary.starts - Binomial(10**6, 50).starts in (1, 2)


def test_actions_of_the_smallest_schedules():
    assert list(Binomial(1, 1).actions()) == [Record(0, 1), EndForward(1), Reverse(0, 1)]
    assert list(Binomial(3, 1).actions()) == [
        *(Save(0, 0), Advance(0, 2), Record(2, 3), EndForward(3), Reverse(2, 3)),
        *(Load(0, 0), Free(0), Keep(0, 1), Reverse(0, 2)),
    ]
    assert list(Binomial(3, 3).actions()) == [Keep(0, 2), Record(2, 3), EndForward(3), Reverse(2, 3), Reverse(0, 2)]


@settings(deadline=None, max_examples=60)
@given(data=st.data(), steps=st.integers(1, 4000))
def test_larger_schedules_keep_the_promises(data, steps):
    slots = data.draw(st.integers(1, min(steps, 400)), label="slots")
    schedule = Binomial(steps, slots)
    summary = simulate(schedule)
    assert (summary.advances, starts(schedule)) == (schedule.advances, schedule.starts)
    assert (summary.recorded, summary.peak_record) == (1, 1)


@settings(deadline=None, max_examples=25)
@given(data=st.data(), steps=st.integers(2, 600))
def test_no_step_is_advanced_over_more_often_than_declared(data, steps):
    slots = data.draw(st.integers(1, steps), label="slots")
    runs = [0] * steps
    for action in Binomial(steps, slots).actions():
        if isinstance(action, (Advance, Keep)):
            for n in range(action.start, action.stop):
                runs[n] += 1
    assert max(runs) == Binomial(steps, slots).repetitions


@settings(deadline=None, max_examples=40)
@given(data=st.data(), steps=st.integers(2, 1500))
def test_slots_are_never_idle(data, steps):
    slots = data.draw(st.integers(1, min(steps, 60)), label="slots")
    loaded = set()
    actions = list(Binomial(steps, slots).actions())
    for before, action in itertools.pairwise(actions):
        if isinstance(action, Load):
            assert isinstance(before, Reverse), "a load is needed only where the working state is lost"
            loaded.add(action.slot)
        elif isinstance(action, Save):
            loaded.discard(action.slot)
        elif isinstance(action, Free):
            assert action.slot in loaded, "a state was saved and never loaded"
            assert isinstance(before, Load), "a slot must be freed right after its last load"
            assert before.slot == action.slot


def test_a_huge_schedule_starts_at_once():
    first = list(itertools.islice(Binomial(10**15, 40).actions(), 3))
    assert first[0] == Save(0, 0)
    assert first[2] == Save(first[1].stop, 1)


def test_each_iterator_is_fresh():
    schedule = Binomial(40, 4)
    half_used = schedule.actions()
    next(half_used)
    assert list(schedule.actions()) == list(schedule.actions())
    assert next(half_used) == list(schedule.actions())[1]


def test_numpy_integers_become_plain_ones():
    schedule = Binomial(np.int32(10**6), np.int32(1))
    assert type(schedule.steps) is type(schedule.slots) is int
    assert schedule.advances == 10**6 * (10**6 - 1) // 2  # more than an int32 can hold


def test_more_slots_than_steps_are_refused():
    with pytest.raises(PlanError, match=r"at most 10 slots for 10 steps, got 11; use Binomial\(10, 10\), or StoreAll\(10\)"):
        Binomial(10, 11)
