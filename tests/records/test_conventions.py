"""Files as other programs write them: each convention of units, axes, missing values and clocks, beside a formula or another library.

Members are drawn from the product of all conventions, with a fixed seed; `slow` draws more.
"""

from __future__ import annotations

import itertools
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
from diffsim.records.fills import fill_shown
from diffsim.scene import field_on_grid
from diffsim.scene.parts import Sampled
from diffsim.scene.wavelets import sampled

GATE, MORE = 200, 3000
"""Members of the gate, and of the slow test."""
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
    found = field_on_grid(path, GRID, "m", method="linear")
    expected = truth(GRID.coordinates(0), GRID.coordinates(1))
    close = 2e-2 if mask == "packed" else 1e-8
    np.testing.assert_allclose(found, expected, rtol=0, atol=close, err_msg=str(member))
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
    for member in drawn(FIELDS, MORE):
        check_field(tmp_path / "a.nc", member)


OTHER_FIELDS = list(
    itertools.product(("h5", "h5 scales", "npz", "npy", "bin", "tif", "asc", "xll", "sgy"), (False, True), ("m", "km", "feet"))
)


def write_other(path: Path, kind: str, turned: bool, unit: str) -> tuple[Path, dict[str, Any], float]:
    """Write a field; returns the file, the keys that say what it leaves open, and its precision."""
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
        return path / "a.npz", {"key": "depth", "coordinates": ["y", "x"], "order": axes, "unit": unit}, 1e-12
    spaced = {"spacing": [250.0, 300.0], "origin": [0.0, 1000.0], "order": axes, "unit": unit}
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
    found = field_on_grid(path, GRID, "m", method="linear", **keys)
    np.testing.assert_allclose(found, truth(GRID.coordinates(0), GRID.coordinates(1)), rtol=2 * close)


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
    """Write records. Returns the file, the layout that says what it leaves open, and what is expected beside the usual."""
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
    (found,) = read_records(path, layout)
    message = str(member)
    np.testing.assert_allclose(found.times, TIMES, rtol=1e-9, atol=1e-6, err_msg=message)
    metres = found.in_unit("m")
    np.testing.assert_allclose(metres.values, VALUES, rtol=1e-6, err_msg=message)
    if member[4] is not None and expected.get("sigma", True):
        same = LENGTHS[member[2]] / LENGTHS[member[4]] if expected.get("sigma in the unit of the values") else 1.0
        np.testing.assert_allclose(metres.deviation, SIGMA * same, rtol=1e-9, err_msg=message)
    if expected.get("places", True):
        np.testing.assert_allclose(found.coordinates, PLACES, rtol=0, atol=expected.get("close", 1e-6), err_msg=message)
    assert found.epoch == expected["epoch"], message


def test_records_of_all_formats(tmp_path: Path) -> None:
    for member in drawn(RECORDS, GATE):
        check_records(tmp_path, member)


@pytest.mark.slow
def test_more_records_of_all_formats(tmp_path: Path) -> None:
    for member in drawn(RECORDS, MORE):
        check_records(tmp_path, member)


