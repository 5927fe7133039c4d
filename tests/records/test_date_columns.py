"""Tables with days and clocks in columns of their own, zones in names, dates in digits, and columns that are no receivers."""

from __future__ import annotations

import itertools
from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest

from diffsim.errors import DataError
from diffsim.records import Layout, Records, read_field, read_records

STAMPS = np.datetime64("2011-03-11T23:57:00") + 90 * np.arange(5).astype("timedelta64[s]")
"""Times of samples, over midnight."""
EPOCH = np.datetime64("2011-03-11T23:57:00", "us")
VALUES = np.array([0.1, 0.4, -0.2, 0.3, 0.7])
DAYS = {"-": "{0}-{1}-{2}", "/": "{0}/{1}/{2}", "digits": "{0}{1}{2}"}
CLOCKS = {"seconds": "{3}:{4}:{5}", "fraction": "{3}:{4}:{5}.000", "zone": "{3}:{4}:{5}Z"}


def parts(stamp: np.datetime64) -> list[str]:
    """Year, month, day, hour, minute and second of a date."""
    return str(stamp.astype("datetime64[s]")).replace("T", "-").replace(":", "-").split("-")


def table(path: Path, names: list[str], columns: list[list[str]], split: str = ",") -> Path:
    rows = [split.join(row) for row in zip(*columns, [f"{value}" for value in VALUES], strict=True)]
    path.write_text("\n".join([split.join([*names, "north"]), *rows]))
    return path


def require_samples(records: Records, shift: float = 0.0) -> None:
    """The samples at the dates above, of which time 0 is the first, moved by hours."""
    assert records.names == ("north",) and records.epoch == EPOCH - np.timedelta64(int(3600 * shift), "s")
    np.testing.assert_allclose(records.times, 90.0 * np.arange(5))
    np.testing.assert_array_equal(records.values[:, 0], VALUES)


@pytest.mark.parametrize(("day", "clock"), [*itertools.product(DAYS, CLOCKS)])
@pytest.mark.parametrize("names", [("date", "time"), ("Date", "Time (GMT)"), ("day", "clock"), ("time", "date"), ("Datum", "Uhrzeit")])
@pytest.mark.parametrize("split", [",", "\t", " "])
def test_days_and_clocks_in_columns_of_their_own(tmp_path: Path, day: str, clock: str, names: tuple[str, str], split: str) -> None:
    if day == "digits" and names[0] in ("Datum", "time"):
        pytest.skip("digits are days under a name that says so")
    if split == " ":
        names = (names[0], names[1].replace(" ", ""))
    columns = [[form.format(*parts(stamp)) for stamp in STAMPS] for form in (DAYS[day], CLOCKS[clock])]
    path = table(tmp_path / "g.csv", list(names), columns, split)
    require_samples(read_records(path)[0])
    for name in names:
        require_samples(read_records(path, Layout(times=name))[0])
    field = read_field(path, "north", axes=("time",), units=("s",))
    assert field.epoch == EPOCH and field.coordinates is not None
    np.testing.assert_allclose(field.coordinates[0], 90.0 * np.arange(5))


@pytest.mark.parametrize("count", [5, 6])
def test_parts_of_dates_in_columns_of_their_own(tmp_path: Path, count: int) -> None:
    names = ["year", "Month", "DAY", "hour", "minute", "second"]
    stamps = STAMPS if count == 6 else STAMPS.astype("datetime64[m]")
    columns = [[f"{int(text)}" for text in column] for column in zip(*map(parts, stamps), strict=True)][:count]
    (records,) = read_records(table(tmp_path / "g.csv", names[:count], columns))
    assert records.names == ("north",) and records.epoch == EPOCH
    np.testing.assert_allclose(records.times, (stamps - stamps[0]) / np.timedelta64(1, "s"))


