"""Tables and files as archives deliver them: units in a line of their own, names behind a "#", clocks of other kinds, times of any name."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import netCDF4
import numpy as np
import pytest

from diffsim.errors import DataError
from diffsim.records import Layout, read_field, read_records

VALUES = np.array([[0.5, 1.0], [-0.25, 2.5], [1.5, np.nan], [0.75, -2.0]])
EPOCH = np.datetime64("2011-03-11T22:30:00", "us")
STAMPS = EPOCH.astype("datetime64[s]") + 1800 * np.arange(4).astype("timedelta64[s]")
"""Half hours up to midnight."""
TIMES = {"dates": "UTC", "zoned": "", "minutes": "min", "since": "minutes since 2011-03-11T22:30:00Z"}
UNITS = {"m": 1.0, "cm": 0.01, "ft": 0.3048}


def texts_of(kind: str) -> list[str]:
    if kind in ("dates", "zoned"):
        return [f"{stamp}{'Z' * (kind == 'zoned')}" for stamp in STAMPS]
    return [f"{30 * k}" for k in range(len(STAMPS))]


def cell(value: float) -> str:
    return "NaN" if np.isnan(value) else f"{value}"


@pytest.mark.parametrize(("kind", "unit", "split"), [*itertools.product(TIMES, UNITS, (",", ";", "\t"))])
def test_units_below_the_names(tmp_path: Path, kind: str, unit: str, split: str) -> None:
    """As ERDDAP writes CSV files: the numbers are in the units of that line, not in those of a reader's guess."""
    wide = [["time", "north", "south"], [TIMES[kind], unit, unit]]
    wide += [[text, *map(cell, row)] for text, row in zip(texts_of(kind), VALUES, strict=True)]
    (tmp_path / "w.csv").write_text("\n".join(map(split.join, wide)))
    (records,) = read_records(tmp_path / "w.csv")
    np.testing.assert_allclose(records.times, 1800.0 * np.arange(4))
    np.testing.assert_allclose(records.in_unit("m").values, UNITS[unit] * VALUES)
    assert records.epoch == (None if kind == "minutes" else EPOCH) and records.names == ("north", "south")
    long = [["station", "time", "value", "y", "x"], ["", TIMES[kind], unit, "km", "m"]]
    long += [
        [name, text, cell(row[k]), f"{k}.5", "3"] for k, name in enumerate("ab") for text, row in zip(texts_of(kind), VALUES, strict=True)
    ]
    (tmp_path / "l.csv").write_text("\n".join(map(split.join, long)))
    (records,) = read_records(tmp_path / "l.csv", Layout(receiver="station", axes=("y", "x")))
    np.testing.assert_allclose(records.in_unit("m").values, UNITS[unit] * VALUES)
    assert records.coordinates is not None
    np.testing.assert_allclose(records.coordinates, [[500.0, 3.0], [1500.0, 3.0]])


