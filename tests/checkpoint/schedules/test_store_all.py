from __future__ import annotations

import pytest

from diffsim.checkpoint import Binomial, EndForward, Record, Reverse, Schedule, StoreAll, simulate
from diffsim.errors import ScheduleError


def test_actions():
    assert list(StoreAll(6).actions()) == [Record(0, 6), EndForward(6), Reverse(0, 6)]


@pytest.mark.parametrize("steps", [1, 2, 100])
def test_no_step_runs_twice(steps):
    summary = simulate(StoreAll(steps))
    assert (summary.advances, summary.recorded, summary.writes, summary.reads) == (0, steps, (0,), (0,))
    assert (summary.peak_record, summary.peak_states) == (steps, steps)


@pytest.mark.parametrize("steps", [0, -1, 2.5, True, None])
def test_counts_that_cannot_be_are_refused(steps):
    with pytest.raises(ScheduleError, match="expected steps"):
        StoreAll(steps)


@pytest.mark.parametrize("schedule", [StoreAll(3), Binomial(3, 2)])
def test_schedules_satisfy_the_protocol_and_compare_by_value(schedule):
    assert isinstance(schedule, Schedule)
    assert schedule == eval(repr(schedule), {"StoreAll": StoreAll, "Binomial": Binomial})
