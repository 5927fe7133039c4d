"""Records out of files that other libraries wrote, and messages for files that are broken."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import segyio
import xarray

from diffsim.errors import DataError
from diffsim.records import Layout, Records, read_field, read_records
from tests.records import surveys
from tests.records.surveys import AXES, LONG, PLACES, SIGMA, TIMES, VALUES

ALL = Layout(axes=AXES, deviations="sigma")
WRITERS: dict[str, tuple[Callable[[Path], Path], Layout]] = {
    "a.npz": (surveys.npz, ALL),
    "a.h5": (surveys.hdf5, ALL),
    "a.nc": (surveys.netcdf, ALL),
    "turned.nc": (lambda path: surveys.netcdf(path, turned=True), ALL),
    "long.csv": (surveys.long, ALL),
}


def require_same(records: Records) -> None:
    np.testing.assert_array_equal(records.values, VALUES)
    np.testing.assert_allclose(records.times, TIMES, rtol=1e-15)


@pytest.mark.parametrize("name", WRITERS)
def test_everything_is_read(name: str, tmp_path: Path) -> None:
    write, layout = WRITERS[name]
    (records,) = read_records(write(tmp_path / name), layout)
    require_same(records)
    np.testing.assert_array_equal(records.coordinates, PLACES)
    assert records.deviation is not None
    np.testing.assert_array_equal(records.deviation[2], SIGMA)
    assert records.unit == ("cm" if name.endswith(("h5", "nc")) else "")
    assert records.names == (("north", "south") if name == "long.csv" else ("0", "1"))


def test_an_array_alone(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", VALUES)
    (records,) = read_records(tmp_path / "a.npy", Layout(dt=0.5, unit="mm"))
    require_same(records)
    assert records.unit == "mm" and records.coordinates is None
    np.save(tmp_path / "shots.npy", [VALUES, 2 * VALUES, 3 * VALUES])
    shots = read_records(tmp_path / "shots.npy", Layout(dt=0.5))
    assert len(shots) == 3
    np.testing.assert_array_equal(shots[2].values, 3 * VALUES)


@pytest.mark.parametrize("split", [",", ";", "\t"])
def test_a_wide_table_with_its_stations(split: str, tmp_path: Path) -> None:
    path = surveys.wide(tmp_path / "a.csv")
    path.write_text("# metres\n" + path.read_text().replace(",", split).replace("\r\n", "\r\n\r\n", 1))
    stations = surveys.wide(
        tmp_path / "stations.csv", ("receiver", "y", "x"), [["south", 45.5, 30.0], ["other", 0, 0], ["north", 25.0, 10.0]]
    )
    (records,) = read_records(path, Layout(axes=AXES, stations=stations, time_unit="min"))
    np.testing.assert_array_equal(records.times, 60 * TIMES)
    np.testing.assert_array_equal(records.values, VALUES)
    np.testing.assert_array_equal(records.coordinates, PLACES)
    assert records.names == ("north", "south")


def test_a_long_table_with_unequal_sampling_and_shots(tmp_path: Path) -> None:
    rows = [["a", "A", 0.0, 1.0], ["a", "A", 1.0, 2.0], ["a", "B", 0.25, 3.0], ["b", "A", 0.5, 4.0], ["b", "B", 0.5, ""]]
    one, two = read_records(surveys.wide(tmp_path / "a.csv", ("shot", "gauge", "t", "value"), rows), Layout(receiver="gauge"))
    np.testing.assert_array_equal(one.times, [0.0, 0.25, 1.0])
    np.testing.assert_array_equal(one.values, [[1.0, np.nan], [np.nan, 3.0], [2.0, np.nan]])
    np.testing.assert_array_equal(two.times, [0.5])
    np.testing.assert_array_equal(two.values, [[4.0, np.nan]])


def test_segy(tmp_path: Path) -> None:
    """Shots by field record, coordinates with their scalar, z downwards."""
    one, two = read_records(surveys.segy(tmp_path / "a.sgy", shots=(7, 3)), Layout(axes=("z", "x", "y"), unit="Pa"))
    clean = np.nan_to_num(VALUES)
    np.testing.assert_array_equal(one.values, clean)
    np.testing.assert_array_equal(two.values, 2 * clean)
    np.testing.assert_allclose(one.times, 1e-3 * TIMES, rtol=1e-12, atol=1e-18)
    np.testing.assert_allclose(one.coordinates, np.column_stack([[25.0, 25.0], PLACES]))
    assert "field record 3" in two.where and one.unit == "Pa"


def test_packed_numbers_and_those_that_are_missing(tmp_path: Path) -> None:
    dataset = xarray.Dataset({"values": (("time", "gauge"), VALUES), "time": ("time", TIMES)})
    packed = {"values": {"dtype": "int16", "scale_factor": 0.125, "_FillValue": -999}}
    dataset.to_netcdf(tmp_path / "a.nc", engine="netcdf4", encoding=packed)
    (records,) = read_records(tmp_path / "a.nc", Layout())
    require_same(records)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["shot/eta"] = np.nan_to_num(VALUES, nan=-999.0)
        file["shot/eta"].attrs["_FillValue"] = -999.0
    (records,) = read_records(tmp_path / "a.h5", Layout(values="shot/eta", dt=0.5))
    require_same(records)


STORED = np.array([[100, -999], [-32768, 7], [0, 32767]], "i2")
"""Packed numbers, of which -999 and 7 are missing."""


def with_h5py(path: Path, values: np.ndarray, **attributes: Any) -> Path:
    with h5py.File(path, "w") as file:
        file["values"] = values
        file["values"].attrs.update(attributes)
    return path


def with_netcdf4(path: Path, values: np.ndarray, **attributes: Any) -> Path:
    with netCDF4.Dataset(path, "w") as file:
        for name, length in zip(("time", "gauge"), values.shape, strict=True):
            file.createDimension(name, length)
        variable = file.createVariable("values", values.dtype, ("time", "gauge"), fill_value=attributes.pop("_FillValue", None))
        variable.set_auto_maskandscale(False)
        variable.setncatts(attributes)
        variable[:] = values
    return path


PACKERS = {"a.h5": with_h5py, "a.nc": with_netcdf4}


@pytest.mark.parametrize("name", PACKERS)
def test_numbers_packed_by_the_cf_conventions(name: str, tmp_path: Path) -> None:
    expected = np.array([[1.2, np.nan], [-327.48, np.nan], [0.2, 327.87]])
    attributes = {"_FillValue": np.int16(-999), "missing_value": np.array([7, 8], "i2"), "scale_factor": 0.01, "add_offset": 0.2}
    (records,) = read_records(PACKERS[name](tmp_path / name, STORED, **attributes), Layout(dt=1.0))
    np.testing.assert_allclose(records.values, expected, rtol=1e-14)
    field = read_field(tmp_path / name, "values")
    np.testing.assert_allclose(field.values, expected, rtol=1e-14)


ORDER = ("time", "receiver")
"""Orders of arrays of two rows and two columns, whose dimensions nothing names."""


@pytest.mark.parametrize("name", PACKERS)
def test_a_mark_counts_in_the_type_of_the_values(name: str, tmp_path: Path) -> None:
    values = np.array([[1.5, -9999.9], [2.5, 3.5]], "f4")
    attributes = {"missing_value": -9999.9} if name == "a.h5" else {"_FillValue": np.float32(-9999.9)}
    (records,) = read_records(PACKERS[name](tmp_path / name, values, **attributes), Layout(dt=1.0, order=ORDER))
    np.testing.assert_array_equal(records.values, [[1.5, np.nan], [2.5, 3.5]])


@pytest.mark.parametrize("name", PACKERS)
def test_unsigned_numbers(name: str, tmp_path: Path) -> None:
    values = np.array([[-1, -2], [0, 127]], "i1")
    (records,) = read_records(PACKERS[name](tmp_path / name, values, _Unsigned="true", _FillValue=np.int8(-1)), Layout(dt=1.0, order=ORDER))
    np.testing.assert_array_equal(records.values, [[np.nan, 254.0], [0.0, 127.0]])


@pytest.mark.parametrize("name", PACKERS)
@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"scale_factor": "ten"}, "expected a number as the attribute scale_factor, found 'ten'; write a number"),
        ({"add_offset": np.array([1.0, 2.0])}, "expected one number as scale_factor and add_offset, found several; write one"),
        ({"missing_value": "none"}, "expected a number as the attribute missing_value, found 'none'; write a number"),
    ],
)
def test_attributes_that_are_no_numbers(name: str, attributes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"a\.(h5|nc), values: {message}"):
        read_records(PACKERS[name](tmp_path / name, STORED, **attributes), Layout(dt=1.0))


def test_a_product_of_units_is_no_prefix(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.nc, times: expected a unit that converts to s, found 'm s'; correct it"):
        read_records(surveys.netcdf(tmp_path / "a.nc", clock="m s"), Layout())
    (records,) = read_records(tmp_path / "a.nc", Layout(time_unit="ms"))
    np.testing.assert_allclose(records.times, 1e-3 * TIMES)


def test_minutes_of_a_file(tmp_path: Path) -> None:
    (records,) = read_records(surveys.netcdf(tmp_path / "a.nc", clock="minutes since 2011-03-11 05:46"), Layout())
    np.testing.assert_array_equal(records.times, 60 * TIMES)


@pytest.mark.parametrize(("name", "needs"), [("a.h5", "h5py"), ("a.nc", "netCDF4"), ("a.sgy", "segyio")])
def test_a_package_that_is_missing(name: str, needs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).write_bytes(b"x")
    monkeypatch.setitem(sys.modules, needs, None)
    with pytest.raises(DataError, match=rf"expected the package {needs}, .*python -m pip install {needs}$"):
        read_records(tmp_path / name)


FALLING = TIMES[::-1].copy()
ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "no values": ({"values": None}, r"expected one of the variables .*coordinates.*, found no values; name one"),
    "no times": ({"times": None}, r"found no times; name them, or give dt"),
    "no sigma": ({"sigma": None}, r"found no sigma; name one"),
    "times fall": ({"times": FALLING}, r"expected times that rise, found the other way, 2.5 and then 2 at sample 1; reverse them"),
    "a time twice": ({"times": np.array([0, 1, 1, 2, 3, 4.0])}, r"found 1 at the samples 1 and 2; delete one of each pair"),
    "a time that is none": ({"times": np.array([0, 1, np.nan, 2, 3, 4])}, r"expected finite times, found nan at sample 2"),
    "more times": ({"times": np.arange(7.0)}, r"expected 7 samples, one for each time, found values of shape \(6, 2\)"),
    "one coordinate too few": ({"coordinates": PLACES[:, :1]}, r"expected the shape \(receivers, 2\), found \(2, 1\); reshape"),
    "one place too many": ({"coordinates": np.ones((3, 2))}, r"expected coordinates of 2 receivers, found 3"),
    "sigma of others": ({"sigma": np.ones(3)}, r"expected one number for each receiver or sample"),
    "no numbers": ({"values": np.array([[b"a", b"b"]] * 6)}, r"expected numbers"),
}
"""Files of named arrays -> their defect."""


@pytest.mark.parametrize("problem", ARRAYS)
@pytest.mark.parametrize("kind", ["npz", "h5", "nc"])
def test_broken_arrays(kind: str, problem: str, tmp_path: Path) -> None:
    change, message = ARRAYS[problem]
    if kind == "nc":  # arrays of other lengths have axes of their own there
        change = {
            name: None if values is None else (tuple(f"{name}{k}" for k in range(values.ndim)), values) for name, values in change.items()
        }
        write: Callable[..., Path] = _netcdf_of_others
    else:
        write = {"npz": surveys.npz, "h5": surveys.hdf5}[kind]
    with pytest.raises(DataError, match=message) as caught:
        read_records(write(tmp_path / f"a.{kind}", **change), ALL)
    assert f"a.{kind}" in str(caught.value)


def _netcdf_of_others(path: Path, **change: Any) -> Path:
    variables = {"values": (("time", "gauge"), VALUES), "times": ("time", TIMES), "coordinates": (("gauge", "axis"), PLACES)}
    variables |= {"sigma": ("gauge", SIGMA), **change}
    xarray.Dataset({name: values for name, values in variables.items() if values is not None}).to_netcdf(path, engine="netcdf4")
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "h5", "nc", "sgy", "csv"])
@pytest.mark.parametrize("damage", ["cut", "other", "empty", "none", "folder", "binary"])
def test_damaged_files(kind: str, damage: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    writers: dict[str, Callable[[Path], Any]] = {
        "npy": lambda p: np.save(p, VALUES),
        "npz": surveys.npz,
        "h5": surveys.hdf5,
        "nc": surveys.netcdf,
        "sgy": surveys.segy,
        "csv": surveys.wide,
    }
    if damage == "folder":
        path.mkdir()
    elif damage == "cut":
        writers[kind](path)
        path.write_bytes(path.read_bytes()[: -7 if kind != "csv" else -1 - len(path.read_bytes().rsplit(b",", 1)[1])])
    elif damage != "none":
        path.write_bytes({"other": b"<html>not found</html>\n" * 9, "empty": b"", "binary": bytes(range(256)) * 20}[damage])
    with pytest.raises(DataError, match=rf"a\.{kind}"):
        read_records(path, Layout(dt=1.0))


TABLES: dict[str, tuple[tuple[str, ...], list[list[Any]] | None, str]] = {
    "no time": (("when", "a"), [[0, 1]], r"expected one of the columns when, a, found no times; name one"),
    "no number": (("time", "a"), [[0, 1], [1, "high"]], r"line 3, column a: expected a number, found 'high'; correct it \(a gap"),
    "a time that is a gap": (("time", "a"), [[0, 1], ["", 2]], r"line 3, column time: expected a number, found ''"),
    "times twice": (("time", "a"), [[1, 1], [0, 2], [1, 3]], r"expected one row for each time, found 1 s in the lines 2 and 4"),
    "a short row": (("time", "a", "b"), [[0, 1, 2], [1, 2]], r"line 3: expected 3 cells, as the first line has, found 2"),
    "a name twice": (("time", "a", "a"), [[0, 1, 2]], r"a name of its own for each column, found 'a' twice"),
    "no receiver": (("time",), [[0], [1]], r"expected a column for each receiver beside time, found none"),
    "no row": (("time", "a"), [], r"expected a line of names and at least one row, found 1 lines"),
    "long, no value": (("time", "receiver", "a"), [[0, "A", 1]], r"found no value; name one"),
    "long, times twice": (
        ("time", "receiver", "value"),
        [[1, "A", 1], [1, "A", 1]],
        r"trace A: expected one row for each time, .* 2 and 3;",
    ),
    "long, no sigma": (("time", "receiver", "value"), [[1, "A", 1]], r"found no sigma; name one"),
    "long, a place that moves": (LONG, [[0, "A", 1, 1, 5, 5], [1, "A", 1, 1, 5, 6]], r"trace A: expected one place in all rows, found two"),
    "a name of two lines": (("time", "a\nb"), [[0, 1]], r"line 1: expected a row in one line, found a cell that goes on in the next"),
    "a cell of two lines": (("time", "a"), [[0, 1], [1, "2\n"], [2, 3]], r"line 3: expected a row in one line, found a cell that goes on"),
    "wide, sigma": (("time", "a"), [[0, 1]], r"deviations = sigma is asked for; write a row for each sample"),
}


@pytest.mark.parametrize("problem", TABLES)
def test_broken_tables(problem: str, tmp_path: Path) -> None:
    header, rows, message = TABLES[problem]
    layout = ALL if "sigma" in problem or "moves" in problem else Layout(axes=AXES)
    with pytest.raises(DataError, match=message):
        read_records(surveys.wide(tmp_path / "a.csv", header, rows), layout)


def test_stations_that_are_missing(tmp_path: Path) -> None:
    stations = surveys.wide(tmp_path / "s.csv", ("receiver", "x", "y"), [["north", 0, 0]])
    with pytest.raises(DataError, match=r"s\.csv: expected a row for each receiver, found none for south; add it"):
        read_records(surveys.wide(tmp_path / "a.csv"), Layout(axes=AXES, stations=stations))
    surveys.wide(tmp_path / "s.csv", ("receiver", "x"), [["north", 0], ["south", 0]])
    with pytest.raises(DataError, match=r"expected one of the columns receiver, x, found no y"):
        read_records(surveys.wide(tmp_path / "a.csv"), Layout(axes=AXES, stations=stations))


def test_segy_with_several_delays(tmp_path: Path) -> None:
    path = surveys.segy(tmp_path / "a.sgy")
    with segyio.open(str(path), "r+", ignore_geometry=True) as file:
        file.header[1].update({segyio.TraceField.DelayRecordingTime: 5})
    with pytest.raises(DataError, match=r"a\.sgy: expected one delay of recording for its traces, found several"):
        read_records(path)


def test_segy_without_a_time_between_samples(tmp_path: Path) -> None:
    path = surveys.segy(tmp_path / "a.sgy")
    with segyio.open(str(path), "r+", ignore_geometry=True) as file:
        file.bin.update({segyio.BinField.Interval: 0})
    with pytest.raises(DataError, match=r"a\.sgy: expected the time between samples in its header, found 0 s; give dt"):
        read_records(path)
    (records,) = read_records(path, Layout(dt=0.25))
    np.testing.assert_allclose(records.times, 0.25 * np.arange(6))


def test_an_extension_that_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_bytes(b"x")
    with pytest.raises(DataError, match=r"expected a file that ends in \.npy, .*\.sgy, .*found .*a\.xlsx; convert it"):
        read_records(tmp_path / "a.xlsx")


def test_times_in_a_unit_that_is_no_time(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected a unit that converts to s, found 'metres'"):
        read_records(surveys.netcdf(tmp_path / "a.nc", clock="metres"), Layout())


def test_a_data_set_in_another_file_is_not_read(tmp_path: Path) -> None:
    """A file must not lead to others, which a scene may not be allowed to read."""
    surveys.hdf5(tmp_path / "b.h5")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["values"] = h5py.ExternalLink("b.h5", "values")
        layout = h5py.VirtualLayout((6, 2), float)
        layout[:] = h5py.VirtualSource(str(tmp_path / "b.h5"), "values", (6, 2))
        file.create_virtual_dataset("virtual", layout)
    for name in ("values", "virtual"):
        with pytest.raises(DataError, match=rf"expected one of the variables \(none\), found no {name}"):
            read_records(tmp_path / "a.h5", Layout(values=name, dt=1.0))


def test_rows_of_csv_may_stand_in_any_order(tmp_path: Path) -> None:
    rows = surveys.long_rows()
    mixed = [rows[number] for number in np.random.default_rng(3).permutation(len(rows))]
    (sorted_,), (records,) = (
        read_records(surveys.long(tmp_path / "l.csv", rows=each), Layout(deviations="sigma", axes=AXES)) for each in (rows, mixed)
    )
    number = [records.names.index(name) for name in sorted_.names]
    for name in ("values", "deviation"):
        np.testing.assert_array_equal(getattr(records, name)[:, number], getattr(sorted_, name))
    rows = [[t, *row] for t, row in zip(TIMES, np.nan_to_num(VALUES), strict=True)]
    (records,) = read_records(surveys.wide(tmp_path / "w.csv", rows=rows[::-1]))
    np.testing.assert_array_equal(records.times, TIMES)
    np.testing.assert_array_equal(records.values, np.nan_to_num(VALUES))
