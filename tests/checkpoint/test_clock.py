"""Time left is what the measured pace makes of the work left."""

from __future__ import annotations

import pytest

from diffsim.checkpoint.clock import MEASURED_FIRST, MEASURED_THEN, Clock

TOTAL = {"advance": 100, "record": 1, "reverse": 50, "undo": 0}


def test_nothing_is_known_before_the_first_step():
    assert Clock(TOTAL).seconds_left is None
    assert Clock(TOTAL).share == 0.0


def test_the_reverse_is_guessed_until_it_is_measured():
    clock = Clock(TOTAL, reverse_weight=3.0)
    clock.note("advance", 0, 20, 2.0)
    assert clock.seconds_left == pytest.approx(80 * 0.1 + 0.1 + 50 * 0.3)
    clock.note("reverse", 40, 50, 5.0)
    assert clock.seconds_left == pytest.approx(80 * 0.1 + 0.1 + 40 * 0.5)


def test_the_first_of_each_kind_is_forgotten_once_there_is_a_second():
    """It includes the compilation of a kernel."""
    clock = Clock(TOTAL)
    clock.note("advance", 0, 10, 100.0)
    clock.note("advance", 0, 10, 1.0)
    clock.note("advance", 0, 10, 3.0)
    assert clock.step_seconds("advance") == pytest.approx(0.2)


def test_the_pace_of_an_earlier_sweep_counts_until_another_is_measured():
    earlier = Clock(TOTAL)
    earlier.note("advance", 0, 10, 100.0)
    earlier.note("advance", 0, 10, 1.0)
    assert earlier.measured == {"advance": 0.1}
    clock = Clock(TOTAL, known=earlier.measured)
    clock.note("advance", 0, 10, 50.0)  # the first touches memory
    assert clock.step_seconds("advance") == 0.1
    clock.note("advance", 0, 10, 2.0)
    assert clock.step_seconds("advance") == pytest.approx(0.2)


def test_the_share_counts_reversed_steps_by_their_weight():
    clock = Clock(TOTAL, reverse_weight=2.0)
    clock.note("reverse", 25, 50, 1.0)
    assert clock.share == pytest.approx(50 / 201)


def test_work_that_is_not_measured_counts_as_done_at_the_pace_of_the_rest():
    clock = Clock(TOTAL)
    for start in (0, 10):
        clock.note("advance", start, start + 10, 1.0)
    clock.note("advance", 20, 60, None)
    assert clock.done["advance"] == 60
    assert clock.step_seconds("advance") == pytest.approx(0.1)


def test_the_first_pieces_are_measured_then_one_in_many():
    clock = Clock(TOTAL)
    measured = []
    for piece in range(100):
        measured.append(clock.measures_next("advance"))
        clock.note("advance", piece, piece + 1, 1.0 if measured[-1] else None)
    assert all(measured[:MEASURED_FIRST]) and sum(measured) == MEASURED_FIRST + (99 // MEASURED_THEN)
    assert clock.measures_next("reverse")
