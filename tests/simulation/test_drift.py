"""Steps computed backwards to a state of rest, and how much drift is let pass."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Reversible, StoreAll
from diffsim.errors import ParameterError, ReplayError
from diffsim.solvers import Acoustic

STEPS = 60
SHAPE = (24, 55)  # with a sponge, there are whole tiles without damping in f32 too
ESTIMATE = 300  # factor by which the error of a gradient may differ from the drift, which goes by largest values
ROUNDING = {"f32": 2e-4, "f64": 1e-12}  # of 60 steps, forward and back, beside the largest entry of the gradient


def from_rest(precision: str, sponge: int = 0) -> tuple[ds.Simulation, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    equation = Acoustic(ds.Grid(SHAPE, 10.0), dt=1e-3, order=4, sponge=sponge)
    made = ds.Simulation(equation, sources={"f": [[110.0, 110.0]]}, receivers={"p": [[60.0, 70.0]]}, precision=precision)
    return made, {"c": 2000 + 300 * rng.random(SHAPE), "f": rng.standard_normal((STEPS, 1))}


def gradient(made: ds.Simulation, given: dict[str, np.ndarray], schedule: object) -> np.ndarray:
    weights = np.random.default_rng(1).standard_normal(SHAPE)
    return made.vjp(given, STEPS, schedule)[1](ds.Solution(final={"p": weights}))["c"]


@pytest.mark.parametrize("sponge", [0, 5])
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_a_run_from_rest_is_computed_backwards(precision: str, sponge: int) -> None:
    made, given = from_rest(precision, sponge)
    expected = gradient(made, given, StoreAll(STEPS))
    for period in (6, 20, STEPS):
        found = gradient(made, given, Reversible(STEPS, period))
        np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING[precision] * np.abs(expected).max())
        assert 0 < made.last_sweep.drift < ROUNDING[precision]


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_without_strips_the_drift_of_a_sponge_is_refused(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = from_rest(precision, sponge=5)
    monkeypatch.setattr(made._stepper.backwards, "damped", lambda coefficients, steps: {})
    with pytest.raises(ReplayError, match="computed backwards, differs from the kept one"):
        gradient(made, given, Reversible(STEPS, STEPS // 2))


@pytest.mark.parametrize("late", [1.0, 1e4, 1e6])
def test_the_drift_is_that_of_what_the_loss_sees(late: float) -> None:
    """Rounding errors of strong waves, computed backwards to a time when waves were weak, spoil what is told of that time."""
    made, given = from_rest("f32", sponge=5)
    given["f"][20:] *= late
    early = np.zeros((STEPS + 1, 1))
    early[:20] = np.random.default_rng(2).standard_normal((20, 1))
    expected = made.vjp(given, STEPS, StoreAll(STEPS))[1](ds.Solution(traces={"p": early}))["c"]
    pullback = made.vjp(given, STEPS, Reversible(STEPS, STEPS, tolerance=1e9))[1]
    error = np.abs(pullback(ds.Solution(traces={"p": early}))["c"] - expected).max() / np.abs(expected).max()
    assert error / ESTIMATE < made.last_sweep.drift < ESTIMATE * error
    if late > 1:
        with pytest.raises(ReplayError, match="the gradient over these steps is off"):
            made.vjp(given, STEPS, Reversible(STEPS, STEPS))[1](ds.Solution(traces={"p": early}))


def test_a_number_that_is_none_is_not_let_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = from_rest("f64")
    stepper = made._stepper
    undo = stepper.undo

    def spoilt(start: int, stop: int) -> None:
        undo(start, stop)
        if start == 30:
            stepper.state_arrays()[0][12, 12] = np.nan

    monkeypatch.setattr(stepper, "undo", spoilt)
    pullback = made.vjp(given, STEPS, Reversible(STEPS, 30))[1]
    with pytest.raises(ReplayError, match="computed backwards"):
        pullback(ds.Solution(final={"p": np.ones(SHAPE)}))


def test_strips_are_given_back_before_other_memory_is_taken() -> None:
    made, given = from_rest("f32", sponge=5)
    gradient(made, given, Reversible(STEPS, 20))
    launcher, held = made._stepper.launcher, []
    allocate = launcher.memory.allocate

    def watched(*args: object, **options: object) -> object:
        held.append("strip of p" in launcher.arrays)
        return allocate(*args, **options)

    launcher.memory.allocate = watched
    gradient(made, given, 30)
    assert held and not any(held)


def test_strips_are_used_again_until_a_run_needs_none() -> None:
    made, given = from_rest("f32", sponge=5)
    gradient(made, given, Reversible(STEPS, 20))
    launcher = made._stepper.launcher
    assert launcher.strips and "strip of p" in launcher.arrays
    kept = launcher.arrays["strip of p"]
    gradient(made, given, Reversible(STEPS, 30))
    assert launcher.arrays["strip of p"] is kept
    plain = made.run(given, STEPS).final["p"]
    assert not launcher.strips and "strip of p" not in launcher.arrays
    made.vjp(given, STEPS, Reversible(STEPS, 20))
    np.testing.assert_array_equal(made.run(given, STEPS).final["p"], plain)


def test_the_drift_that_is_let_pass_is_asked_for() -> None:
    made, given = from_rest("f64")
    gradient(made, given, Reversible(STEPS, 20))
    drift = made.last_sweep.drift
    gradient(made, given, Reversible(STEPS, 20, tolerance=2 * drift))
    with pytest.raises(ReplayError, match="computed backwards"):
        gradient(made, given, Reversible(STEPS, 20, tolerance=drift / 2))
    with pytest.raises(ParameterError, match="tolerance above 0"):
        Reversible(STEPS, 20, tolerance=0.0)


@pytest.mark.parametrize(
    ("precision", "nudge", "passes"), [("f64", 1e-8, True), ("f64", 1e-4, False), ("f32", 1e-4, True), ("f32", 1e-2, False)]
)
def test_what_is_let_pass_by_itself_follows_the_precision(
    precision: str, nudge: float, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, given = from_rest(precision)
    stepper = made._stepper
    undo = stepper.undo

    def nudged(start: int, stop: int) -> None:
        undo(start, stop)
        if start == 30:
            size = max(np.abs(level).max() for level in stepper.state_arrays())
            stepper.state_arrays()[0][12, 12] += nudge * size

    monkeypatch.setattr(stepper, "undo", nudged)
    if passes:
        gradient(made, given, Reversible(STEPS, 30))
        assert 0.1 * nudge < made.last_sweep.drift < 10 * nudge
    else:
        with pytest.raises(ReplayError, match="computed backwards"):
            gradient(made, given, Reversible(STEPS, 30))
