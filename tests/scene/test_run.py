"""Runs: outcome and acceptance, the folder, and that an interrupted run ends with the bits of an uninterrupted one."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from diffsim.errors import SceneError
from diffsim.mesh.grid import Grid
from diffsim.optimize import NonFiniteError, Regions
from diffsim.optimize.journal import recorded
from diffsim.scene import Outcome, Scene, run
from diffsim.scene.disk.folder import check_folder, claim_folder, identify
from diffsim.scene.disk.outcome import UnknownField
from diffsim.scene.disk.progress import Watcher
from diffsim.scene.run import _values
from diffsim.scene.schema.toml import to_toml
from diffsim.scene.search.accept import correlation, distance, relative_error, total
from diffsim.scene.search.objective import Objective
from tests.sampled import sampled
from tests.scene.tiny import ACOUSTIC, HEAT, scene

ROOT = Path(__file__).parents[2]
LONG = {"optimise__iterations": 60, "optimise__tolerance": 0.0, "time__steps": 16, "checkpoint": {"slots": 4}}
"""Enough iterations that a signal falls among them."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "tiny"
    return folder, scene(ACOUSTIC).run(folder, certificate=True)


def test_an_outcome_holds_the_parts_of_a_report(finished):
    _, outcome = finished
    assert outcome.name == "tiny"
    assert outcome.equation == "acoustic"
    assert [(axis.name, axis.unit, len(axis.coordinates)) for axis in outcome.axes] == [("z", "m", 16), ("x", "m", 15)]
    np.testing.assert_array_equal(outcome.sources["f"], [[40, 30], [100, 35]])
    assert outcome.receivers["p"].shape == (5, 2)
    np.testing.assert_allclose(outcome.times, 2e-3 * np.arange(25))
    pair, c = outcome.traces["p"], outcome.unknowns["c"]
    assert pair.data.shape == pair.start.shape == pair.end.shape == (2, 25, 5)
    assert (pair.unit, c.unit) == ("Pa", "m/s")
    assert np.abs(pair.end - pair.data).sum() < np.abs(pair.start - pair.data).sum()
    assert c.truth.max() > 2150
    assert (c.start == 2000).all()
    for gradient in (c.gradient_first, c.gradient_last):
        assert gradient.shape == (16, 15)
    assert np.abs(c.gradient_last).max() < np.abs(c.gradient_first).max()
    assert [row.iteration for row in outcome.history] == list(range(len(outcome.history)))
    losses = [row.loss for row in outcome.history]
    assert losses == sorted(losses, reverse=True)
    assert sum(first for first, _ in outcome.loss_parts.values()) == pytest.approx(losses[0], rel=1e-12)
    assert sum(last for _, last in outcome.loss_parts.values()) == pytest.approx(losses[-1], rel=1e-12)
    assert len(outcome.accepted) == 2
    assert outcome.passed
    assert any(line.name.startswith("dot product") for line in outcome.certificate)
    assert outcome.memory.allocated == outcome.memory.predicted
    assert outcome.memory.peak_process > outcome.memory.allocated
    assert outcome.machine["precision"] == "f64"
    taken = outcome.gradient
    assert taken.seconds > 0 and taken.first >= 0 and taken.seconds_predicted > 0
    assert taken.peak_predicted > outcome.memory.predicted
    assert outcome.settings["equation"]["type"] == "acoustic"


def test_axes_of_a_sphere_are_degrees_in_an_outcome() -> None:
    case = Scene(
        grid={"shape": [12, 14], "spacing": 0.2, "origin": [36.0, -128.0], "axes": ["lat", "lon"]},
        time={"dt": 20.0, "steps": 10},
        equation={"type": "shallow_water", "sides": "open", "coordinates": "sphere", "method": "euler"},
        fields={"z": {"constant": -1000.0}},
        receivers={"eta": {"points": [[37.0, -127.0]]}},
        unknowns={"eta": {"start": {"constant": 0.0}}},
        truth={"refine": 1.0, "fields": {"eta": {"gaussians": [{"centre": [37.2, -126.8], "width": 0.4, "amplitude": 1.0}]}}},
        misfit=[{"of": "traces", "state": "eta"}],
        optimise={"iterations": 1},
    )
    assert [(axis.name, axis.unit) for axis in case.run().axes] == [("lat", "degrees north"), ("lon", "degrees east")]


