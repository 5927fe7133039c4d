"""Scenes whose data are records from files: the compared samples, the refused files, and the results of a run without a truth."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import segyio

from diffsim.command.cli import main
from diffsim.errors import SceneError
from diffsim.scene import Scene
from diffsim.scene.disk.folder import identify
from diffsim.scene.disk.outcome import Outcome
from diffsim.scene.notes import notes_of
from diffsim.scene.schema.toml import to_toml
from diffsim.scene.search.certificate import certify
from diffsim.scene.search.objective import Objective
from diffsim.scene.shots.mutes import shares
from tests.records.surveys import segy, wide
from tests.records.test_resample import through_six
from tests.scene.tiny import ACOUSTIC, WAVE

PLACES = WAVE["receivers"]["eta"]["points"]
NAMES = ("north", "middle", "south")
HEADER = ("minutes", "gauge", "height", "sigma", "y", "x")


def waves(wave: Objective) -> np.ndarray:
    """The synthetic traces of the small long-wave scene, m."""
    return wave.observed.traces["eta"][0]


def gauges(path: Path, wave: Objective, seed: int = 2) -> Path:
    """The same in cm at times of their own in minutes, some of them lost, the clock 30 s ahead of the run's."""
    rng, times, rows = np.random.default_rng(seed), wave.problem.setup.times(), []
    for k, (name, place) in enumerate(zip(NAMES, PLACES, strict=True)):
        own = np.append(np.sort(rng.uniform(0, 60, 20 + 5 * k)), 60.0)
        values = 100 * np.interp(own, times, waves(wave)[:, k])
        lost = rng.random(len(own)) < 0.1
        rows += [[(t + 30) / 60, name, "" if gap else v, 1 + k, *place] for t, v, gap in zip(own, values, lost, strict=True)]
    return wide(path, HEADER, rows)


DATA: dict[str, Any] = {
    "path": "g.csv",
    "times": "minutes",
    "time_unit": "min",
    "receiver": "gauge",
    "values": "height",
    "unit": "cm",
    "start": 30.0,
    "deviations": "sigma",
}


def tables(folder: Path, **more: Any) -> dict[str, Any]:
    """The small scene with the gauges in a folder in place of receivers and truth."""
    table = {key: value for key, value in copy.deepcopy(WAVE).items() if key not in ("truth", "receivers")}
    data = {name: value for name, value in (DATA | more).items() if value is not None}
    paths = data["path"] if isinstance(data["path"], list) else [data["path"]]
    return table | {"data": {"eta": data | {"path": [str(folder / path) for path in paths]}}}


def seismogram(path: Path, shots: int = 2, samples: int = 30, receivers: int = 5) -> Path:
    np.save(path, np.random.default_rng(4).standard_normal((shots, samples, receivers)))
    return path


def seismic(folder: Path, **data: Any) -> dict[str, Any]:
    """The small acoustic scene of two shots with records of its five receivers."""
    table = {key: value for key, value in copy.deepcopy(ACOUSTIC).items() if key not in ("truth", "accept")}
    paths = data.pop("path", ["a.npy"])
    allow = [*data.pop("allow", []), "outside"]  # their records are longer than the run
    return table | {"data": {"p": {"dt": 2.0e-3, **data, "allow": allow, "path": [str(folder / path) for path in paths]}}}


def test_the_loss_is_that_of_the_samples_at_their_own_times(wave: Objective, tmp_path: Path) -> None:
    """Worked out by hand from the rows of the file: unit, clock, deviations, gaps, weight of the misfit."""
    gauges(tmp_path / "g.csv", wave)
    misfit = [{"of": "traces", "state": "eta", "weight": 3.0, "normalise": False}]
    objective = Scene(**tables(tmp_path) | {"misfit": misfit}).objective("f64")
    problem = objective.problem
    theta = 0.1 * np.random.default_rng(1).standard_normal(problem.theta.size)
    (solution,) = problem.setup.predict(problem.inputs(problem.unknowns.split(theta)))
    predicted, times = solution.traces["eta"], problem.setup.times()
    expected = 0.0
    for line in (tmp_path / "g.csv").read_text().splitlines()[1:]:
        minutes, name, height, sigma, *_ = line.split(",")
        if height:
            (at,) = through_six(np.array([60 * float(minutes) - 30]), times[1], predicted[:, NAMES.index(name)])
            expected += 0.5 * 3.0 * ((100 * at - float(height)) / float(sigma)) ** 2
    evaluation = objective.evaluate(theta)
    assert evaluation.value == pytest.approx(expected, rel=1e-12)
    assert objective.value(theta) == pytest.approx(expected, rel=1e-12)
    assert np.isfinite(evaluation.gradient).all() and np.isfinite(evaluation.predicted["traces", "eta"]).all()
    np.testing.assert_allclose(problem.setup.receivers["eta"], PLACES)
    normalised = Scene(**tables(tmp_path)).objective("f64")
    assert normalised.value(0 * theta) == pytest.approx(1.0, rel=1e-12)


