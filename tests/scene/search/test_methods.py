"""Gauss-Newton and batches in scenes: the products, the answers, and that killed runs end with the same bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffsim.errors import SceneError
from diffsim.scene import Outcome, Scene
from diffsim.scene.search.curvature import Curvature
from diffsim.scene.search.objective import Objective
from diffsim.scene.shots.truth import observe
from tests.sampled import sampled
from tests.scene.tiny import ACOUSTIC, HEAT, WAVE, scene


def predictions(objective: Objective, theta: np.ndarray) -> np.ndarray:
    """All that is compared, as a vector."""
    problem = objective.problem
    solutions = problem.setup.predict(problem.inputs(problem.unknowns.split(theta)))
    kind, state = problem.scene.misfit[0].of, problem.scene.misfit[0].state
    return np.concatenate([(s.traces if kind == "traces" else s.final)[state].ravel() for s in solutions]).astype(float)


@pytest.mark.parametrize("base", sampled([ACOUSTIC, WAVE, HEAT], gate=[ACOUSTIC, HEAT], ids=lambda base: base["name"]))
def test_products_are_those_of_the_gauss_newton_hessian(base: dict[str, Any]) -> None:
    """Against Jᵀ W J with a Jacobian of central differences, and the misfit's weight."""
    objective = scene(base, penalty=[]).objective("f64")
    problem = objective.problem
    rng = np.random.default_rng(0)
    theta = problem.theta + 0.05 * rng.standard_normal(problem.theta.size)
    v, w = rng.standard_normal((2, theta.size))
    h = 1e-4
    moved = [(predictions(objective, theta + h * d) - predictions(objective, theta - h * d)) / (2 * h) for d in (v, w)]
    kind, state = problem.scene.misfit[0].of, problem.scene.misfit[0].state
    weight = 1 / np.sum(0.5 * objective.observed.of(kind, state) ** 2)
    hessian = objective.hessian(theta)
    assert w @ (hessian @ v) == pytest.approx(weight * (moved[0] @ moved[1]), rel=1e-5)
    assert w @ (hessian @ v) == pytest.approx(v @ (hessian @ w), rel=1e-9)
    assert v @ (hessian @ v) > 0


def test_the_penalties_take_part() -> None:
    with_penalty, without = (scene(ACOUSTIC, penalty=penalty).objective("f64") for penalty in (ACOUSTIC["penalty"], []))
    theta = with_penalty.problem.theta
    v, h = np.random.default_rng(1).standard_normal(theta.size), 1e-3

    def slope(at: np.ndarray) -> np.ndarray:
        difference = with_penalty(at)[1] - without(at)[1]
        return np.asarray(difference)

    expected = (slope(theta + h * v) - slope(theta - h * v)) / (2 * h)
    product = with_penalty.hessian(theta) @ v - without.hessian(theta) @ v
    np.testing.assert_allclose(product, expected, atol=1e-6 * np.abs(expected).max())


def newton(**changes: Any) -> Scene:
    return scene(WAVE, **{"optimise": {"method": "gauss-newton", "iterations": 4, "tolerance": 0.0}, **changes})


@pytest.fixture(scope="module")
def whole() -> Outcome:
    return newton().run(precision="f64")


def test_gauss_newton_ends_lower_than_lbfgsb_with_as_many_gradients(whole: Outcome) -> None:
    last = whole.history[-1]
    assert last.products >= last.iteration
    slow = newton(optimise__method="L-BFGS-B", optimise__iterations=last.evaluations).run(precision="f64")
    assert whole.losses[1] < slow.losses[1]


