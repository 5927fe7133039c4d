"""Mismatches between records and a run: one line each, with the file, the trace and a remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from diffsim.base.quantities.units import factor
from diffsim.errors import DataError
from diffsim.records import Records
from diffsim.records.checks import problems, require_inside, require_measured, require_sound
from diffsim.records.conventions.fills import USUAL, fill_shown, fill_value

TIMES = np.arange(12.0)
GOOD = np.stack([np.sin(TIMES), np.cos(TIMES), np.sin(2 * TIMES)], axis=1)
GOOD[3:5, 1] = np.nan


def records(*changes: tuple[Any, int, float], **more: Any) -> Records:
    values = GOOD.copy()
    for samples, trace, value in changes:
        values[samples, trace] = value
    return replace(Records(values, TIMES, ("A", "B", "C"), where="g.csv"), **more)


ONES = np.ones_like(GOOD)
EVERY = slice(None)
CASES: dict[str, tuple[Records, str]] = {
    "inf": (records((2, 1, np.inf)), "g.csv, trace B: expected numbers, or gaps as NaN, found inf at 2 s; write NaN"),
    "gaps only": (records((EVERY, 2, np.nan)), 'g.csv, trace C: expected samples, found gaps only; drop = ["C"]'),
    "zero": (records((EVERY, 0, 0.0)), 'g.csv, trace A: expected a signal, found zeros only; drop = ["A"], or allow = ["zero"]'),
    "clipped": (
        records((slice(4, 9), 0, 7.5)),
        "trace A: expected a trace that is not clipped, found 4 or more samples on end at 7.5",
    ),
    "clipped below": (
        records((slice(4, 8), 2, -7.5)),
        "trace C: expected a trace that is not clipped, found 4 or more samples on end at -7",
    ),
    "short": (
        records(times=TIMES / 2),
        "g.csv: expected records up to the end of the run at 10 s, found their last sample at 5.5 s",
    ),
    "elsewhere": (records((slice(0, 11), 1, np.nan)), "trace B: expected samples during the run (0 to 10 s), found them from 11 to 11 s"),
    "deviation": (records(deviation=0 * ONES), "g.csv, all 3 traces: expected a deviation above 0 for each sample, found 0; correct it"),
    "weight": (records(weight=-ONES), "g.csv, all 3 traces: expected a weight of at least 0 for each sample, found -1; correct it"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_mismatch_is_one_line(name: str) -> None:
    sample, message = CASES[name]
    lines = list(problems(sample, end=10.0))
    assert message in lines[0]
    assert len(lines) == 1
    with pytest.raises(DataError) as caught:
        require_sound(sample, end=10.0)
    assert str(caught.value).splitlines()[0] == lines[0]


def test_sound_records_have_no_problem() -> None:
    """A trace that rests at zero, at a constant level, or at its greatest value for a moment, is sound."""
    sound = records((slice(0, 6), 0, 0.0), (EVERY, 1, 3.0), (slice(4, 7), 2, 2.0), weight=0 * ONES, deviation=ONES)
    assert list(problems(sound, end=10.0)) == []
    assert list(problems(records(), end=11.9)) == []


@pytest.mark.parametrize("name", ["zero", "clipped", "short"])
def test_allowed_problems(name: str) -> None:
    assert list(problems(CASES[name][0], 10.0, allow=[name])) == []


def test_many_problems_are_counted() -> None:
    clipped = np.minimum(10 * np.sin(TIMES)[:, None] + 20, np.arange(11.0, 14.0, 0.1)) * np.ones((12, 30))
    many = Records(clipped, TIMES, tuple(map(str, range(30))), where="g.csv")  # each at a level of its own
    with pytest.raises(DataError) as caught:
        require_sound(many, 10.0)
    lines = str(caught.value).splitlines()
    assert len(lines) == 11 and lines[-1] == "and 20 more"


@pytest.mark.parametrize("kind", ["gaps only", "zero", "deviation", "elsewhere"])
@pytest.mark.parametrize("which", [[0, 1], range(1, 9), range(12)])
@pytest.mark.parametrize("shot", [None, 3])
def test_one_problem_of_several_traces_is_one_line(kind: str, which: Any, shot: int | None) -> None:
    """It counts them, and names the first."""
    values, deviation = np.tile(np.sin(TIMES)[:, None] + 2, 12), np.ones((12, 12))
    for number in which:
        if kind == "deviation":
            deviation[:, number] = 0
        else:
            values[: 11 if kind == "elsewhere" else 12, number] = 0.0 if kind == "zero" else np.nan
    many = Records(values, TIMES, tuple("ABCDEFGHIJKL"), where="g.csv", deviation=deviation, shot=shot)
    lines = [line for line in problems(many, end=10.0) if "most samples" not in line]
    names = [many.names[number] for number in which]
    listed = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    expected = "all 12 traces" if len(names) == 12 else f"{len(names)} of 12 traces, {listed}"
    assert len(lines) == 1 and lines[0].startswith(f"g.csv, {expected}: expected")
    if kind in ("gaps only", "zero") and len(names) < 12:
        prefix = "" if shot is None else f"{shot}:"
        assert f'drop = ["{prefix}{names[0]}", "{prefix}{names[1]}"' in lines[0] and (", ...]" in lines[0]) == (len(names) > 5)
    assert "\0" not in lines[0]


@pytest.mark.parametrize(("start", "longer"), [(0.0, True), (30.0, True), (-5.0, False), (90.0, False)])
def test_records_longer_than_the_run_are_named_as_such(start: float, longer: bool) -> None:
    """Another remedy than that of records with a wrong unit or start."""
    tide = Records(np.sin(np.arange(100.0))[:, None], np.arange(100.0) - start, ("a",))
    with pytest.raises(DataError) as caught:
        require_sound(tide, 20.0, [] if longer else ["short"])
    assert ('if the records are longer than the run, allow = ["outside"] takes their part' in str(caught.value)) == longer
    assert 'allow = ["outside"]' in str(caught.value) and "correct time_unit or start" in str(caught.value)
    require_sound(tide, 20.0, ["outside", "short"])


def test_receivers_outside_of_the_grid() -> None:
    places = np.array([[1.0, 2.0], [5.0, 9.0], [-1.0, 3.0]])
    with pytest.raises(DataError) as caught:
        require_inside(records(coordinates=places), np.zeros(2), np.array([6.0, 8.0]), ("z", "x"))
    assert str(caught.value).splitlines() == [
        'g.csv, trace B: expected a receiver on the grid, x from 0 to 8, found x = 9; enlarge the grid, or drop = ["B"]',
        'g.csv, trace C: expected a receiver on the grid, z from 0 to 6, found z = -1; enlarge the grid, or drop = ["C"]',
    ]


def test_traces_are_left_out_by_name() -> None:
    left = records(coordinates=np.arange(6.0).reshape(3, 2)).without(["A", "C"])
    assert left.names == ("B",)
    np.testing.assert_array_equal(left.values, GOOD[:, [1]])
    np.testing.assert_array_equal(left.coordinates, [[2.0, 3.0]])
    with pytest.raises(DataError, match="expected traces of the names A, B, C, found no D"):
        records().without(["D"])
    with pytest.raises(DataError, match="found that all are left out"):
        records().without(["A", "B", "C"])


@pytest.mark.parametrize(
    ("unit", "wanted", "expected"),
    [
        ("cm", "m", 0.01),
        ("metres", "m", 1.0),
        ("kPa", "Pa", 1e3),
        ("minutes", "s", 60.0),
        ("km s-1", "m/s", 1e3),
        ("kg m⁻³", "kg/m³", 1.0),
        ("Pa s", "Pa·s", 1.0),
    ],
)
def test_units_convert(unit: str, wanted: str, expected: float) -> None:
    assert factor(unit, wanted) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(
    ("unit", "wanted"), [("Pa", "m"), ("knots", "m"), ("V", "A"), ("m s", "s"), ("m·s", "ms"), ("h Pa", "Pa"), ("m K", "K"), ("k m", "m")]
)
def test_units_that_do_not_convert(unit: str, wanted: str) -> None:
    with pytest.raises(DataError, match=rf"{wanted}.*found '{unit}'; "):
        factor(unit, wanted)


DEPTHS = np.random.default_rng(1).uniform(-5200.0, -0.5, 400)
FILLED: dict[str, tuple[list[float], float | None]] = {
    "a run of them": ([0.1, -9999.0, -9999.0, -9999.0, -9999.0, 0.3], -9999.0),
    "a single one": ([0.1, 0.2, 1e20, 0.3], 1e20),
    "of NetCDF in f32": ([0.1, float(np.float32(9.96921e36)), 0.3], float(np.float32(9.96921e36))),
    "a small one": ([10.0, -30.0, -99.99, 20.0], -99.99),
    "one of its own, repeated": ([0.1, -777.0, 0.4, -777.0], -777.0),
    "all of them": ([-9999.0, -9999.0], -9999.0),
    "with zeros": ([0.0, -999.0, 0.0], -999.0),
    "a spike": ([0.1, 0.2, 57.3, 0.3], None),
    "clipped": ([0.1, 5.0, 5.0, 5.0, 5.0, 0.6], None),
    "measured, as large": ([-999.0, 700.0, 650.0], None),
    "a spike over zeros": ([0.0, 0.0, 3.0, 3.0, 0.0], None),
    "nothing": ([], None),
    "beyond all, less than twice as large": ([*DEPTHS, -9999.0], -9999.0),
    "above all": ([*-0.001 * DEPTHS, 9999.0, 65535.0], 65535.0),
    "unsigned": ([*-10.0 * DEPTHS, 65535.0], 65535.0),
    "signed": ([*4.0 * DEPTHS, -32768.0], -32768.0),
    "among them, often": ([*DEPTHS, *[-99.0] * 30], -99.0),
    "among large ones": ([*-2.0 * DEPTHS, *2.0 * DEPTHS, *[-9999.0] * 40], -9999.0),
    "among them, once": ([*DEPTHS, -99.0], None),
    "among whole ones": ([*range(-5200, 3000)], None),
    "the end of whole ones": ([*range(-9999, 0)], None),
    "a layer of water": ([*np.linspace(1800.0, 2600.0, 50), *[999.0] * 50], None),
    "beside few layers": ([-999.0] * 50 + [1800.0] * 40 + [-700.0] * 30, None),
    "clipped by 16 bits": ([*np.linspace(-32768.0, 32767.0, 5000), *[32767.0] * 20], None),
    "the largest of f32": ([*DEPTHS, -3.4028235e38], -3.4028235e38),
}


@pytest.mark.parametrize("name", FILLED)
def test_fill_values(name: str) -> None:
    values, fill = FILLED[name]
    assert fill_value(np.array(values)) == fill
    if fill is not None:
        assert abs(float(fill_shown(fill)) - fill) < 1e-6 * abs(fill)
        assert fill_value(np.array(values).astype(np.float32).astype(float)) == np.float32(fill)


WAVE = np.sin(0.11 * np.arange(200.0)).round(3)
"""A tide of metres."""


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("size", [9.9, 9.99, 9.999, 9.9999, 99.0, 99.9, 99.999, 999.999])
@pytest.mark.parametrize("level", [0.0, 3.0, 7.0])
def test_nines_of_narrow_columns_are_fill_values(sign: float, size: float, level: float) -> None:
    """As 9.999 in a column of the form f5.3; 7 + 1 is within a fifth of 9.9, and yet lies further from it than samples from each other."""
    for at in ([17, 18, 90], [0, 1], [5, 199]):
        values = sign * (level + WAVE)
        values[at] = sign * size
        assert fill_value(values) == fill_value(values, repeated=False) == sign * size
        values[at[1:]] = WAVE[at[1:]] + sign * level  # once, it may be a spike
        if len(at) == 2 and not np.isclose(sign * size, USUAL).any():
            assert fill_value(values) is None
    few = sign * np.array([0.1, 0.2, size, 0.4, size])
    assert fill_value(few) == sign * size
    assert np.isclose(sign * size, USUAL).any() or fill_value(few, repeated=False) is None


@pytest.mark.parametrize("size", [9.9, 9.99, 99.0])
def test_nines_among_measured_numbers_are_measured(size: float) -> None:
    rising = np.linspace(0.0, 1.2 * size, 200)
    for values in (
        np.array([*rising, size, size]),
        np.array([*rising[rising < size], size, size]),
        np.array([*-rising, *rising, -size, -size]),
    ):
        assert fill_value(values) is None
    assert fill_value(np.array([0.0, 0.0, size, size, 0.0])) is None


def test_a_fill_value_names_the_key() -> None:
    with pytest.raises(DataError) as caught:
        require_measured(records((slice(2, 6), 0, -9999.0), (7, 2, 1e20)))
    first, second = str(caught.value).splitlines()
    assert (
        first.startswith("g.csv, trace A: expected measured values, found -9999 at 4 samples from 2 s on") and "missing = -9999 " in first
    )
    assert "trace C" in second and "missing = 1e+20 " in second
    require_measured(records())
    require_measured(records((2, 0, -9999.0)), ["fill"])