def refusals(folder: Path) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Files that two readings fit, or whose parts contradict each other: what is read, and the words of the message."""
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
        yield f"square {name}", (field_on_grid, (path, grid), keys), ("square", "(z, x)", "(x, z)", 'order = ["z", "x"]')
    for order in (["time", "receiver"], None):
        np.savez(folder / "r.npz", values=square, times=np.arange(6.0))
        if order is None:
            yield (
                "square records",
                (read_records, (folder / "r.npz",), {}),
                ("r.npz, values", "(time, receiver)", 'order = ["time", "receiver"]'),
            )
    np.savez(folder / "cube.npz", values=np.random.default_rng(1).random((6, 6, 6)), times=np.arange(6.0))
    yield "cube of records", (read_records, (folder / "cube.npz",), {}), ("cube.npz, values", "(shot, time, receiver)", "order = ")
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
        yield f"{fill} in {name}", (field_on_grid, (path, GRID, "m"), {}), ("fill", f"missing = {fill_shown(fill)}", "1 places")
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
        (field_on_grid, (folder / "both.nc", ds.Grid((6, 6), 10.0)), {"order": ["x", "y"]}),
        ("both.nc, c", "order = "),
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
    yield "square with coordinates", named, ("named.npz, c", "(y, x)", "(x, y)", "order = ")
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
    (found,) = read_records(tmp_path / "north.csv", Layout("height"))
    assert found.names == ("north",) and found.values.tolist() == [[1.5], [2.5]]
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
    found = field_on_grid(tmp_path / "a.nc", grid)
    exact = np.cos(np.radians(grid.coordinates(1)))[None, :] * (1 + 0.01 * grid.coordinates(0)[:, None])
    np.testing.assert_allclose(found, exact, atol=2e-4)


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


CURVED = {
    "lat, lon": ("lat", "lon", {"units": "degrees_north"}, {"units": "degrees_east"}),
    "standard": ("a", "b", {"standard_name": "latitude"}, {"standard_name": "longitude"}),
    "projected": ("n", "e", {"standard_name": "projection_y_coordinate"}, {"axis": "X"}),
    "names": ("lat", "lon", {}, {}),
}
"""Names of coordinates over two dimensions, and what their attributes say."""
BENT = (0.0, 1e-9, 0.3)
"""By how many steps a coordinate changes along the other dimension."""


def write_curved(path: Path, words: str, bent: float, turned: bool, stated: bool, single: bool, numbered: bool) -> None:
    """The field of `truth` with coordinates over (eta, xi), or (xi, eta)."""
    y_name, x_name, y_says, x_says = CURVED[words]
    y = Y[:, None] + bent * 250.0 * np.arange(len(X)) / len(X)
    x = X[None, :] + bent * 300.0 * np.arange(len(Y))[:, None] / len(Y)
    arrays = {"depth": truth(Y, X), y_name: y + 0 * x, x_name: x + 0 * y}
    dims = ("xi", "eta") if turned else ("eta", "xi")
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("eta", len(Y))
        file.createDimension("xi", len(X))
        file.createDimension("time", 1)
        for name, values in arrays.items():
            own = ("time", *dims) if single else dims
            variable = file.createVariable(name, "f8" if name == "depth" else "f4", own)
            variable[:] = (values.T if turned else values)[None] if single else values.T if turned else values
            variable.setncatts({"depth": {"units": "m"}, y_name: y_says, x_name: x_says}[name])
        if stated:
            file["depth"].coordinates = f"{x_name} {y_name}"
        for name in dims if numbered else ():  # numbers of the cells are no coordinates
            file.createVariable(name, "f8", (name,))[:] = np.arange(file.dimensions[name].size)
        crs = file.createVariable("crs", "S1", ())  # describes the projection, and is no field
        crs.grid_mapping_name = "transverse_mercator"
        file["depth"].grid_mapping = "crs"


@pytest.mark.parametrize("words", CURVED)
@pytest.mark.parametrize("bent", BENT)
def test_coordinates_over_two_dimensions(words: str, bent: float, tmp_path: Path) -> None:
    """They are used where each changes along one dimension alone, and refused elsewhere: such a field is not read as if it were regular."""
    degrees = words in ("lat, lon", "standard", "names")
    grid = ds.Grid(GRID.shape, GRID.spacing, GRID.origin, ("lat", "lon")) if degrees else GRID
    for turned, stated, single, asked, numbered in itertools.product((False, True), repeat=5):
        if not stated and not asked and words != "names":
            continue  # nothing says that they are coordinates
        write_curved(tmp_path / "a.nc", words, bent, turned, stated, single, numbered)
        keys: dict[str, Any] = {"key": "depth"} | ({"coordinates": list(CURVED[words][:2])} if asked else {})
        if bent < 0.1:
            found = field_on_grid(tmp_path / "a.nc", grid, "m", **keys)
            np.testing.assert_allclose(found, truth(GRID.coordinates(0), GRID.coordinates(1)), rtol=1e-6)
            continue
        with pytest.raises(
            SceneError, match=rf"a\.nc, depth: .* found {CURVED[words][0]} and|and {CURVED[words][0]}.* curvilinear .*xESMF"
        ):
            field_on_grid(tmp_path / "a.nc", grid, "m", **keys)
        if not asked:
            spaced = {"spacing": [250.0, 300.0], "origin": [0.0, 1000.0], "order": ["lon", "lat"] if turned else ["lat", "lon"]}
            spaced |= {} if degrees else {"order": ["x", "y"] if turned else ["y", "x"]}
            found = field_on_grid(tmp_path / "a.nc", grid, "m", **keys, **spaced)
            np.testing.assert_allclose(found, truth(GRID.coordinates(0), GRID.coordinates(1)), rtol=1e-12)
            bare = ds.records.read_field(tmp_path / "a.nc", "depth", curvilinear="leave out")
            assert bare.coordinates is None
            with pytest.raises(DataError, match="curvilinear"):
                ds.records.read_field(tmp_path / "a.nc", "depth")


def test_meshes_in_files_without_names(tmp_path: Path) -> None:
    y, x = np.meshgrid(Y, X, indexing="ij")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["depth"], file["y"], file["x"] = truth(Y, X), y, x
    np.savez(tmp_path / "a.npz", depth=truth(Y, X).T, y=y.T, x=x.T)
    expected = truth(GRID.coordinates(0), GRID.coordinates(1))
    np.testing.assert_allclose(field_on_grid(tmp_path / "a.h5", GRID, key="depth"), expected)
    np.testing.assert_allclose(field_on_grid(tmp_path / "a.npz", GRID, key="depth", coordinates=["y", "x"]), expected)
    np.savez(tmp_path / "a.npz", depth=truth(Y, X), y=y + 0.1 * x, x=x)
    with pytest.raises(SceneError, match=r"a\.npz, depth: .*curvilinear"):
        field_on_grid(tmp_path / "a.npz", GRID, key="depth", coordinates=["y", "x"])


def test_rotated_poles_and_levels_along_the_ground(tmp_path: Path) -> None:
    rotated = {"rlat": ("rlat", Y, {"units": "degrees"}), "rlon": ("rlon", X, {"units": "degrees"})}
    xarray.DataArray(truth(Y, X), dims=("rlat", "rlon"), coords=rotated, name="depth").to_netcdf(tmp_path / "r.nc")
    true, own = (ds.Grid(GRID.shape, GRID.spacing, GRID.origin, axes) for axes in (("lat", "lon"), ("rlat", "rlon")))
    with pytest.raises(SceneError, match=r"r\.nc, depth: expected lat of the earth, found rlat of a rotated pole; regrid"):
        field_on_grid(tmp_path / "r.nc", true)
    np.testing.assert_allclose(field_on_grid(tmp_path / "r.nc", own), truth(GRID.coordinates(0), GRID.coordinates(1)))
    sigma = {"axis": "Z", "formula_terms": "s: s_rho eta: zeta depth: h"}
    levels = {"s_rho": ("s_rho", -np.arange(4.0)[::-1], sigma), "x": ("x", np.arange(4.0))}
    xarray.DataArray(np.ones((4, 4)), dims=("s_rho", "x"), coords=levels, name="c").to_netcdf(tmp_path / "s.nc")
    with pytest.raises(SceneError, match=r"s\.nc, c: expected lengths along z, found s_rho, whose heights follow by formula_terms"):
        field_on_grid(tmp_path / "s.nc", ds.Grid((4, 4), 1.0, axes=("z", "x")))


@pytest.mark.parametrize(("name", "says", "up"), [
    ("z", {"positive": "up"}, True), ("z", {"positive": "DOWN"}, False), ("z", {}, False), ("level", {"positive": "up"}, True),
    ("height", {}, True), ("depth", {}, False), ("height", {"positive": "down"}, False),
    ("v", {"axis": "Z", "standard_name": "height_above_mean_sea_level"}, True), ("v", {"axis": "Z", "standard_name": "depth"}, False),
])  # fmt: skip
def test_depths_of_heights(name: str, says: dict[str, str], up: bool, tmp_path: Path) -> None:
    """An axis z counts downwards, whichever way the file counts."""
    depth = np.arange(6.0) * 10
    coordinates = {name: (name, -depth if up else depth, says), "x": ("x", depth)}
    values = 2 * depth[:, None] + depth
    xarray.DataArray(values, dims=(name, "x"), coords=coordinates, name="c").to_netcdf(tmp_path / "a.nc")
    grid = ds.Grid((5, 5), 10.0, (5.0, 5.0), ("z", "x"))
    np.testing.assert_allclose(field_on_grid(tmp_path / "a.nc", grid), 2 * grid.coordinates(0)[:, None] + grid.coordinates(1))


def test_depths_of_receivers(tmp_path: Path) -> None:
    for positive, sign in (("up", -1.0), ("down", 1.0)):
        places = {axis: ("station", PLACES[:, k], {"positive": positive} if axis == "z" else {}) for k, axis in enumerate(("z", "x"))}
        data = xarray.Dataset({"values": (("time", "station"), VALUES), "time": ("time", TIMES)}, places)
        data.to_netcdf(tmp_path / "a.nc")
        (found,) = read_records(tmp_path / "a.nc", Layout(axes=("z", "x")))
        np.testing.assert_allclose(found.coordinates, PLACES * [sign, 1.0])


STATION_NAMES = ("Aberdeen", "Brest", "Cádiz", "D", "E5")


def write_named(path: Path, kind: str) -> Path:
    """Records whose stations have names, as NetCDF, HDF5 and NumPy write texts."""
    path = path / ("a.nc" if kind.startswith("nc") else "a.h5" if kind.startswith("h5") else "a.npz")
    if kind == "npz":
        np.savez(path, values=VALUES, times=TIMES, names=np.array(STATION_NAMES))
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["values"], file["times"], file["station"] = VALUES, TIMES, list(STATION_NAMES)
    elif kind == "nc dimension":
        xarray.Dataset({"values": (("time", "station"), VALUES), "time": TIMES, "station": list(STATION_NAMES)}).to_netcdf(path)
    else:
        characters = kind == "nc characters"
        with netCDF4.Dataset(path, "w") as file:
            group = file.createGroup("gauges") if kind == "nc group" else file
            for name, n in (("time", SAMPLES), ("where", STATIONS), ("letters", 12)):
                group.createDimension(name, n)
            group.createVariable("time", "f8", ("time",))[:] = TIMES
            values = group.createVariable("values", "f8", ("where", "time"))
            values[:] = VALUES.T
            values.coordinates = "label"
            if characters:
                letters = [list(name.encode().ljust(12, b"\0")) for name in STATION_NAMES]
                group.createVariable("label", "S1", ("where", "letters"))[:] = np.array(letters, "u1").view("S1")
            else:
                group.createVariable("label", str, ("where",))[:] = np.array(STATION_NAMES, object)
    return path


@pytest.mark.parametrize("kind", ["npz", "h5", "nc dimension", "nc characters", "nc texts", "nc group"])
def test_receivers_have_the_names_of_stations(kind: str, tmp_path: Path) -> None:
    """In messages, for `drop`, and in a file of stations. Texts of which two are alike name nothing."""
    path = write_named(tmp_path, kind)
    layout = Layout("gauges/values") if kind == "nc group" else Layout()
    (found,) = read_records(path, layout)
    np.testing.assert_array_equal(found.values, VALUES)
    assert found.names == STATION_NAMES
    assert found.trace(2).endswith("trace Cádiz") and found.without(["Brest"]).values.shape == (SAMPLES, 4)


def test_names_of_receivers_that_are_asked_for(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz", values=VALUES, times=TIMES, gauge=np.array(["a", "b", "c", "d", "a"]), code=np.array(list("vwxyz")), n=SIGMA
    )
    (found,) = read_records(tmp_path / "a.npz", Layout(receiver="code"))
    assert found.names == tuple("vwxyz")
    assert read_records(tmp_path / "a.npz")[0].names == tuple("vwxyz")
    for receiver in ("gauge", "n", "none"):
        with pytest.raises(
            DataError, match=rf"a\.npz: expected 5 different texts, one for each receiver, in {receiver}, found others; name"
        ):
            read_records(tmp_path / "a.npz", Layout(receiver=receiver))


def test_a_variable_in_a_group_is_proposed(tmp_path: Path) -> None:
    write_named(tmp_path, "nc group")
    with pytest.raises(DataError, match=r"a\.nc: expected one of the variables .*, found no values; did you mean gauges/values\?"):
        read_records(tmp_path / "a.nc")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/depth"], file["b/Depth"] = truth(Y, X), truth(Y, X)
    with pytest.raises(SceneError, match=r"a\.h5: .* found no depth; did you mean a/depth or b/Depth\?"):
        field_on_grid(tmp_path / "a.h5", GRID, key="depth")


@pytest.mark.parametrize("kind", ["scalar", "characters", "text", "number", "group", "h5"])
def test_what_describes_a_projection_is_no_field(kind: str, tmp_path: Path) -> None:
    """A file with one field needs no key, whatever stands beside it."""
    path = tmp_path / ("a.h5" if kind == "h5" else "a.nc")
    with netCDF4.Dataset(path, "w") as file:
        group = file.createGroup("model") if kind == "group" else file
        for name, at in (("y", Y), ("x", X)):
            group.createDimension(name, len(at))
            group.createVariable(name, "f8", (name,))[:] = at
        file.createDimension("letters", 5)
        dims, type_ = {"characters": (("letters",), "S1"), "text": ((), str), "number": (("letters",), "i4")}.get(kind, ((), "S1"))
        crs = file.createVariable("crs", type_, dims)
        if kind == "number":
            crs.grid_mapping_name = "mercator"
        depth = group.createVariable("depth", "f8", ("y", "x"))
        depth[:] = truth(Y, X)
        depth.grid_mapping = "crs" if kind == "group" else "none"
    np.testing.assert_allclose(field_on_grid(path, GRID), truth(GRID.coordinates(0), GRID.coordinates(1)))


@pytest.mark.parametrize(("unit", "size", "usual"), [("km", 1e3, "m"), ("feet", FT, "m"), ("", 1.0, ""), ("degrees_north", 1.0, "degree"),
                                                     ("arcminute", 1 / 60, "degree"), ("hours", 3600.0, "s"), ("hPa", 1.0, "hPa"),
                                                     ("days since 2011-03-11", 1.0, "days since 2011-03-11")])  # fmt: skip
def test_the_unit_of_coordinates_where_no_grid_is_given(unit: str, size: float, usual: str, tmp_path: Path) -> None:
    """The numbers are those that a grid would get, and the field says their unit."""
    write_unit(tmp_path / "a.nc", "m", unit)
    found = ds.records.read_field(tmp_path / "a.nc")
    assert found.coordinates is not None and found.coordinate_units == (usual, usual)
    np.testing.assert_allclose(found.coordinates[0], Y * size)
    if usual == "m":
        asked = ds.records.read_field(tmp_path / "a.nc", axes=("x", "y"))
        np.testing.assert_array_equal(asked.coordinates[1], found.coordinates[0])
        assert asked.coordinate_units == ("m", "m") and asked.axes == ("x", "y")


WORD = segyio.TraceField


def dead_headers() -> Iterator[tuple[str, dict[int, Any]]]:
    """Headers of a dead trace that would count for another one."""
    for name, words in {
        "delay": {WORD.DelayRecordingTime: 999},
        "source": {WORD.SourceX: 7, WORD.SourceDepth: 3},
        "unit": {WORD.TraceValueMeasurementUnit: 1},
        "step": {WORD.TRACE_SAMPLE_INTERVAL: 999},
        "unit of places": {WORD.CoordinateUnits: 4},
    }.items():
        for dead in (0, 2):
            yield (
                f"{name} {dead}",
                {word: np.where(np.arange(STATIONS) == dead, value, 0) for word, value in words.items()}
                | {WORD.TraceIdentificationCode: np.where(np.arange(STATIONS) == dead, 2, 1)},
            )


@pytest.mark.parametrize(("name", "head"), list(dead_headers()))
def test_headers_of_dead_traces_say_nothing(name: str, head: dict[int, Any], tmp_path: Path) -> None:
    """Neither the first one's, from which the shot's source and delay are, nor another one's, which would contradict it."""
    dead = int(name[-1])
    live = np.arange(STATIONS) != dead
    usual = {WORD.GroupX: 100 + np.arange(STATIONS), WORD.SourceX: 40 * live, WORD.DelayRecordingTime: 500 * live}
    usual |= {WORD.TraceValueMeasurementUnit: 5 * live, WORD.TraceIdentificationCode: np.where(live, 1, 2)}
    traces(tmp_path / "a.sgy", VALUES, {**usual, **{word: usual.get(word, 0) * live + values * ~live for word, values in head.items()}})
    (found,) = read_records(tmp_path / "a.sgy", Layout(axes=("x",)))
    assert found.unit == "m" and found.dead == (str(dead),)
    np.testing.assert_allclose(found.times, 0.5 + 0.03 * np.arange(SAMPLES))
    np.testing.assert_array_equal(found.source, [40.0])
    np.testing.assert_array_equal(np.isnan(found.values).any(axis=0), ~live)