@pytest.mark.parametrize("stop", sampled([7, 2]))
def test_killed_within_the_conjugate_gradients_it_ends_with_the_same_bits(
    stop: int, whole: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, done = Curvature.__matmul__, [0]

    def killed(self: Curvature, v: np.ndarray) -> np.ndarray:
        done[0] += 1
        if done[0] == stop:
            raise KeyboardInterrupt
        return right(self, v)

    monkeypatch.setattr(Curvature, "__matmul__", killed)
    with pytest.raises(KeyboardInterrupt):
        newton().run(tmp_path / "cut", precision="f64")
    resumed = newton().run(tmp_path / "cut", resume=True, precision="f64")
    np.testing.assert_array_equal(resumed.unknowns["eta0"].answer, whole.unknowns["eta0"].answer)
    assert done[0] == whole.history[-1].products + 1  # the interrupted one alone is done twice


@pytest.mark.parametrize("kind", ["envelope", "wasserstein"])
def test_misfits_that_are_not_convex_go_downhill_too(kind: str) -> None:
    """The Hessian of Wasserstein's is indefinite at the start: the conjugate gradients end where there is no curvature."""
    misfit = [{"of": "traces", "state": "p", "type": kind}]
    case = scene(ACOUSTIC, misfit=misfit, accept=[], optimise={"method": "gauss-newton", "iterations": 3})
    outcome = case.run(precision="f64")
    assert outcome.losses[1] < 0.7 * outcome.losses[0]


MORE_SHOTS = [[40.0, 30.0], [70.0, 30.0], [100.0, 35.0], [120.0, 35.0]]
ADAM = {"sources__f__points": MORE_SHOTS, "accept": [], "optimise": {"method": "adam", "iterations": 9, "batch": 2, "rate": 0.2}}


def test_a_batch_stands_for_all_shots() -> None:
    """The mean over all pairs of shots is the whole loss and gradient."""
    objective = scene(ACOUSTIC, **ADAM).objective("f64")
    theta = objective.problem.theta + 0.1
    value, gradient = objective(theta)
    pairs = [objective(theta, np.array([a, b])) for a in range(4) for b in range(a)]
    assert np.mean([pair[0] for pair in pairs]) == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(np.mean([pair[1] for pair in pairs], axis=0), gradient, atol=1e-10 * np.abs(gradient).max())


def test_batches_of_shots_lower_the_loss_and_keep_the_bounds() -> None:
    outcome = scene(ACOUSTIC, **{**ADAM, "unknowns__c__upper": 2050.0}).run(precision="f64")
    assert outcome.losses[1] < 0.8 * outcome.losses[0]
    assert outcome.unknowns["c"].answer.max() == 2050.0


@pytest.mark.parametrize("stop", [4])
def test_a_resumed_run_takes_the_same_batches(stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[list[int]] = []
    right = Objective.__call__

    def noted(self: Objective, theta: np.ndarray, shots: np.ndarray) -> tuple[float, np.ndarray]:
        if len(taken) == stop:
            taken.append([])
            raise KeyboardInterrupt
        taken.append(shots.tolist())
        return right(self, theta, shots)

    whole = scene(ACOUSTIC, **ADAM).run(precision="f64")
    monkeypatch.setattr(Objective, "__call__", noted)
    with pytest.raises(KeyboardInterrupt):
        scene(ACOUSTIC, **ADAM).run(tmp_path / "cut", precision="f64")
    resumed = scene(ACOUSTIC, **ADAM).run(tmp_path / "cut", resume=True, precision="f64")
    np.testing.assert_array_equal(resumed.unknowns["c"].answer, whole.unknowns["c"].answer)
    batches = [batch for batch in taken if batch]
    assert len(batches) == 10 and all(sorted(batches[k] + batches[k + 1]) == [0, 1, 2, 3] for k in range(0, 10, 2))


@pytest.mark.parametrize("shots", sampled([[0, 2], [1, 3]]))
def test_a_killed_batch_is_not_taken_for_another(shots: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both at the same unknowns: their sums over shots are kept apart."""
    import dataclasses

    from diffsim.scene.shots.shots import ShotFile

    problem = scene(ACOUSTIC, **ADAM).problem("f64")
    policy = dataclasses.replace(problem.checkpoint, folder=tmp_path, resume=1e-9)
    objective = Objective(dataclasses.replace(problem, checkpoint=policy), observe(problem.scene, problem.setup))
    keep = ShotFile.keep

    def killed(self: ShotFile, sums: Any) -> None:
        keep(self, sums)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ShotFile, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            objective(problem.theta, np.array([0, 3]))
    result, expected = objective(problem.theta, np.array(shots)), scene(ACOUSTIC, **ADAM).objective("f64")(problem.theta, np.array(shots))
    assert result[0] == expected[0]
    np.testing.assert_array_equal(result[1], expected[1])


def test_batches_that_cannot_be() -> None:
    with pytest.raises(SceneError, match=r"optimise.batch: expected at most 4, the shots of the scene, found 5"):
        scene(ACOUSTIC, **{**ADAM, "optimise__batch": 5}).problem("f64")
    with pytest.raises(SceneError, match=r'optimise.batch: expected method = "adam"'):
        scene(ACOUSTIC, optimise__batch=2).problem("f64")