def test_a_clock_without_a_day_names_what_lacks(tmp_path: Path) -> None:
    path = table(tmp_path / "g.csv", ["time"], [[CLOCKS["seconds"].format(*parts(stamp)) for stamp in STAMPS]])
    with pytest.raises(DataError, match="expected a number, found '23:57:00'; add a column of days to these clocks, or write dates"):
        read_records(path)


OFFSETS = {"(UTC+9)": 9.0, "(GMT-03:30)": -3.5, "[+09:00]": 9.0, "(-0500)": -5.0, "(UTC)": 0.0, "(Z)": 0.0}
UNKNOWN = [
    "Time (JST)",
    "time [EST]",
    "Date Time (LST/LDT)",
    "local_time",
    "time_local",
    "LocalTime",
    "time (local time)",
    "time_jst",
    "Time (Asia/Tokyo)",
]


@pytest.mark.parametrize("kind", ["csv", "npz", "h5", "two columns"])
@pytest.mark.parametrize("name", [*(f"time {offset}" for offset in OFFSETS), *UNKNOWN])
def test_a_zone_in_a_name_counts(tmp_path: Path, name: str, kind: str) -> None:
    """Dates without a zone of their own were taken to be in UTC."""
    if kind != "csv" and "/" in name:
        pytest.skip("a stroke parts groups")
    dates, path = [str(stamp) for stamp in STAMPS], tmp_path / f"g.{kind}"
    if kind == "npz":
        np.savez(path, **{name: STAMPS, "values": VALUES[:, None], "receiver": ["north"]})  # type: ignore[arg-type]
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file[name], file["values"], file["receiver"] = dates, VALUES[:, None], ["north"]
    elif kind == "csv":
        table(path, [name], [dates])
    else:
        path = table(tmp_path / "g.csv", ["date", name], [[date[:10] for date in dates], [date[11:] for date in dates]])
    if name in UNKNOWN:
        with pytest.raises(DataError, match=r"expected dates in UTC or with their distance from it, found the zone .* such as \(UTC\+9\)"):
            read_records(path, Layout(times=name))
    else:
        require_samples(read_records(path, Layout(times=name))[0], OFFSETS[name.removeprefix("time ")])


@pytest.mark.parametrize("name", ["time_jst", "local_time", "time (UTC+9)", "time"])
@pytest.mark.parametrize("zone", ["", " +09:00", "Z"])
def test_a_zone_in_the_name_of_times_since_a_date_counts(tmp_path: Path, name: str, zone: str) -> None:
    with netCDF4.Dataset(tmp_path / "g.nc", "w") as file:
        file.createDimension("n", 5)
        file.createVariable(name, "f8", ("n",))[:] = 90.0 * np.arange(5)
        file[name].units = f"seconds since 2011-03-11 23:57:00{zone}"
        file.createVariable("values", "f8", ("n",))[:] = VALUES
    layout, ahead = Layout(times=name), 9.0 if zone == " +09:00" or (not zone and "+9" in name) else 0.0
    if not zone and ("jst" in name or "local" in name):
        for read in (lambda: read_records(tmp_path / "g.nc", layout), lambda: read_field(tmp_path / "g.nc", "values", (name,), ("time",))):
            with pytest.raises(DataError, match="expected dates in UTC or with their distance from it, found the zone"):
                read()
        return
    (records,) = read_records(tmp_path / "g.nc", layout)
    field = read_field(tmp_path / "g.nc", "values", (name,), ("time",), units=("s",))
    assert records.epoch == field.epoch == EPOCH - np.timedelta64(int(3600 * ahead), "s")


@pytest.mark.parametrize("name", ["time (JST)", "time (UTC+9)"])
def test_a_zone_of_dates_counts_before_that_of_their_name(tmp_path: Path, name: str) -> None:
    require_samples(read_records(table(tmp_path / "g.csv", [name], [[f"{stamp}-02:00" for stamp in STAMPS]]))[0], -2.0)