def test_a_shot_of_dead_traces_alone(tmp_path: Path) -> None:
    traces(
        tmp_path / "a.sgy", VALUES, {WORD.TraceIdentificationCode: np.full(STATIONS, 2), WORD.DelayRecordingTime: np.full(STATIONS, 500)}
    )
    (found,) = read_records(tmp_path / "a.sgy", Layout(axes=("x",)))
    assert np.isnan(found.values).all() and found.coordinates is None and found.source is None and found.times[0] == 0.5


def test_a_time_between_samples_beside_that_of_headers_is_noted(tmp_path: Path) -> None:
    traces(tmp_path / "a.sgy", VALUES, {WORD.TRACE_SAMPLE_INTERVAL: np.full(STATIONS, 30000)})
    for dt, notes in ((None, 0), (0.03, 0), (0.03 * (1 + 1e-9), 0), (0.004, 1)):
        (found,) = read_records(tmp_path / "a.sgy", Layout(dt=dt))
        assert len(found.notes) == notes and found.times[1] == (dt or 0.03)
    (note,) = found.notes
    assert note.endswith("a.sgy: dt = 4 ms is taken, where the headers have 30 ms between samples")
    traces(tmp_path / "b.sgy", VALUES, {WORD.TRACE_SAMPLE_INTERVAL: np.full(STATIONS, 2000)})
    (note,) = read_records(tmp_path / "b.sgy", Layout(dt=0.03))[0].notes  # the headers contradict each other
    assert note.endswith("where the headers have 2 ms between samples")


