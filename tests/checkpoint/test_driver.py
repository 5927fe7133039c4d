"""Calls of a sweep and their order, and the schedules that it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim.checkpoint import Advance, Binomial, EndForward, MultiTier, Record, Reverse, Reversible, Save, StoreAll, Sweep
from diffsim.checkpoint import driver as module
from diffsim.checkpoint.actions import Undo
from diffsim.errors import ParameterError, ScheduleError, StaleValueError, StorageError

from .toy_model import Segments, ToyStepper, initial, scripted

SCHEDULES = [StoreAll(1), StoreAll(17), Binomial(1, 1), Binomial(17, 1), Binomial(17, 4), Binomial(17, 17), Segments(17, 5)]


class Log:
    """A stepper that writes down its calls."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, *args))


def as_call(action):
    return (type(action).__name__.lower(), *(getattr(action, name) for name in action.__slots__ if name != "tier"))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_every_action_becomes_one_call(schedule):
    log, seen = Log(), []
    sweep = Sweep(schedule, log, on_action=seen.append)
    sweep.forward()
    assert seen[-1] == EndForward(schedule.steps)
    assert not [call for call in log.calls if call[0] == "reverse"]
    sweep.reverse()
    assert seen == list(schedule.actions())
    assert log.calls == [as_call(action) for action in seen if not isinstance(action, EndForward)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_progress_rises_to_one(schedule):
    sweep = Sweep(schedule, Log(), on_action=lambda action: shares.append(sweep.progress))
    shares = []
    assert sweep.progress == 0.0
    sweep.forward()
    sweep.reverse()
    assert shares == sorted(shares)
    assert shares[-1] == sweep.progress == 1.0


def test_progress_counts_work():
    sweep = Sweep(Binomial(3, 1), Log(), reverse_weight=2.0)  # advances 2 + 1, records 1, reverses 3 of weight 2: 10 in all
    sweep.forward()
    assert sweep.progress == pytest.approx(0.3)
    shares = []
    sweep._on_action = lambda action: shares.append(sweep.progress)
    sweep.reverse()
    assert shares == pytest.approx([0.5, 0.5, 0.5, 0.6, 1.0])


def test_a_sweep_runs_once():
    sweep = Sweep(Binomial(5, 2), Log())
    with pytest.raises(StaleValueError, match=r"got reverse\(\) on a sweep that is not run yet; make a new Sweep"):
        sweep.reverse()
    sweep.forward()
    with pytest.raises(StaleValueError, match=r"got forward\(\) on a sweep that is at the final state"):
        sweep.forward()
    sweep.reverse()
    with pytest.raises(StaleValueError, match=r"got reverse\(\) on a sweep that is used up"):
        sweep.reverse()


@pytest.mark.parametrize("fails", ["advance", "reverse"])
def test_a_failed_sweep_frees_its_slots_and_stays_failed(fails):
    class Failing(Log):
        def __getattr__(self, name):
            if name == fails and len(self.calls) > 4:
                raise FloatingPointError(name)
            return super().__getattr__(name)

    log = Failing()
    sweep = Sweep(Binomial(30, 4), log)

    def run():
        with sweep:
            sweep.forward()
            sweep.reverse()

    with pytest.raises(FloatingPointError):
        run()
    saved = [call[2] for call in log.calls if call[0] == "save"]
    freed = [call[1] for call in log.calls if call[0] == "free"]
    assert saved
    assert sorted(saved) == sorted(freed)
    with pytest.raises(StaleValueError):
        sweep.reverse()


def test_a_failed_run_cannot_be_taken_up_again():
    def stop(action):
        raise KeyboardInterrupt

    sweep = Sweep(Binomial(5, 2), Log(), on_action=stop)
    with pytest.raises(KeyboardInterrupt):
        sweep.forward()
    with pytest.raises(StaleValueError, match="in the forward run"):
        sweep.forward()
    with pytest.raises(StaleValueError, match="in the forward run"):
        sweep.reverse()


def test_closing_frees_once():
    log = Log()
    sweep = Sweep(Binomial(30, 4), log)
    sweep.forward()
    sweep.close()
    sweep.close()
    assert [call for call in log.calls if call[0] == "free"] == [("free", slot) for slot in range(4)]


BROKEN_FORWARD = {
    "ends without EndForward": ((Record(0, 2),), "expected EndForward, got the end"),
    "reverses before EndForward": ((Record(0, 2), Reverse(0, 2)), r"expected EndForward before Reverse\(start=0, stop=2\), got none"),
    "holds no action": (("rest",), "expected an action of diffsim.checkpoint.actions, got 'rest'"),
}
BROKEN_REVERSE = {
    "leaves steps": ((Advance(0, 1), Record(1, 2), EndForward(2), Reverse(1, 2)), r"got 1 steps left and slots \[\] in use"),
    "leaves a slot": ((Save(0, 0), Record(0, 2), EndForward(2), Reverse(0, 2)), r"got 0 steps left and slots \[0\] in use"),
}


@pytest.mark.parametrize("name", BROKEN_FORWARD)
def test_a_schedule_broken_on_the_way_forward_is_refused(name):
    log = Log()
    listed, message = BROKEN_FORWARD[name]
    with pytest.raises(ScheduleError, match=rf"{message}.*; check the schedule"):
        Sweep(scripted(2, 1, listed), log).forward()
    assert not [call for call in log.calls if call[0] == "reverse"]


@pytest.mark.parametrize("name", BROKEN_REVERSE)
def test_a_schedule_broken_on_the_way_back_is_refused(name):
    listed, message = BROKEN_REVERSE[name]
    sweep = Sweep(scripted(2, 1, listed), Log())
    sweep.forward()
    with pytest.raises(ScheduleError, match=f"all steps reversed and all slots freed at the end of the schedule, {message}"):
        sweep.reverse()


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_cannot_be_is_refused(weight):
    with pytest.raises(ParameterError, match="reverse_weight above 0"):
        Sweep(StoreAll(2), Log(), reverse_weight=weight)


@pytest.mark.parametrize("schedule", [StoreAll(1000), Segments(1000, 300)], ids=repr)
def test_long_actions_are_cut_for_those_who_want_a_turn(schedule):
    log, actions, pieces = Log(), [], []
    with Sweep(schedule, log, on_action=actions.append, on_piece=pieces.append) as sweep:
        sweep.forward()
        sweep.reverse()
    assert actions == list(schedule.actions())
    assert log.calls == [as_call(piece) for piece in pieces if not isinstance(piece, EndForward)]
    held = []
    for piece in pieces:  # a stack
        if isinstance(piece, Record):
            held.append((piece.start, piece.stop))
        elif isinstance(piece, Reverse):
            assert held.pop() == (piece.start, piece.stop)
    assert not held
    back = [piece for piece in pieces if isinstance(piece, Reverse)]
    assert [piece.stop for piece in back] == [1000, *(piece.start for piece in back[:-1])]
    assert len(back) >= 20


def test_pieces_of_slow_steps_are_short(monkeypatch):
    now = 0.0

    class Slow(Log):
        def record(self, start, stop):
            nonlocal now
            now += 0.04 * (stop - start)

    pieces = []
    monkeypatch.setattr(module, "clock", lambda: now)
    with Sweep(StoreAll(2000), Slow(), on_piece=pieces.append) as sweep:
        sweep.forward()
        sweep.reverse()
    assert max(piece.stop - piece.start for piece in pieces[1:] if isinstance(piece, Reverse)) <= 11  # the first pace is a guess


class Broken:
    """A store whose background write fails."""

    def __init__(self, closed):
        self.closed = closed

    def close(self, keep=False):
        self.closed.append(self)
        raise StorageError("the disk is full")


def test_the_first_error_is_the_one_that_is_told_and_all_is_closed():
    closed = []
    schedule = MultiTier(20, [("device", 2, 0, 0), ("host", 3, 1, 1), ("disk", 3, 2, 2)])
    log = Log()
    log.state_arrays = lambda: []
    stores = [Broken(closed), Broken(closed)]
    sweep = Sweep(schedule, log, stores=stores)
    sweep._in_use = {(0, 0): 0, (0, 1): 5}
    with pytest.raises(KeyboardInterrupt), sweep:
        raise KeyboardInterrupt
    assert len(closed) == 2
    assert [call for call in log.calls if call[0] == "free"] == [("free", 0), ("free", 1)]
    with pytest.raises(StorageError, match="full"), Sweep(schedule, log, stores=stores):
        pass


def test_steps_that_cannot_be_undone_are_refused():
    u, v, a, _ = initial(np.random.default_rng(7))
    with pytest.raises(ScheduleError, match=r"steps can be undone.*ToyStepper.*Binomial"):
        Sweep(Reversible(20, 6), ToyStepper(u, v, a))


WRONG_STATE = {
    "advance": (Save(0, 0), Advance(1, 2)),
    "record": (Save(0, 0), Advance(0, 1), Record(0, 2)),
    "save": (Advance(0, 1), Save(0, 0)),
    "undo": (Advance(0, 1), Undo(0, 2)),
}


@pytest.mark.parametrize("name", WRONG_STATE)
def test_an_action_on_another_state_than_the_working_one_is_refused(name):
    """No guard could distinguish it from a fault of the model, or would see it."""
    with pytest.raises(ScheduleError, match=r"expected the working state at \d, got it at \d; check the schedule"):
        Sweep(scripted(2, 1, WRONG_STATE[name]), Log()).forward()


def test_a_state_is_undefined_after_its_record_is_reversed():
    sweep = Sweep(scripted(2, 1, (Advance(0, 1), Record(1, 2), EndForward(2), Reverse(1, 2), Save(1, 0))), Log())
    sweep.forward()
    with pytest.raises(ScheduleError, match="expected the working state at 1, got it undefined"):
        sweep.reverse()
