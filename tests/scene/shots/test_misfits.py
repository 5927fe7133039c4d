"""Misfits of scenes beside least squares, windows and mutes, and misfits of a user's own."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import SceneError
from diffsim.losses import CorrelationMisfit, DataMisfit, EnvelopeMisfit, HuberMisfit, LogAmplitudeMisfit, WassersteinMisfit
from diffsim.scene import Scene
from diffsim.scene.disk.folder import identify
from diffsim.scene.disk.outcome import Compared
from diffsim.scene.schema.misfit_keys import MISFITS
from diffsim.scene.schema.toml import to_toml
from diffsim.scene.search.certificate import certify
from diffsim.scene.search.objective import Objective
from diffsim.scene.shots.mutes import shares
from diffsim.simulation import Solution
from tests.scene.setup.test_recorded import seismic, seismogram
from tests.scene.tiny import ACOUSTIC, HEAT, scene

HERE = "tests.scene.shots.test_misfits"
DT = ACOUSTIC["time"]["dt"]
KINDS: dict[str, Any] = {
    "huber": partial(HuberMisfit, delta=1e-3),
    "envelope": partial(EnvelopeMisfit, level=0.1),
    "log_amplitude": partial(LogAmplitudeMisfit, level=0.3),
    "cross_correlation": CorrelationMisfit,
    "wasserstein": partial(WassersteinMisfit, sharpness=3.0, dt=DT),
}


def with_misfit(*misfits: dict[str, Any], base: dict[str, Any] = ACOUSTIC, **others: Any) -> Scene:
    tables = [{"of": "traces", "state": "p"} | table for table in misfits]
    return scene(copy.deepcopy(base), misfit=tables, penalty=[], **others)


def keys(kind: Any) -> dict[str, Any]:
    """The options of a partial, as a scene has them."""
    return {name: value for name, value in getattr(kind, "keywords", {}).items() if name != "dt"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_type_sums_the_misfit_of_its_class_over_all_shots(kind: str) -> None:
    table = {"type": kind, "weight": 3.0} | keys(KINDS[kind])
    objective = with_misfit(table).objective("f64")
    problem, data = objective.problem, objective.observed.traces["p"]
    theta = problem.theta + 0.3 * np.random.default_rng(1).standard_normal(problem.theta.size)
    predicted = [s.traces["p"] for s in problem.setup.predict(problem.inputs(problem.unknowns.split(theta)))]
    losses = [KINDS[kind](shot) for shot in data]
    expected = sum(loss(values) for loss, values in zip(losses, predicted, strict=True)) / sum(loss(0.0 * data[0]) for loss in losses)
    assert objective.value(theta) == pytest.approx(3.0 * expected, rel=1e-12)
    plain = with_misfit(table | {"normalise": False}).objective("f64")
    assert plain.value(theta) == pytest.approx(3.0 * sum(loss(v) for loss, v in zip(losses, predicted, strict=True)), rel=1e-12)
    evaluation = objective.evaluate(theta)
    v = np.random.default_rng(2).standard_normal(theta.size)
    slope = (objective.value(theta + 1e-5 * v) - objective.value(theta - 1e-5 * v)) / 2e-5
    assert evaluation.gradient @ v == pytest.approx(slope, rel=1e-5)


def test_the_certificate_of_two_misfits_with_mutes() -> None:
    late = {"type": "cross_correlation", "mute_before": {"time": 0.004, "velocity": 4000.0}, "taper": 0.006}
    assert certify(with_misfit({"type": "huber", "delta": 1e-3, "window": [0.01, 0.04]}, late)).passed


def factors(objective: Objective, table: dict[str, Any]) -> np.ndarray:
    """Factors of the samples, by hand, a number at a time: (shots, samples, receivers)."""
    setup, out = objective.problem.setup, np.ones(objective.observed.traces["p"].shape)
    taper = table.get("taper", 0.0)

    def rise(after: float) -> float:
        if taper == 0:
            return float(after >= -1e-12)
        return 0.0 if after <= 0 else 1.0 if after >= taper else 0.5 * (1 - np.cos(np.pi * after / taper))

    for shot, sample, receiver in np.ndindex(out.shape):
        t = sample * DT
        offset = min(float(np.hypot(*(setup.receivers["p"][receiver] - source))) for source in setup.shots[shot].sources["f"])
        first, last = table.get("window", (-np.inf, np.inf))
        least, most = table.get("offset", (0.0, np.inf))
        factor = rise(t - first) * rise(last - t) * (least <= offset <= most)
        if "mute_before" in table:
            factor *= rise(t - table["mute_before"]["time"] - offset / table["mute_before"]["velocity"])
        if "mute_after" in table:
            factor *= rise(table["mute_after"]["time"] + offset / table["mute_after"]["velocity"] - t)
        out[shot, sample, receiver] = factor
    return out


MUTES: dict[str, dict[str, Any]] = {
    "window": {"window": [0.01, 0.04]},
    "window with a taper": {"window": [0.01, 0.04], "taper": 0.01},
    "offset": {"offset": [80.0, 100.0]},
    "before a line": {"mute_before": {"time": 0.002, "velocity": 5000.0}, "taper": 0.008},
    "after a line": {"mute_after": {"time": 0.01, "velocity": 4000.0}},
    "all": {"window": [0.004, 0.044], "offset": [75.0, 110.0], "mute_before": {"time": -0.01, "velocity": 5000.0}, "taper": 0.006},
}


@pytest.mark.parametrize("name", MUTES)
def test_mutes_reach_value_and_gradient(name: str) -> None:
    table = MUTES[name]
    objective = with_misfit(table | {"normalise": False}).objective("f64")
    problem, data = objective.problem, objective.observed.traces["p"]
    expected = factors(objective, table)
    assert 0 < np.count_nonzero(expected) < expected.size
    assert ((expected > 0) & (expected < 1)).any() == ("taper" in table)
    value = 0.0
    for shot, solution in enumerate(problem.setup.predict(problem.inputs(problem.start))):
        residual = expected[shot] * (solution.traces["p"] - data[shot])
        value += 0.5 * np.sum(residual**2)
        bars = objective.misfits.seed(solution, {}, shot).bars.traces["p"]
        np.testing.assert_allclose(bars, expected[shot] * residual, rtol=1e-12, atol=1e-15 * np.abs(bars).max())
        assert not bars[expected[shot] == 0].any()
    assert objective.value(problem.theta) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("name", MUTES)
def test_samples_over_their_noise_are_those_that_count(name: str) -> None:
    objective = with_misfit(MUTES[name], {"offset": [0.0, 1.0], "weight": 0.0, "normalise": False}).objective("f64")
    setup, observed = objective.problem.setup, objective.observed
    share = shares(objective.problem.scene, ("traces", "p"), observed, setup)
    expected = factors(objective, MUTES[name]) ** 2
    np.testing.assert_allclose(share, expected, atol=1e-12)
    data = observed.traces["p"]
    wrong = np.where(expected == 0, 1e6, 3.0)  # muted samples are far off
    assert Compared(data, data, data + wrong, 2.0, share=share).over_noise == pytest.approx(1.5, rel=1e-12)
    assert np.isnan(Compared(data, data, data, 2.0, share=0 * data).over_noise)


def test_samples_that_any_misfit_leaves_count() -> None:
    objective = with_misfit({"window": [0.0, 0.01]}, {"window": [0.03, 0.04]}).objective("f64")
    counted = shares(objective.problem.scene, ("traces", "p"), objective.observed, objective.problem.setup)
    t = DT * np.arange(25)
    expected = (t < 0.0101) | ((t > 0.0299) & (t < 0.0401))
    np.testing.assert_array_equal(counted, np.broadcast_to(expected[:, None], counted.shape))
    whole = with_misfit({"window": [0.0, 0.01]}, {}).objective("f64")
    assert shares(whole.problem.scene, ("traces", "p"), whole.observed, whole.problem.setup) is None


def test_offsets_are_those_from_the_nearest_source() -> None:
    table = {"offset": [80.0, 100.0]}
    objective = with_misfit(table, sources__f__fire="together").objective("f64")
    (solution,) = objective.problem.setup.predict(objective.problem.inputs(objective.problem.start))
    bars = objective.misfits.seed(solution, {}, 0).bars.traces["p"]
    expected = factors(objective, table)[0]
    assert not bars[expected == 0].any() and bars[expected == 1].all() and 0 < expected.sum() < expected.size


@pytest.mark.parametrize("kind", KINDS)
def test_a_muted_sample_has_no_gradient_in_any_type(kind: str) -> None:
    table = {"type": kind, "window": [0.016, 0.04], "taper": 0.004} | keys(KINDS[kind])
    objective = with_misfit(table).objective("f64")
    expected = factors(objective, table)
    size = np.std(objective.observed.traces["p"])
    traces = {"p": size * np.random.default_rng(3).standard_normal(expected[0].shape)}
    bars = objective.misfits.seed(Solution(traces=traces), {}, 0).bars.traces["p"]
    assert not bars[expected[0] == 0].any() and bars[expected[0] == 1].all()
    traces["p"][expected[0] == 0] = np.nan
    np.testing.assert_array_equal(objective.misfits.seed(Solution(traces=traces), {}, 0).bars.traces["p"], bars)


def test_a_shot_without_samples_that_count_adds_nothing() -> None:
    """Offsets that only the second shot has."""
    objective = with_misfit({"type": "envelope", "offset": [0.0, 78.0]}).objective("f64")
    counts = factors(objective, {"offset": [0.0, 78.0]}).any(axis=(1, 2))
    assert counts.tolist() == [False, True]
    assert objective.value(objective.problem.theta) > 0


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            {"type": "hubert", "delta": 1.0},
            "misfit[0].type: expected one of cross_correlation, envelope, huber, l2, log_amplitude, wasserstein",
        ),
        ({"type": "hubert"}, "found 'hubert'; did you mean huber?"),
        ({"type": 3}, "misfit[0].type: expected text, found 3"),
        ({"type": "huber"}, "misfit[0].delta: expected a value, found none; add the key"),
        ({"type": "huber", "delta": 0.0}, "misfit[0].delta: expected a number greater than 0, found 0.0"),
        ({"delta": 1.0}, "misfit[0].delta: expected one of type, of, state, weight,"),
        ({"window": [0.2, 0.1]}, "misfit[0]: expected a window that rises, found [0.2, 0.1]"),
        ({"offset": [-1.0, 0.1]}, "misfit[0].offset[0]: expected a number greater than or equal to 0"),
        ({"taper": 0.1}, "misfit[0]: expected taper together with window"),
        ({"mute_before": {"time": 0.0}}, "misfit[0].mute_before.velocity: expected a value"),
        ({"window": [5.0, 6.0]}, "misfit[0].window: expected times of the run, 0 to"),
    ],
)
def test_each_mistake_is_one_line(table: dict[str, Any], expected: str) -> None:
    with pytest.raises(SceneError) as caught:
        with_misfit(table).objective("f64")
    assert expected in str(caught.value) and "\n" not in str(caught.value)


LINE: dict[str, Any] = {
    "grid": {"shape": [80], "spacing": 10.0},
    "time": {"dt": 2e-3, "steps": 200},
    "equation": {"type": "acoustic", "order": 4, "sponge": 15},
    "sources": {"f": {"points": [[200.0]], "wavelet": {"type": "ricker", "frequency": 25.0}}},
    "receivers": {"p": {"points": [[500.0], [600.0]]}},
    "unknowns": {"c": {"scale": 100.0, "regions": {"constant": 0.0}, "lower": 1200.0, "upper": 2900.0}},
    "truth": {"refine": 1.0, "fields": {"c": {"constant": 2000.0}}},
    "optimise": {"iterations": 20},
}
"""Direct waves along a line, which ask for one wave speed."""


@pytest.mark.parametrize(
    ("start", "kind", "found"),
    [
        (1700.0, "l2", False),
        (1700.0, "cross_correlation", False),
        (1700.0, "envelope", True),
        (1700.0, "wasserstein", True),
        (2500.0, "envelope", False),
        (2500.0, "log_amplitude", True),
        (2500.0, "wasserstein", True),
    ],
)
def test_a_start_more_than_half_a_period_off(start: float, kind: str, found: bool) -> None:
    misfit = [{"of": "traces", "state": "p", "type": kind}]
    outcome = scene(copy.deepcopy(LINE), unknowns__c__start={"constant": start}, misfit=misfit).run(precision="f64")
    assert (abs(float(outcome.unknowns["c"].answer[0]) - 2000.0) < 1.0) == found


def test_mistakes_of_several_misfits_are_listed() -> None:
    with pytest.raises(SceneError, match=r"^misfit\[0\]\.weight: .*\nmisfit\[1\]\.level: "):
        with_misfit({"weight": -1.0}, {"type": "envelope", "level": "x"})


def test_misfits_that_need_sources_times_and_traces_name_them() -> None:
    final = [{"of": "final", "state": "T"}]
    with pytest.raises(SceneError, match=r'misfit\[0\]: expected window, offset and mutes with of = "traces"'):
        scene(HEAT, misfit=[final[0] | {"window": [0.0, 1.0]}])
    with pytest.raises(SceneError, match=r'misfit\[0\]: of: expected "traces", whose shapes envelope compares'):
        scene(HEAT, misfit=[final[0] | {"type": "envelope"}]).objective("f64")
    silent = {"receivers": {"T": {"points": [[3.0, 3.0]]}}, "misfit": [{"of": "traces", "state": "T", "offset": [0.0, 1.0]}]}
    with pytest.raises(SceneError, match=r"misfit\[0\]: offset: expected sources"):
        scene(HEAT, **silent).objective("f64")


def test_records_with_gaps_and_weights(tmp_path: Path) -> None:
    """Gaps are left out where that is possible, and refused in one line where it is not."""
    seismogram(tmp_path / "a.npy")
    values = np.load(tmp_path / "a.npy")
    values[0, 7, 2] = np.nan
    np.save(tmp_path / "a.npy", values)
    table = seismic(tmp_path, deviation=0.5) | {"penalty": []}
    objective = Scene(**table | {"misfit": [{"of": "traces", "state": "p", "type": "huber", "delta": 0.7, "normalise": False}]}).objective(
        "f64"
    )
    problem = objective.problem
    predicted = [s.traces["p"] for s in problem.setup.predict(problem.inputs(problem.start))]
    there = np.isfinite(values[:, :25])
    loss = HuberMisfit(values[:, :25], 0.7, weight=4.0, mask=there)
    assert objective.value(problem.theta) == pytest.approx(loss(np.array(predicted)), rel=1e-12)
    for kind in ("envelope", "wasserstein"):
        with pytest.raises(
            SceneError, match=r"misfit\[0\]: shot 0: mask: expected traces without gaps, .* sample 7 of trace 2; fill the gaps"
        ):
            Scene(**table | {"misfit": [{"of": "traces", "state": "p", "type": kind}]}).objective("f64")
    np.save(tmp_path / "a.npy", values[::-1])
    with pytest.raises(SceneError, match=rf"misfit\[0\]: shot {len(values) - 1}: mask: expected traces without gaps"):
        Scene(**table | {"misfit": [{"of": "traces", "state": "p", "type": "envelope"}]}).objective("f64")
    assert len(values) > 1
    times = DT * np.append(np.arange(24), 30.0)
    np.savez(tmp_path / "b.npz", values=values[:, :25], times=times)
    uneven = seismic(tmp_path, path=["b.npz"], dt=None) | {"misfit": [{"of": "traces", "state": "p", "type": "envelope"}]}
    del uneven["data"]["p"]["dt"]
    uneven["time"]["steps"] = 30
    with pytest.raises(SceneError, match=r"misfit\[0\]: type: expected records of p at evenly spaced times, which envelope needs, got sam"):
        Scene(**uneven).objective("f64")


class Powers(DataMisfit):
    """Σ wᵢ |dᵢ - d_obs,ᵢ|ⁿ"""

    def __init__(self, data: Any, weight: Any = 1.0, mask: Any = None, power: int = 4, scale: float = 1.0) -> None:
        super().__init__(data, weight, mask)
        self._power, self._scale = power, scale

    def compare(self, values: Any) -> Any:
        return dnp.sum(self.weight * ((values - self.data) / self._scale) ** self._power)


class Bare:
    """Nothing but data."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __call__(self, predicted: Any) -> Any:
        return 0.5 * dnp.sum((predicted - self._data) ** 2)