def test_two_units_of_a_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,north [cm]\ns,cm\n0,1\n1,2\n")
    assert read_records(tmp_path / "a.csv")[0].unit == "cm"
    (tmp_path / "a.csv").write_text("time,north [cm]\ns,m\n0,1\n1,2\n")
    with pytest.raises(DataError, match=r"line 2, column north: expected the unit cm, .* found 'm'; delete one"):
        read_records(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("time,north\ns,feathers\n0,1\n1,2\n")
    with pytest.raises(DataError, match="feathers"):
        read_records(tmp_path / "a.csv")[0].in_unit("m")
    (tmp_path / "a.csv").write_text("time,north\nwest,east\n0,1\n1,2\n")
    with pytest.raises(DataError, match="line 2, column time: expected a number, found 'west'"):
        read_records(tmp_path / "a.csv")


@pytest.mark.parametrize("split", [",", "\t", " ", "   "])
@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("mark", ["#", "# ", " ## "])
def test_names_behind_a_sign(tmp_path: Path, split: str, units: bool, mark: str) -> None:
    head = [mark + split.join(["time", "north", "south"])] + [mark + split.join(["min", "ft", "ft"])] * units
    rows = [split.join([f"{30 * k}", *map(cell, row)]) for k, row in enumerate(VALUES)]
    (tmp_path / "g.txt").write_text("\n".join(["# gauges of a bay", *head, *rows]))
    (records,) = read_records(tmp_path / "g.txt", Layout(time_unit=None if units else "min"))
    np.testing.assert_allclose(records.times, 1800.0 * np.arange(4))
    np.testing.assert_array_equal(records.values, VALUES)
    assert records.unit == "ft" * units and records.names == ("north", "south")
    out = io.StringIO()
    np.savetxt(out, np.column_stack([1800.0 * np.arange(4), VALUES]), delimiter=split, header=split.join(["time", "north", "south"]))
    (tmp_path / "s.txt").write_text(out.getvalue())
    np.testing.assert_array_equal(read_records(tmp_path / "s.txt")[0].values, VALUES)


@pytest.mark.parametrize("year", ["YY", "YYYY"])
@pytest.mark.parametrize("count", [5, 6])
@pytest.mark.parametrize("gap", ["MM", "nan"])
def test_buoys_of_noaa(tmp_path: Path, year: str, count: int, gap: str) -> None:
    """MM are months, mm minutes; T of a pressure gauge is the kind of its samples, and no time."""
    names, units = [year, "MM", "DD", "hh", "mm", "ss"][:count], ["yr", "mo", "dy", "hr", "mn", "s"][:count]
    lines = ["#" + " ".join([*names, "T", "HEIGHT", "WTMP"]), "#" + " ".join([*units, "-", "ft", "degC"])]
    for k, (stamp, row) in enumerate(zip(STAMPS, VALUES, strict=True)):
        own = str(stamp).replace("T", "-").replace(":", "-").split("-")[:count]
        lines.append("  ".join([*own, f"{k + 1}", *(gap if np.isnan(value) else f"{value}" for value in row)]))
    (tmp_path / "b.txt").write_text("\n".join(lines))
    for name, column, unit in (("HEIGHT", 0, "ft"), ("WTMP", 1, "degC")):
        (records,) = read_records(tmp_path / "b.txt", Layout(values=name))
        assert records.unit == unit and records.epoch == EPOCH
        np.testing.assert_allclose(records.times, 1800.0 * np.arange(4))
        np.testing.assert_array_equal(records.values[:, 0], VALUES[:, column])
    with pytest.raises(DataError, match=r"expected the unit ft|expected a unit"):
        read_records(tmp_path / "b.txt")


def written(stamp: np.datetime64, kind: str) -> str:
    """A date in another way of writing it."""
    text = str(stamp)
    day, clock = text.split("T")
    hour = int(clock[:2])
    if kind == "24:00":
        before = str(stamp.astype("datetime64[D]") - 1)
        return f"{before} 24:00:00" if clock == "00:00:00" else f"{day} {clock}"
    if kind == "ordinal":
        number = (stamp.astype("datetime64[D]") - stamp.astype("datetime64[Y]").astype("datetime64[D]")).astype(int) + 1
        return f"{day[:4]}-{number:03}T{clock}"
    return f"{day} {(hour - 1) % 12 + 1}{clock[2:]} {'AP'[hour // 12]}M"


@pytest.mark.parametrize("kind", ["24:00", "ordinal", "halves"])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("first", ["2011-03-11T22:30:00", "2012-02-28T23:30:00", "2011-12-31T10:30:00", "2012-12-30T22:30:00"])
def test_clocks_of_other_kinds(tmp_path: Path, kind: str, apart: bool, first: str) -> None:
    stamps = np.datetime64(first) + 1800 * np.arange(6).astype("timedelta64[s]")
    texts = [written(stamp, kind) for stamp in stamps]
    rows = [f"{text},{k}.5" for k, text in enumerate(texts)]
    head = "time,north"
    if apart:
        rows = [row.replace("T" if kind == "ordinal" else " ", ",", 1) for row in rows]
        head = "date,time,north"
    if apart and kind == "ordinal":
        rows, head = [row.replace("-", ",", 1).replace(":", ",") for row in rows], "year,doy,hour,minute,second,north"
    (tmp_path / "g.csv").write_text("\n".join([head, *rows]))
    (records,) = read_records(tmp_path / "g.csv")
    assert records.epoch == stamps[0] and records.names == ("north",)
    np.testing.assert_allclose(records.times, 1800.0 * np.arange(6))


@pytest.mark.parametrize(
    "text", ["2011-03-11 24:01", "2011-03-11 25:00", "2011-03-11 13:00 PM", "2011-03-11 0:30 AM", "2011-366T00:00", "2011-000"]
)
def test_clocks_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.csv").write_text(f"time,north\n{text},1.5\n2011-12-12T00:00,2.5\n")
    with pytest.raises(DataError, match=r"expected a (date|number)"):
        read_records(tmp_path / "g.csv")


SINCE = "minutes since 2011-03-11T22:30:00Z"


def archive(path: Path, name: str, unit: str, dimension: str, receivers: str | None) -> Path:
    """A file with times of any name, and with delays of its receivers that have a unit of time, too."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension(dimension, 4)
        file.createVariable(name, "f8", (dimension,))[:] = 30.0 * np.arange(4)
        file[name].units = unit
        axes = (dimension,) if receivers is None else (dimension, receivers)
        if receivers is not None:
            file.createDimension(receivers, 2)
            file.createVariable("delay", "f8", (receivers,))[:] = [1.0, 2.0]
            file["delay"].units = "s"
        file.createVariable("eta", "f8", axes)[:] = VALUES if receivers else VALUES[:, 0]
    return path


@pytest.mark.parametrize("name", ["ocean_time", "MT", "juld", "Time", "t_axis"])
@pytest.mark.parametrize("unit", [SINCE, "minutes"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("receivers", [None, "station"])
def test_times_of_any_name(tmp_path: Path, name: str, unit: str, own: bool, receivers: str | None) -> None:
    """One rule for records and series: an array that has a unit of time is the times."""
    path = archive(tmp_path / "a.nc", name, unit, name if own else "n", receivers)
    (records,) = read_records(path, Layout(values="eta"))
    np.testing.assert_allclose(records.times, 1800.0 * np.arange(4))
    assert records.epoch == (EPOCH if unit == SINCE else None)
    if receivers is None:
        series = read_field(path, "eta", axes=("time",))  # in s, though no units are stated
        assert series.coordinates is not None and series.coordinate_units == ("s",)
        np.testing.assert_allclose(series.coordinates[0], records.times)


def test_times_of_several_names(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.nc", "MT", SINCE, "n", None)
    with netCDF4.Dataset(path, "a") as file:
        file.createVariable("sent", "f8", ("n",))[:] = 30.0 * np.arange(4) + 5
        file["sent"].units = SINCE
    with pytest.raises(DataError, match=r"expected one array of times, found (MT and sent|sent and MT); name one by times"):
        read_records(path, Layout(values="eta"))
    assert read_records(path, Layout(values="eta", times="MT"))[0].times[1] == 1800
