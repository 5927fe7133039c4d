from __future__ import annotations

import itertools

import pytest

from diffsim.checkpoint import Advance, EndForward, Free, Load, Reverse, Reversible, Save, Undo, simulate


def test_actions():
    assert list(Reversible(3, 2).actions()) == [
        *(Save(0, 0), Advance(0, 2), Save(2, 1), Advance(2, 3), EndForward(3)),
        *(Undo(2, 3), Load(2, 1), Free(1), Reverse(2, 3)),
        *(Undo(1, 2), Reverse(1, 2)),
        *(Undo(0, 1), Load(0, 0), Free(0), Reverse(0, 1)),
    ]


def test_every_step_runs_twice():
    for steps, period in itertools.product((1, 2, 3, 10, 37), (1, 2, 5, 36, 37, 40, None)):
        schedule = Reversible(steps, period)
        summary = simulate(schedule)
        assert (summary.advances, summary.undone, summary.recorded) == (steps, steps, 0)
        assert summary.cost == schedule.cost == 2 * steps
        assert summary.peak_slots == summary.writes == summary.reads == (schedule.slots,)


@pytest.mark.parametrize(("steps", "period", "slots"), [(1, 1, 1), (9, 1, 9), (10, 1, 10), (11, 2, 6), (1000, 100, 10), (1009, 101, 10)])
def test_about_ten_states_are_kept_by_default(steps, period, slots):
    assert (Reversible(steps).period, Reversible(steps).slots) == (period, slots)


def test_drift_ends_at_each_kept_state():
    undone, most = 0, 0
    for action in Reversible(100, 7).actions():
        if isinstance(action, Undo):
            undone += action.stop - action.start
            most = max(most, undone)
        elif isinstance(action, Load):
            undone = 0
    assert most == 7


def test_it_is_written_with_its_period():
    assert repr(Reversible(9)) == repr(Reversible(9, 1))
