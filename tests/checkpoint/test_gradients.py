"""The gradient of a chaotic two-field map is right, and is the same bits under every schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffsim.checkpoint import Binomial, StoreAll

from .toy_model import CELLS, Segments, ToyStepper, gradient, initial, loss, step

STEPS = 24
COMPLEX_STEP = 1e-40
ROUND_OFF = 1e-13  # of the norms of gradient and direction; 1e-15 is seen
SCHEDULES = [*(Binomial(STEPS, slots) for slots in range(1, STEPS + 1)), *(Segments(STEPS, length) for length in (1, 5, 24))]


@pytest.fixture(scope="module")
def start():
    return initial(np.random.default_rng(7))


@pytest.fixture(scope="module")
def stored(start):
    return gradient(StoreAll(STEPS), start)


def directional(start, direction, steps):
    """Return the derivative of the loss along a direction in (u, v, a), by one run on complex numbers."""
    u, v, a, weights = start
    u, v, a = (x + 1j * COMPLEX_STEP * d for x, d in zip((u, v, a), direction, strict=True))
    for _ in range(steps):
        u, v = step(u, v, a)
    return loss(u, v, weights).imag / COMPLEX_STEP


def directions():
    rng = np.random.default_rng(11)
    yield from rng.standard_normal((4, 3, CELLS))
    for field in range(3):
        localised = np.zeros((3, CELLS))
        localised[field, 2] = 1.0
        yield localised


def test_the_stored_gradient_is_right(start, stored):
    for direction in directions():
        expected = directional(start, direction, STEPS)
        scale = np.linalg.norm(stored) * np.linalg.norm(direction)
        assert abs(np.sum(stored * direction) - expected) <= ROUND_OFF * scale


def test_the_map_is_sensitive(start, stored):
    """The gradient grows along the run, so that a state which is off by little would show."""
    assert np.linalg.norm(stored) > 10 * np.linalg.norm(gradient(StoreAll(1), start))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_every_schedule_gives_the_stored_bits(schedule, start, stored):
    assert gradient(schedule, start).tobytes() == stored.tobytes()


@settings(deadline=None, max_examples=30)
@given(data=st.data(), steps=st.integers(1, 60), seed=st.integers(0, 2**32 - 1))
def test_any_run_gives_the_stored_bits(data, steps, seed):
    slots = data.draw(st.integers(1, steps), label="slots")
    begin = initial(np.random.default_rng(seed))
    assert gradient(Binomial(steps, slots), begin).tobytes() == gradient(StoreAll(steps), begin).tobytes()


class SavesOneFieldOnly(ToyStepper):
    def save(self, step, slot):
        self.kept[slot] = self.u.copy(), np.full(CELLS, 0.5)


class SavesWithoutCopy(ToyStepper):
    def save(self, step, slot):
        self.kept[slot] = self.u, self.v


class ReplaysOneStepTooFew(ToyStepper):
    def advance(self, start, stop):
        super().advance(start, max(start + 1, stop - (start > 0)))


@pytest.mark.parametrize("kind", [SavesOneFieldOnly, SavesWithoutCopy, ReplaysOneStepTooFew])
def test_a_planted_fault_changes_the_gradient(kind, start, stored):
    assert not np.allclose(gradient(Binomial(STEPS, 3), start, kind), stored, rtol=1e-3)
