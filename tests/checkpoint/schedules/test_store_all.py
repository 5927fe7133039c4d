from __future__ import annotations

import pytest

from diffsim.checkpoint import EndForward, Record, Reverse, StoreAll, simulate


def test_actions():
    assert list(StoreAll(6).actions()) == [Record(0, 6), EndForward(6), Reverse(0, 6)]


@pytest.mark.parametrize("steps", [1, 2, 100])
def test_no_step_runs_twice(steps):
    summary = simulate(StoreAll(steps))
    assert (summary.advances, summary.recorded, summary.writes, summary.reads) == (0, steps, (0,), (0,))
    assert (summary.peak_record, summary.peak_states) == (steps, steps)
