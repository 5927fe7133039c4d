"""Files as other programs write them: each convention of units, axes, missing values and clocks, beside a formula or another library.

Members are drawn from the product of all conventions, with a fixed seed; `slow` has each combination of three conventions.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import rasterio
import segyio
import xarray
from affine import Affine

import diffsim as ds
from diffsim.errors import DataError, SceneError
from diffsim.records import Layout, read_records
from diffsim.records.conventions.fills import fill_shown
from diffsim.scene import field_on_grid

GATE = 120
"""Members of the gate."""
FT = 0.3048
LENGTHS = {"m": 1.0, "km": 1e3, "cm": 1e-2, "feet": FT, "metres": 1.0, "Meter": 1.0, "": 1.0}
GRID = ds.Grid((6, 7), 500.0, origin=(1000.0, 2000.0), axes=("y", "x"))
Y, X = np.arange(0.0, 5001.0, 250.0), np.arange(1000.0, 7301.0, 300.0)
WORDS = {
    "names": ("y", "x", {}, {}),
    "capitals": ("Y", "X", {}, {}),
    "projected": ("northing", "easting", {}, {}),
    "cells": ("yc", "xc", {}, {}),
    "axis": ("rows", "columns", {"axis": "Y"}, {"axis": "X"}),
    "standard": ("a", "b", {"standard_name": "projection_y_coordinate"}, {"standard_name": "projection_x_coordinate"}),
    "crossed": ("x", "y", {"axis": "Y"}, {"axis": "X"}),  # attributes count before names
}
"""Names of the dimensions along y and x, and the attributes of their coordinates."""
MASKS = ("none", "_FillValue", "missing_value", "valid_min", "valid_max", "valid_range", "default", "packed")


def truth(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A depth in metres that is linear, so that interpolation is exact, and differs along its axes."""
    return 100.0 + 0.1 * y[:, None] + 0.03 * x[None, :]