class Dataless:
    def __init__(self, power: int) -> None: ...

    def __call__(self, predicted: Any) -> Any:
        return predicted


class Clash(Bare):
    def __init__(self, data: Any, window: int) -> None: ...


class Silent:
    def __init__(self, data: Any) -> None: ...


def test_one_of_a_users_own_in_a_file_and_in_python(tmp_path: Path) -> None:
    table = {"type": f"{HERE}:Powers", "power": 6, "normalise": False}
    case = with_misfit({"type": Powers, "power": 6, "normalise": False})
    (tmp_path / "s.toml").write_text(to_toml(case), encoding="utf-8")
    assert f'type = "{HERE}:Powers"' in (tmp_path / "s.toml").read_text()
    loaded = Scene.load(tmp_path / "s.toml", allow_code=True)
    assert loaded.misfit == case.misfit == with_misfit({"type": partial(Powers, power=6), "normalise": False}).misfit
    assert pickle.loads(pickle.dumps(case)).misfit == case.misfit
    objective = loaded.objective("f64")
    problem = objective.problem
    predicted = [s.traces["p"] for s in problem.setup.predict(problem.inputs(problem.start))]
    expected = np.sum((np.array(predicted) - objective.observed.traces["p"]) ** 6)
    assert objective.value(problem.theta) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(SceneError, match=rf"^misfit\[0\]\.type: expected permission to run the code of {HERE}, found none"):
        with_misfit(table)
    with pytest.raises(SceneError, match=r"^misfit\[0\]\.power: expected an integer, found 1.5"):
        with_misfit({"type": Powers, "power": 1.5})
    with pytest.raises(SceneError, match=r"^misfit\[0\]\.powr: expected one of .*; did you mean power\?"):
        with_misfit({"type": Powers, "powr": 2})
    bare, plain = with_misfit({"type": Bare}).objective("f64"), with_misfit({}).objective("f64")
    assert bare.value(problem.theta) == pytest.approx(plain.value(problem.theta), rel=1e-12)


