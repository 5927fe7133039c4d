"""Sources as unknowns: the wavelet of a forcing, or the amplitudes of its points."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffsim.errors import SceneError
from diffsim.scene import Scene
from diffsim.scene.disk.outcome import Outcome
from diffsim.scene.schema.toml import to_toml
from diffsim.scene.search.certificate import certify
from diffsim.simulation import Solution
from tests.scene.tiny import ACOUSTIC, scene

SPEED = {"constant": 2000.0, "gaussians": [{"centre": [75.0, 75.0], "width": 20.0, "amplitude": 200.0}]}
WAVELET = {"wavelet": {"type": "ricker", "frequency": 32.0, "delay": 0.016, "amplitude": 1.5}}


def sought(unknown: dict[str, Any], truth: dict[str, Any], fire: str = "in turn", **changes: Any) -> Scene:
    """The small acoustic scene with a known wave speed, which asks for its source."""
    others = {"unknowns": {"f": unknown}, "penalty": [], "fields": {"c": SPEED}, "truth__fields": {"f": truth}, "accept": []}
    return scene(copy.deepcopy(ACOUSTIC), **others | {"sources__f__fire": fire} | changes)


@pytest.mark.parametrize("fire", ["in turn", "together"])
@pytest.mark.parametrize("of", ["wavelet", "amplitudes"])
def test_the_gradient_sums_over_points_and_shots(of: str, fire: str) -> None:
    """By hand, from the gradients with respect to the amplitudes of each shot."""
    truth = WAVELET if of == "wavelet" else {"layers": {"axis": "number", "tops": [1.0], "values": [0.5, 2.0]}}
    objective = sought({"of": of}, truth, fire).objective("f64")
    problem, setup = objective.problem, objective.problem.setup
    theta = problem.theta + 0.1 * np.random.default_rng(1).standard_normal(problem.theta.size)
    evaluation, data = objective.evaluate(theta), objective.observed.traces["p"]
    values = problem.unknowns.split(theta)["f"]
    (model,) = objective.problem.scene.sources.values()
    times = setup.equation.dt * np.arange(setup.steps)
    a = (np.pi * 40.0 * (times - 0.012)) ** 2
    wavelet = (1 - 2 * a) * np.exp(-a)
    np.testing.assert_allclose(problem.start["f"], wavelet if of == "wavelet" else np.ones(2), rtol=1e-12, atol=1e-15)
    expected, loss = np.zeros(values.shape), 0.0
    for number, shot in enumerate(setup.shots):
        points = [number] if fire == "in turn" else [0, 1]
        amplitudes = np.stack([values if of == "wavelet" else wavelet * values[k] for k in points], axis=1)
        setup.simulation.move(sources={"f": np.array(model.points)[points]})
        solution, pullback = setup.simulation.vjp({"c": problem.known["c"], "f": amplitudes}, setup.steps)
        residual = (solution.traces["p"] - data[number]) / (0.5 * np.sum(data**2))
        loss += 0.5 * np.sum(residual**2) * 0.5 * np.sum(data**2)
        bars = pullback(Solution(traces={"p": residual}))["f"]
        if of == "wavelet":
            expected += bars.sum(axis=1)
        else:
            expected[points] += wavelet @ bars
        np.testing.assert_allclose(shot.sources["f"], np.array(model.points)[points])
    assert len(setup.shots) == (2 if fire == "in turn" else 1)
    assert evaluation.value == pytest.approx(loss, rel=1e-12) and objective.value(theta) == pytest.approx(loss, rel=1e-12)
    np.testing.assert_allclose(evaluation.gradient, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_the_certificate_of_a_source_and_a_wave_speed() -> None:
    case = scene(
        copy.deepcopy(ACOUSTIC),
        unknowns__f={"scale": 0.1, "smooth": 1.0, "mask": {"upper": [0.04]}},
        truth__fields__f=WAVELET,
        penalty=[{"type": "tikhonov", "unknown": "f", "order": 1, "length": 0.004, "weight": 1e-3}],
        accept=[],
    )
    assert certify(case).passed
    problem = case.problem("f64")
    assert problem.free["f"].sum() == 21 and problem.free["f"].shape == (24,)


def test_a_wavelet_is_found(tmp_path: Path) -> None:
    """On a finer grid with another time step the true wavelet is that of the same times. The result is saved over time."""
    case = sought(
        {"start": {"constant": 0.0}},
        WAVELET,
        time__steps=70,
        truth__noise=0.0,
        penalty=[{"type": "tikhonov", "unknown": "f", "order": 1, "length": 0.004, "weight": 1e-5}],
        optimise={"iterations": 40},
        accept=[{"quantity": "correlation", "of": "f", "at_least": 0.9}],
    )
    (tmp_path / "s.toml").write_text(to_toml(case), encoding="utf-8")
    assert Scene.load(tmp_path / "s.toml").unknowns == case.unknowns
    outcome = case.run(tmp_path / "out", precision="f64")
    assert outcome.passed, outcome.accepted
    unknown = Outcome.load(tmp_path / "out").unknowns["f"]
    (axis,) = unknown.axes
    assert axis.name == "time" and axis.unit == "s" and unknown.answer.shape == axis.coordinates.shape == (70,)


def test_amplitudes_are_found() -> None:
    values = [0.5, 2.0]
    truth = {"layers": {"axis": "number", "tops": [1.0], "values": values}}
    for fire in ("in turn", "together"):
        case = sought({"of": "amplitudes", "lower": 0.0}, truth, fire, truth__noise=0.0, optimise={"iterations": 20})
        outcome = case.run(precision="f64")
        np.testing.assert_allclose(outcome.unknowns["f"].answer, values, rtol=0.1)  # the data are made on another grid
        np.testing.assert_allclose(outcome.unknowns["f"].truth, values)


def test_the_data_may_be_made_with_another_wavelet() -> None:
    """The search does not know it."""
    plain = scene(copy.deepcopy(ACOUSTIC), truth__noise=0.0).objective("f64")
    other = scene(copy.deepcopy(ACOUSTIC), truth__noise=0.0, truth__fields__f=WAVELET).objective("f64")
    assert plain.problem.theta.shape == other.problem.theta.shape
    assert np.abs(plain.observed.traces["p"] - other.observed.traces["p"]).max() > 0.1 * np.abs(plain.observed.traces["p"]).max()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"unknowns__c__of": "wavelet"}, "unknowns.c.of: expected no such key for a field, found 'wavelet'; drop it"),
        ({"unknowns__f": {}}, "truth.fields.f: expected the hidden truth of this unknown, found none"),
        ({"fields": {"f": {"constant": 1.0}}}, "found the forcing f; give its wavelet in [sources.f]"),
        ({"sources": {}, "unknowns__f": {}, "truth__fields__f": WAVELET}, "unknowns.f: expected points of the forcing f in [sources.f]"),
        ({"sources": {}, "truth__fields__f": WAVELET}, "truth.fields.f: expected points of the forcing f in [sources.f], found none; add"),
        ({"unknowns__f": {"of": "power"}, "truth__fields__f": WAVELET}, "unknowns.f.of: expected 'wavelet' or 'amplitudes', found 'power'"),
        (
            {"unknowns__f": {"of": "amplitudes"}, "truth__fields__f": WAVELET},
            "truth.fields.f.wavelet: expected a value that varies with time",
        ),
        ({"unknowns__g": {}}, "unknowns.g"),
    ],
)
def test_each_mistake_is_one_line(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(SceneError) as caught:
        scene(copy.deepcopy(ACOUSTIC), accept=[], **changes).objective("f64")
    assert expected in str(caught.value) and "\n" not in str(caught.value)
