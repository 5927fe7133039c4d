"""Windows of a scene: the loss beside a program in NumPy, its gradient and curvature, the truth through all windows, and refusals."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from diffsim.errors import SceneError
from diffsim.scene import Scene
from diffsim.scene.search.assemble import assemble
from diffsim.scene.search.certificate import certify
from diffsim.scene.search.objective import Objective
from diffsim.scene.shots.truth import observe
from diffsim.scene.shots.windows import joined

Array = np.ndarray
STEPS, WINDOWS, DT, CELLS, WEIGHT = 3, 4, 0.05, 7, 2.5
SEEN = np.array([0, 2, 4, 6])
CHAOTIC: dict[str, Any] = {
    "name": "windows",
    "seed": 2,
    "grid": {"shape": [CELLS], "spacing": 1.0, "axes": ["place"], "units": [""]},
    "time": {"dt": DT, "steps": STEPS, "windows": WINDOWS},
    "equation": {"type": "lorenz96"},
    "receivers": {"x": {"lines": [{"start": [0.0], "stop": [6.0], "count": 4}]}},
    "unknowns": {"x": {"start": {"constant": 2.0}, "jumps": WEIGHT}, "F": {"start": {"constant": 6.0}}},
    "truth": {
        "refine": 1.0,
        "noise": 0.1,
        "fields": {
            "F": {"constant": 8.0},
            "x": {"constant": 2.0, "gaussians": [{"centre": [3.0], "width": 1.0, "amplitude": 5.0}]},
        },
    },
    "misfit": [{"of": "traces", "state": "x", "normalise": False}],
    "optimise": {"iterations": 5},
}


def changed(**keys: Any) -> Scene:
    """The scene with other values: `time__steps=3`."""
    table = copy.deepcopy(CHAOTIC)
    for path, value in keys.items():
        *parts, last = path.split("__")
        place = table
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = value
    return Scene(**table)


def run(x: Array, F: float, steps: int) -> Array:
    """Lorenz 96 by the classical method, shape (steps + 1, cells)."""

    def rate(x: Array) -> Array:
        return (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + F

    rows = [x]
    for _ in range(steps):
        k1 = rate(rows[-1])
        k2 = rate(rows[-1] + 0.5 * DT * k1)
        k3 = rate(rows[-1] + 0.5 * DT * k2)
        rows.append(rows[-1] + DT / 6 * (k1 + 2 * k2 + 2 * k3 + rate(rows[-1] + DT * k3)))
    return np.array(rows)


def residuals(x: Array, F: float, data: Array) -> Array:
    """Residuals whose squares make twice the loss: those of the records, and the jumps times the root of their weight."""
    runs = np.array([run(start, F, STEPS) for start in x])
    at_records = (runs[:, :, SEEN] - data)[np.isfinite(data)]
    return np.concatenate([at_records, WEIGHT**0.5 * (x[1:] - runs[:-1, -1]).ravel()])


@pytest.fixture(scope="module")
def objective() -> Objective:
    problem = assemble(Scene(**CHAOTIC), "f64")
    return Objective(problem, observe(problem.scene, problem.setup))


def test_the_truth_runs_through_all_windows(objective: Objective) -> None:
    begin = 2.0 + 5.0 * np.exp(-0.5 * (np.arange(CELLS) - 3.0) ** 2)
    whole = run(begin, 8.0, STEPS * WINDOWS)
    observed = objective.observed
    assert np.abs(observed.starts["x"] - whole[:-1:STEPS]).max() < 1e-12
    noise = observed.noise["traces", "x"]
    data = observed.traces["x"]
    assert data.shape == (WINDOWS, STEPS + 1, len(SEEN))
    assert np.isnan(data[:-1, -1]).all() and np.isfinite(data[:, :-1]).all() and np.isfinite(data[-1, -1]).all()
    errors = joined(data)[0] - whole[:, SEEN]
    assert 0.7 < errors.std() / noise < 1.4 and np.isclose(noise, 0.1 * np.sqrt(np.mean(whole[:, SEEN] ** 2)), rtol=0.1)


def test_loss_gradient_and_curvature_are_those_of_a_program_in_numpy(objective: Objective) -> None:
    rng = np.random.default_rng(0)
    unknowns, data = objective.problem.unknowns, objective.observed.traces["x"]
    theta = objective.problem.theta + rng.standard_normal(objective.problem.theta.size)
    v = rng.standard_normal(theta.size)

    def vector(theta: Array) -> Array:
        fields = unknowns.split(theta)
        assert fields["x"].shape == (WINDOWS, CELLS)
        return residuals(fields["x"], float(fields["F"][0]), data)

    evaluation = objective.evaluate(theta)
    assert np.isclose(evaluation.value, 0.5 * np.sum(vector(theta) ** 2), rtol=1e-12)
    jumps = np.sum(vector(theta)[-(WINDOWS - 1) * CELLS :] ** 2) / 2
    assert np.isclose(evaluation.parts["jumps of x"], jumps, rtol=1e-12) and np.isclose(
        objective.value(theta), evaluation.value, rtol=1e-13
    )
    assert np.isclose(objective.misfit_of(evaluation), evaluation.value - jumps, rtol=1e-12)  # the part that data are compared in
    h = 1e-5
    change = (vector(theta + h * v) - vector(theta - h * v)) / (2 * h)
    assert np.isclose(evaluation.gradient @ v, vector(theta) @ change, rtol=1e-8)
    product = objective.hessian(theta) @ v
    assert np.isclose(v @ product, change @ change, rtol=1e-7)
    w = rng.standard_normal(theta.size)
    assert np.isclose(w @ product, v @ (objective.hessian(theta) @ w), rtol=1e-12)


def test_windows_that_run_together_and_alone_give_the_same_bits(objective: Objective) -> None:
    problem = objective.problem
    assert problem.forward.together == WINDOWS
    theta = problem.theta + np.random.default_rng(1).standard_normal(problem.theta.size)
    for size in (1, 3):
        other = Objective(replace(problem, forward=replace(problem.forward, together=size)), objective.observed)
        assert np.array_equal(other.evaluate(theta).gradient, objective.evaluate(theta).gradient)
        v = np.random.default_rng(2).standard_normal(theta.size)
        assert np.array_equal(other.hessian(theta) @ v, objective.hessian(theta) @ v)


def test_the_certificate_passes_with_jumps() -> None:
    certificate = certify(Scene(**CHAOTIC))
    assert certificate.passed, str(certificate)


def test_a_stage_has_a_weight_of_its_own(objective: Objective) -> None:
    scene = changed(stage=[{"jumps": {"x": 10 * WEIGHT}}])
    weighted = Objective(objective.problem, objective.observed, None, scene.stages()[0])
    theta = objective.problem.theta
    assert np.isclose(weighted.evaluate(theta).parts["jumps of x"], 10 * objective.evaluate(theta).parts["jumps of x"])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"time__windows": 1}, r"unknowns.x.jumps: expected a state and time.windows above 1, found 1 and x"),
        ({"unknowns__F__jumps": 1.0}, r"unknowns.F.jumps: expected a state"),
        ({"unknowns__x__jumps": None}, r"unknowns.x.jumps: expected a weight of the jumps of each state"),
        ({"uncertainty": {"prior": {"F": {"deviation": 1.0}}}}, r"uncertainty: expected none with time.windows = 4"),
        ({"stage": [{"jumps": {"F": 1.0}}]}, r"stage\[0\].jumps.F: expected an unknown with jumps \(x\)"),
    ],
    ids=["one", "parameter", "none", "uncertainty", "stage"],
)
def test_what_has_no_windows_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(SceneError, match=message):
        assemble(changed(**keys), "f64")
