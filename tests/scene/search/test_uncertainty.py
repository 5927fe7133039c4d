"""The uncertainty of a scene's answer against dense matrices: a Jacobian by columns and inverses by NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from diffsim.ad import grad
from diffsim.errors import SceneError
from diffsim.losses import Tikhonov
from diffsim.scene import Outcome, Scene
from diffsim.scene.disk.folder import identify
from diffsim.scene.search.assemble import Problem
from diffsim.scene.search.curvature import CellCurvature
from diffsim.scene.search.uncertainty import precision_of
from diffsim.scene.shots.truth import observe
from tests.scene.tiny import ACOUSTIC, HEAT, WAVE, scene

PRIOR = {"eta0": {"deviation": 0.5, "length": 1200.0}}
WHOLE = {"rank": 400, "prior": PRIOR}


def jacobian(problem: Problem, fields: dict[str, Any], name: str) -> np.ndarray:
    """Jacobian of the compared values, by the free cells of an unknown: a column each, by the tangent."""
    kind, state = problem.scene.misfit[0].of, problem.scene.misfit[0].state
    columns = []
    for cell in np.argwhere(problem.free[name]):
        unit = np.zeros(problem.free[name].shape)
        unit[tuple(cell)] = 1.0
        column = []
        for inputs in problem.setup.prepared(problem.inputs(fields)):
            _, moved = problem.setup.simulation.jvp(inputs, {name: unit}, problem.setup.steps)
            column.append((moved.traces if kind == "traces" else moved.final)[state].ravel())
        columns.append(np.concatenate(column))
    return np.array(columns).T


def gaussian_covariance(free: np.ndarray, spacing: tuple[float, ...], deviation: float, length: float) -> np.ndarray:
    """σ² times a correlation whose root is SciPy's Gaussian filter, normalised."""
    from scipy.ndimage import gaussian_filter

    sigma = [length / h / np.sqrt(2) for h in spacing]
    root = np.array([gaussian_filter(e.reshape(free.shape), sigma, mode="reflect").ravel() for e in np.eye(free.size)]).T
    root /= np.sqrt((root**2).sum(axis=1))[:, None]
    return deviation**2 * (root @ root.T)[np.ix_(free.ravel(), free.ravel())]


