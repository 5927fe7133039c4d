"""Stages: the loss of each, its start, and that a run killed in any of them ends with the same bits."""

from __future__ import annotations

import copy
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import signal

from diffsim.errors import SceneError
from diffsim.scene import Outcome, Scene
from diffsim.scene.disk.folder import identify
from diffsim.scene.schema.search_keys import Stage
from diffsim.scene.search.objective import Objective
from diffsim.scene.shots.truth import observe
from tests.sampled import sampled
from tests.scene.tiny import ACOUSTIC, HEAT, scene

STAGES: list[dict[str, Any]] = [
    {"lowpass": 30.0, "iterations": 3, "smooth": {"c": 2.0}},
    {"highpass": 10.0, "lowpass": 60.0, "iterations": 2},
    {"iterations": 4},
]
FREE = {"unknowns__c": {"start": {"constant": 2000.0}, "transform": "logit", "lower": 1500.0, "upper": 2600.0, "scale": 0.3}}
"""Smoothing goes together with "logit" where there are bounds."""


def staged(**changes: Any) -> Scene:
    return scene(ACOUSTIC, **{**FREE, "stage": copy.deepcopy(STAGES), "accept": [], "optimise__tolerance": 0.0, **changes})


def filtered(traces: np.ndarray, dt: float, lowpass: float) -> np.ndarray:
    """SciPy's filter, forward and backward, of traces with zeros around, times first."""
    sections = signal.butter(4, lowpass, "lowpass", fs=1 / dt, output="sos")
    around = 2000
    padded = np.pad(traces, [(around, around), (0, 0)])
    return signal.sosfiltfilt(sections, padded, axis=0, padlen=0)[around:-around]


def test_the_loss_of_a_stage_is_that_of_filtered_data_and_predictions() -> None:
    problem = staged(penalty=[]).problem("f64")
    observed = observe(problem.scene, problem.setup)
    objective = Objective(problem, observed, stage=Stage(lowpass=30.0))
    predicted = [solution.traces["p"] for solution in problem.setup.predict(problem.inputs(problem.start))]
    pairs = [(filtered(d, 2e-3, 30.0), filtered(p, 2e-3, 30.0)) for d, p in zip(observed.traces["p"], predicted, strict=True)]
    expected = sum(((p - d) ** 2).sum() for d, p in pairs) / sum((d**2).sum() for d, _ in pairs)
    assert objective.value(problem.theta) == pytest.approx(expected, rel=1e-8)
    assert Objective(problem, observed).value(problem.theta) != pytest.approx(expected, rel=1e-2)


def test_the_gradient_of_a_stage_passes_a_taylor_test() -> None:
    problem = staged().problem("f64")
    objective = Objective(problem, observe(problem.scene, problem.setup), stage=Stage(lowpass=30.0, highpass=5.0))
    rng = np.random.default_rng(0)
    theta, direction = 0.1 * rng.standard_normal((2, problem.theta.size))
    value, gradient = objective(theta)
    steps = np.array([1e-2, 5e-3])
    away = [abs(objective.value(theta + h * direction) - value - h * (gradient @ direction)) for h in steps]
    assert np.log2(away[0] / away[1]) == pytest.approx(2, abs=0.1)


def test_records_of_another_sampling_with_gaps(tmp_path: Path) -> None:
    """Predictions are brought to the times of the records; gaps count as zero in data and predictions alike."""
    data = np.random.default_rng(0).standard_normal((2, 13, 5))
    data[0, 4:7, 2] = np.nan
    np.save(tmp_path / "p.npy", data)
    problem = staged(penalty=[], truth=None, data={"p": {"path": str(tmp_path / "p.npy"), "dt": 4e-3}}).problem("f64")
    objective = Objective(problem, observe(problem.scene, problem.setup), stage=Stage(lowpass=30.0))
    predicted = [solution.traces["p"][::2] for solution in problem.setup.predict(problem.inputs(problem.start))]
    misfit = energy = 0.0
    for d, p in zip(data, predicted, strict=True):
        there = np.isfinite(d)
        kept, modelled = (filtered(np.where(there, values, 0.0), 4e-3, 30.0)[there] for values in (d, p))
        misfit, energy = misfit + ((modelled - kept) ** 2).sum(), energy + (kept**2).sum()
    assert objective.value(problem.theta) == pytest.approx(misfit / energy, rel=1e-8)


def test_records_at_uneven_times_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", values=np.ones((2, 3, 5)), times=[0.0, 0.01, 0.04])
    table = {"path": str(tmp_path / "p.npz"), "values": "values", "times": "times", "allow": ["short", "clipped"]}
    with pytest.raises(SceneError, match=r"stage\[0\]: lowpass: expected records of p at evenly spaced times"):
        staged(truth=None, data={"p": table}).problem("f64")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    folder = tmp_path_factory.mktemp("stages") / "whole"
    return folder, staged().run(folder, precision="f64")


