"""One small survey, and functions that write it with the library that made each format."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import segyio
import xarray

TIMES = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
VALUES = np.array([[0.0, 1.0], [0.5, np.nan], [1.5, -1.0], [0.25, -2.0], [-0.75, 0.5], [0.125, 0.25]])
PLACES = np.array([[10.0, 25.0], [30.0, 45.5]])
"""x and y of each receiver."""
SIGMA = np.array([0.1, 0.2])
AXES = ("x", "y")


def whole() -> dict[str, np.ndarray]:
    return {"values": VALUES.copy(), "times": TIMES.copy(), "coordinates": PLACES.copy(), "sigma": SIGMA.copy()}


def npz(path: Path, **change: Any) -> Path:
    np.savez(path, **{name: values for name, values in (whole() | change).items() if values is not None})
    return path


def hdf5(path: Path, unit: str = "cm", **change: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in (whole() | change).items():
            if values is not None:
                file[name] = values
        if "values" in file:
            file["values"].attrs["units"] = unit
    return path


def netcdf(path: Path, unit: str = "cm", clock: str = "seconds since 2011-03-11", turned: bool = False, **change: Any) -> Path:
    arrays = whole() | change
    dims: dict[str, tuple[str, ...]] = {
        "values": ("time", "gauge"),
        "times": ("time",),
        "coordinates": ("gauge", "axis"),
        "sigma": ("gauge",),
    }
    variables = {name: (dims.get(name, tuple(f"{name}{k}" for k in range(np.ndim(v)))), v) for name, v in arrays.items() if v is not None}
    dataset = xarray.Dataset(variables)
    for name, text in (("values", unit), ("times", clock)):
        if name in dataset:
            dataset[name].attrs["units"] = text
    (dataset.transpose("gauge", "time", "axis") if turned else dataset).to_netcdf(path, engine="netcdf4")
    return path


def wide(path: Path, header: tuple[str, ...] = ("time", "north", "south"), rows: Any = None) -> Path:
    rows = [[t, *["" if np.isnan(v) else v for v in row]] for t, row in zip(TIMES, VALUES, strict=True)] if rows is None else rows
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


LONG = ("time", "receiver", "value", "sigma", "x", "y")


def long_rows() -> list[list[Any]]:
    """Each receiver has times of its own: those without a gap."""
    return [
        [TIMES[k], name, VALUES[k, number], SIGMA[number], *PLACES[number]]
        for number, name in enumerate(("north", "south"))
        for k in range(len(TIMES))
        if np.isfinite(VALUES[k, number])
    ]


def long(path: Path, header: tuple[str, ...] = LONG, rows: Any = None) -> Path:
    return wide(path, header, long_rows() if rows is None else rows)


def segy(path: Path, values: np.ndarray | None = None, shots: tuple[int, ...] = (7,), step: float = 0.5e-3, scalar: int = -10) -> Path:
    """Whole numbers in the headers: tenths of a metre."""
    values = np.nan_to_num(VALUES) if values is None else values
    spec = segyio.spec()
    spec.samples, spec.tracecount, spec.format = 1e3 * step * np.arange(len(values)), len(shots) * values.shape[1], 5
    fields = segyio.TraceField
    with segyio.create(str(path), spec) as file:
        file.bin.update({segyio.BinField.Interval: round(1e6 * step)})
        for number in range(spec.tracecount):
            shot, receiver = divmod(number, values.shape[1])
            place = np.round(10 * PLACES[receiver % 2]).astype(int)
            file.trace[number] = np.ascontiguousarray((1 + shot) * values[:, receiver], np.float32)
            file.header[number] = {
                fields.FieldRecord: shots[shot],
                fields.GroupX: int(place[0]),
                fields.GroupY: int(place[1]),
                fields.ReceiverGroupElevation: -25,
                fields.ElevationScalar: 1,
                fields.SourceGroupScalar: scalar,
            }
    return path