def dense(hessian: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Standard deviations of (H + C⁻¹)⁻¹ = C - C (H⁻¹ + C)⁻¹ C, which needs no inverse of C."""
    after = covariance - covariance @ hessian @ np.linalg.solve(np.eye(len(covariance)) + covariance @ hessian, covariance)
    return np.sqrt(np.diag(after))


@pytest.fixture(scope="module")
def waves() -> tuple[Problem, Outcome]:
    case = scene(WAVE, uncertainty=WHOLE)
    return case.problem("f64"), case.run(precision="f64")


def test_at_full_rank_it_is_that_of_the_dense_hessian(waves: tuple[Problem, Outcome]) -> None:
    problem, outcome = waves
    answer, free = outcome.unknowns["eta0"], problem.free["eta0"]
    columns = jacobian(problem, {"eta0": answer.answer}, "eta0")
    noise = outcome.traces["eta"].noise
    expected = dense(columns.T @ columns / noise**2, gaussian_covariance(free, problem.setup.grid.spacing, 0.5, 1200.0))
    assert answer.deviation is not None and answer.prior_deviation is not None
    np.testing.assert_allclose(answer.deviation[free], expected, rtol=1e-6)
    np.testing.assert_allclose(answer.prior_deviation[free], 0.5, rtol=1e-12)
    assert np.isnan(answer.deviation[~free]).all()
    assert expected.min() < 0.05 < 0.2 < expected.max()  # the records tell much of some cells and little of others


@pytest.mark.slow
def test_the_uplift_of_the_packaged_tsunami_on_a_coarse_grid() -> None:
    """On the sphere, over its sea floor and behind its coast."""
    case = Scene.load(
        "tsunami",
        [
            *("grid.shape=[24, 30]", "time.dt=45.0", "time.duration=1800.0", "equation.sponge=2", "truth.refine=1.0", "truth.noise=0.5"),
            *("unknowns.eta0.smooth=0.5", "unknowns.eta0.mask.margin=3", "optimise.iterations=3", "uncertainty.rank=110"),
            *("uncertainty.prior.eta0.deviation=0.5", "uncertainty.prior.eta0.length=1.0e4"),
        ],
    )
    problem, outcome = case.problem("f64"), case.run(precision="f64")
    answer, free = outcome.unknowns["eta0"], problem.free["eta0"]
    assert answer.deviation is not None and free.sum() == 120
    columns = jacobian(problem, {"eta0": answer.answer}, "eta0")
    covariance = gaussian_covariance(free, problem.setup.equation.cell_lengths(), 0.5, 1e4)
    expected = dense(columns.T @ columns / outcome.traces["eta"].noise ** 2, covariance)
    np.testing.assert_allclose(answer.deviation[free], expected, rtol=1e-6)
    assert expected.min() < 0.05 < 0.4 < expected.max()


def test_at_a_lower_rank_it_lacks_the_reductions_by_the_other_eigenpairs(waves: tuple[Problem, Outcome]) -> None:
    problem, whole = waves
    outcome = scene(WAVE, uncertainty={"rank": 12, "prior": PRIOR}).run(precision="f64")
    assert outcome.eigenvalues is not None and whole.eigenvalues is not None
    np.testing.assert_allclose(outcome.eigenvalues[:8], whole.eigenvalues[:8], rtol=1e-3)
    free = problem.free["eta0"]
    low, full = (o.unknowns["eta0"].deviation[free] ** 2 for o in (outcome, whole))  # type: ignore[index]
    rest = whole.eigenvalues[12:]
    assert np.all(low >= full * (1 - 1e-6))
    # Σ over cells is at most σ² times the sum of the reductions by each pair, and each is above 0
    assert 0 < np.sum(low - full) < 0.25 * free.size * np.max(rest / (1 + rest))


def test_by_its_tikhonov_penalty_it_is_that_of_the_hessian_of_the_loss() -> None:
    """With the loss as the negative logarithm of a probability: its Hessian, inverted, over the scale of the misfit."""
    penalty = [
        {"type": "tikhonov", "unknown": "T", "order": 1, "weight": 1e-2, "length": 1.0},
        {"type": "tikhonov", "unknown": "T", "order": 0, "weight": 1e-2},
    ]
    case = scene(HEAT, unknowns__kappa=None, truth__fields__kappa=None, fields={"kappa": {"constant": 0.5}}, penalty=penalty)
    case = Scene(**{**case.model_dump(exclude_unset=True), "uncertainty": {"rank": 200}})
    problem, outcome = case.problem("f64"), case.run(precision="f64")
    data = outcome.finals["T"]
    columns = jacobian(problem, {"T": outcome.unknowns["T"].answer}, "T")
    energy = 0.5 * np.sum(data.data**2)
    penalties = [p for _, p in problem.penalties.values()]
    zero, identity = np.zeros((12, 11)), np.eye(132)

    slope = grad(lambda T: sum(p(T) for p in penalties))
    precision = np.array([(slope(unit.reshape(12, 11)) - slope(zero)).ravel() for unit in identity])
    hessian = columns.T @ columns / energy + precision
    scale = energy / data.noise**2
    expected = np.sqrt(np.diag(np.linalg.inv(scale * hessian)))
    np.testing.assert_allclose(outcome.unknowns["T"].deviation.ravel(), expected, rtol=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize("order", [1, 2])
def test_the_precision_of_penalties_is_their_hessian(order: Literal[1, 2]) -> None:
    rng = np.random.default_rng(0)
    mask = rng.random((5, 7)) < 0.8
    labels = np.full((5, 7), -1)
    labels[mask] = np.arange(mask.sum())
    penalties = [Tikhonov(2.0, (0.5, 2.0), order, mask=mask), Tikhonov(0.3, 1.0, 0, mask=mask)]
    precision = precision_of(penalties, rng.standard_normal((5, 7)), labels)
    v = rng.standard_normal(mask.sum())
    field = np.zeros((5, 7))
    field[mask] = v
    assert 0.5 * v @ (precision @ v) == pytest.approx(sum(float(p(field)) for p in penalties), rel=1e-12)
    assert abs(precision - precision.T).max() < 1e-14


def test_several_unknowns_and_shots_and_regions() -> None:
    prior = {"T": {"deviation": 1.0, "length": 2.0}, "kappa": {"deviation": 0.2}}
    outcome = scene(HEAT, optimise__iterations=1, uncertainty={"rank": 6, "prior": prior}).run(precision="f64")
    deviation = outcome.unknowns["kappa"].deviation
    assert deviation is not None and len(np.unique(deviation)) == 2 and deviation.max() < 0.2
    prior = {"c": {"deviation": 100.0, "length": 20.0}}
    shots = scene(ACOUSTIC, optimise__iterations=1, uncertainty={"rank": 4, "prior": prior}).run(precision="f64")
    spread = shots.unknowns["c"].deviation
    assert spread is not None and spread.min() < 80 < 99 < spread.max() <= 100


def test_the_report_draws_it(waves: tuple[Problem, Outcome]) -> None:
    from diffsim.report.page import pictures

    (picture,) = [picture for picture in pictures(waves[1]) if picture.name == "uncertainty_eta0"]
    assert "falls from 500 mm to" in picture.caption or "falls from 0.5 m to" in picture.caption
    assert len(picture.figure.axes) >= 2


def test_deviations_and_weights_of_records_count(tmp_path: Path) -> None:
    """Twice the deviation of the records, half the information."""
    problem = scene(WAVE).problem("f64")
    data = observe(problem.scene, problem.setup).traces["eta"]
    np.save(tmp_path / "eta.npy", data)
    eigenvalues = []
    for deviation in (0.01, 0.02):
        table = {"path": str(tmp_path / "eta.npy"), "dt": 2.5, "deviation": deviation}
        outcome = scene(WAVE, truth=None, data={"eta": table}, uncertainty={"rank": 6, "prior": PRIOR}, optimise__iterations=1).run()
        eigenvalues.append(outcome.eigenvalues)
    np.testing.assert_allclose(eigenvalues[0][:5], 4 * eigenvalues[1][:5], rtol=1e-3)


def test_killed_it_goes_on_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = scene(WAVE, uncertainty={"rank": 5, "prior": PRIOR})
    whole = case.run(tmp_path / "whole", precision="f64")
    assert not list((tmp_path / "whole").glob("uncertainty*"))
    right, done = CellCurvature.by_cell, [0]

    def killed(self: CellCurvature, moved: Any) -> Any:
        done[0] += 1
        if done[0] == 17:
            raise KeyboardInterrupt
        return right(self, moved)

    monkeypatch.setattr(CellCurvature, "by_cell", killed)
    with pytest.raises(KeyboardInterrupt):
        case.run(tmp_path / "cut", precision="f64")
    resumed = case.run(tmp_path / "cut", resume=True, precision="f64")
    assert done[0] == 30 + 1
    np.testing.assert_array_equal(resumed.unknowns["eta0"].deviation, whole.unknowns["eta0"].deviation)
    again = Outcome.load(tmp_path / "cut")
    np.testing.assert_array_equal(again.unknowns["eta0"].deviation, whole.unknowns["eta0"].deviation)
    np.testing.assert_array_equal(again.eigenvalues, whole.eigenvalues)


def test_it_may_be_asked_for_when_a_search_is_done() -> None:
    assert identify(scene(WAVE, uncertainty=WHOLE), "f64").search == identify(scene(WAVE), "f64").search


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no prior": ({"uncertainty": {}}, r"uncertainty.prior.eta0: expected prior knowledge, found none"),
    "slopes alone": (
        {"uncertainty": {}, "penalty": [{"type": "tikhonov", "unknown": "eta0", "order": 1, "weight": 1e-3, "length": 500.0}]},
        r"uncertainty.prior.eta0: precision: expected a positive definite matrix",
    ),
    "no noise": ({"uncertainty": WHOLE, "truth__noise": 0.0}, r"truth.noise: expected the noise of the records"),
}


@pytest.mark.parametrize(("changes", "match"), WRONG.values(), ids=WRONG)
def test_refused_before_the_search(changes: dict[str, Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(SceneError, match=match):
        scene(WAVE, **changes).run(tmp_path / "out", precision="f64")
    assert not (tmp_path / "out" / "journal.bin").exists()
    with pytest.raises(SceneError, match=match):
        scene(WAVE, **changes).plan("f64")


def test_an_unknown_that_is_none() -> None:
    with pytest.raises(SceneError, match=r"uncertainty.prior.eta: expected one of eta0, found 'eta'; did you mean eta0"):
        scene(WAVE, uncertainty={"prior": {"eta": {"deviation": 1.0}}}).problem("f64")


def test_amplitudes_of_sources_which_shots_share() -> None:
    """Against the two columns of the Jacobian: the records are linear in the amplitudes."""
    truth = {"layers": {"axis": "number", "tops": [1.0], "values": [0.5, 2.0]}}
    speed = {"constant": 2000.0, "gaussians": [{"centre": [75.0, 75.0], "width": 20.0, "amplitude": 200.0}]}
    changes = {"unknowns": {"f": {"of": "amplitudes"}}, "fields": {"c": speed}, "truth__fields": {"f": truth}, "penalty": [], "accept": []}
    newton = {"method": "gauss-newton", "iterations": 6}
    case = scene(ACOUSTIC, **changes, optimise=newton, uncertainty={"rank": 2, "prior": {"f": {"deviation": 0.3}}})
    problem, outcome = case.problem("f64"), case.run(precision="f64")
    setup = problem.setup
    columns = [[s.traces["p"] for s in setup.predict(problem.inputs({"f": unit}))] for unit in np.eye(2)]
    matrix = np.array(columns).reshape(2, -1).T
    pair, answer = outcome.traces["p"], outcome.unknowns["f"]
    np.testing.assert_allclose(answer.answer, np.linalg.lstsq(matrix, pair.data.ravel(), rcond=None)[0], rtol=1e-4)
    expected = np.linalg.inv(matrix.T @ matrix / pair.noise**2 + np.eye(2) / 0.3**2)
    np.testing.assert_allclose(answer.deviation, np.sqrt(np.diag(expected)), rtol=1e-8)