def test_the_history_says_which_iteration_is_of_which_stage(whole: tuple[Path, Outcome]) -> None:
    folder, outcome = whole
    assert [(row.stage, row.iteration) for row in outcome.history] == [
        *((1, k) for k in range(4)),
        *((2, k) for k in range(3, 6)),
        *((3, k) for k in range(5, 10)),
    ]
    for number in (1, 2, 3):
        losses = [row.loss for row in outcome.history if row.stage == number]
        assert losses == sorted(losses, reverse=True)
    evaluations = [row.evaluations for row in outcome.history]
    assert evaluations == sorted(set(evaluations))
    assert outcome.losses[1] == pytest.approx(outcome.history[-1].loss, rel=1e-12)
    with (folder / "history.csv").open() as file:
        assert [int(row["stage"]) for row in csv.DictReader(file)] == [row.stage for row in outcome.history]
    assert {path.name for path in folder.glob("journal*")} == {"journal.bin", "journal-2.bin", "journal-3.bin"}


def test_a_stage_starts_from_the_answer_of_the_one_before(whole: tuple[Path, Outcome]) -> None:
    """So its first loss is that of this answer, in its own band."""
    first = staged(stage=STAGES[:1]).run(precision="f64").unknowns["c"].answer
    problem = staged().problem("f64")
    objective = Objective(problem, observe(problem.scene, problem.setup), stage=Stage(**STAGES[1]))
    value = sum(objective.penalty({"c": first})[0].values())
    for shot, solution in enumerate(problem.setup.predict(problem.inputs({"c": first}))):
        value += sum(objective.misfits.seed(solution, {}, shot).values.values())
    start = next(row for row in whole[1].history if row.stage == 2)
    assert start.loss == pytest.approx(value, rel=1e-9)
    assert not np.array_equal(first, whole[1].unknowns["c"].answer)


@pytest.mark.parametrize("calls", sampled([6, 3, 10], 3))
def test_killed_in_any_stage_it_ends_with_the_same_bits(
    whole: tuple[Path, Outcome], calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, done = Objective.__call__, [0]

    def killed(self: Objective, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if done[0] == calls:
            raise KeyboardInterrupt
        done[0] += 1
        return right(self, theta)

    monkeypatch.setattr(Objective, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        staged().run(tmp_path / "cut", precision="f64")
    assert (tmp_path / "cut" / "last.npz").is_file()
    done[0] = -1000
    resumed = staged().run(tmp_path / "cut", resume=True, precision="f64")
    assert done[0] + 1000 == whole[1].history[-1].evaluations - calls  # nothing is computed twice
    np.testing.assert_array_equal(resumed.unknowns["c"].answer, whole[1].unknowns["c"].answer)
    assert [(row.loss, row.evaluations) for row in resumed.history] == [(row.loss, row.evaluations) for row in whole[1].history]
    assert not (tmp_path / "cut" / "last.npz").exists()


def test_the_iterations_of_the_last_stage_alone_may_be_raised() -> None:
    known = identify(staged(), "f64").search
    assert identify(staged(stage__2__iterations=9), "f64").search == known
    assert identify(staged(optimise__iterations=50), "f64").search == known
    assert identify(staged(stage__1__iterations=9), "f64").search != known
    assert identify(staged(stage__1__lowpass=59.0), "f64").search != known
    assert identify(staged(stage=[*STAGES, {"iterations": 4}]), "f64").search != known
    inherited = staged(stage=[{"lowpass": 30.0}, {}])
    assert identify(inherited.model_copy(update={"optimise": staged(optimise__iterations=7).optimise}), "f64").search != (
        identify(inherited, "f64").search
    )


def test_unknowns_of_regions_and_final_fields_go_through_stages_too() -> None:
    outcome = scene(HEAT, stage=[{"iterations": 2, "smooth": {"T": 1.0}}, {"iterations": 6}]).run()
    assert outcome.passed
    assert outcome.history[-1].stage == 2


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "frequency": ({"stage__0__lowpass": 300.0}, r"stage\[0\]: lowpass: expected less than 250 Hz, half the sampling"),
    "order of corners": ({"stage__1__highpass": 70.0}, r"stage\[1\]: highpass: expected less than lowpass"),
    "unknown": ({"stage__0__smooth": {"d": 1.0}}, r"stage\[0\].smooth.d: expected one of c, found 'd'"),
    "bounds": ({"unknowns__c__transform": "identity"}, r"stage\[0\]: smooth: expected no bounds"),
    "too smooth": ({"stage__0__smooth": {"c": 99.0}}, r"stage\[0\]: smooth: expected at most 16"),
}


@pytest.mark.parametrize(("changes", "match"), WRONG.values(), ids=WRONG)
def test_refused_before_anything_is_computed(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(SceneError, match=match):
        staged(**changes).problem("f64")


def test_final_fields_have_no_band() -> None:
    with pytest.raises(SceneError, match=r"stage\[0\]: lowpass: expected a misfit of traces"):
        scene(HEAT, stage=[{"lowpass": 1.0}]).problem("f64")


def test_the_report_draws_the_stages(whole: tuple[Path, Outcome]) -> None:
    from diffsim.report.curves import loss

    picture = loss(whole[1])
    assert "stage 2 from" in picture.caption
    assert json.loads((whole[0] / "outcome.json").read_text())["history"][-1]["stage"] == 3
