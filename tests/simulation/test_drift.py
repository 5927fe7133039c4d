"""Steps computed backwards to a state of rest, and how much drift is let pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Reversible, Schedule, StoreAll, simulate
from diffsim.checkpoint.actions import Action, Advance, EndForward, Free, Load, Reverse, Save, Undo
from diffsim.errors import ParameterError, ReplayError, ScheduleError
from diffsim.expr import laplacian, sin
from diffsim.solvers import Acoustic
from diffsim.stepping.run.rounding import Rounding
from tests.sampled import sampled

STEPS = 60
SHAPE = (24, 55)  # with a sponge, there are whole tiles without damping in f32 too
TOLERANCE = {"f32": 1e-3, "f64": 1e-6}
CAUTION = 300  # factor by which the drift may exceed the error of a gradient: it is never to be less
FLOOR = 300  # units in the last place of a gradient that may be stated where there is hardly any error
LEAST = 1e-30  # of a gradient: smaller ones are made of numbers that single precision sets to zero on the way
ROUNDING = {"f32": 2e-4, "f64": 1e-12}  # of 60 steps, forward and back, beside the largest entry of the gradient


def from_rest(precision: str, sponge: int = 0) -> tuple[ds.Simulation, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    equation = Acoustic(ds.Grid(SHAPE, 10.0), dt=1e-3, order=4, sponge=sponge)
    wave = ds.Simulation(equation, sources={"f": [[110.0, 110.0]]}, receivers={"p": [[60.0, 70.0]]}, precision=precision)
    return wave, {"c": 2000 + 300 * rng.random(SHAPE), "f": rng.standard_normal((STEPS, 1))}


def gradient(wave: ds.Simulation, fields: dict[str, np.ndarray], schedule: object) -> np.ndarray:
    weights = np.random.default_rng(1).standard_normal(SHAPE)
    return wave.vjp(fields, STEPS, schedule)[1](ds.Solution(final={"p": weights}))["c"]


@pytest.mark.gradients
@pytest.mark.parametrize(("precision", "sponge"), sampled([(p, s) for p in ("f32", "f64") for s in (0, 5)], gate=[("f32", 5), ("f64", 0)]))
def test_a_run_from_rest_is_computed_backwards(precision: str, sponge: int) -> None:
    wave, fields = from_rest(precision, sponge)
    expected = gradient(wave, fields, StoreAll(STEPS))
    for period in (6, 20, STEPS):
        backwards = gradient(wave, fields, Reversible(STEPS, period))
        np.testing.assert_allclose(backwards, expected, rtol=0, atol=ROUNDING[precision] * np.abs(expected).max())
        assert 0 < wave.last_sweep.drift < ROUNDING[precision]


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_without_strips_the_drift_of_a_sponge_is_refused(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wave, fields = from_rest(precision, sponge=5)
    monkeypatch.setattr(wave._stepper.backwards, "damped", lambda coefficients, steps: {})
    with pytest.raises(ReplayError, match="from states that were computed backwards"):
        gradient(wave, fields, Reversible(STEPS, STEPS // 2))


@dataclass(frozen=True)
class Question:
    """A gradient that asks for a part of what a run does: sources of unlike strengths, and a loss on some of the records."""

    amplitudes: np.ndarray
    cotangents: ds.Solution
    period: int


def random_question(rng: np.random.Generator, points: int, steps: int) -> Question:
    """Noise or a pulse, stronger by up to a million from some time on; records of a window, the beginning or the whole, or the end."""
    amplitudes = rng.standard_normal((steps, points))
    if rng.random() < 0.5:
        amplitudes[...] = np.exp(-(((np.arange(steps) - steps * rng.random()) / rng.uniform(3, 13)) ** 2))[:, None]
    amplitudes[int(steps * rng.random()) :] *= 10.0 ** rng.integers(0, 7)
    traces, final = np.zeros((steps + 1, points)), {}
    kind, start = rng.choice(["window", "early", "late ones count less", "final"]), 0
    if kind == "final":
        final = {"p": rng.standard_normal(SHAPE)}
    elif kind == "late ones count less":
        traces[...] = rng.standard_normal(traces.shape) * 10.0 ** (-rng.integers(0, 6) * np.arange(steps + 1) / steps)[:, None]
    else:
        start = int(steps * rng.random()) if kind == "window" else 0
        stop = start + int(rng.integers(8, 25))
        traces[start:stop] = rng.standard_normal(traces[start:stop].shape)
    period = steps if rng.random() < 0.5 else max(steps // int(rng.integers(2, 12)), 2)
    return Question(amplitudes, ds.Solution(final=final, traces={"p": traces}), period)


def test_where_both_runs_round_alike_the_kept_states_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    wave, fields = from_rest("f32")
    exact = gradient(wave, fields, StoreAll(STEPS))
    monkeypatch.setattr(Rounding, "_halves", lambda self, cells: np.zeros_like(cells))
    error = relative(gradient(wave, fields, Reversible(STEPS, 20)), exact)
    assert error <= wave.last_sweep.drift < CAUTION * error


@pytest.mark.gradients
@pytest.mark.parametrize(("precision", "sponge"), sampled([("f32", 0), ("f32", 5), ("f64", 0)], gate=[("f32", 5), ("f64", 0)]))
def test_a_gradient_is_refused_whenever_its_error_exceeds_the_tolerance(precision: str, sponge: int) -> None:
    """Late sources, undone to a time when waves were weak, leave rounding errors that may exceed what an early record depends on."""
    wave, fields = from_rest(precision, sponge)
    refused = passed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        steps = int(rng.choice([20, 60, 150]))
        places = [{name: 10 + rng.random((2, 2)) * (np.array(SHAPE) * 10 - 20)} for name in ("f", "p")]
        wave.move(*places)
        asked = random_question(rng, 2, steps)
        fields["f"] = asked.amplitudes
        exact = wave.vjp(fields, steps, StoreAll(steps))[1](asked.cotangents)["c"]
        if np.abs(exact).max() < LEAST:
            continue
        backwards = wave.vjp(fields, steps, Reversible(steps, asked.period, tolerance=1e300))[1](asked.cotangents)["c"]
        drift, error = wave.last_sweep.drift, relative(backwards, exact)
        refused, passed = refused + (drift > TOLERANCE[precision]), passed + (drift <= TOLERANCE[precision])
        assert error <= TOLERANCE[precision] or drift > TOLERANCE[precision], seed
        assert drift < CAUTION * error + FLOOR * np.finfo(precision.replace("f", "float")).eps, seed
    assert min(refused, passed) >= 3  # the questions are of both kinds


def relative(backwards: np.ndarray, exact: np.ndarray) -> float:
    """The larger of the errors in the maximum and in the root mean square."""
    off, right = (backwards - exact).astype(np.float64), exact.astype(np.float64)
    return float(max(np.abs(off).max() / np.abs(right).max(), np.linalg.norm(off) / np.linalg.norm(right)))


class ByHand(Schedule):
    """A schedule of a user's, which goes back without any kept state."""

    steps, slots, tolerance = STEPS, 1, 1e300
    runs_backwards = True

    def actions(self) -> Iterator[Action]:
        yield from (Advance(0, STEPS), EndForward(STEPS))
        for step in reversed(range(STEPS)):
            yield from (Undo(step, step + 1), Reverse(step, step + 1))


