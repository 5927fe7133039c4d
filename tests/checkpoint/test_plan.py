from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import Binomial, StoreAll, choose, peak_states, plan, resolve, simulate
from diffsim.errors import ParameterError, PlanError, ScheduleError

from .toy_model import Segments


def bytes_needed(schedule, state_bytes, recorded_bytes, working_bytes):
    """Peak by execution: what is in slots and record, taken at their separate peaks."""
    found = simulate(schedule)
    return working_bytes + found.peak_slots[0] * state_bytes + found.peak_record * recorded_bytes


@settings(deadline=None, max_examples=150)
@given(
    steps=st.integers(1, 60),
    state_bytes=st.integers(1, 50),
    recorded_bytes=st.none() | st.integers(1, 100),
    working_bytes=st.integers(0, 100),
    budget_bytes=st.integers(0, 4000),
)
def test_a_choice_fits_and_is_the_best_that_fits(steps, state_bytes, recorded_bytes, working_bytes, budget_bytes):
    record = state_bytes if recorded_bytes is None else recorded_bytes
    candidates = [StoreAll(steps), *(Binomial(steps, slots) for slots in range(1, steps + 1))]
    if steps == 1:
        candidates = [StoreAll(1)]  # a slot is of no use to it
    needs = {schedule: bytes_needed(schedule, state_bytes, record, working_bytes) for schedule in candidates}
    fitting = [schedule for schedule in candidates if needs[schedule] <= budget_bytes]
    if not fitting:
        with pytest.raises(PlanError, match=f"at least {min(needs.values())} bytes"):
            choose(steps, state_bytes, budget_bytes, recorded_bytes, working_bytes)
        return
    chosen = choose(steps, state_bytes, budget_bytes, recorded_bytes, working_bytes)
    assert needs[chosen] <= budget_bytes
    assert chosen.advances == min(schedule.advances for schedule in fitting)


@pytest.mark.parametrize(
    ("budget", "schedule"),
    [(1100, StoreAll(10)), (1099, Binomial(10, 8)), (400, Binomial(10, 2)), (399, Binomial(10, 1)), (300, Binomial(10, 1))],
)
def test_the_edges_of_a_budget(budget, schedule):
    assert choose(10, 100, budget, working_bytes=100) == schedule


def test_the_smallest_budget_is_named_and_works():
    with pytest.raises(PlanError, match=r"at least 300 bytes for 10 steps with states of 100 bytes, got 299 bytes; raise the budget"):
        choose(10, 100, 299, working_bytes=100)


def test_large_records_make_binomial_the_choice():
    assert choose(10, 10, 1000, recorded_bytes=101) == Binomial(10, 10)


@pytest.mark.parametrize(
    "sizes",
    [
        {"state_bytes": 0},
        {"state_bytes": -8},
        {"state_bytes": 8.0},
        {"budget_bytes": -1},
        {"budget_bytes": 1e9},
        {"recorded_bytes": -1},
        {"working_bytes": -1},
        {"working_bytes": True},
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes):
    (name,) = sizes
    with pytest.raises(ParameterError, match=f"expected {name} to be an integer"):
        choose(**{"steps": 10, "state_bytes": 8, "budget_bytes": 10**6} | sizes)


def test_the_steps_must_be_positive():
    with pytest.raises(ScheduleError, match="steps"):
        choose(0, 8, 10**6)


@pytest.mark.parametrize(
    ("checkpoint", "schedule"),
    [
        (7, Binomial(100, 7)),
        (np.int64(7), Binomial(100, 7)),
        ("100 kB", StoreAll(100)),
        ("20kB", Binomial(100, 19)),
        (StoreAll(100), StoreAll(100)),
        (Segments(100, 10), Segments(100, 10)),
    ],
)
def test_resolve(checkpoint, schedule):
    assert resolve(checkpoint, 100, 1000) == schedule


def test_resolve_counts_what_is_in_use_and_recorded():
    assert resolve("20 kB", 100, 1000, 5000) == Binomial(100, 14)
    assert resolve("20 kB", 100, 1000, 5000, recorded_bytes=3000) == Binomial(100, 12)


@pytest.mark.parametrize(("available", "schedule"), [(200_000, StoreAll(100)), (199_999, Binomial(100, 98)), (40_000, Binomial(100, 19))])
def test_auto_takes_half_of_the_available_memory(monkeypatch, available, schedule):
    monkeypatch.setattr(plan, "available_memory", lambda: available)
    assert resolve("auto", 100, 1000) == schedule


def test_auto_on_this_machine_stores_what_is_small():
    assert resolve("auto", 100, 8) == StoreAll(100)


def test_a_schedule_of_other_steps_is_refused():
    with pytest.raises(ScheduleError, match=r"a schedule of 100 steps, got Binomial\(steps=99, slots=5\) of 99"):
        resolve(Binomial(99, 5), 100, 1000)


@pytest.mark.parametrize(
    ("checkpoint", "error"),
    [(101, PlanError), (0, ScheduleError), (True, ParameterError), (2.0, ParameterError), (None, ParameterError), ("lots", ParameterError)],
)
def test_what_cannot_be_resolved_is_refused(checkpoint, error):
    with pytest.raises(error, match=r"expected .*got"):
        resolve(checkpoint, 100, 1000)


@settings(deadline=None, max_examples=80)
@given(data=st.data(), steps=st.integers(1, 300))
def test_peak_states_come_true(data, steps):
    slots = data.draw(st.integers(1, steps), label="slots")
    for schedule in (StoreAll(steps), Binomial(steps, slots)):
        assert simulate(schedule).peak_states == peak_states(schedule)
    segments = Segments(steps, data.draw(st.integers(1, steps), label="length"))
    assert simulate(segments).peak_states <= peak_states(segments)
