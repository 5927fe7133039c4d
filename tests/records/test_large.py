"""Where a file is searched for lists of times or coordinates, its arrays of more dimensions, which may be too large, stay unread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

from diffsim.errors import DataError
from diffsim.records import Layout, read_field, read_records
from diffsim.records.formats.hdf5 import Hdf5File
from diffsim.records.formats.netcdf import NetcdfFile
from diffsim.records.formats.numpy_files import NumpyFile

TIMES, FIELD = np.arange(5) * 0.5, np.arange(20.0).reshape(4, 5)
LARGE = {"snapshots": np.ones((6, 7, 8)), "spectra": np.ones((3, 9)), "masks": np.ones((6, 7, 8))}


def write_netcdf(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with netCDF4.Dataset(path, "w") as file:
        for name, values in arrays.items():
            dimensions = [f"{name} {axis}" for axis in range(values.ndim)]
            for dimension, n in zip(dimensions, values.shape, strict=True):
                file.createDimension(dimension, n)
            file.createVariable(name, "f8", dimensions)[...] = values


def write_hdf5(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


FORMATS: dict[str, tuple[type[Any], Callable[[Path, Mapping[str, np.ndarray]], None]]] = {
    "a.nc": (NetcdfFile, write_netcdf),
    "a.h5": (Hdf5File, write_hdf5),
    "a.npz": (NumpyFile, lambda path, arrays: np.savez(path, **arrays)),
}


@pytest.fixture
def read_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the arrays that are read."""
    names: list[str] = []
    for kind, _ in FORMATS.values():

        def read(self: Any, name: str, original: Any = kind.read) -> Any:
            names.append(name)
            return original(self, name)

        monkeypatch.setattr(kind, "read", read)
    return names


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("others", [{}, {"ticks": TIMES}, {"seconds": TIMES}], ids=["none", "unknown", "known"])
def test_arrays_of_more_dimensions_stay_unread(name: str, others: dict[str, np.ndarray], tmp_path: Path, read_names: list[str]) -> None:
    path = tmp_path / name
    FORMATS[name][1](path, {"eta": FIELD.T, **others, **LARGE})
    for reader in (lambda: read_records(path, Layout(values="eta")), lambda: read_field(path, "eta")):
        try:
            reader()
        except DataError:  # what has no times, or no coordinates, is refused or asked for: nothing here depends on that
            continue
    assert "eta" in read_names
    assert not {*read_names} & LARGE.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_shapes_are_known_without_values(name: str, tmp_path: Path, read_names: list[str]) -> None:
    path = tmp_path / name
    arrays = {"eta": FIELD, "a": TIMES, "one": np.array(3.0), **LARGE}
    FORMATS[name][1](path, arrays)
    file = FORMATS[name][0].open(path)
    assert {each: file.shape_of(each) for each in arrays} == {each: values.shape for each, values in arrays.items()}
    assert not read_names
