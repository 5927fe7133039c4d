"""Series of a scene out of NPZ and CSV files: their times are read or asked for, whatever their name is, and never left aside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import diffsim as ds
import diffsim.scene
from diffsim.errors import DataError, SceneError
from diffsim.records import Layout, read_records

STEPS = ds.Grid((40,), spacing=0.5, axes=("time",))
RUN = STEPS.coordinates(0)
FULL = {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0, "d": 86400.0}
NAMES = {
    **dict.fromkeys(("time", "t", "times", "Time", "T", "seconds", "sec", "time_s", "t_s", "time [s]"), "s"),
    **dict.fromkeys(("time_ms", "timeMs", "milliseconds", "t_ms", "time/ms"), "ms"),
    **dict.fromkeys(("minutes", "t_min", "time_min", "timeMin"), "min"),
    **dict.fromkeys(("hours", "t_h", "time_hours"), "h"),
    **dict.fromkeys(("days", "MJD", "time_days"), "d"),
}
"""Name of times -> the unit that it means."""


def level(at: np.ndarray) -> np.ndarray:
    return 3.0 + 0.25 * at


def npz(path: Path, name: str, times: np.ndarray, values: np.ndarray) -> Path:
    np.savez(path / "a.npz", **{name: times, "level": values})
    return path / "a.npz"


def csv(path: Path, name: str, times: np.ndarray, values: np.ndarray) -> Path:
    rows = [f"{time},{value!r}" for time, value in zip(times, values.tolist(), strict=True)]
    (path / "a.csv").write_text("\n".join([f"{name},level", *rows]))
    return path / "a.csv"


WRITERS: dict[str, Callable[[Path, str, np.ndarray, np.ndarray], Path]] = {"npz": npz, "csv": csv}


def read(path: Path, **keys: Any) -> np.ndarray:
    return ds.scene.field_on_grid(path, STEPS, "m", key="level", **keys)


@pytest.mark.parametrize("step", [0.25, 1.0])
@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("name", NAMES)
def test_times_of_every_name_are_times(tmp_path: Path, name: str, write: str, step: float) -> None:
    if write == "npz" and "[" in name:
        pytest.skip("an array has no unit in its name")
    at = np.arange(0.0, RUN[-1] + step, step)  # whole numbers from 0 too, which are no numbers of steps
    path = WRITERS[write](tmp_path, name, at / FULL[NAMES[name]], level(at))
    if NAMES[name] != "s":
        with pytest.raises(SceneError, match=f'unit of {name.replace("[", ".")}.*give time_unit = "{NAMES[name]}"'):
            read(path)
        np.testing.assert_allclose(read(path, time_unit=NAMES[name]), level(RUN), rtol=1e-12)
    else:
        np.testing.assert_allclose(read(path), level(RUN), rtol=1e-12)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("name", ["date", "time", "timestamp", "time_utc"])
def test_dates_take_no_unit(tmp_path: Path, name: str, write: str) -> None:
    dates = np.datetime64("2011-03-11T05:46") + (500 * np.arange(40)).astype("timedelta64[ms]")
    path = WRITERS[write](tmp_path, name, dates, level(RUN))
    start = "2011-03-11T05:46:00Z"
    np.testing.assert_allclose(read(path, start=start), level(RUN), rtol=1e-12)
    with pytest.raises(SceneError, match="no time_unit for dates, which have no unit, found 'min'; drop it"):
        read(path, start=start, time_unit="min")
    np.savez(tmp_path / "r.npz", **{name: dates, "values": level(RUN)})
    records = tmp_path / "r.npz" if write == "npz" else path
    with pytest.raises(DataError, match="no time_unit for dates, which have no unit, found 'h'; drop it"):
        read_records(records, Layout(times=name, time_unit="h"))


OTHERS = {"noise": np.cos(np.arange(40.0)), "numbers from 0": np.arange(40.0), "numbers from 1": np.arange(1.0, 41.0), "squares": RUN**2}
"""Arrays beside a series that are not its times."""


@pytest.mark.parametrize("name", ["dt_min", "tau_d", "other", "h", "mean_h", "water_d"])
@pytest.mark.parametrize("kind", OTHERS)
def test_other_arrays_are_no_times(tmp_path: Path, name: str, kind: str) -> None:
    np.testing.assert_array_equal(read(npz(tmp_path, name, OTHERS[kind], level(RUN))), level(RUN))


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("name", ["zeit", "elapsed", "obs", "clock"])
@pytest.mark.parametrize("step", [0.25, 7.0])
def test_numbers_that_rise_as_times_do_are_asked_for(tmp_path: Path, name: str, step: float, write: str) -> None:
    """A series with as many rows as steps would else be read row by step."""
    path = WRITERS[write](tmp_path, name, (3.0 + step * np.arange(40)).round(3), level(RUN))
    with pytest.raises(
        SceneError, match=rf'found {name}, whose numbers rise evenly as times do; .* coordinates = \["{name}"\], else leave'
    ):
        read(path)


@pytest.mark.parametrize("kind", ["datetime64", "timedelta64", "seconds since 2011-03-11", "min"])
def test_times_of_a_series_are_known_by_what_they_are(tmp_path: Path, kind: str) -> None:
    """Under any name, also where there are as many rows as steps: every second value is that of a step."""
    half, start = 0.5 * RUN, {} if kind in ("timedelta64", "min") else {"start": "2011-03-11T00:00:00Z"}
    if kind.endswith("64"):
        stamps = (1e6 * half).round().astype("timedelta64[us]")
        path = npz(tmp_path, "zeit", stamps + np.datetime64("2011-03-11") if kind == "datetime64" else stamps, level(half))
    else:
        path = tmp_path / "s.nc"
        with netCDF4.Dataset(path, "w") as file:
            file.createDimension("n", 40)
            file.createVariable("zeit", "f8", ("n",))[:] = half / 60 if kind == "min" else half
            file["zeit"].units = kind
            file.createVariable("level", "f8", ("n",))[:] = level(half)
    read_at_steps = ds.scene.field_on_grid(path, STEPS, "m", key="level", extend="edge", **start)
    np.testing.assert_allclose(read_at_steps[:20], level(RUN[:20]), rtol=1e-9)
    assert not np.allclose(read_at_steps, level(half))


@pytest.mark.parametrize("name", ["when", "obs"])
def test_a_step_of_records_agrees_with_dates_of_any_name(tmp_path: Path, name: str) -> None:
    dates = np.datetime64("2011-03-11") + (1e6 * 7.0 * RUN).astype("timedelta64[us]")
    np.savez(tmp_path / "r.npz", values=level(RUN), **{name: dates})
    with pytest.raises(DataError, match=f"{name}: expected no dt beside the times of the file"):
        read_records(tmp_path / "r.npz", Layout(dt=0.5))


@pytest.mark.parametrize("write", WRITERS)
def test_a_time_unit_needs_times(tmp_path: Path, write: str) -> None:
    path = WRITERS[write](tmp_path, "other", OTHERS["noise"], level(RUN))
    with pytest.raises(SceneError, match="expected times for time_unit = 'min', found none"):
        read(path, time_unit="min")
    with pytest.raises(SceneError, match="time_unit: expected none for a field that is constant in time, found min; drop it"):
        ds.scene.field_on_grid(path, ds.Grid((40,), 1.0), "m", key="level", time_unit="min")


def test_the_only_other_column_needs_no_key(tmp_path: Path) -> None:
    path = csv(tmp_path, "time [min]", RUN / 60, level(RUN))
    np.testing.assert_allclose(ds.scene.field_on_grid(path, STEPS, "m"), level(RUN), rtol=1e-12)


def test_a_column_is_named_with_its_unit_or_without(tmp_path: Path) -> None:
    path = csv(tmp_path, "time", RUN, level(RUN))
    path.write_text(
        path.read_text().replace("level", "level [cm],other", 1).replace("\n", ",1\n", 1 << 10).replace("other,1", "other", 1) + ",1"
    )
    for key in ("level", "level [cm]"):
        np.testing.assert_allclose(ds.scene.field_on_grid(path, STEPS, "m", key=key), 0.01 * level(RUN), rtol=1e-12)


def test_a_map_is_no_column(tmp_path: Path) -> None:
    path = csv(tmp_path, "time", RUN, level(RUN))
    with pytest.raises(SceneError, match="expected a column of coordinates along each axis, found none for y among time, level; name one"):
        ds.scene.field_on_grid(path, ds.Grid((5, 8), 1.0), "m", key="level")


@pytest.mark.parametrize("name", ["minutes", "time_ms", "seconds", "timestamps"])
def test_a_step_of_records_agrees_with_times_of_every_name(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "r.npz", values=level(RUN), **{name: 7.0 * RUN})
    with pytest.raises(DataError, match=f"{name}: expected no dt beside the times of the file"):
        read_records(tmp_path / "r.npz", Layout(dt=0.5))


@pytest.mark.parametrize(
    ("more", "words"), [(1, "found none at time = 0 s; drop"), (2, "and at 1 more time step; drop"), (4, "at 3 more time steps; drop")]
)
def test_cells_without_numbers_are_counted(tmp_path: Path, more: int, words: str) -> None:
    values = level(RUN)
    values[:more] = np.nan
    with pytest.raises(SceneError, match=words):
        read(npz(tmp_path, "time", RUN, values), method="nearest")