def test_outcome_reads_back_as_it_was(finished):
    folder, outcome = finished
    again = Outcome.load(folder)

    def same(a, b, path="outcome"):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=path)
            assert a.dtype == b.dtype
        elif hasattr(a, "__dataclass_fields__"):
            assert type(a) is type(b)
            for name in a.__dataclass_fields__:
                same(getattr(a, name), getattr(b, name), f"{path}.{name}")
        elif isinstance(a, dict):
            assert a.keys() == b.keys(), path
            for name in a:
                same(a[name], b[name], f"{path}.{name}")
        elif isinstance(a, (list, tuple)):
            assert len(a) == len(b), path
            for k, (x, y) in enumerate(zip(a, b, strict=True)):
                same(x, y, f"{path}[{k}]")
        else:
            assert a == b or (a != a and b != b), path

    same(outcome, again)


def test_folder_of_a_finished_run(finished):
    folder, outcome = finished
    assert sorted(path.name for path in folder.iterdir()) == [
        "history.csv",
        "journal.bin",
        "outcome.json",
        "result.npz",
        "run.json",
        "scene.toml",
    ]
    assert Scene.load(folder / "scene.toml") == scene(ACOUSTIC)
    with np.load(folder / "result.npz") as arrays:
        assert {f"unknowns.c.{part}" for part in ("truth", "start", "answer", "gradient_first", "gradient_last")} <= set(arrays.files)
        assert {f"traces.p.{part}" for part in ("data", "start", "end")} <= set(arrays.files)
    rows = (folder / "history.csv").read_text().splitlines()
    assert rows[0] == "iteration,evaluations,loss,gradient_norm,seconds,stage,products"
    assert float(rows[-1].split(",")[2]) == outcome.history[-1].loss


def test_folder_that_holds_something_else(finished, tmp_path):
    folder, _ = finished
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    with pytest.raises(SceneError, match=r"--out: expected an empty folder or this same run, found another run in .*; name another"):
        scene(ACOUSTIC, seed=4).run(folder)
    with pytest.raises(SceneError, match=r"--resume: expected in .* a run of this scene, precision and arch, found another"):
        scene(ACOUSTIC, seed=4).run(folder, resume=True)
    with pytest.raises(SceneError, match=r"--resume: expected in .* a run of this scene, precision and arch, found another"):
        scene(ACOUSTIC).run(folder, resume=True, precision="f32")
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    with pytest.raises(SceneError, match=r"--resume: expected a run in .*, found none; leave --resume out"):
        scene(ACOUSTIC).run(tmp_path / "nowhere", resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(SceneError, match="--out: expected an empty folder or a run, found other files"):
        scene(ACOUSTIC).run(tmp_path / "other")
    with pytest.raises(SceneError, match="--out: expected a folder, found the file"):
        scene(ACOUSTIC).run(tmp_path / "other" / "thesis.tex")
    assert not (tmp_path / "nowhere").exists()


def test_resumed_with_more_iterations_goes_on(tmp_path):
    whole = scene(HEAT).run(tmp_path / "whole")
    scene(HEAT, optimise__iterations=3).run(tmp_path / "parts")
    calls = []
    right = Objective.evaluate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "evaluate", lambda *a: calls.append(0) or right(*a))
        parts = scene(HEAT).run(tmp_path / "parts", resume=True)
    for name in whole.unknowns:
        np.testing.assert_array_equal(parts.unknowns[name].answer, whole.unknowns[name].answer)
    assert [row.loss for row in parts.history] == [row.loss for row in whole.history]
    assert len(calls) - 2 < whole.history[-1].evaluations  # two more at the end, for the figures


def test_loss_that_is_no_longer_finite(tmp_path, monkeypatch):
    right = Objective.__call__
    calls = []

    def breaks(self, theta):
        calls.append(theta.copy())
        value, gradient = right(self, theta)
        return (np.nan if len(calls) == 5 else value), gradient

    monkeypatch.setattr(Objective, "__call__", breaks)
    with pytest.raises(NonFiniteError, match="iteration 4, evaluation 5") as caught:
        scene(HEAT).run(tmp_path / "nan")
    with np.load(tmp_path / "nan" / "last.npz") as last:
        np.testing.assert_array_equal(last["theta"], caught.value.last_good)
        assert last["T"].shape == (12, 11)
    rows = (tmp_path / "nan" / "history.csv").read_text().splitlines()
    assert len(rows) == 1 + 3
    assert not (tmp_path / "nan" / "result.npz").exists()


