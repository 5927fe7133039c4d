"""Steps that take unlike times: the way back is planned anew, for the same bits in less time."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim.checkpoint import Advance, Binomial, Online, StoreAll, Sweep
from diffsim.checkpoint import driver as module

from .toy_model import ToyStepper, gradient, initial

STEPS = 400
SLOW = range(200, 210)


class Clocked(ToyStepper):
    """A toy whose steps take what a clock made up for the test says: 1 s, and those of `SLOW` more."""

    now = 0.0
    more = 99.0

    def advance(self, start, stop):
        stop = min(stop, STEPS)
        super().advance(start, stop)
        Clocked.now += sum(1.0 + self.more * (n in SLOW) for n in range(start, stop))
        return STEPS if stop == STEPS else None


def run(schedule, monkeypatch, kind=Clocked):
    """The sweep, its gradient, and seconds that its advances took."""
    monkeypatch.setattr(module, "clock", lambda: Clocked.now)
    u, v, a, weights = initial(np.random.default_rng(7))
    stepper, began, actions = kind(u, v, a), Clocked.now, []
    with Sweep(schedule, stepper, on_action=actions.append) as sweep:
        sweep.forward()
        stepper.u_bar, stepper.v_bar = weights[0].copy(), 2 * weights[1] * stepper.v
        sweep.reverse()
    return sweep, np.stack([stepper.u_bar, stepper.v_bar, stepper.a_bar]), Clocked.now - began, actions


def test_slow_steps_are_repeated_less(monkeypatch):
    stored = gradient(StoreAll(STEPS), initial(np.random.default_rng(7)))
    sweep, found, seconds, actions = run(Online(8), monkeypatch)
    assert sweep.replanned is not None
    assert found.tobytes() == stored.tobytes()
    with monkeypatch.context() as plain:
        plain.setattr(Sweep, "_replan", lambda self, times: None)
        other, same, longer, _ = run(Online(8), plain)
    assert other.replanned is None
    assert same.tobytes() == stored.tobytes()
    assert seconds < 0.8 * longer
    assert sweep.clock.done["advance"] == sweep.clock.total["advance"]
    assert sweep.clock._advances_left == pytest.approx(0.0, abs=1e-6 * longer)
    assert any(isinstance(action, Advance) for action in actions)


@pytest.mark.parametrize("schedule", [Online(8), Binomial(STEPS, 8), Binomial(STEPS, 3)], ids=repr)
def test_even_steps_follow_the_schedule(schedule, monkeypatch):
    class Even(Clocked):
        more = 0.0

    sweep, found, seconds, _ = run(schedule, monkeypatch, Even)
    assert sweep.replanned is None
    expected = schedule.advances_of(STEPS) if isinstance(schedule, Online) else schedule.advances
    assert seconds == expected + (isinstance(schedule, Binomial))  # and the recorded step
    assert found.tobytes() == gradient(StoreAll(STEPS), initial(np.random.default_rng(7))).tobytes()


@pytest.mark.parametrize("slots", [2, 5, 12, 40])
def test_a_new_plan_never_costs_more(slots, monkeypatch):
    _, found, seconds, _ = run(Binomial(STEPS, slots), monkeypatch)
    with monkeypatch.context() as plain:
        plain.setattr(Sweep, "_replan", lambda self, times: None)
        _, same, longer, _ = run(Binomial(STEPS, slots), plain)
    assert seconds <= longer
    assert found.tobytes() == same.tobytes()


@pytest.mark.parametrize("schedule", [Binomial(STEPS, 3), Binomial(STEPS, 8), Online(8)], ids=repr)
@pytest.mark.parametrize("at", [20, 60])
def test_a_pause_of_the_machine_costs_little(schedule, at, monkeypatch):
    """It looks like dear steps, which are not met again."""

    class Pause(Clocked):
        more, paused = 0.0, False

        def advance(self, start, stop):
            if start <= at < stop and not self.paused:
                self.paused = True
                Clocked.now += 3000.0
            return super().advance(start, stop)

    sweep, _, _, _ = run(schedule, monkeypatch, Pause)
    plain = schedule.advances_of(STEPS) if isinstance(schedule, Online) else schedule.advances
    assert sweep.clock.done["advance"] <= 1.1 * plain
