"""All states, and residuals of some steps: no step runs twice, as many are recorded as fit, and the time falls with the memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import (
    Binomial,
    Costs,
    EndForward,
    Keep,
    PartlyRecorded,
    Policy,
    Record,
    Request,
    Reverse,
    Sizes,
    StoreAll,
    choose,
    simulate,
)
from diffsim.checkpoint.planning.table import name_of
from diffsim.errors import PlanError, ScheduleError

COSTS = Costs(advance=1.0, record=1.2, reverse=5.0, reverse_recorded=4.2, call=0.1)


def test_actions() -> None:
    assert list(PartlyRecorded(6, 2).actions()) == [Keep(0, 4), Record(4, 6), EndForward(6), Reverse(4, 6), Reverse(0, 4)]


@pytest.mark.parametrize(("steps", "last"), [(2, 1), (7, 1), (7, 6), (100, 40)])
def test_no_step_runs_twice(steps: int, last: int) -> None:
    schedule = PartlyRecorded(steps, last)
    summary = simulate(schedule)
    assert (summary.advances, summary.recorded, summary.starts) == (steps - last, last, schedule.starts)
    assert (summary.peak_slots, summary.peak_record, summary.peak_states) == ((steps - last,), last, steps)


@settings(deadline=None, max_examples=60)
@given(steps=st.integers(1, 300), state=st.integers(1, 50), more=st.integers(-20, 200), budget=st.integers(1, 80_000))
def test_as_many_steps_are_recorded_as_fit(steps: int, state: int, more: int, budget: int) -> None:
    sizes = Sizes(state, max(state + more, 0), 10)
    fitted = PartlyRecorded.fitted(Request(steps, sizes, budget=budget))
    if isinstance(fitted, int):
        assert fitted > budget and not isinstance(PartlyRecorded.fitted(Request(steps, sizes, budget=fitted)), int)
        return
    assert fitted.steps == steps and sizes.peak(fitted) <= budget
    if isinstance(fitted, PartlyRecorded):
        further = fitted.last + 1
        assert sizes.peak(PartlyRecorded(steps, further) if further < steps else StoreAll(steps)) > budget
    else:
        assert fitted == StoreAll(steps)


def test_a_measured_plan_takes_it_between_all_states_and_all_residuals() -> None:
    """The more memory, the more steps are recorded, and the less time it takes; without costs, residuals count as no better than states."""
    steps, sizes = 100, Sizes(100, 250, 1000)
    states, residuals = sizes.peak(Binomial(steps, steps)), sizes.peak(StoreAll(steps))
    budgets = [states + part * (residuals - states) // 6 for part in range(7)]
    plans = [choose(Policy(memory=budget), steps, sizes, COSTS) for budget in budgets]
    kinds = [type(plan.schedule) for plan in plans]
    assert set(kinds[1:-1]) == {PartlyRecorded} and kinds[-1] is StoreAll
    seconds = [plan.chosen.seconds or 0.0 for plan in plans]
    assert all(later < earlier for earlier, later in pairwise(seconds))
    assert all(plan.chosen.extra == 0 and plan.chosen.peak <= budget for plan, budget in zip(plans, budgets, strict=True))
    last = plans[3].schedule.recorded
    assert name_of(plans[3].schedule) == f"{steps - last} states and {last} recorded steps (partly recorded)"
    assert choose(Policy(memory=budgets[3]), steps, sizes).schedule == Binomial(steps, steps)
    slower = replace(COSTS, reverse_recorded=4.9)  # what a recorded step takes longer is more than its adjoint saves
    assert choose(Policy(memory=budgets[3]), steps, sizes, slower).schedule == Binomial(steps, steps)


def test_the_first_steps_of_a_run_have_one_too() -> None:
    whole = PartlyRecorded(10, 4)
    assert [whole.shortened(steps) for steps in (9, 4, 1)] == [PartlyRecorded(9, 4), PartlyRecorded(4, 3), StoreAll(1)]


def test_counts_that_cannot_be_are_refused() -> None:
    with pytest.raises(PlanError, match=r"expected fewer than 5 recorded steps, got last = 5; use StoreAll\(5\)"):
        PartlyRecorded(5, 5)
    with pytest.raises(ScheduleError, match="expected last to be"):
        PartlyRecorded(5, 0)