class BackAndForth(ByHand):
    """One that runs a step forward again from a state that was computed backwards."""

    def actions(self) -> Iterator[Action]:
        last = STEPS - 1
        yield from (Save(0, 0), Advance(0, STEPS), EndForward(STEPS), Undo(last - 1, STEPS), Advance(last - 1, last), Reverse(last, STEPS))
        for step in reversed(range(1, last)):
            yield from (Undo(step, step + 1), Reverse(step, step + 1))
        yield from (Undo(0, 1), Load(0, 0), Reverse(0, 1), Free(0))


class Unannounced(ByHand):
    runs_backwards = False


@pytest.mark.parametrize("schedule", [ByHand(), BackAndForth()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("late", [1.0, 1e7])
def test_the_error_is_stated_under_every_schedule(schedule: ByHand, late: float) -> None:
    simulate(schedule)
    wave, fields = from_rest("f32")
    fields["f"][40:] *= late
    early = np.zeros((STEPS + 1, 1))
    early[1:20] = 1.0
    asked = ds.Solution(traces={"p": early})
    exact = wave.vjp(fields, STEPS, StoreAll(STEPS))[1](asked)["c"]
    error = relative(wave.vjp(fields, STEPS, schedule)[1](asked)["c"], exact)
    assert min(error, TOLERANCE["f32"]) < wave.last_sweep.drift < 1e4 * error


def test_a_schedule_that_does_not_say_that_it_undoes_steps_is_refused() -> None:
    wave, fields = from_rest("f32", sponge=5)
    with pytest.raises(ScheduleError, match="started to be undone"):
        gradient(wave, fields, Unannounced())


class SineGordon(ds.Equation):
    """A leap-frog whose force is not linear: the adjoint itself depends on the states."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid(SHAPE, 1.0), 0.5
        self.states = {"u": ds.Variable("zero"), "before": ds.Variable("zero")}
        self.parameters = {"k": ds.Variable("zero")}

    def step(self, u: Any, before: Any, k: Any) -> dict[str, Any]:
        return {"u": 2 * u - before + 0.2 * laplacian(u) - 0.2 * k * sin(u), "before": u}


@pytest.mark.parametrize("wrt", [["u"], ["k"], ["k", "u"]], ids="-".join)
@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0])
def test_the_error_of_the_adjoint_of_a_nonlinear_step_counts(size: float, wrt: list[str]) -> None:
    """A strong wave in one half of the grid, and a loss on a weak one in the other, which the strong one reaches later."""
    rng = np.random.default_rng(3)
    start = np.zeros(SHAPE)
    start[:, :10], start[:, 45:] = 3 * rng.standard_normal((24, 10)), size * rng.standard_normal((24, 10))
    wave = ds.Simulation(SineGordon(), wrt=wrt, receivers={"u": [[10.0, 50.0]]}, precision="f32")
    fields = {"k": rng.random(SHAPE), "u": start, "before": start}
    cotangents = np.zeros((STEPS + 1, 1))
    cotangents[:6] = 1.0
    exact = wave.vjp(fields, STEPS, StoreAll(STEPS))[1](ds.Solution(traces={"u": cotangents}))
    backwards = wave.vjp(fields, STEPS, Reversible(STEPS, STEPS, tolerance=1e300))[1](ds.Solution(traces={"u": cotangents}))
    error = max(relative(backwards[name], exact[name]) for name in exact)
    assert error <= wave.last_sweep.drift < CAUTION * error + FLOOR * np.finfo(np.float32).eps


def test_a_number_that_is_none_is_not_let_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    wave, fields = from_rest("f64")
    stepper = wave._stepper
    undo = stepper.undo

    def spoilt(start: int, stop: int) -> None:
        undo(start, stop)
        if start == 31:
            stepper.state_arrays()[0][12, 12] = np.nan

    monkeypatch.setattr(stepper, "undo", spoilt)
    pullback = wave.vjp(fields, STEPS, Reversible(STEPS, 30))[1]
    with pytest.raises(ReplayError, match="computed backwards"):
        pullback(ds.Solution(final={"p": np.ones(SHAPE)}))


def test_strips_are_given_back_before_other_memory_is_taken() -> None:
    wave, fields = from_rest("f32", sponge=5)
    gradient(wave, fields, Reversible(STEPS, 20))
    launcher, held = wave._stepper.launcher, []
    allocate = launcher.memory.allocate

    def watched(*args: object, **options: object) -> object:
        held.append("strip of p" in launcher.arrays)
        return allocate(*args, **options)

    launcher.memory.allocate = watched
    gradient(wave, fields, 30)
    assert held and not any(held)


def test_strips_are_used_again_until_a_run_needs_none() -> None:
    wave, fields = from_rest("f32", sponge=5)
    gradient(wave, fields, Reversible(STEPS, 20))
    launcher = wave._stepper.launcher
    assert launcher.strips and "strip of p" in launcher.arrays
    kept = launcher.arrays["strip of p"]
    gradient(wave, fields, Reversible(STEPS, 30))
    assert launcher.arrays["strip of p"] is kept
    plain = wave.run(fields, STEPS).final["p"]
    assert not launcher.strips and "strip of p" not in launcher.arrays
    wave.vjp(fields, STEPS, Reversible(STEPS, 20))
    np.testing.assert_array_equal(wave.run(fields, STEPS).final["p"], plain)


def test_the_drift_that_is_let_pass_is_asked_for() -> None:
    wave, fields = from_rest("f64")
    gradient(wave, fields, Reversible(STEPS, 20))
    drift = wave.last_sweep.drift
    gradient(wave, fields, Reversible(STEPS, 20, tolerance=2 * drift))
    with pytest.raises(ReplayError, match="computed backwards"):
        gradient(wave, fields, Reversible(STEPS, 20, tolerance=drift / 2))
    with pytest.raises(ParameterError, match="tolerance above 0"):
        Reversible(STEPS, 20, tolerance=0.0)


@pytest.mark.parametrize("spoilt", [1, 2])
@pytest.mark.parametrize("nudge", [1e-12, 1e-8, 1e-4, 1e-2])
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_an_error_that_is_not_of_rounding_is_seen_in_kept_states(
    precision: str, nudge: float, spoilt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the two runs backwards is spoilt in a cell, or both in the same way."""
    wave, fields = from_rest(precision)
    stepper, calls = wave._stepper, []
    undo = stepper.backwards._undo

    def nudged(rings: object, start: int, stop: int) -> None:
        undo(rings, start, stop)
        calls.append(start)
        if start == 57 and calls.count(57) <= spoilt:
            size = max(np.abs(level).max() for level in stepper.state_arrays())
            stepper.state_arrays()[0][12, 12] += nudge * size

    exact = gradient(wave, fields, StoreAll(STEPS))
    monkeypatch.setattr(stepper.backwards, "_undo", nudged)
    schedule = Reversible(STEPS, 30)
    backwards = gradient(wave, fields, Reversible(STEPS, 30, tolerance=1e300))
    error, drift = relative(backwards, exact), wave.last_sweep.drift
    assert error <= drift < CAUTION * error + FLOOR * np.finfo(precision.replace("f", "float")).eps
    calls.clear()
    if drift > TOLERANCE[precision]:
        with pytest.raises(ReplayError, match="computed backwards"):
            gradient(wave, fields, schedule)
    else:
        gradient(wave, fields, schedule)
    assert (error > TOLERANCE[precision]) <= (drift > TOLERANCE[precision])
