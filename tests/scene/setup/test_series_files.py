"""Series of a scene out of files whose times are dates, which begin before the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import SceneError
from diffsim.scene.schema.parts import FieldModel
from diffsim.scene.setup.fields import build_field
from diffsim.scene.setup.place import Place

STEPS = ds.Grid((40,), spacing=30.0, axes=("time",))
BEFORE = 900.0
"""Seconds of the file before the start of the run."""
START = "2024-01-01T05:30:00+05:30"
TIMES = np.arange(-BEFORE, 1500.0, 60.0)
LEVELS = 0.2 + 1e-3 * TIMES
DATES = np.datetime64("2024-01-01T00:00:00") + TIMES.astype("timedelta64[s]")


def npz_dates(path: Path) -> Path:
    np.savez(path.with_suffix(".npz"), level=LEVELS, time=DATES)
    return path.with_suffix(".npz")


def hdf5_texts(path: Path) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path.with_suffix(".h5"), "w") as file:
        file["level"] = LEVELS
        file["time"] = [f"{date}Z".encode() for date in DATES]
        file["time"].make_scale("time")
        file["level"].dims[0].attach_scale(file["time"])
    return path.with_suffix(".h5")


def netcdf(unit: str, seconds: float, of_epoch: float, turned: bool) -> Callable[[Path], Path]:
    """Times in a unit of so many seconds after a date, which is so many seconds before the start of the run."""

    def write(path: Path) -> Path:
        xarray = pytest.importorskip("xarray")
        pytest.importorskip("netCDF4")
        order = slice(None, None, -1 if turned else 1)
        times = ("time", ((TIMES + of_epoch) / seconds)[order], {"units": unit})
        xarray.Dataset({"level": ("time", LEVELS[order])}, coords={"time": times}).to_netcdf(path.with_suffix(".nc"))
        return path.with_suffix(".nc")

    return write


WRITERS = {
    "NPZ": npz_dates,
    "HDF5": hdf5_texts,
    "hours, another zone": netcdf("hours since 2023-12-31 23:00:00 +01:00", 3600.0, 7200.0, False),
    "days, falling": netcdf("days since 1970-01-01", 86400.0, 54 * 365.25 * 86400.0 - 43200.0, True),
}


def series(path: Path, **keys: Any) -> Any:
    part = FieldModel.model_validate({"file": {"path": str(path), "key": "level", "allow": ["outside"], **keys}}, context={})
    return build_field(part, Place(STEPS, STEPS, "fields.tide", unit="m"))


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_dates_of_a_series_count_from_the_start_of_the_run(writer: Callable[[Path], Path], tmp_path: Path) -> None:
    path = writer(tmp_path / "tide")
    np.testing.assert_allclose(series(path, start=START), 0.2 + 1e-3 * STEPS.coordinates(0), rtol=1e-9)
    with pytest.raises(SceneError, match=r'expected start, the date.*such as start = "2023-12-31T23:45:00Z", that of the first number$'):
        series(path)


def test_a_start_in_seconds_shifts_a_series_without_dates(tmp_path: Path) -> None:
    np.savez(tmp_path / "tide.npz", level=LEVELS, time=TIMES)
    np.testing.assert_allclose(series(tmp_path / "tide.npz", start=-120.0), 0.08 + 1e-3 * STEPS.coordinates(0), rtol=1e-9)
    with pytest.raises(SceneError, match=r"expected dates for start = 2024-01-01, found times without one"):
        series(tmp_path / "tide.npz", start="2024-01-01")
    np.savez(tmp_path / "minutes.npz", level=LEVELS, time=TIMES / 60)
    with pytest.raises(SceneError, match=r"expected a run with time from -15 to 24.*; run shorter, or correct the unit of the times"):
        series(tmp_path / "minutes.npz")


def test_a_start_without_times_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "tide.npz", level=np.ones(40))
    with pytest.raises(SceneError, match=r"^fields\.tide\.file\.start: expected times in .*tide\.npz, found none; drop start"):
        series(tmp_path / "tide.npz", start=60.0)
    grid = ds.Grid((40,), spacing=30.0, axes=("x",))
    part = FieldModel.model_validate({"file": {"path": str(tmp_path / "tide.npz"), "key": "level", "start": 60.0}}, context={})
    with pytest.raises(SceneError, match=r"start: expected none for a field that is constant in time, found 60.*; drop it"):
        build_field(part, Place(grid, grid, "fields.z", unit="m"))


STAMPS = [f"{str(date).replace('T', ' ')}" for date in DATES]
MEANT = [
    "Date Time",
    "date_time",
    "Date/Time",
    "DateTime",
    "Timestamp",
    "Time (UTC)",
    "Date (UTC)",
    "Date Time (GMT)",
    "time_utc",
    "Time [UTC]",
]
UNUSUAL = ["obs time", "when", "release date time", "Zeit", "time step", "x"]
"""Names that mean no times by themselves; the dates under them do."""


def csv_levels(path: Path, name: str, times: list[Any], levels: list[Any]) -> Path:
    rows = [f"{time}, {level}, 0.003" for time, level in zip(times, levels, strict=True)]
    path.with_suffix(".csv").write_text("\n".join([f"{name}, level, Sigma", *rows]))
    return path.with_suffix(".csv")


@pytest.mark.parametrize("name", [*MEANT, *UNUSUAL])
def test_columns_of_dates_are_times_by_their_names_or_by_their_dates(tmp_path: Path, name: str) -> None:
    expected = 0.2 + 1e-3 * STEPS.coordinates(0)
    path = csv_levels(tmp_path / "tide", name, STAMPS, LEVELS.tolist())
    np.testing.assert_allclose(series(path, start=START), expected, rtol=1e-9)
    np.testing.assert_allclose(series(path, start=START, coordinates=[name]), expected, rtol=1e-9)
    with pytest.raises(SceneError, match=r"expected start, the date at which the run starts, for the dates of"):
        series(path)  # a row for each time step would be another series


@pytest.mark.parametrize("count", [39, 40])
def test_two_columns_of_dates_are_asked_for(tmp_path: Path, count: int) -> None:
    rows = [f"{stamp}, {stamp}, {level}" for stamp, level in zip(STAMPS[:count], LEVELS[:count].tolist(), strict=True)]
    (tmp_path / "two.csv").write_text("\n".join(["issued, valid, level", *rows]))
    with pytest.raises(SceneError, match=r"expected one array of coordinates along time, found issued and valid; name one"):
        series(tmp_path / "two.csv", start=START)
    expected = 0.2 + 1e-3 * STEPS.coordinates(0)
    np.testing.assert_allclose(series(tmp_path / "two.csv", start=START, coordinates=["valid"], extend="edge"), expected, atol=0.05)


@pytest.mark.parametrize("name", ["Date Time", "time (s)"])
@pytest.mark.parametrize("gap", [[20], [16, 17, 30]])
def test_a_gap_of_a_series_is_left_out_of_the_file(tmp_path: Path, name: str, gap: list[int]) -> None:
    """A constant in place of a gap would be a jump of the tide."""
    dated = name == "Date Time"
    times, keys = (STAMPS, {"start": START}) if dated else (TIMES.tolist(), {})
    levels = ["" if number in gap else level for number, level in enumerate(LEVELS.tolist())]
    with pytest.raises(
        SceneError, match=r"fields.tide.file: expected a number at every time step, found none at time = \d+ s.*drop the rows"
    ):
        series(csv_levels(tmp_path / "tide", name, list(times), levels), **keys)
    kept = [number for number in range(len(LEVELS)) if number not in gap]
    short = csv_levels(tmp_path / "tide", name, [times[k] for k in kept], LEVELS[kept].tolist())
    np.testing.assert_allclose(series(short, **keys), 0.2 + 1e-3 * STEPS.coordinates(0), rtol=1e-9)