def test_its_code_belongs_to_the_identity_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = with_misfit({"type": Powers})
    before = identify(case, "f64")
    monkeypatch.setattr("diffsim.scene.disk.folder.code_digest", lambda kind: "changed" if kind is Powers else None)
    assert identify(case, "f64") != before


def test_each_wrong_class_of_a_misfit_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, expected in (
        (Dataless, "misfit[0]: expected a constructor of Dataless with the argument data, found none; add it"),
        (Clash, "misfit[0]: type: argument window of Clash: expected another name, for a scene cannot have this one as a key"),
        (Silent, "misfit[0].type: expected a misfit, which is a class with __call__, found"),
        (partial(Powers, 3), "misfit[0].type: expected a partial with options by name, found 3"),
        (ds.losses.L2Misfit(np.ones(3)), "misfit[0]: type: expected an object that is called with predictions and data, for"),
    ):
        with pytest.raises(SceneError) as caught:
            with_misfit({"type": kind})
        assert str(caught.value).startswith(expected) and "\n" not in str(caught.value)


def test_a_class_must_take_the_arguments_that_the_data_need(tmp_path: Path) -> None:
    seismogram(tmp_path / "a.npy")
    misfit = [{"of": "traces", "state": "p", "type": Bare}]
    with pytest.raises(SceneError, match=r"misfit\[0\]: expected an argument weight of Bare, since the data have a weight or a deviation"):
        Scene(**seismic(tmp_path, deviation=0.5) | {"misfit": misfit}).objective("f64")
    values = np.load(tmp_path / "a.npy")
    values[0, 7, 2] = np.nan
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(SceneError, match=r"misfit\[0\]: expected an argument mask of Bare, since the data have gaps"):
        Scene(**seismic(tmp_path) | {"misfit": misfit}).objective("f64")


def test_registered_misfits_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from diffsim.scene.words import own

    entries = [EntryPoint("powers", f"{HERE}:Powers", MISFITS.group)]
    monkeypatch.setattr(own, "entry_points", lambda group: entries if group == "diffsim.misfits" else [])
    (misfit,) = with_misfit({"type": "powers"}).misfit
    assert misfit.of_class is Powers and misfit.type == "powers"
