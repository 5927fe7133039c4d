"""The example of docs/data.md, from the command alone: records and bathymetry that another program made, and the field that made them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray

from diffsim.cli import main
from diffsim.scene.outcome import Outcome
from tests.records.surveys import wide

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
(SCENE,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
HEADER = tuple(re.findall(r"^```text\n(.*?)\n", PAGE, re.MULTILINE)[0].split(","))

STEP, END, QUAKE, GRAVITY = 2.0, 900.0, 600.0, 9.80665
CELL = 1000.0
"""Half a cell of the scene, m."""
PLACES = [(9e3, 11e3), (11e3, 37e3), (23e3, 7e3), (41e3, 13e3), (43e3, 33e3), (31e3, 43e3), (15e3, 46e3), (39.5e3, 24.7e3)]
EVERY = [15.0, 30.0, 20.0, 45.0, 15.0, 60.0, 30.0, 20.0]
"""Seconds between the samples of each gauge."""
SIGMA = 0.5
"""Noise of the gauges, cm."""


def bay() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates and elevation: a slope that ends in a beach."""
    y, x = (CELL * (np.arange(n) + 0.5) for n in (48, 60))
    elevation = -1500 + 30 * (x[None, :] / 1e3 - 15).clip(0) + 6 * np.abs(y[:, None] / 1e3 - 24)
    return y, x, np.where(x[None, :] > 56e3, 20.0, elevation)


def uplift(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The field that makes the records, m."""
    return np.exp(-0.5 * (((y[:, None] - 25e3) / 5e3) ** 2 + ((x[None, :] - 24e3) / 6e3) ** 2))


def waves(depth: np.ndarray, eta: np.ndarray, steps: int) -> list[np.ndarray]:
    """Linear long waves between walls, second order, leap-frog: plain NumPy."""

    def rate(eta: np.ndarray) -> np.ndarray:
        out = np.zeros_like(eta)
        for axis in (0, 1):
            between = GRAVITY * np.minimum(*(np.take(depth, cut(depth.shape[axis]), axis) for cut in (lower, upper)))
            flux = between * np.diff(eta, axis=axis) / CELL
            out += np.diff(np.pad(flux, [(1, 1) if a == axis else (0, 0) for a in (0, 1)]), axis=axis) / CELL
        return out

    found = [eta, eta + 0.5 * STEP**2 * rate(eta)]
    while len(found) <= steps:
        found.append(2 * found[-1] - found[-2] + STEP**2 * rate(found[-1]))
    return found


def lower(count: int) -> np.ndarray:
    return np.arange(count - 1)


def upper(count: int) -> np.ndarray:
    return np.arange(1, count)


def write_files(folder: Path) -> None:
    rng = np.random.default_rng(8)
    y, x, elevation = bay()
    dataset = xarray.Dataset({"elevation": (("y", "x"), elevation[::-1], {"units": "m"})}, {"y": y[::-1], "x": x})
    dataset.to_netcdf(folder / "bay.nc", engine="netcdf4")
    fields = np.array(waves(np.maximum(-elevation, 0), uplift(y, x), round(END / STEP)))
    clock, rows = STEP * np.arange(len(fields)), []
    for number, ((at_y, at_x), every) in enumerate(zip(PLACES, EVERY, strict=True)):
        trace = _at(fields, at_y, at_x)
        times = np.arange(-120.0 + 3 * number, END + 60, every)
        height = 100 * np.where(times < 0, 0, np.interp(times, clock, trace)) + SIGMA * rng.standard_normal(times.size)
        lost = rng.random(times.size) < 0.15
        cells = ["" if gone else f"{h:.4f}" for h, gone in zip(height, lost, strict=True)]
        rows += [[(t + QUAKE) / 60, f"G{number + 1}", cell, at_y, at_x] for t, cell in zip(times, cells, strict=True)]
    wide(folder / "gauges.csv", HEADER, rows)


def _at(fields: np.ndarray, y: float, x: float) -> np.ndarray:
    """Linear interpolation between the four nearest cells."""
    (i, a), (j, b) = (divmod(place / CELL - 0.5, 1) for place in (y, x))
    i, j = int(i), int(j)
    rows = (1 - a) * fields[:, i] + a * fields[:, i + 1]
    return (1 - b) * rows[:, j] + b * rows[:, j + 1]


def test_the_example_finds_the_field_that_made_the_records(tmp_path: Path) -> None:
    write_files(tmp_path)
    (tmp_path / "bay.toml").write_text(SCENE, encoding="utf-8")
    command = [sys.executable, "-m", "diffsim", "run", "bay.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = Outcome.load(tmp_path / "runs" / "bay")
    y, x, elevation = bay()
    truth = uplift(y, x).reshape(24, 2, 30, 2).mean(axis=(1, 3))
    wet = np.maximum(-elevation, 0).reshape(24, 2, 30, 2).mean(axis=(1, 3)) > 1
    np.testing.assert_allclose(outcome.background["H"], np.maximum(-elevation.reshape(24, 2, 30, 2).mean(axis=(1, 3)), 0), atol=1e-3)
    answer = outcome.unknowns["eta0"].answer
    assert np.corrcoef(answer[wet], truth[wet])[0, 1] > 0.97
    assert np.linalg.norm((answer - truth)[wet]) < 0.2 * np.linalg.norm(truth[wet])


def test_the_mistake_reads_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = re.findall(r"^```text\n(data\.eta.*?)\n```", PAGE, re.DOTALL | re.MULTILINE)
    write_files(tmp_path)
    text = (tmp_path / "gauges.csv").read_text().replace(",15000.0,46000.0", ",15000.0,590000.0")
    (tmp_path / "gauges.csv").write_text(text)
    (tmp_path / "bay.toml").write_text(SCENE, encoding="utf-8")
    assert main(["run", str(tmp_path / "bay.toml"), "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.strip().endswith(shown.replace("data.eta: ", "", 1).strip())