def test_heights_of_receivers_in_segy(tmp_path: Path) -> None:
    head = {WORD.ReceiverGroupElevation: 10 + np.arange(STATIONS), WORD.SourceSurfaceElevation: np.full(STATIONS, 7)}
    traces(tmp_path / "a.sgy", VALUES, head)
    for axis, sign in (("z", -1), ("depth", -1), ("height", 1)):
        (found,) = read_records(tmp_path / "a.sgy", Layout(axes=(axis,)))
        np.testing.assert_array_equal(found.coordinates[:, 0], sign * (10 + np.arange(STATIONS)))
        np.testing.assert_array_equal(found.source, [sign * 7])


UNUSED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "a.sgy": (
        ("values", "times", "receiver", "deviations", "weights", "stations", "order", "shape", "time_unit"),
        {"stations": Path("s.csv"), "order": ("time", "receiver"), "shape": (12, 5)},
    ),
    "a.csv": (("order", "shape"), {"order": ("time", "receiver"), "shape": (12, 5)}),
    "a.npz": (("shape",), {"shape": (12, 5)}),
    "a.npy": (("time_unit",), {"dt": 1.0}),
}
"""File -> the parts of a layout that mean nothing in it, and values of some."""


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, (keys, _) in UNUSED.items() for key in keys])
def test_parts_of_a_layout_that_mean_nothing_are_refused(name: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "a.sgy":
        traces(path, VALUES, None)
    elif name == "a.csv":
        path.write_text("time,a\n0,1\n1,2\n")
    elif name == "a.npz":
        np.savez(path, values=VALUES, times=TIMES)
    else:
        np.save(path, VALUES)
    values = UNUSED[name][1]
    layout = Layout(**{key: values.get(key, "ms"), **({"dt": 1.0} if name == "a.npy" else {})})
    with pytest.raises(DataError, match=rf"{name}.*: expected no {key} .*; drop"):
        read_records(path, layout)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        *(("sgy", *each) for each in (("key", "vp"), ("coordinates", ["y", "x"]), ("shape", [21, 22]))),
        *(("tif", *each) for each in (("coordinates", ["y", "x"]), ("shape", [21, 22]))),
        *(("asc", *each) for each in (("key", "1"), ("coordinates", ["y", "x"]), ("shape", [21, 22]))),
        *(("bin", *each) for each in (("key", "vp"), ("coordinates", ["y", "x"]))),
        *(("npy", *each) for each in (("key", "vp"), ("shape", [21, 22]))),
        *(("h5", *each) for each in (("shape", [21, 22]),)),
    ],
)
def test_keys_of_a_field_that_mean_nothing_are_refused(kind: str, key: str, value: Any, tmp_path: Path) -> None:
    path, keys, _ = write_other(tmp_path, kind, False, "m")
    field_on_grid(path, GRID, "m", **keys)
    keys = {name: given for name, given in keys.items() if key != "coordinates" or name not in ("spacing", "origin")}
    with pytest.raises(SceneError, match=rf"{key}: expected none|expected no {key} .*; drop|variables values, found no vp; name one"):
        field_on_grid(path, GRID, "m", **keys | {key: value})


