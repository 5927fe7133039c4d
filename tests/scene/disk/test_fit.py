"""Figures of fit at each receiver: by hand, and in a run of a scene."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diffsim.errors import SceneError
from diffsim.report.tables import fitted
from diffsim.scene.disk.fit import Fit, fits
from diffsim.scene.disk.outcome import Outcome
from diffsim.scene.schema.search_keys import Accept
from diffsim.scene.search.accept import _of_records, judge
from tests.scene.tiny import WAVE, scene

TIMES = np.arange(0.0, 100.0, 0.5)


def wave(delay: float, height: float = 1.0, times: np.ndarray = TIMES) -> np.ndarray:
    return height * np.exp(-(((times - 40.0 - delay) / 6.0) ** 2))


def test_figures_of_known_pairs() -> None:
    """A record and itself, half of it, itself 3.2 s late and 7 s early, and nothing."""
    data = np.stack([wave(0.0)] * 5, axis=1)[None]
    predicted = np.stack([wave(0.0), wave(0.0, 0.5), wave(3.2), wave(-7.0), 0 * TIMES], axis=1)[None]
    same, half, late, early, none = fits(data, predicted, TIMES, names=list("abcde"))
    assert (same.name, same.variance_reduction, same.lag, same.peak) == ("a", 1.0, pytest.approx(0.0, abs=1e-9), 1.0)
    assert half.variance_reduction == pytest.approx(0.75) and half.peak == pytest.approx(0.5)
    assert late.lag == pytest.approx(3.2, abs=0.02) and early.lag == pytest.approx(-7.0, abs=0.02)
    assert none.variance_reduction == 0.0 and np.isnan(none.lag) and none.peak == 0.0
    (opposite,) = fits(data[..., :1], -data[..., :1], TIMES)
    assert np.isnan(opposite.lag)  # no shift has a positive correlation, and the largest would be one of rounding


def test_samples_that_do_not_count_change_nothing() -> None:
    """Gaps, weights of 0, uneven times; two shots count together."""
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0.0, 100.0, 400))
    data = np.stack([wave(0.0, 1.0, times), wave(0.0, 2.0, times)])[..., None]
    predicted = np.stack([wave(5.0, 1.0, times), wave(5.0, 2.0, times)])[..., None]
    (plain,) = fits(data, predicted, times)
    assert plain.lag == pytest.approx(5.0, abs=0.1)
    assert plain.variance_reduction == pytest.approx(1 - np.sum((data - predicted) ** 2) / np.sum(data**2))
    share = np.ones(data.shape)
    share[:, :20] = 0.0
    wrong, gappy = predicted.copy(), data.copy()
    wrong[:, :20], gappy[:, 20:30] = 1e3, np.nan
    wrong[:, 20:30] = 1e3
    (some,) = fits(gappy, wrong, times, share)
    assert some.variance_reduction == pytest.approx(plain.variance_reduction, abs=1e-3) and some.peak == pytest.approx(plain.peak)


def test_a_run_has_the_fit_of_each_receiver(tmp_path: Path) -> None:
    """In its outcome, saved and loaded, in the report, and as a line of the acceptance for each."""
    accept = [
        {"quantity": "variance_reduction", "each": "receiver", "at_least": 0.5},
        {"quantity": "lag", "each": "receiver", "at_least": -5.0, "at_most": 5.0},
        {"quantity": "peak", "at_least": 0.5, "at_most": 1.5},
        {"quantity": "misfit_over_noise", "each": "receiver", "at_most": 1e3},
        {"quantity": "lag", "at_most": 5.0},
    ]
    outcome = scene(WAVE, accept=accept, optimise__iterations=12).run(precision="f64")
    pair = outcome.traces["eta"]
    for number, fit in enumerate(outcome.fits["eta"]):
        data, end = pair.data[0, :, number], pair.end[0, :, number]
        assert fit.variance_reduction == pytest.approx(1 - np.sum((data - end) ** 2) / np.sum(data**2), rel=1e-12)
        assert outcome.accepted[number].value == fit.variance_reduction
        assert outcome.accepted[7 + number].value == pytest.approx(pair.at(number).over_noise)
    names = [line.name for line in outcome.accepted]
    count = len(outcome.fits["eta"])
    for first, quantity in enumerate(("variance reduction of eta", "lag of eta", "", "residual over noise of eta")):
        for number in range(count if quantity else 0):  # as `drop` and messages count
            assert names[first * count + number - (first > 2) * (count - 1)] == f"{quantity}, receiver {number}"
    assert names[6] == "peak of eta, mean over its receivers"
    assert names[10] == "largest size of the lag of eta over its receivers"
    assert outcome.accepted[10].value == max(abs(fit.lag) for fit in outcome.fits["eta"])
    assert len(names) == 11 and all(line.passed for line in outcome.accepted)
    outcome.save(tmp_path)
    assert Outcome.load(tmp_path).fits == outcome.fits
    ((state, rows),) = fitted(outcome)
    assert (
        state == "eta"
        and [row[0] for row in rows] == [f"{number}" for number in range(count)]
        and rows[2][2] == f"{outcome.fits['eta'][2].variance_reduction:.3f}"
    )


def test_the_noise_of_a_record_is_the_part_that_no_prediction_explains() -> None:
    """The truth itself as a prediction, of records with more and more noise: its variance reduction is 1 less their noise."""
    rng = np.random.default_rng(2)
    times = np.arange(0.0, 100.0, 0.05)
    for size in (0.05, 0.2, 1.0, 5.0):
        truth = wave(0.0, 1.0, times)[None, :, None]
        deviation = size * rng.uniform(0.5, 1.5, truth.shape)
        data = truth + deviation * rng.standard_normal(truth.shape)
        (fit,) = fits(data, truth, times, deviation=deviation)
        assert fit.noise is not None and fit.variance_reduction == pytest.approx(1 - fit.noise, abs=0.1)
        assert fit.is_noise == (size >= 1.0)
    assert fits(data, truth, times)[0].noise is None and not fits(data, truth, times)[0].is_noise
    assert fits(np.full_like(data, np.nan), truth, times, deviation=0.1)[0].is_noise


@pytest.mark.parametrize("lag", [-60.0, -20.0, -1.0, 0.0, 1.0, 20.0, 60.0, float("nan")])
def test_a_lag_is_judged_by_its_size_unless_both_limits_say_otherwise(lag: float) -> None:
    every = [Fit("", 0.9, lag, 1.0, None), Fit("", 0.9, 0.5, 1.0, None)]

    def passed(**limits: object) -> bool:
        lines = _of_records(Accept.model_validate({"quantity": "lag"} | limits), "eta", every)
        assert all("size of the lag of eta" in line.name for line in lines) == ("at_least" not in limits)
        return all(line.passed for line in lines)

    assert passed(at_most=20.0) == passed(each="receiver", at_most=20.0) == (abs(lag) <= 20.0)
    assert passed(each="receiver", at_least=-5.0, at_most=20.0) == (-5.0 <= lag <= 20.0)


def test_records_of_noise_alone_do_not_judge() -> None:
    """A deviation far above the wave at all gauges, then at the last one alone."""
    table = [
        {"quantity": "variance_reduction", "each": "receiver", "at_least": 0.5},
        {"quantity": "variance_reduction", "at_least": 0.5},
        {"quantity": "lag", "at_most": 5.0},
    ]
    case = scene(WAVE, accept=table, optimise__iterations=12)
    loud = scene(WAVE, accept=table, optimise__iterations=1, truth__noise=30.0).run(precision="f64")
    assert loud.judged is None and all(line.passed is None for line in loud.accepted) and len(loud.accepted) == 5
    assert all("noise" in line.note for line in loud.accepted)
    outcome = case.run(precision="f64")
    one, two, three = outcome.fits["eta"]
    fits_of = {"eta": (one, two, replace(three, noise=0.9, variance_reduction=-3.0, lag=50.0))}
    lines = judge(case.problem("f64"), (1.0, 1.0), {}, {}, {}, fits_of)
    assert [line.passed for line in lines] == [True, True, None, True, True] and not lines[2].needed
    assert lines[2].note == "noise of its deviation is 90% of the record; lower the deviation if that is not so"
    assert lines[3].name == "variance reduction of eta, mean over 2 of its 3 receivers" and "mostly noise" in lines[3].note
    assert lines[3].value == pytest.approx(0.5 * (one.variance_reduction + two.variance_reduction))
    assert lines[4].value == max(abs(one.lag), abs(two.lag))


def test_each_goes_with_figures_of_records() -> None:
    with pytest.raises(SceneError, match='expected each = "receiver" with misfit_over_noise, variance_reduction, lag, peak, found it with'):
        scene(WAVE, accept=[{"quantity": "correlation", "each": "receiver", "at_least": 0.5}])


def test_records_may_count_alike() -> None:
    """With "receivers" the share of each record in the misfit of a prediction of zero is the same, and a fit of one is worth a third."""
    objective = scene(WAVE, misfit=[{"of": "traces", "state": "eta", "normalise": "receivers"}]).objective("f64")
    theta = objective.problem.theta
    assert objective.value(0 * theta) == pytest.approx(1.0, rel=1e-12)
    data = objective.observed.traces["eta"][0]
    (misfit,) = objective.misfits.terms["traces of eta"][1]
    at_one = np.where(np.arange(3) == 1, data, 0.0)
    assert float(misfit(at_one)) == pytest.approx(2 / 3, rel=1e-12)
    with pytest.raises(SceneError, match='expected normalise = "receivers" with of = "traces"'):
        scene(WAVE, misfit=[{"of": "final", "state": "eta", "normalise": "receivers"}])
    with pytest.raises(SceneError) as refused:
        scene(WAVE, misfit=[{"of": "traces", "state": "eta", "normalise": "receiver"}])
    assert "normalise: expected true or false or 'receivers', found 'receiver'" in str(refused.value)
    assert "\n" not in str(refused.value)
