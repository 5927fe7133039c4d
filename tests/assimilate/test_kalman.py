"""4D-Var on a linear problem against the Kalman filter and the smoother of Rauch, Tung and Striebel."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import diff_centred, laplacian

pytestmark = pytest.mark.filterwarnings("ignore:the analysis explains its observations poorly")  # they are arbitrary
Array = np.ndarray
CELLS, WINDOWS, EACH, ERROR = 10, 4, 5, 0.2
STEPS = WINDOWS * EACH
KAPPA = np.linspace(0.1, 0.4, CELLS)
BACKGROUND = np.sin(np.arange(CELLS))
BEFORE = ds.optimize.DiffusionPrior((CELLS,), 1.0, 2.0, "periodic")
MODEL = ds.optimize.DiffusionPrior((CELLS,), 0.3, 1.0, "periodic")


class Carried(ds.Equation):
    """A substance that is carried along a ring and spreads."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((CELLS,), 1.0), 0.1
        self.states, self.parameters = {"c": ds.Variable("periodic")}, {"kappa": ds.Variable("periodic")}

    def step(self, c: Any, kappa: Any) -> dict[str, Any]:
        return {"c": c + self.dt * (kappa * laplacian(c) - diff_centred(c, 0))}


@cache
def ring() -> ds.Simulation:
    return ds.Simulation(Carried(), receivers={"c": [[1.0], [4.5], [8.0]]}, wrt=["c"], precision="f64")


@cache
def observed() -> Array:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((STEPS + 1, 3))
    values[rng.random(values.shape) < 0.3] = np.nan
    return values


def covariance(prior: Any) -> Array:
    return np.column_stack([prior.root(prior.root_transpose(v)) for v in np.eye(prior.size)])


def smoothed(jumps: bool) -> tuple[Array, Array]:
    """States and covariances at all steps, step by step, with an error of the model where a window begins."""
    steps = [ring().run({"kappa": KAPPA, "c": v}, 1) for v in np.eye(CELLS)]
    model, look = np.column_stack([one.final["c"] for one in steps]), np.column_stack([one.traces["c"][0] for one in steps])
    state, spread = BACKGROUND, covariance(BEFORE)
    before, after = [], []
    for k, values in enumerate(observed()):
        if k:
            state, spread = model @ state, model @ spread @ model.T
        if jumps and 0 < k < STEPS and k % EACH == 0:
            spread = spread + covariance(MODEL)
        before.append((state, spread))
        seen = ~np.isnan(values)
        h = look[seen]
        gain = spread @ h.T @ np.linalg.inv(h @ spread @ h.T + ERROR**2 * np.eye(len(h)))
        state, spread = state + gain @ (values[seen] - h @ state), spread - gain @ h @ spread
        after.append((state, spread))
    for k in range(STEPS - 1, -1, -1):
        (state, spread), (expected, wide), (later, sure) = after[k], before[k + 1], after[k + 1]
        back = spread @ model.T @ np.linalg.inv(wide)
        after[k] = state + back @ (later - expected), spread + back @ (sure - wide) @ back.T
    return np.stack([state for state, _ in after]), np.stack([spread for _, spread in after])


def problem(windows: int) -> ds.assimilate.FourDVar:
    seen = ds.assimilate.Observations(observed(), ERROR, of="c")
    errors = {"model_error": {"c": MODEL}} if windows > 1 else {}
    return ds.assimilate.FourDVar(ring(), seen, {"kappa": KAPPA, "c": BACKGROUND}, {"c": BEFORE}, STEPS, windows, **errors)


@pytest.mark.parametrize("windows", [1, WINDOWS])
def test_states_and_deviations_are_those_of_the_smoother(windows: int) -> None:
    states, spreads = smoothed(windows > 1)
    analysis = problem(windows).minimise(iterations=5, tolerance=1e-14, products=1000, residual=1e-10)
    got = analysis.unknowns["c"].reshape(windows, CELLS)
    for window in range(windows):
        at = window * EACH
        assert np.abs(got[window] - states[at]).max() < 1e-8
        for cell in (0, 7):
            deviation = analysis.deviation(lambda unknowns: unknowns["c"].reshape(windows, CELLS)[window, cell])  # noqa: B023
            assert abs(deviation - spreads[at, cell, cell] ** 0.5) < 1e-8
    whole = analysis.deviation(lambda unknowns: unknowns["c"].reshape(windows, CELLS)[0].sum())
    assert abs(whole - spreads[0].sum() ** 0.5) < 1e-8
    if windows == 1:
        assert np.abs(analysis.posterior(rank=CELLS).deviation - np.sqrt(np.diagonal(spreads[0]))).max() < 1e-8
        assert np.array_equal(analysis.inputs["c"], got[0]) and not analysis.jumps
    else:
        ends = [ring().run({"kappa": KAPPA, "c": one}, EACH).final["c"] for one in got[:-1]]
        assert np.abs(analysis.jumps["c"] - (got[1:] - ends)).max() < 1e-12 and analysis.costs["jumps"] > 0


def test_quasi_newton_finds_the_same() -> None:
    states, _ = smoothed(jumps=False)
    analysis = problem(1).minimise("L-BFGS-B", iterations=200, tolerance=0)
    assert np.abs(analysis.unknowns["c"] - states[0]).max() < 1e-6
