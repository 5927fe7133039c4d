"""What a sweep calls, in which order, and what it refuses."""

from __future__ import annotations

import pytest

from diffsim.checkpoint import Advance, Binomial, EndForward, Record, Reverse, Save, StoreAll, Sweep
from diffsim.errors import ParameterError, ScheduleError, StaleValueError

from .toy_model import Segments, scripted

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
    assert shares == pytest.approx([0.5, 0.5, 0.6, 0.8, 0.8, 0.8, 1.0])


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
