"""The script that floods a coast by a nested run, with a sea that it made up."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("h5py")
SCRIPT = Path(__file__).parents[2] / "scripts" / "tohoku" / "flood.py"
BOX = (37.6, 38.4, 140.6, 141.6)
CELLS = 0.02


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sea of 100 m with a straight coast at 141 degrees east, lifted by 3 m off it."""
    folder = tmp_path_factory.mktemp("coast")
    lat, lon = np.linspace(36.0, 40.0, 81), np.linspace(140.0, 144.0, 81)
    depth = np.where(lon[None] > 141.001, 100.0, 0.0) + np.zeros((81, 81))
    np.savez(folder / "japan_sea_grid.npz", H=depth, lat=lat, lon=lon)
    np.save(folder / "uplift.npy", 3 * np.exp(-(((lat[:, None] - 38.0) / 0.6) ** 2) - ((lon[None] - 142.0) / 0.3) ** 2) * (depth > 0))
    return folder


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def test_land_rises_from_the_shore_and_its_water_is_measured(folder: Path, script: dict[str, Any]) -> None:
    sea = script["Sea"].read(folder, folder / "uplift.npy")
    coast = script["Coast"].of(sea, BOX, CELLS, 1e-3)
    assert coast.grid.shape == (40, 50) and set(coast.sides()) == {"tide_low_y", "tide_high_y", "tide_high_x"}
    wide = script["METRE"] * CELLS * np.cos(np.deg2rad(38.0))
    land = coast.inland > 0
    np.testing.assert_array_equal(land.sum(axis=1), land.sum(axis=1)[0])
    steps = np.diff(coast.inland[:, : land[0].sum()], axis=1)
    np.testing.assert_allclose(steps, -wide, rtol=1e-4)  # a cell to the east is a cell nearer to the sea
    np.testing.assert_allclose(coast.z[land], 1e-3 * coast.inland[land])
    assert coast.z[~land].max() < 0 and coast.z.min() == pytest.approx(-100.0)

    under = land & (coast.inland < 3.5 * wide)
    highest = np.where(under, 2.0, np.nan)
    first = np.where(under, 60.0 * np.arange(40)[:, None] + 600, np.nan)
    measured = script["figures"](coast, highest, first, np.where(under, 1.5, 0.0))
    away = script["AWAY"] / script["METRE"] / CELLS
    rows = 40 - 2 * np.ceil(away - 1e-9)
    assert measured["length of coast"] == pytest.approx(rows * CELLS * script["METRE"] / 1e3, rel=1e-6)
    assert measured["area"] == pytest.approx(rows * 3 * CELLS * script["METRE"] * wide / 1e6, rel=1e-3)
    assert measured["distance inland, greatest"] == measured["distance inland, median"] == pytest.approx(3 * wide / 1e3, rel=1e-4)
    assert measured["land first under water"] == pytest.approx(10 + np.ceil(away - 1e-9))
    assert measured["level at the shore, median"] == 2.0 and measured["depth on land, greatest"] == 1.5


def test_an_uplift_of_another_sea_is_refused(folder: Path, script: dict[str, Any], tmp_path: Path) -> None:
    np.save(tmp_path / "other.npy", np.zeros((30, 44)))
    with pytest.raises(SystemExit, match=r"other\.npy: shape \(30, 44\), expected \(27, 27\)"):
        script["Sea"].read(folder, tmp_path / "other.npy")


@pytest.mark.slow
def test_a_wave_from_the_coarse_run_floods_the_land(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wall doubles a wave of 1 m, so flat land is flooded far, steep land less; the water comes when a long wave does."""
    before = sys.argv
    box = [str(each) for each in BOX]
    options = ["--slope", "1e-4", "5e-4", "--cells", str(CELLS), "--box", *box, "--minutes", "80", "--out", str(tmp_path)]
    sys.argv = [str(SCRIPT), str(folder), str(folder / "uplift.npy"), *options]
    try:
        runpy.run_path(str(SCRIPT), run_name="__main__")
    finally:
        sys.argv = before
    rows = json.loads((tmp_path / "flood.json").read_text())
    flat, steep = rows["0.0001"], rows["0.0005"]
    assert flat["area"] > 1.5 * steep["area"] > 0 and flat["distance inland, median"] > steep["distance inland, median"]
    arrival = (142.0 - 141.0 - 0.3) * 6.371e6 * np.pi / 180 * np.cos(np.deg2rad(38)) / np.sqrt(9.81 * 100) / 60
    assert abs(flat["land first under water"] - arrival) < 12.0
    assert 0.8 < flat["level at the shore, median"] < 4.0
    assert (tmp_path / "flood_0.0001.png").stat().st_size > 5_000 and "slope 0.0005" in capsys.readouterr().out