def drawn(choices: list[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
    return random.Random(5).sample(choices, min(count, len(choices)))


def by_threes(choices: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Few members in which each combination of three entries occurs: first those that bring most combinations, and then the others."""
    threes = [(member, {*itertools.combinations(enumerate(member), 3)}) for member in drawn(choices, len(choices))]
    chosen, seen = [], set()
    for least in range(math.comb(len(choices[0]), 3), 0, -1):
        for member, own in threes:
            if len(own - seen) >= least:
                chosen.append(member)
                seen |= own
    return chosen


FIELDS = list(itertools.product(WORDS, (False, True), ("m", "km", "feet", ""), ("m", "km", "cm", "feet"), (1, -1), MASKS))


def masked(values: np.ndarray, mask: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Numbers as a file stores them, of which the last entry is missing, and the attributes that say so."""
    stored, low, high = values.copy(), values.min() - 1, values.max() + 1
    marks: dict[str, tuple[float, dict[str, Any]]] = {
        "none": (values[-1, -1], {}),
        "_FillValue": (-777.0, {"_FillValue": -777.0}),
        "missing_value": (-777.0, {"missing_value": -777.0}),
        "valid_min": (low - 50, {"valid_min": low}),
        "valid_max": (high + 50, {"valid_max": high}),
        "valid_range": (high + 50, {"valid_range": np.array([low, high])}),
        "default": (netCDF4.default_fillvals["f8"], {}),
    }
    if mask == "packed":
        scale = (values.max() - values.min()) / 60000
        packed = np.rint((values - values.mean()) / scale).astype("i2")
        packed[-1, -1] = -32768
        return packed, {"scale_factor": scale, "add_offset": values.mean(), "_FillValue": np.int16(-32768)}
    stored[-1, -1], attributes = marks[mask]
    return stored, attributes


def write_field(path: Path, member: tuple[Any, ...]) -> None:
    words, turned, place_unit, unit, way, mask = member
    y_name, x_name, y_says, x_says = WORDS[words]
    values, attributes = masked(truth(Y, X)[::way] / LENGTHS[unit], mask)
    places = {y_name: (Y[::way], y_says), x_name: (X, x_says)}
    dims = (x_name, y_name) if turned else (y_name, x_name)
    with netCDF4.Dataset(path, "w") as file:
        for name in dims:
            at, says = places[name]
            file.createDimension(name, len(at))
            variable = file.createVariable(name, "f8", (name,))
            variable[:] = at / LENGTHS[place_unit]
            variable.setncatts({**says, **({"units": place_unit} if place_unit else {})})
        fill = attributes.pop("_FillValue", None)
        variable = file.createVariable("depth", values.dtype.str[1:], dims, fill_value=fill)
        variable.set_auto_maskandscale(False)
        variable.setncatts({**attributes, "units": unit})
        variable[:] = values.T if turned else values


def check_field(path: Path, member: tuple[Any, ...]) -> None:
    words, _, place_unit, _, way, mask = member
    write_field(path, member)
    field = field_on_grid(path, GRID, "m", method="linear")
    expected = truth(GRID.coordinates(0), GRID.coordinates(1))
    close = 2e-2 if mask == "packed" else 1e-8
    np.testing.assert_allclose(field, expected, rtol=0, atol=close, err_msg=str(member))
    read = ds.records.read_field(path, axes=("y", "x"))
    with netCDF4.Dataset(path) as file:  # the library's own masks
        own = file["depth"][:]
    lost = np.ma.getmaskarray(own)
    assert np.isnan(read.values).sum() == lost.sum() == (mask != "none"), member
    y_name, x_name, *_ = WORDS[words]
    with xarray.open_dataset(path, mask_and_scale=False) as data:
        places = data[y_name].values * LENGTHS[place_unit], data[x_name].values * LENGTHS[place_unit]
    np.testing.assert_allclose(read.coordinates[0], np.sort(places[0]), rtol=1e-12)
    np.testing.assert_allclose(read.coordinates[1], places[1], rtol=1e-12)
    assert np.isnan(read.values[-1 if way == 1 else 0, -1]) == (mask != "none")


def test_fields_of_netcdf(tmp_path: Path) -> None:
    for member in drawn(FIELDS, GATE):
        check_field(tmp_path / "a.nc", member)


@pytest.mark.slow
def test_more_fields_of_netcdf(tmp_path: Path) -> None:
    for member in by_threes(FIELDS):
        check_field(tmp_path / "a.nc", member)


OTHER_FIELDS = list(
    itertools.product(("h5", "h5 scales", "npz", "npy", "bin", "tif", "asc", "xll", "sgy"), (False, True), ("m", "km", "feet"))
)


def write_other(path: Path, kind: str, turned: bool, unit: str) -> tuple[Path, dict[str, Any], float]:
    """Write a field; returns the file, the keys for facts that it does not state, and its precision."""
    values = truth(Y, X) / LENGTHS[unit]
    stored, axes = (values.T, ["x", "y"]) if turned else (values, ["y", "x"])
    if kind.startswith("h5"):
        path = path / "a.h5"
        with h5py.File(path, "w") as file:
            file["depth"] = stored
            file["depth"].attrs["units"] = unit
            for axis, at in (("y", Y), ("x", X)):
                file[axis] = at / 1000
                file[axis].attrs["units"] = "km"
            if kind == "h5 scales":
                for number, axis in enumerate(axes):
                    file[axis].make_scale(axis)
                    file["depth"].dims[number].attach_scale(file[axis])
        return path, {"key": "depth"}, 1e-12
    if kind == "npz":
        np.savez(path / "a.npz", depth=stored, y=Y, x=X)
        return path / "a.npz", {"key": "depth", "coordinates": ["y", "x"], "axes": axes, "unit": unit}, 1e-12
    spaced = {"spacing": [250.0, 300.0], "origin": [0.0, 1000.0], "axes": axes, "unit": unit}
    if kind == "npy":
        np.save(path / "a.npy", stored)
        return path / "a.npy", spaced, 1e-12
    if kind == "bin":
        stored.astype("<f4").tofile(path / "a.bin")
        return path / "a.bin", {**spaced, "shape": list(stored.shape)}, 1e-6
    if kind == "sgy":
        traces(path / "a.sgy", stored, None)
        return path / "a.sgy", spaced, 1e-6
    if kind == "tif":
        transform = Affine(300.0, 0.0, X[0] - 150, 0.0, -250.0, Y[-1] + 125)
        profile = {"driver": "GTiff", "height": len(Y), "width": len(X), "count": 2, "dtype": "float64", "transform": transform}
        with rasterio.open(path / "a.tif", "w", crs="EPSG:32631", nodata=-5.0, **profile) as file:
            file.write(np.zeros_like(values), 1)
            file.write((values[::-1] - 7.0) / 2.0, 2)
            file.scales, file.offsets, file.units = (1.0, 2.0), (0.0, 7.0), ("", unit)
        return path / "a.tif", {"key": "2"}, 1e-12
    size, columns = 250.0, np.arange(1000.0, 7001.0, 250.0)
    rows = "\n".join(" ".join(f"{v!r}" for v in row.tolist()) for row in truth(Y, columns)[::-1] / LENGTHS[unit])
    head = {"ncols": len(columns), "nrows": len(Y), "xllcorner": 1000.0 - size / 2, "yllcorner": -size / 2, "cellsize": size}
    text = "".join(f"{name} {value}\n" for name, value in head.items())
    if kind == "xll":
        head = {"mx": len(columns), "my": len(Y), "xlower": 1000.0, "ylower": 0.0, "cellsize": size, "nodata_value": -1}
        text = "".join(f"{value} {name}\n" for name, value in head.items())
    (path / "a.asc").write_text("\ufeff" * turned + text + rows, encoding="utf-8")
    return path / "a.asc", {"unit": unit}, 1e-12


@pytest.mark.parametrize(("kind", "turned", "unit"), OTHER_FIELDS)
def test_fields_of_other_formats(kind: str, turned: bool, unit: str, tmp_path: Path) -> None:
    path, keys, close = write_other(tmp_path, kind, turned, unit)
    field = field_on_grid(path, GRID, "m", method="linear", **keys)
    np.testing.assert_allclose(field, truth(GRID.coordinates(0), GRID.coordinates(1)), rtol=2 * close)


TIME_UNITS = {"s": 1.0, "ms": 1e-3, "min": 60.0, "hours": 3600.0, "": 1.0}
CLOCKS = ("plain", "since", "dates")
ORDERS = (("time", "station"), ("station", "time"))
RECORDS = list(
    itertools.product(
        ("nc", "nc group", "h5", "h5 scales", "npz", "wide", "long", "sgy", "sgy little"),
        TIME_UNITS,
        ("m", "cm", "km", "feet"),
        ORDERS,
        ("m", "cm", None),
        CLOCKS,
        ("m", "km", "feet"),
    )
)
SAMPLES, STATIONS = 12, 5
TIMES = 30.0 * np.arange(SAMPLES)
PLACES = np.random.default_rng(1).uniform(1000, 4000, (STATIONS, 2))
VALUES = np.random.default_rng(2).standard_normal((SAMPLES, STATIONS))
SIGMA = np.random.default_rng(3).uniform(1, 2, (SAMPLES, STATIONS))
BEGIN = np.datetime64("2011-03-11T05:46:00")


def traces(path: Path, values: np.ndarray, head: dict[int, np.ndarray] | None, endian: str = "big", **file_head: int) -> None:
    """A SEG-Y file of values (samples, traces)."""
    spec = segyio.spec()
    spec.format, spec.samples, spec.tracecount, spec.endian = 5, list(range(len(values))), values.shape[1], endian
    with segyio.create(path, spec) as file:
        file.bin = {segyio.BinField.Interval: 30000, **{getattr(segyio.BinField, name): number for name, number in file_head.items()}}
        for number in range(values.shape[1]):
            file.header[number] = {segyio.TraceField.FieldRecord: 1, **{word: int(v[number]) for word, v in (head or {}).items()}}
            file.trace[number] = values[:, number].astype("f4")


def write_records(folder: Path, member: tuple[Any, ...]) -> tuple[Path, Layout, dict[str, Any]]:
    """Write records. Returns the file, the layout with the facts that it does not state, and the unusual part of the expected result."""
    kind, time_unit, unit, order, sigma_unit, clock, place_unit = member
    size, spread = LENGTHS[unit], None if sigma_unit is None else SIGMA / LENGTHS[sigma_unit]
    stored = VALUES / size
    dated = clock == "dates"
    instants = BEGIN + np.round(TIMES * 1e3).astype("m8[ms]")
    ticks = TIMES / TIME_UNITS[time_unit]
    says = f"{time_unit or 's'} since 2011-03-11 06:46:00 +01:00" if clock == "since" else time_unit
    epoch = None if clock == "plain" else BEGIN
    turned = order == ORDERS[1]
    arrays = {"values": stored.T if turned else stored} | ({} if spread is None else {"sigma": spread.T if turned else spread})
    axes, sigma = ("y", "x"), None if spread is None else "sigma"
    places = {axis: PLACES[:, k] / LENGTHS[place_unit] for k, axis in enumerate(axes)}
    if kind.startswith("nc"):
        prefix = "gauges/" if kind == "nc group" else ""
        with netCDF4.Dataset(folder / "a.nc", "w") as file:
            group = file.createGroup("gauges") if prefix else file
            group.createDimension("time", SAMPLES)
            group.createDimension("station", STATIONS)
            for name, values, dims, own in (
                ("time", ticks, ("time",), says if clock != "dates" else f"{time_unit or 's'} since 2011-03-11T05:46"),
                *((axis, at, ("station",), place_unit) for axis, at in places.items()),
                *((name, values, order, unit if name == "values" else sigma_unit) for name, values in arrays.items()),
            ):
                variable = group.createVariable(name, "f8", dims)
                variable[:] = values
                if own:
                    variable.units = own
        expected = {"epoch": None if clock == "plain" else BEGIN}
        return folder / "a.nc", Layout(prefix + "values", prefix + "time", deviations=sigma and prefix + sigma, axes=axes), expected
    if kind.startswith("h5"):
        with h5py.File(folder / "a.h5", "w") as file:
            for name, values in arrays.items():
                file[name] = values
                file[name].attrs["units"] = unit if name == "values" else sigma_unit
            for axis, at in places.items():
                file[axis] = at
                file[axis].attrs["units"] = np.bytes_(place_unit)
            file["time"] = [str(t) for t in instants] if dated else ticks
            if not dated and says:
                file["time"].attrs["units"] = says
            if kind == "h5 scales":
                for name in arrays:
                    for number, label in enumerate(order):
                        file[name].dims[number].label = label
        return folder / "a.h5", Layout(deviations=sigma, axes=axes), {"epoch": epoch}
    if kind == "npz":
        places_in_m = {"coordinates": PLACES}
        np.savez(folder / "a.npz", times=instants if dated else ticks, **arrays, **places_in_m)
        layout = Layout(deviations=sigma, axes=axes, unit=unit, time_unit=None if dated else time_unit or None)
        return folder / "a.npz", layout, {"epoch": BEGIN if dated else None, "sigma in the unit of the values": True}
    if kind == "wide":
        head = ["time" if dated or not time_unit else f"time ({time_unit})", *(f"S{k} [{unit}]" for k in range(STATIONS))]
        rows = [
            [t, *map(repr, row)] for t, row in zip(map(str, instants) if dated else map(repr, ticks.tolist()), stored.tolist(), strict=True)
        ]
        (folder / "a.csv").write_text("\ufeff" + "\n".join(",".join(row) for row in [head, *rows]), encoding="utf-8")
        return folder / "a.csv", Layout(axes=axes), {"epoch": BEGIN if dated else None, "places": False, "sigma": False}
    if kind == "long":
        head = ["time" if dated or not time_unit else f"time [{time_unit}]", "receiver", f"value [{unit}]"]
        head += [f"{axis} [{place_unit}]" for axis in axes] + ([] if spread is None else [f"sigma [{sigma_unit}]"])
        rows = []
        for (i, t), k in itertools.product(enumerate(map(str, instants) if dated else map(repr, ticks.tolist())), range(STATIONS)):
            rows.append([t, f"S{k}", repr(float(stored[i, k])), *(repr(float(at[k])) for at in places.values())])
            rows[-1] += [] if spread is None else [repr(float(spread[i, k]))]
        (folder / "a.csv").write_text("\n".join(";".join(row) for row in [head, *rows]), encoding="utf-8")
        return folder / "a.csv", Layout(deviations=sigma, axes=axes), {"epoch": BEGIN if dated else None}
    # SEG-Y: 30 ms between samples stand for 30 s, so dt says it; lengths are in m or feet, in hundredths
    system = 2 if place_unit == "feet" else 1
    words = {"y": segyio.TraceField.GroupY, "x": segyio.TraceField.GroupX}
    feet = FT if system == 2 else 1.0
    header: dict[int, np.ndarray] = {words[axis]: np.rint(100 * PLACES[:, k] / feet) for k, axis in enumerate(axes)}
    header[segyio.TraceField.SourceGroupScalar] = np.full(STATIONS, -100)
    header[segyio.TraceField.TraceValueMeasurementUnit] = np.full(STATIONS, 5)
    traces(folder / "a.sgy", VALUES, header, "little" if kind == "sgy little" else "big", MeasurementSystem=system)
    return folder / "a.sgy", Layout(dt=30.0, axes=axes), {"epoch": None, "sigma": False, "close": 1e-2}


def check_records(folder: Path, member: tuple[Any, ...]) -> None:
    path, layout, expected = write_records(folder, member)
    (records,) = read_records(path, layout)
    message = str(member)
    np.testing.assert_allclose(records.times, TIMES, rtol=1e-9, atol=1e-6, err_msg=message)
    metres = records.in_unit("m")
    np.testing.assert_allclose(metres.values, VALUES, rtol=1e-6, err_msg=message)
    if member[4] is not None and expected.get("sigma", True):
        same = LENGTHS[member[2]] / LENGTHS[member[4]] if expected.get("sigma in the unit of the values") else 1.0
        np.testing.assert_allclose(metres.deviation, SIGMA * same, rtol=1e-9, err_msg=message)
    if expected.get("places", True):
        np.testing.assert_allclose(records.coordinates, PLACES, rtol=0, atol=expected.get("close", 1e-6), err_msg=message)
    assert records.epoch == expected["epoch"], message


def test_records_of_all_formats(tmp_path: Path) -> None:
    for member in drawn(RECORDS, GATE):
        check_records(tmp_path, member)


@pytest.mark.slow
def test_more_records_of_all_formats(tmp_path: Path) -> None:
    for member in by_threes(RECORDS):
        check_records(tmp_path, member)


def refusals(folder: Path) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Files that two readings fit, or whose parts contradict each other: the values, and the words of the message."""
    square = np.arange(36.0).reshape(6, 6)
    grid = ds.Grid((6, 6), 10.0, axes=("z", "x"))
    for name in ("npy", "npz", "h5", "bin"):
        path = folder / f"square.{name}"
        keys: dict[str, Any] = {} if name in ("npy", "bin") else {"key": "c"}
        if name == "npy":
            np.save(path, square)
        elif name == "npz":
            np.savez(path, c=square)
        elif name == "bin":
            square.astype("<f4").tofile(path)
        else:
            with h5py.File(path, "w") as file:
                file["c"] = square
        yield f"square {name}", (field_on_grid, (path, grid), keys), ("square", "(z, x)", "(x, z)", '["z", "x"]')
    for order in (["time", "receiver"], None):
        np.savez(folder / "r.npz", values=square, times=np.arange(6.0))
        if order is None:
            yield (
                "square records",
                (read_records, (folder / "r.npz",), {}),
                ("r.npz, values", "(time, receiver)", '["time", "receiver"]'),
            )
    np.savez(folder / "cube.npz", values=np.random.default_rng(1).random((6, 6, 6)), times=np.arange(6.0))
    yield "cube of records", (read_records, (folder / "cube.npz",), {}), ("cube.npz, values", "(shot, time, receiver)", "order of its axes")
    for unit, wanted in itertools.product(("Pa", "s", "snorks", "degC", "m/s"), ("m", "kg/m3")):
        write_unit(folder / "u.nc", unit, "m")
        yield f"{unit} for {wanted}", (field_on_grid, (folder / "u.nc", GRID, wanted), {}), ("u.nc, depth", wanted, unit)
    for unit in ("s", "degree", "furlong/s"):
        write_unit(folder / "p.nc", "m", unit)
        yield f"{unit} for places", (field_on_grid, (folder / "p.nc", GRID, "m"), {}), ("p.nc, depth, ", "expected", unit)
    for name, fill in itertools.product(("npy", "nc"), (-9999.0, 9999.0, -32768.0, 1e20, 99999.0)):
        values = truth(GRID.coordinates(0), GRID.coordinates(1))
        values[2, 3] = fill
        path = folder / f"fill.{name}"
        if name == "npy":
            np.save(path, values)
        else:
            xarray.DataArray(values, dims=("y", "x"), coords={"y": GRID.coordinates(0), "x": GRID.coordinates(1)}, name="depth").to_netcdf(
                path, encoding={"depth": {"_FillValue": None}}
            )
        yield f"{fill} in {name}", (field_on_grid, (path, GRID, "m"), {}), ("fill", f"missing = {fill_shown(fill)}", "1 place")
    for fill, count in ((-9999.0, 1), (-99.0, 30), (65535.0, 2), (-32768.0, 1)):
        values = 40.0 * truth(Y, X) - 7000.0  # from -3000 to 25 000
        values.flat[:: values.size // count] = fill
        np.savez(folder / "close.npz", c=values)
        spaced = {"key": "c", "spacing": [250.0, 300.0], "origin": [0.0, 1000.0]}
        yield (
            f"{fill} beside others",
            (field_on_grid, (folder / "close.npz", GRID), spaced),
            ("close.npz", f"missing = {fill_shown(fill)}", "[]"),
        )
    with netCDF4.Dataset(folder / "both.nc", "w") as file:
        for axis in ("y", "x"):
            file.createDimension(axis, 6)
            file.createVariable(axis, "f8", (axis,))[:] = 10.0 * np.arange(6)
        file.createVariable("c", "f8", ("y", "x"))[:] = square
    yield (
        "axes against the file",
        (field_on_grid, (folder / "both.nc", ds.Grid((6, 6), 10.0)), {"axes": ["x", "y"]}),
        ("both.nc, c", 'the order ["x", "y"]'),
    )
    head = {segyio.TraceField.TRACE_SAMPLE_INTERVAL: np.full(3, 2000)}
    traces(folder / "step.sgy", np.ones((4, 3)), head)
    yield "steps of SEG-Y", (read_records, (folder / "step.sgy",), {}), ("step.sgy", "30 ms", "2 ms", "dt")
    head = {segyio.TraceField.CoordinateUnits: np.full(3, 4), segyio.TraceField.GroupX: np.arange(1, 4)}
    traces(folder / "dms.sgy", np.ones((4, 3)), head)
    yield "degrees in digits", (read_records, (folder / "dms.sgy", Layout(axes=("x",))), {}), ("dms.sgy", "CoordinateUnits")
    words_of_place = {"SourceX": np.array([0, 100, 200]), "GroupX": np.arange(3)}
    traces(folder / "stream.sgy", np.ones((4, 3)), {getattr(segyio.TraceField, word): at for word, at in words_of_place.items()})
    yield "shots without numbers", (read_records, (folder / "stream.sgy", Layout(axes=("x",))), {}), ("stream.sgy", "field record", "9-12")
    np.savez(folder / "dt.npz", values=np.ones((4, 3)), times=0.5 * np.arange(4.0))
    yield "dt beside times", (read_records, (folder / "dt.npz", Layout(dt=0.4)), {}), ("dt.npz, times", "0.4", "0.5", "drop dt")
    write_unit(folder / "s.nc", "m", "m")
    yield "spacing beside places", (field_on_grid, (folder / "s.nc", GRID, "m"), {"spacing": 250.0}), ("s.nc, depth", "spacing", "drop it")
    np.savez(folder / "named.npz", c=square, yy=10.0 * np.arange(6), xx=10.0 * np.arange(6))
    named = (field_on_grid, (folder / "named.npz", ds.Grid((6, 6), 10.0)), {"key": "c", "coordinates": ["yy", "xx"]})
    yield "square with coordinates", named, ("named.npz, c", "(y, x)", "(x, y)", "order of its axes")
    with netCDF4.Dataset(folder / "half.nc", "w") as file:
        for axis in ("y", "x"):
            file.createDimension(axis, 6)
        file.createVariable("y", "f8", ("y",))[:] = 50.0 - 10.0 * np.arange(6)
        file.createVariable("c", "f8", ("y", "x"))[:] = square
    yield "coordinates along one axis", (field_on_grid, (folder / "half.nc", ds.Grid((6, 6), 10.0)), {}), ("half.nc, c", "along x")
    np.savez(folder / "time.npz", values=np.ones((4, 3)), times=3.0)
    yield "a single time", (read_records, (folder / "time.npz",), {}), ("time.npz, times", "list of times")
    (folder / "sigma.csv").write_text("time,receiver,value,sigma [cm]\n0,a,1,5\n1,a,2,5\n")
    asked = Layout(deviations="sigma")
    yield "deviations with a unit alone", (read_records, (folder / "sigma.csv", asked), {}), ("sigma.csv, column sigma", "cm", "give unit")
    for text, words in {
        "time,a\n0,1_000\n1,2\n": ("line 2", "column a", "'1_000'"),
        "time,a\n0,2\n1,1_0.5\n": ("line 3", "column a", "'1_0.5'"),
        'time,a\n0,"1,5"\n1,"2,5"\n': ("line 2", "column a", "decimal point, or semicolons"),
        "time;a\n0;1,500\n1;2,500\n": ("line 2", "column a", "'1,500'", "1500", "1.500"),
        "time;a\n0,5;1,5\n1.5;2,5\n": ("line 3", "column time", "'1.5'", "decimal commas"),
        "time;a\n0;1,5\n1;1.234,5\n": ("line 3", "column a", "'1.234,5'", "thousands"),
        "time;a\n0;1,5\n1;1,234,5\n": ("line 3", "column a", "'1,234,5'", "correct it"),
        "time,a\n03/04/2011,1\n04/04/2011,2\n": ("column time", "'03/04/2011'", "2011-04-03 or 2011-03-04"),
        "time;a\n11.03.2011 05:46;1\n12.03.2011 05:46;2\n": ("'11.03.2011 05:46'", "2011-03-11 or 2011-11-03"),
        "time,a\n13/03/2011,1\n14/03/2011,2\n": ("'13/03/2011'", "write it as 2011-03-13"),
        "time,a\n11-03-11,1\n12-03-11,2\n": ("'11-03-11'", "year first"),
        "time,a\n2011-03-11,1\n11/04/2011,2\n": ("'11/04/2011'", "2011-04-11 or 2011-11-04"),
        ",time,a\n0,0,1\n1,1,2\n": ("column 1", "pandas", "index=False"),
        "time,a [m],b\n0,1,2\n1,1,2\n": ("b", "unit"),
        "time,a [m],b [Pa]\n0,1,2\n1,1,2\n": ("column b", "'Pa'"),
        "time [m],a\n0,1\n1,2\n": ("column time", "'m'"),
        "time,a\n2011-03-11,1\n2011-13-45,2\n": ("2011-13-45", "date"),
    }.items():
        path = folder / f"t{abs(hash(text))}.csv"
        path.write_text(text)
        yield f"csv {text!r}", (read_records, (path,), {}), (path.name, *words)
    profile = {"driver": "GTiff", "height": 2, "width": 2, "count": 1, "dtype": "complex64", "transform": Affine(1, 0, 0, 0, -1, 2)}
    with rasterio.open(folder / "c.tif", "w", **profile) as file:
        file.write(np.ones((2, 2), "complex64"), 1)
    yield "complex GeoTIFF", (field_on_grid, (folder / "c.tif", ds.Grid((2, 2), 1.0)), {}), ("c.tif", "complex", "real and imaginary")


def write_unit(path: Path, unit: str, place_unit: str) -> None:
    coordinates = {"y": ("y", Y, {"units": place_unit}), "x": ("x", X, {"units": place_unit})}
    xarray.DataArray(truth(Y, X), dims=("y", "x"), coords=coordinates, name="depth", attrs={"units": unit}).to_netcdf(path)


def test_names_of_stations_are_no_coordinates(tmp_path: Path) -> None:
    coordinates = {"time": TIMES, "station": list("abcde")}
    xarray.Dataset({"values": (("time", "station"), VALUES)}, coordinates).to_netcdf(tmp_path / "a.nc")
    np.testing.assert_array_equal(read_records(tmp_path / "a.nc")[0].values, VALUES)


def test_attributes_count_in_any_case(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["values"], file["times"] = VALUES, TIMES
        file["values"].attrs["Units"] = "km"
    np.testing.assert_allclose(read_records(tmp_path / "a.h5")[0].in_unit("m").values, 1000 * VALUES)


def test_a_column_of_a_wide_file_by_its_name(tmp_path: Path) -> None:
    """The column is a quantity, so its receiver has the name of the file: files of one program can be joined."""
    (tmp_path / "north.csv").write_text("time,height,quality\n0,1.5,9\n1,2.5,9\n")
    (records,) = read_records(tmp_path / "north.csv", Layout("height"))
    assert records.names == ("north",) and records.values.tolist() == [[1.5], [2.5]]
    with pytest.raises(DataError, match=r"north\.csv: expected one of the columns time, height, quality, found no depth"):
        read_records(tmp_path / "north.csv", Layout("depth"))


def test_a_refusal_names_the_file_the_variable_and_the_remedy(tmp_path: Path) -> None:
    count = 0
    for name, (function, args, keys), words in refusals(tmp_path):
        with pytest.raises((DataError, SceneError)) as error:
            function(*args, **keys)
        message = str(error.value)
        assert all(word in message for word in words) and "; " in message and "\n" not in message, (name, message)
        count += 1
    assert count > 40


@pytest.mark.parametrize("west", [-180.0, 0.0, -30.0])
@pytest.mark.parametrize("low", [-40.0, 170.0, 320.0, -190.0, 350.0])
def test_longitudes_wrap(west: float, low: float, tmp_path: Path) -> None:
    """A file around the globe, counted from anywhere, on a grid that may lie across its seam."""
    lon, lat = west + np.arange(0.0, 360.0, 2.0), np.arange(-10.0, 11.0, 2.0)
    wave = np.cos(np.radians(lon))[None, :] * (1 + 0.01 * lat[:, None])
    xarray.DataArray(wave, dims=("lat", "lon"), coords={"lat": lat, "lon": lon}, name="z").to_netcdf(tmp_path / "a.nc")
    grid = ds.Grid((5, 31), 1.0, (0.0, low), ("lat", "lon"))
    field = field_on_grid(tmp_path / "a.nc", grid)
    exact = np.cos(np.radians(grid.coordinates(1)))[None, :] * (1 + 0.01 * grid.coordinates(0)[:, None])
    np.testing.assert_allclose(field, exact, atol=2e-4)


def test_means_across_the_seam(tmp_path: Path) -> None:
    lon = np.arange(0.0, 360.0, 0.25)
    values = np.broadcast_to(np.where(lon < 180, lon, lon - 360), (4, len(lon)))
    xarray.DataArray(values, dims=("lat", "lon"), coords={"lat": np.arange(4.0), "lon": lon}, name="z").to_netcdf(tmp_path / "a.nc")
    grid = ds.Grid((2, 5), (1.0, 10.0), (1.0, -40.0), ("lat", "lon"))
    np.testing.assert_allclose(field_on_grid(tmp_path / "a.nc", grid, method="mean")[0], grid.coordinates(1), atol=1e-9)


def test_percent_become_fractions_where_a_field_states_no_unit(tmp_path: Path) -> None:
    write_unit(tmp_path / "a.nc", "percent", "m")
    np.testing.assert_allclose(field_on_grid(tmp_path / "a.nc", GRID), truth(GRID.coordinates(0), GRID.coordinates(1)) / 100, rtol=1e-12)


@pytest.mark.parametrize("turns", [-360.0, 0.0, 360.0])
def test_regional_longitudes_are_moved_by_a_turn(turns: float, tmp_path: Path) -> None:
    lon, lat = 228.0 + turns + np.arange(0.0, 10.0, 0.5), np.arange(40.0, 45.0, 0.5)
    xarray.DataArray(lat[:, None] + 0 * lon, dims=("lat", "lon"), coords={"lat": lat, "lon": lon}, name="z").to_netcdf(tmp_path / "a.nc")
    grid = ds.Grid((4, 5), 1.0, (40.0, -131.0), ("latitude", "longitude"))
    np.testing.assert_allclose(field_on_grid(tmp_path / "a.nc", grid), grid.coordinates(0)[:, None] + np.zeros(5))
