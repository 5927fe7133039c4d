"""The loss of a scene and its gradient, against misfits and penalties worked out by hand."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from diffsim.errors import StabilityError
from diffsim.scene.search.objective import Objective
from diffsim.simulation import Solution
from tests.losses.by_hand import tikhonov, total_variation
from tests.scene.tiny import ACOUSTIC, HEAT, scene

ROUND_OFF = 1e-12


def objective_of(base: dict[str, Any], **changes: Any) -> tuple[Objective, np.ndarray]:
    """An objective in f64, and a place at random where it is not special."""
    objective = scene(copy.deepcopy(base), **changes).objective("f64")
    theta = objective.problem.theta
    return objective, theta + 0.1 * np.random.default_rng(1).standard_normal(theta.size)


def test_shots_and_a_penalty_on_slopes() -> None:
    """Sources fire in turn, two misfits have the same data and different weights, and a penalty ends at the free cells."""
    both = [{"of": "traces", "state": "p", "weight": 2.0}, {"of": "traces", "state": "p", "weight": 0.5, "normalise": False}]
    objective, theta = objective_of(ACOUSTIC, misfit=both)
    problem, data = objective.problem, objective.observed.of("traces", "p")
    weights = 2.0 / (0.5 * np.sum(data**2)), 0.5
    fields = problem.unknowns.split(theta)
    parts, by_cell = np.zeros(2), np.zeros(fields["c"].shape)
    for shot, inputs in enumerate(problem.setup.prepared(problem.inputs(fields))):
        solution, pullback = problem.setup.simulation.vjp(inputs, problem.setup.steps)
        residual = solution.traces["p"] - data[shot]
        parts += [0.5 * w * np.sum(residual**2) for w in weights]
        by_cell += pullback(Solution(traces={"p": sum(weights) * residual}))["c"]
    assert len(data) == 2
    length = problem.setup.grid.spacing[0] / 20.0
    weight = 1e-6 / (by_cell.size * length**2)
    penalty, slope = tikhonov(fields["c"], weight, (length, length), 1, problem.start["c"], None)

    evaluation = objective.evaluate(theta)
    np.testing.assert_allclose(list(evaluation.parts.values()), [*parts, penalty], rtol=ROUND_OFF)
    expected = by_cell + slope
    np.testing.assert_allclose(evaluation.by_cell["c"], expected, rtol=0, atol=ROUND_OFF * np.abs(expected).max())
    np.testing.assert_allclose(evaluation.gradient, 100.0 * expected.ravel(), rtol=0, atol=ROUND_OFF * 100 * np.abs(expected).max())
    assert objective.value(theta) == pytest.approx(evaluation.value, rel=ROUND_OFF)


def test_a_final_state_a_total_variation_and_regions() -> None:
    objective, theta = objective_of(HEAT)
    problem, data = objective.problem, objective.observed.of("final", "T")[0]
    fields = problem.unknowns.split(theta)
    (inputs,) = problem.setup.prepared(problem.inputs(fields))
    solution, pullback = problem.setup.simulation.vjp(inputs, problem.setup.steps)
    weight, residual = 1.0 / (0.5 * np.sum(data**2)), solution.final["T"] - data
    bars = pullback(Solution(final={"T": weight * residual}))
    penalty, slope = total_variation(fields["T"], 1e-3 / data.size, (1.0, 1.0), 0.1, None)

    evaluation = objective.evaluate(theta)
    np.testing.assert_allclose(list(evaluation.parts.values()), [0.5 * weight * np.sum(residual**2), penalty], rtol=ROUND_OFF)
    by_region = [(0.3 * fields["kappa"] * bars["kappa"])[:, half].sum() for half in (slice(None, 5), slice(5, None))]
    expected = np.concatenate([(bars["T"] + slope).ravel(), by_region])
    np.testing.assert_allclose(evaluation.gradient, expected, rtol=0, atol=ROUND_OFF * np.abs(expected).max())
    assert objective.value(theta) == pytest.approx(evaluation.value, rel=ROUND_OFF)


def test_only_quantities_with_data_get_cotangents() -> None:
    objective, theta = objective_of(ACOUSTIC)
    setup = objective.problem.setup
    inputs = next(setup.prepared(objective.problem.inputs(objective.problem.unknowns.split(theta))))
    seed = objective.misfits.seed(setup.simulation.run(inputs, setup.steps), {}, 0).bars
    assert (set(seed.final), set(seed.traces)) == (set(), {"p"})


def test_a_search_that_leaves_the_stable_range_names_the_unknowns() -> None:
    objective, _ = objective_of(HEAT)
    theta = objective.problem.theta
    objective(theta)
    theta = np.array(theta)
    theta[objective.problem.unknowns.slices["kappa"]] = 20.0
    with pytest.raises(StabilityError, match=r"^the search took T or kappa where .*; give unknowns.T.lower or upper: dt = 0.2") as raised:
        objective(theta)
    assert raised.value.limit is not None and raised.value.limit < 0.2
    with pytest.raises(StabilityError, match=r"^dt = 0.2"):  # the first evaluation is of the scene itself
        objective_of(HEAT)[0](theta)
