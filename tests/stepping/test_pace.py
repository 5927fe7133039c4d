"""How many steps and workers a launch gets."""

from __future__ import annotations

from diffsim.stepping.pace import STRIKES, TRIAL, Pace


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