def test_weights_of_a_file_multiply_the_misfit(tmp_path: Path) -> None:
    """Those of a receiver and those of a sample; a weight of 0 switches off."""
    rng = np.random.default_rng(3)
    values, by_sample = rng.standard_normal((2, 25, 5)), rng.random((2, 25, 5))
    by_receiver = np.array([1.0, 0.0, 2.0, 0.5, 3.0])
    np.savez(tmp_path / "a.npz", values=values, w=by_sample, v=by_receiver)
    for name, weight in (("w", by_sample), ("v", np.broadcast_to(by_receiver, values.shape))):
        table = seismic(tmp_path, path=["a.npz"], weights=name) | {"penalty": []}
        misfit = [{"of": "traces", "state": "p", "normalise": False}]
        objective = Scene(**table | {"misfit": misfit}).objective("f64")
        problem = objective.problem
        predicted = [solution.traces["p"] for solution in problem.setup.predict(problem.inputs(problem.start))]
        expected = 0.5 * np.sum(weight * (np.array(predicted) - values) ** 2)
        assert objective.value(problem.theta) == pytest.approx(expected, rel=1e-12)
        share = shares(problem.scene, ("traces", "p"), objective.observed, problem.setup)
        np.testing.assert_array_equal(share, weight)


def test_the_certificate_of_records(wave: Objective, tmp_path: Path) -> None:
    """Dot products, slopes and checkpoints, also of a few steps, during which few samples were taken."""
    head, *rows = gauges(tmp_path / "g.csv", wave).read_text().splitlines()
    late = [row for row in rows if ",south," not in row or float(row.split(",")[0]) > 1.2]  # after the steps of the certificate
    (tmp_path / "g.csv").write_text("\n".join([head, *late]))
    scene = Scene(**tables(tmp_path), certificate={"steps": 9})
    assert all(line.passed for line in certify(scene) if line.needed)