@pytest.mark.parametrize("zone", ["JST", "EST", "LST"])
def test_a_zone_without_its_distance_from_utc_is_asked_for(tmp_path: Path, zone: str) -> None:
    path = table(tmp_path / "g.csv", ["time"], [[f"{stamp} {zone}".replace("T", " ", 1) for stamp in STAMPS]])
    with pytest.raises(DataError, match=rf"found '2011-03-11 23:57:00 {zone}'; write the distance of {zone} from UTC in its place"):
        read_records(path)


@pytest.mark.parametrize("count", [3, 5, 6])
@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_dates_in_digits_are_no_seconds(tmp_path: Path, count: int, kind: str) -> None:
    stamps = np.datetime64("2011-03-11T05:46:23") + np.arange(5).astype("timedelta64[D]")
    digits = ["".join(parts(stamp)[:count]) for stamp in stamps]
    if kind == "npz":
        np.savez(tmp_path / "g.npz", times=np.array(digits, float), values=VALUES)
    else:
        table(tmp_path / "g.csv", ["time"], [digits])
    with pytest.raises(DataError, match=rf"found {digits[0]}, which looks like the date 2011-03-11T.*; write it so, or give time_unit"):
        read_records(tmp_path / f"g.{kind}")
    (records,) = read_records(tmp_path / f"g.{kind}", Layout(time_unit="s"))
    assert records.times[0] == float(digits[0])


def test_the_basic_format_of_dates(tmp_path: Path) -> None:
    texts = ["{}{}{}T{}{}{}Z".format(*parts(stamp)) for stamp in STAMPS]
    require_samples(read_records(table(tmp_path / "g.csv", ["time"], [texts]))[0])


@pytest.mark.parametrize("name", ["Time", "TIME", "Date Time", "datetime", "timestamp", "Time (UTC)", "when"])
def test_times_of_records_have_many_names(tmp_path: Path, name: str) -> None:
    require_samples(read_records(table(tmp_path / "g.csv", [name], [[str(stamp) for stamp in STAMPS]]))[0])


def test_two_columns_of_times_are_asked_for(tmp_path: Path) -> None:
    dates = [str(stamp) for stamp in STAMPS]
    with pytest.raises(DataError, match="expected one column of times, found issued and valid; name one by times"):
        read_records(table(tmp_path / "g.csv", ["issued", "valid"], [dates, dates]))


OWNERS = ["station", "gauge", "station_id", "sensor", "Station"]
QUALITY = ["sigma", "A_flag", "north qc", "Quality", "std", "height_weight"]


@pytest.mark.parametrize("name", [*OWNERS, *QUALITY])
@pytest.mark.parametrize("entries", [["1"] * 5, ["1", "2", "1", "2", "1"]])
def test_columns_that_are_no_receivers_are_refused(tmp_path: Path, name: str, entries: list[str]) -> None:
    """Each was a trace beside that of the gauge."""
    path = table(tmp_path / "g.csv", ["time", name], [[f"{k}" for k in range(5)], entries])
    remedy = f'give receiver = "{name}" if there is a row' if name in OWNERS else "leave it out, or give values, the column of one receiver"
    with pytest.raises(DataError, match=f"expected a column for each receiver beside time, found .*; {remedy}"):
        read_records(path)
    (records,) = read_records(path, Layout(values="north"))
    np.testing.assert_array_equal(records.values[:, 0], VALUES)
    if name in OWNERS:
        long = read_records(path, Layout(receiver=name, values="north"))[0]
        assert long.names == tuple(dict.fromkeys(entries))


def test_places_are_no_receivers(tmp_path: Path) -> None:
    path = table(tmp_path / "g.csv", ["time", "y", "x"], [[f"{k}" for k in range(5)], ["3.5"] * 5, ["1.0"] * 5])
    with pytest.raises(DataError, match="found y and x, which the name says to be something else; leave them out"):
        read_records(path, Layout(axes=("y", "x")))
    assert read_records(path)[0].names == ("y", "x", "north")
