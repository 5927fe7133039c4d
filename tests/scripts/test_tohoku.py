"""The script of the tsunami of 2011, with a small sea and records that it made itself."""

from __future__ import annotations

import csv
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.scene import Scene

h5py = pytest.importorskip("h5py")
SCRIPT = Path(__file__).parents[2] / "scripts" / "tohoku" / "invert.py"
GAUGES = {"near": (38.6, 145.0), "far": (36.2, 148.2), "north": (41.6, 144.2), "south": (35.2, 143.2)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sea with a coast in the west, lifted by 2 m off it, and what four gauges recorded."""
    folder = tmp_path_factory.mktemp("event")
    lat, lon = np.linspace(33.0, 43.0, 97), np.linspace(140.0, 150.0, 97)
    depth = np.where(lon[None, :] > 141.0, 4000.0, 0.0) + np.zeros((97, 97))
    np.savez(folder / "japan_sea_grid.npz", H=depth, lat=lat, lon=lon)
    grid = ds.Grid((97, 97), spacing=(lat[1] - lat[0], lon[1] - lon[0]), origin=(33.0, 140.0))
    sea = ds.solvers.LongWave(grid, dt=6.0, coordinates="sphere", sponge=12, sponge_depth=4000.0)
    run = ds.Simulation(sea, receivers={"eta": list(GAUGES.values())}, precision="f32")
    uplift = 2 * np.exp(-((lat[:, None] - 38.0) ** 2) - ((lon[None, :] - 144.0) / 0.7) ** 2) * (depth > 0)
    traces = run.run({"H": depth, "eta0": uplift}, 1200).traces["eta"]
    (folder / "observations").mkdir()
    with open(folder / "stations_elev.csv", "w", newline="") as table:
        writer = csv.writer(table)
        writer.writerow(["name", "latitude", "longitude", "start", "end"])
        for k, (name, (latitude, longitude)) in enumerate(GAUGES.items()):
            writer.writerow([name, latitude, longitude, 0, 3600])
            with h5py.File(folder / "observations" / f"diagnostic_timeseries_{name}_elev.hdf5", "w") as record:
                record["time"] = np.arange(0, 3600, 12)
                record["elev"] = traces[:600:2, k]
    return folder


def invert(folder: Path, out: Path, *options: str) -> dict[str, Any]:
    before = sys.argv
    sys.argv = [str(SCRIPT), str(folder), "--out", str(out), *options]
    try:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    finally:
        sys.argv = before
    (table,) = out.glob("gauges_*.json")
    result: dict[str, Any] = json.loads(table.read_text())
    return result


def require_the_uplift(name: str, out: Path, printed: str) -> None:
    """The sea floor of a search is as high as that of the records, at its place, and there are a table and a picture."""
    uplift = np.load(out / f"uplift_{name}.npy")
    assert 1.2 < uplift.max() < 2.8
    highest = np.unravel_index(np.argmax(uplift), uplift.shape)
    assert abs(33.0 + 10 / 96 * highest[0] - 38.0) < 0.5 and abs(140.0 + 10 / 96 * highest[1] - 144.0) < 0.7
    assert "reduction" in printed and (out / f"tohoku_{name}.png").stat().st_size > 10_000


def test_a_free_field_explains_its_records(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = invert(folder, tmp_path, "--iterations", "25", "--smooth", "2")
    assert all(row["reduction"] > 0.95 for row in rows.values()), rows
    require_the_uplift("free", tmp_path, capsys.readouterr().out)


def test_the_scene_explains_its_records_too(folder: Path) -> None:
    """The packaged file, on a grid that the small sea covers."""
    text = (SCRIPT.parent / "event.toml").read_text()
    for before, after in (("[174, 298]", "[46, 46]"), ("spacing = 0.1 ", "spacing = 0.2 "), ("[29.05, 130.05]", "[33.3, 140.3]")):
        assert before in text
        text = text.replace(before, after)
    (folder / "event.toml").write_text(text)
    scene = Scene.load(folder / "event.toml")
    assert "event" in scene.name
    outcome = scene.model_copy(update={"optimise": scene.optimise.model_copy(update={"iterations": 10})}).run(precision="f32")
    assert {fit.name for fit in outcome.fits["eta"]} == GAUGES.keys()
    assert all(fit.variance_reduction > 0.7 and abs(fit.lag) < 60 for fit in outcome.fits["eta"]), outcome.fits
    assert len(outcome.accepted) == 8 and outcome.passed


@pytest.mark.slow
def test_a_forecast_lies_within_its_deviations(folder: Path, tmp_path: Path) -> None:
    rows = invert(folder, tmp_path, "--until", "30", "--iterations", "25", "--smooth", "2")
    assert rows["far"]["used"] < 0.51 and abs(rows["far"]["at"] - rows["far"]["recorded at"]) < 3.0


@pytest.mark.slow
def test_faults_explain_records_too(folder: Path, tmp_path: Path) -> None:
    rows = invert(folder, tmp_path, "--source", "faults", "--iterations", "5", "--weight", "1e-4")
    assert np.mean([row["reduction"] for row in rows.values()]) > 0.3


@pytest.mark.slow
def test_nonlinear_waves_explain_the_records_of_linear_ones(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sea is 4 km deep and the waves are 2 m high, so both are the same to some per cent."""
    rows = invert(folder, tmp_path, "--waves", "nonlinear", "--iterations", "12", "--smooth", "2")
    assert all(row["reduction"] > 0.8 for row in rows.values()), rows
    require_the_uplift("free_nonlinear", tmp_path, capsys.readouterr().out)