def test_a_name_in_a_file_of_one_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(GRID.shape))
    with pytest.raises(SceneError, match=r"file\.key: expected no name for .*a\.npy, which holds one array, found vp; drop it"):
        field_on_grid(tmp_path / "a.npy", GRID, key="vp")


def test_the_order_of_a_file_without_names(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", truth(Y, X).T)
    found = ds.records.read_field(tmp_path / "a.npy", order=("x", "y"))
    assert found.axes == ("x", "y") and found.values.shape == (len(X), len(Y))
    assert ds.records.read_field(tmp_path / "a.npy", order=("x", "y"), axes=("y", "x")).values.shape == (len(Y), len(X))


def test_a_file_of_stations_for_arrays(tmp_path: Path) -> None:
    write_named(tmp_path, "npz")
    rows = [f"{name},{y},{x}" for name, (y, x) in zip(STATION_NAMES, PLACES.tolist(), strict=True)]
    (tmp_path / "s.csv").write_text("\n".join(["receiver,y [km],x", *rows[::-1]]))
    (found,) = read_records(tmp_path / "a.npz", Layout(stations=tmp_path / "s.csv", axes=("y", "x")))
    np.testing.assert_allclose(found.coordinates, PLACES * [1000.0, 1.0])


@pytest.mark.parametrize("split", [";", "\t"])
def test_decimal_commas(split: str, tmp_path: Path) -> None:
    """As spreadsheets write them in much of Europe: columns are not parted by commas then, so a comma is the decimal one."""
    head = ["time [min]", "receiver", "value [cm]", "y [km]", "x", "sigma"]
    rows = [["0,5", "a", "1,5E-2", "-0,25", "1", "1,250"], ["1", "a", "", "-0,25", "1", ",5"], ["1,5", "a", "-2,125", "-0,25", "1", "2"]]
    (tmp_path / "a.csv").write_text("\n".join(split.join(row) for row in [head, *rows]))
    (found,) = read_records(tmp_path / "a.csv", Layout(deviations="sigma", axes=("y", "x")))
    np.testing.assert_allclose(found.times, [30.0, 60.0, 90.0])
    np.testing.assert_allclose(found.values[:, 0], [0.015, np.nan, -2.125])
    np.testing.assert_allclose(found.deviation[:, 0], [1.25, 0.5, 2.0])
    np.testing.assert_allclose(found.coordinates, [[-250.0, 1.0]])
    dated = [["time", "a"], ["2011-03-11T05:46", "1,5"], ["2011-03-11T05:46:01", "2"]]
    (tmp_path / "w.csv").write_text("\n".join(split.join(row) for row in dated))
    (found,) = read_records(tmp_path / "w.csv")
    assert found.times.tolist() == [0.0, 1.0] and found.values.tolist() == [[1.5], [2.0]]


def test_dates_of_two_readings_in_other_formats(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["values"], file["times"] = VALUES[:2], ["11/03/2011 05:46", "12/03/2011 05:46"]
    with pytest.raises(DataError, match=r"a\.h5, times: .* found '11/03/2011 05:46'; it may mean 2011-03-11 or 2011-11-03: write"):
        read_records(tmp_path / "a.h5")
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", 2)
        file.createVariable("time", "f8", ("time",))[:] = [0, 1]
        file["time"].units = "hours since 11/03/2011"
        file.createVariable("values", "f8", ("time",))[:] = [0, 1]
    with pytest.raises(DataError, match=r"a\.nc, time: .*2011-03-11 or 2011-11-03"):
        read_records(tmp_path / "a.nc")


def test_a_fill_value_in_a_wavelet(tmp_path: Path) -> None:
    values = np.sin(0.3 * np.arange(40.0))
    for fill, told in ((0.5, False), (-999.25, True)):
        values[17] = fill
        np.save(tmp_path / "w.npy", values[:, None])
        part = Sampled(type="file", path=str(tmp_path / "w.npy"), dt=1.0)
        if told:
            with pytest.raises(
                SceneError, match=r"s\.path: expected amplitudes in .*w\.npy, found -999\.25, which looks like a fill value"
            ):
                sampled(part, "s")
        else:
            assert sampled(part, "s")[1].tolist() == values.tolist()
