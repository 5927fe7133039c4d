"""Preconditioning: its weights, and that it is a change of variables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from diffsim.errors import SceneError
from diffsim.scene.schema.search_keys import Stage
from diffsim.scene.search.assemble import Problem
from diffsim.scene.search.objective import Objective
from diffsim.scene.search.precondition import SMOOTH, WATER, weights_of
from diffsim.scene.search.stages import restarted, start_of
from diffsim.scene.shots.truth import observe
from tests.scene.tiny import ACOUSTIC, DRIVEN, HEAT, WAVE, scene

ENERGY = {"unknowns__c__precondition": "energy", "accept": []}


def test_the_energy_is_that_of_the_states_of_every_step_of_every_shot() -> None:
    problem = scene(ACOUSTIC, **ENERGY).problem("f64")
    setup, energy = problem.setup, np.zeros((16, 15))
    for inputs in setup.prepared(problem.inputs(problem.start)):
        for steps in range(1, setup.steps + 1):  # a run of its own to each time
            until = {name: values[:steps] if name == "f" else values for name, values in inputs.items()}
            energy += setup.simulation.run(until, steps).final["p"] ** 2
    energy = gaussian_filter(energy, SMOOTH, mode="nearest")
    expected = 1 / np.sqrt(energy / energy.max() + WATER)
    weights = weights_of(problem, problem.start)["c"]
    np.testing.assert_allclose(weights, expected / expected.mean(), rtol=1e-10)
    assert 2 < weights.max() / weights.min() <= np.sqrt((1 + WATER) / WATER)


def test_depth_is_counted_from_the_first_side_of_the_first_axis() -> None:
    problem = scene(ACOUSTIC, unknowns__c__depth=2.0).problem("f64")
    weights = weights_of(problem, problem.start)["c"]
    np.testing.assert_allclose(weights, np.broadcast_to((np.arange(16)[:, None] + 0.5) / 8.0, (16, 15)), rtol=1e-12)


def weighted(problem: Problem, weights: dict[str, Any]) -> Problem:
    unknowns = restarted(problem.unknowns, problem.start, Stage(), weights)
    return replace(problem, unknowns=unknowns, start=start_of(unknowns, problem.start))


def test_it_is_a_change_of_variables() -> None:
    """The gradient is that by the chain rule, and the bounds are the same places."""
    problem = scene(ACOUSTIC, **ENERGY).problem("f64")
    weights = weights_of(problem, problem.start)
    other, observed = weighted(problem, weights), observe(problem.scene, problem.setup)
    weight = weights["c"].ravel()
    theta = np.random.default_rng(0).standard_normal(weight.size)
    np.testing.assert_allclose(other.unknowns.split(theta / weight)["c"], problem.unknowns.split(theta)["c"], rtol=1e-12)
    value, gradient = Objective(problem, observed)(theta)
    same, changed = Objective(other, observed)(theta / weight)
    assert same == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(changed, gradient * weight, atol=1e-9 * np.abs(gradient).max())
    for side in ("lb", "ub"):
        np.testing.assert_allclose(getattr(other.unknowns.bounds(), side) * weight, getattr(problem.unknowns.bounds(), side), rtol=1e-12)


def test_regions_take_the_mean_of_their_cells() -> None:
    problem = scene(HEAT, unknowns__kappa__depth=1.0).problem("f64")
    weights = weights_of(problem, problem.start)
    part = weighted(problem, weights).unknowns.parts["kappa"]
    labels = np.asarray(part.labels)  # type: ignore[attr-defined]
    expected = [0.3 * weights["kappa"][labels == k].mean() for k in (0, 1)]
    np.testing.assert_allclose(part.scale, expected, rtol=1e-12)  # type: ignore[attr-defined]


def test_a_run_with_bounds_stages_and_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, Any] = {
        **ENERGY,
        "unknowns__c__upper": 2040.0,
        "stage": [{"lowpass": 60.0, "iterations": 3}, {"iterations": 5}],
    }
    whole = scene(ACOUSTIC, **changes).run(precision="f64")
    assert whole.losses[1] < 0.8 * whole.losses[0]
    assert whole.unknowns["c"].answer.max() == 2040.0
    right, calls = Objective.__call__, [0]

    def killed(self: Objective, theta: np.ndarray) -> tuple[float, np.ndarray]:
        calls[0] += 1
        if calls[0] == 7:
            raise KeyboardInterrupt
        return right(self, theta)

    monkeypatch.setattr(Objective, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        scene(ACOUSTIC, **changes).run(tmp_path / "cut", precision="f64")
    resumed = scene(ACOUSTIC, **changes).run(tmp_path / "cut", resume=True, precision="f64")
    np.testing.assert_array_equal(resumed.unknowns["c"].answer, whole.unknowns["c"].answer)


def test_scenes_that_cannot_be_preconditioned() -> None:
    with pytest.raises(SceneError, match=r"unknowns.lamp.depth: expected an unknown over the cells"):
        scene(DRIVEN, unknowns__lamp__depth=1.0).problem("f64")
    with pytest.raises(SceneError, match=r"unknowns.eta0.precondition: expected a forward field at the start"):
        scene(WAVE, unknowns__eta0__precondition="energy").run(precision="f64")
