"""Faults planted in a model: each is caught before it gives a gradient."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from diffsim.checkpoint import Binomial, HostStore, Mixed, MultiTier, Online, ReplayGuard, StateLayout, StoreAll, Sweep, Tier, driver
from diffsim.checkpoint import guard as module
from diffsim.errors import ReplayError

from .toy_model import CELLS, ToyStepper, gradient, initial, step

STEPS = 60


class Portable(ToyStepper):
    """A toy whose state can be taken out; `total` is what it records."""

    def __init__(self, u, v, a):
        super().__init__(u, v, a)
        self.total = np.zeros(1)

    def state_arrays(self):
        return [self.u, self.v]

    def set_state(self, arrays):
        self.u[...], self.v[...] = arrays

    def outputs(self):
        return [self.total]


class RandomStep(Portable):
    rng = np.random.default_rng(3)

    def advance(self, start, stop):
        super().advance(start, stop)
        if start > 20:
            self.u[2] *= 1 + 1e-9 * self.rng.random()


class AlwaysRandom(Portable):
    rng = np.random.default_rng(3)

    def advance(self, start, stop):
        super().advance(start, stop)
        self.u[2] *= 1 + 1e-9 * self.rng.random()


class HiddenHistory(Portable):
    """A step reads what an earlier one left behind, which is not part of the state."""

    before = 0.0

    def advance(self, start, stop):
        for n in range(start, stop):
            super().advance(n, n + 1)
            self.u[0] += 1e-6 * (self.before - 0.5)
            self.before = self.u[1]


class LossAddedTwice(Portable):
    def advance(self, start, stop):
        super().advance(start, stop)
        self.total += self.u.sum()


class FieldLeftOut(Portable):
    """Neither saved nor told: v goes on from wherever it is."""

    def state_arrays(self):
        return [self.u]

    def save(self, step, slot):
        self.kept[slot] = self.u.copy(), None

    def load(self, step, slot):
        self.u[...] = self.kept[slot][0]
        self.v[...] = np.where(np.isnan(self.v), 0.5, self.v)


class SlotWrittenOver(Portable):
    def save(self, step, slot):
        self.kept[slot] = self.u, self.v


FAULTS = [RandomStep, HiddenHistory, LossAddedTwice, FieldLeftOut, SlotWrittenOver]


def guarded(kind, schedule, stride=None):
    u, v, a, weights = initial(np.random.default_rng(7))
    stepper = kind(u, v, a)
    slow = getattr(schedule, "tiers", ())[1:]
    stores = [HostStore(StateLayout.of(stepper.state_arrays()), tier.slots) for tier in slow]
    guard = ReplayGuard(stepper.state_arrays, stepper.outputs, stride)
    with Sweep(schedule, stepper, guard=guard, stores=stores) as sweep:
        sweep.forward()
        stepper.u_bar, stepper.v_bar = weights[0].copy(), 2 * weights[1] * stepper.v
        sweep.reverse()
    return np.stack([stepper.u_bar, stepper.v_bar, stepper.a_bar])


TIERS = MultiTier(STEPS, (Tier("device", 2), Tier("host", 4, 1.0, 1.0)))


@pytest.mark.parametrize("schedule", [Binomial(STEPS, 4), TIERS], ids=["binomial", "tiers"])
@pytest.mark.parametrize("stride", [1, 3, None])
def test_a_sound_model_passes_with_the_same_bits(schedule, stride):
    assert guarded(Portable, schedule, stride).tobytes() == gradient(StoreAll(STEPS), initial(np.random.default_rng(7))).tobytes()


@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_caught(fault, stride):
    with pytest.raises(ReplayError):
        guarded(fault, Binomial(STEPS, 4), stride)


@pytest.mark.parametrize("fault", [RandomStep, HiddenHistory])
def test_faults_are_caught_in_slow_tiers(fault):
    with pytest.raises(ReplayError):
        guarded(fault, TIERS, 1)


class Stacked:
    """Holds the residuals of several steps."""

    def record(self, start, stop):
        for n in range(start, stop):
            self.recorded[n] = self.u.copy(), self.v.copy()
            self.advance(n, n + 1)


@pytest.mark.parametrize("fault", [RandomStep, HiddenHistory])
@pytest.mark.parametrize("memory", [6, 12, 30])
def test_faults_are_caught_where_steps_are_recorded(fault, memory):
    kind = type("Faulty", (Stacked, fault), {})
    with pytest.raises(ReplayError):
        guarded(kind, Mixed(STEPS, memory), 1)
    sound = type("Sound", (Stacked, Portable), {})
    assert guarded(sound, Mixed(STEPS, memory), 1).tobytes() == guarded(sound, StoreAll(STEPS)).tobytes()


@pytest.mark.parametrize("slots", [5, 25, 50, 100])
def test_saved_states_have_a_share_too(slots, monkeypatch):
    """With fingerprints that cost as much as steps, a few are taken for the whole sweep, and a slot that is written over is still seen."""
    now, taken = 0.0, 0

    def fingerprint(arrays):
        nonlocal now, taken
        now, taken = now + 1.0, taken + 1
        return exact(arrays)

    class Clocked(Portable):
        def advance(self, start, stop):
            nonlocal now
            now += stop - start
            super().advance(start, stop)

    exact = module.fingerprint
    monkeypatch.setattr(module, "fingerprint", fingerprint)
    monkeypatch.setattr(module, "clock", lambda: now)
    guarded(Clocked, Binomial(100, slots))
    assert 2 <= taken <= 10
    with pytest.raises(ReplayError):
        guarded(type("Faulty", (SlotWrittenOver, Clocked), {}), Binomial(100, slots))


def test_the_message_names_the_step():
    with pytest.raises(ReplayError, match=r"^state 2[2-9], computed again from state \d+, differs .* not deterministic"):
        guarded(RandomStep, Binomial(30, 5), 1)


@pytest.mark.parametrize("steps", [8, 20, 57, 300])
@pytest.mark.parametrize("slots", [1, 2, 5])
@pytest.mark.parametrize("known", [False, True])
def test_functions_of_users_are_compared_however_short_a_run_is(monkeypatch, steps, slots, known):
    """Also where the share of the time allows no fingerprint."""
    monkeypatch.setattr("diffsim.checkpoint.guard.SHARE", 0.0)
    u, v, a, _ = initial(np.random.default_rng(7))
    stepper = AlwaysRandom(u, v, a)
    sweep = Sweep(Binomial(steps, slots), stepper, guard=ReplayGuard(stepper.state_arrays, foreign=True, steps=steps if known else None))
    sweep.forward()
    with pytest.raises(ReplayError, match="not deterministic"):
        sweep.reverse()


@pytest.mark.parametrize("steps", [3, 8, 20, 57, 300])
def test_few_states_of_a_known_number_of_steps_are_compared(monkeypatch, steps):
    """However cheap or costly a fingerprint is: before the pace is known, each would count in a short run."""
    for share in 0.0, 1e9:
        monkeypatch.setattr("diffsim.checkpoint.guard.SHARE", share)
        stepper = Portable(*initial(np.random.default_rng(7))[:3])
        guard = ReplayGuard(stepper.state_arrays, foreign=True, steps=steps)
        Sweep(Binomial(steps, 2), stepper, guard=guard).forward()
        assert len(guard._known) <= 7 and all(n % max(steps // 5, 1) == 0 for n in guard._known)


def test_the_grid_adapts_to_its_price(monkeypatch):
    """With fingerprints that cost as much as steps, few states are compared; the gradient is still that of the model."""
    guards = []
    monkeypatch.setattr(ReplayGuard, "ended", lambda self: guards.append(self.stride))
    u, v, a, _ = initial(np.random.default_rng(7))
    stepper = Portable(u, v, a)
    sweep = Sweep(Binomial(2000, 5), stepper, guard=ReplayGuard(stepper.state_arrays))
    sweep.forward()
    assert guards[0] > 1


def test_a_guard_keeps_few_fingerprints(monkeypatch):
    monkeypatch.setattr("diffsim.checkpoint.guard.SHARE", 1e9)
    u, v, a, _ = initial(np.random.default_rng(7))
    stepper = Portable(u, v, a)
    guard = ReplayGuard(stepper.state_arrays)
    Sweep(Binomial(5000, 5), stepper, guard=guard).forward()
    assert guard.stride == 8
    assert len(guard._known) <= 1024


def test_states_are_compared_in_online_runs():
    class Ends(RandomStep):
        def advance(self, start, stop):
            super().advance(start, min(stop, STEPS))
            return STEPS if stop >= STEPS and start < STEPS else None

    with pytest.raises(ReplayError):
        guarded(Ends, Online(4), 1)


def test_the_toy_is_what_it_says():
    """The faults differ from the sound model, which the tests above would not notice if they did not."""
    assert CELLS == 7
    u, v, a, _ = initial(np.random.default_rng(7))
    sound, faulty = Portable(u, v, a), HiddenHistory(u, v, a)
    sound.advance(0, 3)
    faulty.advance(0, 3)
    assert not np.array_equal(sound.u, faulty.u)
    assert np.array_equal(sound.u, step(*step(*step(u, v, a), a), a)[0])


@pytest.mark.parametrize("on_host", [True, False])
def test_a_gpu_is_seldom_waited_for(on_host, monkeypatch):
    """A look at the clock waits for a GPU. On the CPU it costs nothing, and each piece is measured."""
    looks = []

    def clock():
        looks.append(0)
        return len(looks)

    for place in (driver, module):
        monkeypatch.setattr(place, "backend", lambda: SimpleNamespace(on_host=on_host))
        monkeypatch.setattr(place, "clock", clock)
    u, v, a, _ = initial(np.random.default_rng(7))
    stepper = Portable(u, v, a)
    sweep = Sweep(Binomial(2000, 5), stepper, guard=ReplayGuard(stepper.state_arrays, stride=10))
    sweep.forward()
    sweep.reverse()
    guard, pieces = sweep._guard, sum(sweep.clock._pieces.values())
    assert sweep.clock.done["reverse"] == 2000 and pieces > 1500
    assert (len(looks) > 2 * pieces) == on_host  # twice for each piece; twice for each fingerprint, which reads the state anyway
    assert on_host or len(looks) < pieces
    assert guard._steps > 1900 and guard._worked / guard._steps > 0.05  # a piece has ten steps, and takes a look or more