def test_nothing_is_written_for_a_scene_that_cannot_be(tmp_path):
    with pytest.raises(SceneError, match=r"time.dt over truth.refine"):
        scene(ACOUSTIC, truth__fields__c__constant=20000.0).run(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_acceptance_measures():
    start, truth = np.full((4, 4), 2.0), 2.0 + np.arange(16.0).reshape(4, 4)
    counts = np.ones((4, 4), bool)

    def unknown(answer):
        return UnknownField(start, answer, start, start, truth)

    assert correlation(unknown(truth), counts) == pytest.approx(1)
    assert correlation(unknown(truth - 20.0), counts) == pytest.approx(1)  # a constant does not count
    assert correlation(unknown(start - (truth - start)), counts) == pytest.approx(-1)
    assert correlation(unknown(start), counts) == 0
    assert relative_error(unknown(truth), counts) == 0
    assert relative_error(unknown(start), counts) == pytest.approx(1)
    assert relative_error(unknown(0.5 * (start + truth)), counts) == pytest.approx(0.5)
    half = np.arange(16).reshape(4, 4) < 8
    assert relative_error(unknown(np.where(half, truth, 99.0)), half) == 0
    assert total(unknown(0.5 * (start + truth)), counts) == pytest.approx(0.5)
    assert total(unknown(2 * truth - start), counts) == pytest.approx(2)


def test_distances_are_those_of_centres() -> None:
    """In units of the grid, whatever the signs; of changes from the start."""
    grid, start = Grid((9, 12), (2.0, 3.0)), np.full((9, 12), 5.0)

    def bump(row: int, column: int, size: float) -> np.ndarray:
        values = start.copy()
        values[row, column] += size
        return values

    def unknown(answer: np.ndarray) -> UnknownField:
        return UnknownField(start, answer, start, start, bump(3, 4, 1.0))

    counts = np.ones(start.shape, bool)
    assert distance(unknown(bump(3, 4, -0.2)), counts, grid) == 0
    assert distance(unknown(bump(5, 5, 7.0)), counts, grid) == pytest.approx(5.0)  # 2 cells of 2 m and one of 3 m
    assert distance(unknown(start), counts, grid) == np.inf


ACCEPTED = [
    ({"quantity": "loss_reduction", "at_least": 1e9}, "loss reduction", False, "at least 1e+09"),
    (
        {"quantity": "misfit_over_noise", "at_most": 1e9, "at_least": 0.1},
        "residual over noise, final of T",
        True,
        "at least 0.1 and at most 1e+09",
    ),
    ({"quantity": "relative_error", "of": "T", "at_most": 1e-9}, "relative error of T", False, "at most 1e-09"),
    ({"quantity": "correlation", "of": "T", "within": {"margin": 2}, "at_least": 0.5}, "correlation of T", True, "at least 0.5"),
]


def test_acceptance_lines():
    outcome = scene(HEAT, accept=[accept for accept, *_ in ACCEPTED]).run()
    for line, (_, name, passed, limit) in zip(outcome.accepted, ACCEPTED, strict=True):
        assert (line.name, line.passed, line.limit) == (name, passed, limit)
    assert not outcome.passed


# interrupted from outside


def test_interrupt_that_python_dropped_is_heeded_at_the_next_evaluation(tmp_path, monkeypatch):
    class Dropping:
        def __del__(self):  # an exception from here is printed and forgotten
            signal.raise_signal(signal.SIGINT)

    right = Objective.__call__
    calls = []

    def pressed(self, theta):
        calls.append(0)
        if len(calls) == 3:
            with pytest.MonkeyPatch.context() as quiet:
                quiet.setattr(sys, "unraisablehook", lambda _: None)
                Dropping()
        return right(self, theta)

    monkeypatch.setattr(Objective, "__call__", pressed)
    with pytest.raises(KeyboardInterrupt):
        scene(HEAT).run(tmp_path / "out")
    assert len(calls) == 3
    assert (tmp_path / "out" / "last.npz").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_best_point_is_kept_after_ctrl_c(tmp_path, monkeypatch):
    """Not the last one: a line search tries worse ones."""
    right, places = Objective.__call__, []

    def pressed(self, theta):
        value, gradient = right(self, theta)
        places.append(theta.copy())
        if len(places) == 4:
            raise KeyboardInterrupt
        return (value if len(places) < 3 else 100 * value), gradient

    monkeypatch.setattr(Objective, "__call__", pressed)
    with pytest.raises(KeyboardInterrupt):
        scene(HEAT).run(tmp_path / "out")
    with np.load(tmp_path / "out" / "last.npz") as last:
        np.testing.assert_array_equal(last["theta"], places[1])
        assert not np.array_equal(places[1], places[2])


def command(path, out, *more):
    return [sys.executable, "-m", "diffsim", "run", str(path), "--out", str(out), "--precision", "f64", "--threads", "1", *more]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    (folder / "long.toml").write_text(to_toml(scene(ACOUSTIC, name="long", accept=[], **LONG)))
    subprocess.run(command(folder / "long.toml", folder / "whole"), cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


@pytest.mark.parametrize("how", sampled([signal.SIGKILL, signal.SIGINT], ids=lambda how: how.name))
def test_resumed_run_ends_with_the_same_bits(uninterrupted, how):
    scene_file, out = uninterrupted / "long.toml", uninterrupted / f"cut by {how}"
    process = subprocess.Popen(command(scene_file, out), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    whole = (uninterrupted / "whole" / "journal.bin").stat().st_size
    deadline = time.monotonic() + 60
    journal = out / "journal.bin"
    while not (journal.exists() and journal.stat().st_size > 0.1 * whole):
        assert time.monotonic() < deadline, "no evaluation was journaled"
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert 0.1 * whole < journal.stat().st_size < whole
    assert not (out / "result.npz").exists()
    if how == signal.SIGINT:
        assert process.returncode == 130, errors
        assert "interrupted" in errors
        assert "Traceback" not in errors
        with np.load(out / "last.npz") as last:
            assert last["c"].shape == (16, 15)
    else:
        assert process.returncode == -signal.SIGKILL

    subprocess.run(command(scene_file, out, "--resume"), cwd=ROOT, check=True, capture_output=True, timeout=120)
    with np.load(out / "result.npz") as result, np.load(uninterrupted / "whole" / "result.npz") as expected:
        assert set(result.files) == set(expected.files)
        for name in expected.files:
            np.testing.assert_array_equal(result[name], expected[name], err_msg=name)
    losses = [
        [row["loss"] for row in json.loads((folder / "outcome.json").read_text())["history"]] for folder in (out, uninterrupted / "whole")
    ]
    assert losses[0] == losses[1]
    assert not (out / "last.npz").exists()


class Notes(Watcher):
    """The notes of a run whose results must not be written over, and the contents of its folder then."""

    def __init__(self, folder):
        self.folder, self.told = folder, []

    def note(self, text):
        self.told.append((text, recorded(self.folder / "journal.bin")[0]))


def test_a_run_that_was_interrupted_is_not_begun_anew_without_a_word(tmp_path, monkeypatch):
    out, long = tmp_path / "out", scene(HEAT, accept=[])

    def stop_in(place, name, after):
        right, calls = getattr(place, name), []

        def stopped(*arguments, **keywords):
            calls.append(0)
            if len(calls) > after:
                raise KeyboardInterrupt
            return right(*arguments, **keywords)

        notes = Notes(out)
        with monkeypatch.context() as patch:
            patch.setattr(place, name, stopped)
            with pytest.raises(KeyboardInterrupt):
                long.run(out, watcher=notes)
        return notes.told

    assert stop_in(Objective, "__call__", 2) == []  # the folder was empty
    ((line, held),) = stop_in(run, "plan_of", 0)
    assert held == 2 and recorded(out / "journal.bin")[0] == 2  # nothing is lost before the search
    assert str(out) in line and "interrupted after 2 evaluations (" in line and "starting anew" in line and "--resume" in line
    assert "\n" not in line
    ((line, held),) = stop_in(Objective, "__call__", 1)
    assert held == 2 and "interrupted after 2 evaluations" in line
    assert recorded(out / "journal.bin")[0] == 1

    long.run(out, resume=True, watcher=(notes := Notes(out)))
    assert notes.told == []
    whole = recorded(out / "journal.bin")[0]
    ((line, held),) = stop_in(Objective, "__call__", 3)
    assert held == whole and "finished; running it again" in line
    ((line, held),) = stop_in(Objective, "__call__", 0)
    assert held == 3 and "interrupted after 3 evaluations" in line  # its results are there still, and older
    assert (out / "result.npz").is_file()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 2}, "seed is 3 there and 2 here"),
        ({"equation__order": 2}, "equation.order is 4 there and 2 here"),
        ({"misfit__0__weight": 2.5}, "misfit[0].weight is 1.0 there and 2.5 here"),
        (
            {"truth__noise": 0.0, "unknowns__c__lower": 1400.0},
            "truth.noise is 0.02 there and 0.0 here, unknowns.c.lower is 1500.0 there and",
        ),
        ({"accept": [], "optimise__iterations": 7, "penalty": []}, "more differ"),
        ({}, 'precision is "f64" there and "f32" here'),
    ],
)
def test_settings_that_differ_are_named(tmp_path: Path, changes: dict[str, object], named: str) -> None:
    held, now = scene(ACOUSTIC), scene(ACOUSTIC, **changes)
    claim_folder(tmp_path, held, identify(held, "f64"))
    (tmp_path / "last.npz").write_bytes(b"")
    for resume in (False, True):
        with pytest.raises(SceneError, match=rf"found another.*{re.escape(named)}"):
            check_folder(tmp_path, identify(now, "f64" if changes else "f32"), resume)
    check_folder(tmp_path, identify(held, "f64"), resume=True)