def test_a_run_without_a_truth(wave: Objective, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command runs it, writes a report, and notices on --resume that a file of records has changed."""
    gauges(tmp_path / "g.csv", wave)
    accept = [{"quantity": "misfit_over_noise", "at_most": 2.0}, {"quantity": "loss_reduction", "at_least": 2.0}]
    scene = Scene(**tables(tmp_path) | {"accept": accept, "optimise": {"iterations": 12}})
    (tmp_path / "s.toml").write_text(to_toml(scene), encoding="utf-8")
    assert Scene.load(tmp_path / "s.toml").data == scene.data
    command = ["run", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out")]
    assert main(command) == 0, capsys.readouterr()
    outcome = Outcome.load(tmp_path / "out")
    pair = outcome.traces["eta"]
    assert outcome.unknowns["eta0"].truth is None and pair.times is not None and np.isnan(pair.data).any()
    assert pair.deviation is not None
    assert {float(sigma) for sigma in pair.deviation[np.isfinite(pair.data)]} == {0.01, 0.02, 0.03}
    over = [(pair.end - pair.data)[0][:, k] / pair.deviation[0][:, k] for k in range(3)]
    by_hand = np.sqrt(np.nanmean(np.square(over)))
    assert outcome.accepted[0].value == pytest.approx(by_hand, rel=1e-12) and by_hand != pytest.approx(1.0, abs=1e-3)
    assert "nobody knows the truth" in (tmp_path / "out" / "report.html").read_text()
    assert main([*command, "--resume"]) == 0
    gauges(tmp_path / "g.csv", wave, seed=3)
    assert main([*command, "--resume"]) == 2
    assert "expected in" in capsys.readouterr().err


def test_a_rehearsal_has_the_times_and_the_gaps_of_the_records(wave: Objective, tmp_path: Path) -> None:
    """With a truth too the values of the file are not used, and the answer is compared with the truth."""
    gauges(tmp_path / "g.csv", wave)
    real, rehearsed = (Scene(**tables(tmp_path) | more).objective("f64").observed for more in ({}, {"truth": WAVE["truth"]}))
    data, simulated = real.traces["eta"], rehearsed.traces["eta"]
    np.testing.assert_array_equal(np.isnan(data), np.isnan(simulated))
    np.testing.assert_array_equal(rehearsed.records["eta"].times, real.records["eta"].times)
    deviation = rehearsed.records["eta"].deviation
    there = np.isfinite(data)
    assert deviation is not None
    assert (
        0.7 < np.sqrt(np.mean(((data - simulated)[there] / deviation[there]) ** 2)) < 1.4
    )  # the same waves, noise of the file's deviations
    outcome = Scene(**tables(tmp_path) | {"truth": WAVE["truth"], "accept": [{"quantity": "correlation", "at_least": 0.2}]}).run()
    assert outcome.passed and outcome.unknowns["eta0"].truth is not None


def test_shots_in_one_file_or_in_one_each(tmp_path: Path) -> None:
    both = np.load(seismogram(tmp_path / "a.npy"))
    for shot in range(2):
        np.save(tmp_path / f"{shot}.npy", both[shot])
    one, each = (Scene(**seismic(tmp_path, path=paths)).objective("f64") for paths in (["a.npy"], ["0.npy", "1.npy"]))
    np.testing.assert_array_equal(one.observed.traces["p"], both[:, :25])  # samples after the run are left out
    np.testing.assert_array_equal(each.observed.traces["p"], both[:, :25])
    theta = one.problem.theta
    first, second = one.evaluate(theta), each.evaluate(theta)
    assert first.value == second.value
    np.testing.assert_array_equal(first.gradient, second.gradient)


def test_a_survey_in_segy_with_its_receivers(tmp_path: Path) -> None:
    """Shots by field record, z and x from the headers, the unit from the scene; the loss of a start without waves is that of the data."""
    values = np.random.default_rng(7).standard_normal((30, 2)).astype(np.float32)
    segy(tmp_path / "a.sgy", values, shots=(11, 12), step=2e-3)
    table = seismic(tmp_path, path=["a.sgy"], dt=None, unit="kPa")
    table["data"]["p"] = {name: value for name, value in table["data"]["p"].items() if value is not None}
    objective = Scene(**{key: value for key, value in table.items() if key != "receivers"}).objective("f64")
    np.testing.assert_allclose(objective.problem.setup.receivers["p"], [[25.0, 10.0], [25.0, 30.0]])
    data = objective.observed.traces["p"]
    np.testing.assert_allclose(data, 1e3 * np.stack([values[:25], 2 * values[:25]]), rtol=1e-6)
    assert np.isfinite(objective.evaluate(objective.problem.theta).gradient).all()


def test_shots_at_receivers_of_their_own(tmp_path: Path) -> None:
    """The receivers of a scene are those of any shot; a shot has gaps at those of others."""
    rng = np.random.default_rng(6)
    for shot in range(2):
        places = np.column_stack([np.linspace(30, 100, 3), np.full(3, 60.0 + 10 * shot)])
        np.savez(tmp_path / f"{shot}.npz", values=rng.standard_normal((25, 3)), coordinates=places)
    table = {key: value for key, value in seismic(tmp_path, path=["0.npz", "1.npz"]).items() if key != "receivers"}
    objective = Scene(**table).objective("f64")
    data = objective.observed.traces["p"]
    assert data.shape == (2, 25, 6) and np.isnan(data[0, :, 3:]).all() and np.isfinite(data[1, :, 3:]).all()
    assert np.isfinite(objective.evaluate(objective.problem.theta).gradient).all()


def sized(shots: int = 2, samples: int = 30, receivers: int = 5) -> Any:
    return lambda path: seismogram(path, shots, samples, receivers)


def changed(change: Any) -> Any:
    def write(path: Path) -> None:
        values = np.load(seismogram(path))
        change(values)
        np.save(path, values)

    return write


def put(where: Any, value: float) -> Any:
    return changed(lambda values: values.__setitem__(where, value))


EVERY = slice(None)
MISMATCHES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "shots": (
        sized(shots=3),
        {},
        'expected records of 2 shots (one for each source that fires "in turn"), found 3 in 1 file',
    ),
    "receivers": (
        sized(receivers=4),
        {},
        "expected 5 traces, one for each point of receivers, found 4; correct the points",
    ),
    "short": (sized(samples=20), {}, "expected records up to the end of the run at 0.048 s, found their last sample at 0.038 s"),
    "unit": (sized(), {"unit": "cm"}, "expected a unit that converts to Pa, found 'cm'"),
    "drop": (sized(), {"drop": ["9"]}, "expected traces of the names 0, 1, 2, 3, 4, found no 9"),
    "zero": (put((1, EVERY, 3), 0.0), {}, 'shot 1, trace 3: expected a signal, found zeros only; drop = ["1:3"], or allow = ["zero"]'),
    "inf": (put((0, 4, 2), np.inf), {}, "shot 0, trace 2: expected numbers, or gaps as NaN, found inf at 0.008 s"),
    "gaps only": (put((0, EVERY, 2), np.nan), {}, "shot 0, trace 2: expected samples, found gaps only"),
    "clipped": (put((0, slice(3, 8), 2), 87.0), {}, "shot 0, trace 2: expected a trace that is not clipped"),
    "clock": (
        sized(),
        {"start": 0.06},
        "shot 0, all 5 traces: expected samples during the run (0 to 0.048 s), found them from -0.06",
    ),
    "variable": (sized(), {"values": "p"}, "expected one of the variables values, found no p; name one of them by values"),
    "no times": (sized(), {"dt": None}, "found no times; name them, or give dt"),
}
"""Name -> the writer of the file, the keys of the scene, and the message after the key and the file."""


@pytest.mark.parametrize("name", MISMATCHES)
def test_a_mismatch_names_the_key_the_file_and_the_trace(name: str, tmp_path: Path) -> None:
    write, more, message = MISMATCHES[name]
    write(tmp_path / "a.npy")
    with pytest.raises(SceneError) as caught:
        Scene(**seismic(tmp_path, **more)).problem("f64")
    lines = str(caught.value).splitlines()
    assert all(line.startswith("data.p: ") for line in lines)
    assert any(message in line and (name == "shots" or "a.npy" in line) for line in lines), lines


def without(*keys: str) -> Any:
    return lambda table: {key: value for key, value in table.items() if key not in keys}


WRONG: dict[str, tuple[Any, str]] = {
    "neither": (
        without("data"),
        "scene: expected [truth], [data.STATE] or both, found neither; add the",
    ),
    "state": (
        lambda made: made | {"data": {"q": made["data"]["p"]}},
        "data.q: expected a state with a misfit of its traces (p), found 'q'",
    ),
    "unused": (
        lambda made: made | {"data": made["data"] | {"p_prev": made["data"]["p"]}},
        "data.p_prev: expected a state with",
    ),
    "final": (
        lambda made: made | {"misfit": [*made["misfit"], {"of": "final", "state": "p"}]},
        "misfit[1].of: expected [truth]",
    ),
    "correlation": (
        lambda made: made | {"accept": [{"quantity": "correlation", "at_least": 0.5}]},
        "accept[0].quantity: expected [truth], which correlation compares the answer with, found none",
    ),
    "noise": (
        lambda made: made | {"accept": [{"quantity": "misfit_over_noise", "at_most": 2.0}]},
        "data.p.deviation: expected the noise of the records, which accept[0] needs, found none; add it",
    ),
    "places": (without("receivers"), "expected coordinates of its traces under the names z, x, found none; give the points of receivers"),
    "both deviations": (
        lambda made: made | {"data": {"p": made["data"]["p"] | {"deviation": 1.0, "deviations": "sigma"}}},
        "data.p: expected either deviation or deviations, found both; drop one",
    ),
    "a key without its state": (
        lambda made: made | {"data": made["data"] | {"deviation": 0.01}},
        "data.deviation: expected a table, found 0.01; write deviation below [data.STATE], of which STATE it is",
    ),
    "a field without its name": (
        lambda made: made | {"fields": {"constant": 1.0}},
        "fields.constant: expected a table, found 1.0; write constant below [fields.NAME], of which NAME it is",
    ),
    "variable": (
        lambda made: made | {"data": {"p": made["data"]["p"] | {"variable": "p"}}},
        "unknown key 'variable'; did you mean values?",
    ),
    "key of a file": (
        lambda made: made | {"fields": {"c": {"file": {"path": "c.nc", "variable": "c"}}}},
        "unknown key 'variable'; did you mean key?",
    ),
    "key": (lambda made: made | {"data": {"p": made["data"]["p"] | {"devation": 1.0}}}, "did you mean deviation"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_scene_that_says_too_little_or_too_much(name: str, tmp_path: Path) -> None:
    seismogram(tmp_path / "a.npy")
    change, message = WRONG[name]
    with pytest.raises(SceneError) as caught:
        Scene(**change(seismic(tmp_path))).problem("f64")
    assert message in str(caught.value)


@pytest.mark.parametrize("factor", [1e-3, 1e-4])
def test_receivers_that_would_all_lie_in_one_cell(wave: Objective, tmp_path: Path, factor: float) -> None:
    """Places in km or in degrees without a unit were taken for metres, and all records for those of the first cell."""
    path = gauges(tmp_path / "g.csv", wave)
    head, *rows = [line.split(",") for line in path.read_text().splitlines()]
    for cells in rows:
        for axis in ("y", "x"):
            cells[head.index(axis)] = f"{float(cells[head.index(axis)]) * factor:.6f}"
    path.write_text("\n".join(map(",".join, [head, *rows])))
    with pytest.raises(
        SceneError, match=r"data\.eta: .*g\.csv: expected receivers in more than one cell, found 3 with y from .* taken for m; of"
    ):
        Scene(**tables(tmp_path)).problem("f64")
    Scene(**tables(tmp_path, allow=["receivers"])).problem("f64")


def test_a_folder_is_no_file_of_records(tmp_path: Path) -> None:
    (tmp_path / "a.npy").mkdir()
    with pytest.raises(SceneError, match=r"data\.p: expected a file that ends in .*, found the folder .*a\.npy; name a file in it"):
        Scene(**seismic(tmp_path)).problem("f64")


def test_a_receiver_outside_of_the_grid(wave: Objective, tmp_path: Path) -> None:
    path = gauges(tmp_path / "g.csv", wave)
    path.write_text(path.read_text().replace("5100.0", "51000.0"))
    with pytest.raises(SceneError, match=r"^data\.eta: .*g\.csv, trace middle: .* the grid, x from 0 to 7500, found x = 51000"):
        Scene(**tables(tmp_path)).problem("f64")


def test_files_outside_of_a_folder_are_refused(wave: Objective, tmp_path: Path) -> None:
    gauges(tmp_path / "g.csv", wave)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "s.toml").write_text(to_toml(Scene(**tables(tmp_path))))
    with pytest.raises(SceneError, match=r"data\.eta\.path: expected a file below"):
        Scene.load(tmp_path / "inner" / "s.toml", read_below=tmp_path / "inner")


def test_a_run_is_another_with_other_stations(wave: Objective, tmp_path: Path) -> None:
    times = wave.problem.setup.times()
    wide(tmp_path / "w.csv", ("time", *NAMES), [[t, *row] for t, row in zip(times, waves(wave), strict=True)])
    keys = []
    for shift in (0.0, 100.0):
        rows = [[name, y + shift, x] for name, (y, x) in zip(NAMES, PLACES, strict=True)]
        wide(tmp_path / "stations.csv", ("receiver", "y", "x"), rows)
        scene = Scene(
            **WAVE
            | {
                "truth": None,
                "receivers": {},
                "data": {"eta": {"path": str(tmp_path / "w.csv"), "stations": str(tmp_path / "stations.csv")}},
            }
        )
        assert scene.problem("f64").setup.receivers["eta"][0, 0] == PLACES[0][0] + shift
        keys.append(identify(scene, "f64").search)
    assert keys[0] != keys[1]


def with_sources(path: Path, places: list[tuple[int, int]]) -> Path:
    """Records of two shots whose headers have (x, depth) of the source in m."""
    fields = segyio.TraceField
    segy(path, np.random.default_rng(2).standard_normal((30, 5)), shots=(1, 2), step=2e-3)
    with segyio.open(str(path), "r+", ignore_geometry=True) as file:
        for number in range(file.tracecount):
            x, depth = places[number // 5]
            file.header[number].update({fields.SourceX: 10 * x, fields.SourceDepth: depth})
    return path


def test_sources_in_headers_are_those_of_the_scene(tmp_path: Path) -> None:
    """Shots pair by order, so a line that was shot the other way round is noticed. Zeros say nothing, nor does a place within the cell."""
    scene = {"path": ["a.sgy"], "dt": None}

    def read(places: list[tuple[int, int]], **more: Any) -> None:
        with_sources(tmp_path / "a.sgy", places)
        allow = ["receivers", *more.pop("allow", [])]  # the receivers of the file lie elsewhere
        Scene(**seismic(tmp_path, **scene, **more, allow=allow)).problem("f64")

    read([(30, 40), (35, 100)])
    read([(32, 41), (34, 99)])
    read([(30, 0), (35, 0)])
    read([(0, 0), (0, 0)])
    with pytest.raises(SceneError) as caught:
        read([(35, 100), (30, 40)])
    first, second = str(caught.value).splitlines()
    assert "a.sgy, field record 1: expected the source of shot 0 of the scene, z = 40, x = 30, found z = 100, x = 35" in first
    assert "field record 2" in second and 'allow = ["sources"]' in second
    with pytest.raises(SceneError, match=r"shot 1 of the scene, x = 35, found x = 9999"):
        read([(30, 0), (9999, 0)])
    read([(30, 0), (9999, 0)], allow=["sources"])


def test_a_time_between_samples_beside_that_of_headers_is_noted(tmp_path: Path) -> None:
    """A note for records and one for wavelets; the same one says nothing."""
    with_sources(tmp_path / "a.sgy", [(0, 0), (0, 0)])
    segy(tmp_path / "w.sgy", np.sin(np.arange(20.0))[:, None], step=2e-3)
    for dt, notes in ((2e-3, 0), (1.9e-3, 1)):
        table = seismic(tmp_path, path=["a.sgy"], dt=dt, allow=["short", "receivers"])
        table["sources"]["f"]["wavelet"] = {"type": "file", "path": str(tmp_path / "w.sgy"), "dt": dt, "allow": ["outside"]}
        lines = [note for note in notes_of(Scene(**table).problem("f64")) if "headers" in note]
        assert [note.partition(":")[0] for note in lines] == ["data.p", "sources.f.wavelet"] * notes
        assert all(".sgy: dt = 1.9 ms is taken, where the headers have 2 ms between samples" in note for note in lines)


def test_missing_values_are_gaps(tmp_path: Path) -> None:
    """They are named in the unit of the file, which is not that of the state."""
    values = np.random.default_rng(4).standard_normal((2, 30, 5))
    values[0, 3:9, 1], values[1, 7, 4] = -9999.0, 1e20
    np.save(tmp_path / "a.npy", values.astype(np.float32))
    with pytest.raises(SceneError, match=r"a\.npy, shot 0, trace 1: expected measured values, found -9999 at 6 samples"):
        Scene(**seismic(tmp_path, unit="kPa")).problem("f64")
    for missing in ([-9999.0, 1e20], [-9999, 1e20, 5.5]):
        values_read = Scene(**seismic(tmp_path, unit="kPa", missing=missing)).problem("f64").setup.data["p"].values
        np.testing.assert_array_equal(np.isnan(values_read), (values == -9999) | (values == 1e20))
    with pytest.raises(SceneError, match=r"shot 1, trace 4: .* found 1e\+20 at 1 sample "):
        Scene(**seismic(tmp_path, missing=-9999.0)).problem("f64")


def test_a_trace_of_one_shot_is_left_out(tmp_path: Path) -> None:
    """It becomes a gap at its place. The message about a dead trace proposes just that."""
    values = np.random.default_rng(4).standard_normal((2, 30, 5))
    values[1, :, 3] = 0.0
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(SceneError, match=r'shot 1, trace 3: expected a signal, found zeros only; drop = \["1:3"\], or allow'):
        Scene(**seismic(tmp_path)).problem("f64")
    objective = Scene(**seismic(tmp_path, drop=["1:3"])).objective("f64")
    values_read = objective.problem.setup.data["p"].values
    gaps = np.zeros(values_read.shape, bool)
    gaps[1, :, 3] = True
    np.testing.assert_array_equal(np.isnan(values_read), gaps)
    assert np.isfinite(objective.value(objective.problem.theta))
    with pytest.raises(SceneError, match=r"expected traces of the names 0, 1, .* found no 2:3"):
        Scene(**seismic(tmp_path, drop=["2:3"])).problem("f64")
    with pytest.raises(SceneError, match="at least one trace that is not dead"):
        Scene(**seismic(tmp_path, drop=[f"0:{k}" for k in range(5)] + ["1:3"])).problem("f64")


def test_dead_traces_of_segy_are_gaps(tmp_path: Path) -> None:
    with_sources(tmp_path / "a.sgy", [(0, 0), (0, 0)])
    with segyio.open(str(tmp_path / "a.sgy"), "r+", ignore_geometry=True) as file:
        file.header[7].update({segyio.TraceField.TraceIdentificationCode: 2})
        file.header[1].update({segyio.TraceField.TraceIdentificationCode: 1})
    values_read = Scene(**seismic(tmp_path, path=["a.sgy"], dt=None, allow=["receivers"])).problem("f64").setup.data["p"].values
    gaps = np.zeros((2, 5), bool)
    gaps[1, 2] = True
    np.testing.assert_array_equal(np.isnan(values_read).all(axis=1), gaps)
    assert np.isfinite(values_read[~np.broadcast_to(gaps[:, None], values_read.shape)]).all()


def test_a_receiver_outside_in_one_shot_can_be_left_out(tmp_path: Path) -> None:
    """Where the files have the places, a dead trace takes its place with it."""
    with_sources(tmp_path / "a.sgy", [(0, 0), (0, 0)])
    with segyio.open(str(tmp_path / "a.sgy"), "r+", ignore_geometry=True) as file:
        for number in range(10):
            place = {segyio.TraceField.GroupX: 200 + 100 * (number % 5) if number != 7 else 99999, segyio.TraceField.SourceGroupScalar: -10}
            file.header[number].update(place)
    table = seismic(tmp_path, path=["a.sgy"], dt=None)
    del table["receivers"]
    with pytest.raises(SceneError, match=r'field record 2, trace 2: expected a receiver on the grid, .* drop = \["1:2"\]'):
        Scene(**table).problem("f64")
    table["data"]["p"]["drop"] = ["1:2"]
    recorded = Scene(**table).problem("f64").setup.data["p"]
    assert recorded.positions.shape == (5, 2) and np.isnan(recorded.values[1, :, 2]).all() and np.isfinite(recorded.values[0]).all()


def test_a_gauge_on_land_is_named(wave: Objective, tmp_path: Path) -> None:
    """With the file and a remedy, and where most cells are land, a hint at the sign of the depth."""
    gauges(tmp_path / "g.csv", wave)
    table = tables(tmp_path)
    y, x = PLACES[1]
    block = {"lower": [y - 900, x - 900], "upper": [y + 900, x + 900], "amplitude": -1e6}
    table["fields"]["H"] = table["fields"]["H"] | {"boxes": [block], "floor": 0.0}
    with pytest.raises(
        SceneError, match=r'^data\.eta: .*g\.csv, trace middle, expected .* found land at .*; move it, or drop = \["middle"\]$'
    ):
        Scene(**table).problem("f64")
    table["fields"]["H"] = {"constant": 0.0}
    with pytest.raises(SceneError, match=r"trace \w+, expected .* 100% of all cells are land: a depth is an elevation with scale = -1"):
        Scene(**table).problem("f64")


def test_a_start_beyond_its_bounds_says_its_numbers_and_unit(tmp_path: Path) -> None:
    seismogram(tmp_path / "a.npy")
    table = seismic(tmp_path)
    table["unknowns"]["c"] |= {"start": {"constant": 2.0}, "transform": "logit"}
    table["time"] = {"dt": 2.0e-3, "steps": 24}
    expected = r"^unknowns\.c\.start: expected numbers strictly between lower = 1500 and upper = 2600 m/s, found 2 to 2; correct the start"
    with pytest.raises(SceneError, match=expected):
        Scene(**table).problem("f64")
