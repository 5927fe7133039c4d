"""How many steps and workers a launch gets."""

from __future__ import annotations

import pytest

import diffsim as ds
from diffsim.base.system import usable_cores
from diffsim.solvers import Acoustic
from diffsim.stepping.run.pace import ALONE, STRIKES, TRIAL, Pace
from diffsim.stepping.source import slabs


def started() -> Pace:
    pace = Pace(2)
    for _ in range(3):
        pace.note(pace.steps(), 1e-3)
    return pace


def test_launches_left_in_a_row_are_followed_by_one_worker_and_a_trial() -> None:
    pace = started()
    for _ in range(STRIKES):
        assert pace.workers() == 2
        pace.note(0, 3e-4, left=True)
    assert pace.workers() == 1
    while pace.workers() == 1:
        pace.note(pace.steps(), 1e-2)
    assert pace.steps() == TRIAL
    pace.note(TRIAL, 1e-3)
    assert pace.steps() > TRIAL


def test_a_launch_left_now_and_then_changes_nothing() -> None:
    pace = started()
    steps = pace.steps()
    for _ in range(10):
        pace.note(1, 3e-4, left=True)
        pace.note(steps, steps * pace.seconds)
        assert pace.workers() == 2 and abs(pace.steps() - steps) <= 1


def test_each_time_that_all_workers_were_tried_too_early_one_goes_on_for_longer() -> None:
    pace, waits = started(), []
    for _ in range(4):
        for _ in range(STRIKES):
            pace.note(0, 3e-4, left=True)
        waits.append(pace.alone)
        pace.note(1000, waits[-1])
    assert waits == sorted(waits) and waits[-1] == 8 * waits[0]


def test_long_steps_get_more_patience() -> None:
    pace = Pace(2)
    first = pace.patience(1)
    pace.note(4, 0.04, left=True)  # of which the duration is known, though they were not all
    assert pace.patience(1) == 10 and pace.patience(2) == 20 == 2 * first
    pace.note(TRIAL, 1e4)  # the process was paused
    assert pace.patience(8) == 100
    for _ in range(40):
        pace.note(TRIAL, 1e-4)
    assert pace.patience(2) == 1


@pytest.mark.skipif(usable_cores() < 2, reason="one core only")
@pytest.mark.parametrize(("cells", "used"), [(64, 1), (256, 2)])
def test_a_small_grid_has_one_worker(cells: int, used: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabs, "LEAST_CYCLES", 12_000)
    ds.init(precision="f32", threads=2)
    stepper = ds.Simulation(Acoustic(ds.Grid((cells, cells), 10.0), 1e-3, order=4))._stepper
    assert stepper.launcher.pace(stepper.forward).workers() == used


def test_slow_workers_go_alone_for_a_while_and_then_try_again() -> None:
    pace = Pace(2)
    pace.note(100, 0.01)
    assert (pace.workers(), pace.steps()) == (2, 500)
    for _ in range(2):
        pace.note(100, 0.5)
        assert pace.workers() == 2  # a first touch of memory may be slow
    pace.note(100, 0.5)
    assert pace.workers() == 1
    pace.note(100, 0.9 * ALONE)
    assert pace.workers() == 1
    pace.note(100, 0.2 * ALONE)
    assert (pace.workers(), pace.steps()) == (2, TRIAL)
    for _ in range(3):
        assert (pace.workers(), pace.steps()) == (2, TRIAL)
        pace.note(8, 0.05)
    assert pace.workers() == 1  # still slow: alone again, for longer
    pace.note(100, 1.5 * ALONE)
    assert pace.workers() == 1
    pace.note(100, 0.6 * ALONE)
    pace.note(8, 8e-4)
    assert (pace.workers(), pace.steps()) == (2, 500)


def test_one_worker_has_nothing_to_wait_for() -> None:
    pace = Pace(1)
    for seconds in (0.01, 1.0, 1.0, 1.0, 1.0):
        pace.note(100, seconds)
        assert pace.workers() == 1
    assert not pace.alone