@pytest.mark.parametrize("settings", [None, [], {"seed": 3}, "all"])
def test_a_record_without_its_settings_is_that_of_another_run(tmp_path: Path, settings: object) -> None:
    held, now = scene(ACOUSTIC), scene(ACOUSTIC, seed=2)
    claim_folder(tmp_path, held, identify(held, "f64"))
    record = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(record | {"settings": settings}))
    with pytest.raises(SceneError, match="found another; its settings differ; restore"):
        check_folder(tmp_path, identify(now, "f64"), resume=True)


def test_a_file_that_differs_is_named(tmp_path: Path) -> None:
    path, out = tmp_path / "c.npy", tmp_path / "out"
    described = scene(ACOUSTIC, unknowns__c__start={"file": {"path": str(path)}})
    np.save(path, np.full((16, 15), 2000.0))
    out.mkdir()
    claim_folder(out, described, identify(described, "f64"))
    np.save(path, np.full((16, 15), 2001.0))
    with pytest.raises(SceneError, match=rf"found another; the file {path} differs; restore"):
        check_folder(out, identify(described, "f64"), resume=True)


def test_a_run_without_an_evaluation_leaves_its_folder_free(tmp_path: Path) -> None:
    """One that was refused before its first evaluation is not counted as another run."""
    refused, corrected = (Scene(**ACOUSTIC | {"seed": seed}) for seed in (1, 2))
    out = tmp_path / "out"
    out.mkdir()
    first, second = (identify(scene, "f64") for scene in (refused, corrected))
    claim_folder(out, refused, first)
    (out / "journal.bin").write_bytes(b"")
    check_folder(out, second, resume=False)
    with pytest.raises(SceneError, match="found another"):
        check_folder(out, second, resume=True)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(SceneError, match="other files"):
        check_folder(out, second, resume=False)
    (out / "notes.txt").unlink()
    (out / "last.npz").write_bytes(b"")
    with pytest.raises(SceneError, match="found another run"):
        check_folder(out, second, resume=False)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("transform", ["identity", "logit"])
def test_values_of_regions_are_those_of_the_answer_at_bounds_too(transform: str, dtype: str) -> None:
    for theta in (-40.0, -20.0, 0.3, 20.0, 40.0):
        part = Regions(np.array([[0, 2], [1, 2]]), dtype, 0.1, 0.8, transform, reference=0.3)
        answer = part.to_field(np.full(3, theta if transform == "logit" else np.clip(0.3 + theta, 0.1, 0.8) - 0.3))
        for unit, name in (("", "by region"), ("m/s", "by region, m/s")):
            (label, values), *others = _values(part, answer, unit).items()
            assert label == name and not others
            np.testing.assert_array_equal(values, [answer[0, 0], answer[1, 0], answer[0, 1]])
