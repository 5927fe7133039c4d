"""Zones, clocks and parts of dates as names and lines of tables write them: read as they are meant, or asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from diffsim.errors import DataError, ParameterError
from diffsim.records import read_records
from diffsim.records.conventions.clock import is_date, of_dates
from diffsim.records.conventions.records import Layout
from diffsim.records.conventions.zones import ahead_by_name
from diffsim.solvers.parts.yee import yee

HOURS = {"+9": 9.0, "+09": 9.0, "+09:00": 9.0, "-0330": -3.5, "-5": -5.0, "+5.5": 5.5, "\N{MINUS SIGN}5": -5.0, " +9": 9.0, "+9h": 9.0}
FORMS = ("Time (UTC{})", "Time [GMT{}]", "Time UTC{}", "time_utc{}", "Time (UTC{}, JST)", "Time (JST, UTC{})", "Date/Time (UTC{})")
ASKED = (
    *("Time (JST)", "Time (ART)", "Time (MSK+3)", "Time (EST5EDT)", "Time (Etc/GMT+5)", "Time (Asia/Tokyo)", "Time (Japan Standard Time)"),
    *("Time (local time)", "local_time", "Time_JST", "Date (LST/LDT)", "Time (JST, daily)"),
)
UNIVERSAL = ("time", "Time (UTC)", "Date (YYYY-MM-DD)", "Date/Time", "Time [GMT]", "time_utc", "Date (UTC, ISO 8601)", "Time (s)", "Start")


def epoch(path: Path, text: str) -> np.datetime64:
    path.write_text(text)
    (records,) = read_records(path)
    assert records.epoch is not None
    return records.epoch


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("written", HOURS)
def test_a_distance_from_utc_counts_wherever_the_name_has_it(form: str, written: str) -> None:
    assert ahead_by_name(form.format(written), "a.csv") == np.timedelta64(round(60 * HOURS[written]), "m")


@pytest.mark.parametrize("name", ASKED)
def test_a_zone_without_its_distance_is_asked_for(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected dates in UTC or with their distance from it, found the zone"):
        ahead_by_name(name, "a.csv")
    with pytest.raises(DataError, match="found the zone"):
        epoch(tmp_path / "a.csv", f'"{name}",level\n2011-03-11 00:00,0.1\n2011-03-11 00:01,0.2\n')


@pytest.mark.parametrize("name", UNIVERSAL)
def test_other_words_are_no_zones(name: str) -> None:
    assert ahead_by_name(name, "a.csv") in (None, np.timedelta64(0, "m"))


@pytest.mark.parametrize(("line", "hour"), [("UTC", 12), ("UTC+9", 3), ("GMT-3", 15), ("JST", None), ("local", None)])
def test_a_zone_in_the_line_of_units_counts(tmp_path: Path, line: str, hour: int | None) -> None:
    text = f"time,level\n{line},m\n2011-03-11T12:00,0.1\n2011-03-11T12:01,0.2\n"
    if hour is None:
        with pytest.raises(DataError, match="found the zone"):
            epoch(tmp_path / "a.csv", text)
    else:
        assert epoch(tmp_path / "a.csv", text) == np.datetime64(f"2011-03-11T{hour:02}:00")


@pytest.mark.parametrize("split", [",", ";", " "])
@pytest.mark.parametrize("first", ["2011-03-11T00:00:00Z", "2011/03/11 00:00", "11.03.2011 00:00", "2011-070T00:00"])
def test_rows_of_dates_without_a_line_of_names_lose_none(tmp_path: Path, first: str, split: str) -> None:
    rows = "".join(f"{first.replace(':00', f':{k:02}', 1) if k else first}{split}0.{k}\n" for k in range(3))
    path = tmp_path / "a.csv"
    path.write_text(rows)
    with pytest.raises(DataError, match="expected a line of names, found dates; add it"):
        read_records(path)
    if "." not in first.partition(" ")[0]:
        names = split.join(["date", "clock", "level"] if split == " " and " " in first else ["time", "level"])
        path.write_text(f"# {names}\n{rows}")
        (records,) = read_records(path)
        assert records.values.shape == (3, 1) and records.names == ("level",)


def test_temperatures_are_not_the_times_of_other_words(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("elapsed,T\n0,280.2\n60,280.1\n120,280.4\n")
    with pytest.raises(DataError, match="found no times; name one of them by times"):
        read_records(path)


@pytest.mark.parametrize("times", ["seconds", "time_s", "Time [s]", "TIME"])
def test_a_column_of_temperatures_is_not_the_times(tmp_path: Path, times: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{times},T\n0,280.2\n60,280.1\n120,280.4\n")
    (records,) = read_records(path, Layout(time_unit=None if "[" in times else "s"))
    assert records.names == ("T",) and records.times.tolist() == [0.0, 60.0, 120.0]


@pytest.mark.parametrize(
    ("head", "row", "expected"),
    [
        ("year,month,day,hour (UTC+9),level", "2011,3,11,9,0.1", "2011-03-11T00:00"),
        ("year,month,day,hour [UTC],level", "2011,3,11,9,0.1", "2011-03-11T09:00"),
        ("year,month,day,time,level", "2011,3,11,09:30,0.1", "2011-03-11T09:30"),
        ("year,doy,time,level", "2011,70,09:30,0.1", "2011-03-11T09:30"),
        ("year,month,day,hour,minute,second,level", "2011,3,11,9,30,12.5,0.1", "2011-03-11T09:30:12.500"),
        ("Year,Month,Day,Hour,Minute,Second,Hhaven", "2011,3,11,9,30,12.5,0.1", "2011-03-11T09:30:12.500"),
        ("year,month,day,hour (JST),level", "2011,3,11,9,0.1", None),
        ("YYYY,MM,DD,HHMM,level", "2011,03,11,0930,0.1", None),
        ("year,month,day,hours,level", "2011,3,11,9,0.1", None),
    ],
)
def test_hours_beside_parts_of_a_date_count_or_are_refused(tmp_path: Path, head: str, row: str, expected: str | None) -> None:
    text = f"{head}\n{row}\n{row.replace('2011', '2012', 1)}\n"
    if expected is None:
        with pytest.raises(DataError):
            epoch(tmp_path / "a.csv", text)
    else:
        assert epoch(tmp_path / "a.csv", text) == np.datetime64(expected)


def test_labels_of_stations_are_no_dates_and_no_dates_are_refused() -> None:
    assert not any(map(is_date, ("1234-567", "0042-100", "2011-367", "2011-000", "9999-001")))
    assert is_date("2011-070") and is_date("2012-366T05:00") and not is_date("2011-366")
    with pytest.raises(DataError, match="expected dates, found none"):
        of_dates([], "a.csv")


def test_sides_by_names_of_axes_keep_their_places_in_the_remedy() -> None:
    with pytest.raises(ParameterError, match=r'in the order y, x; write boundary = \("periodic", "pec"\)'):
        yee(None, {"x": "pec", "y": "periodic"}, 2)  # type: ignore[arg-type]
