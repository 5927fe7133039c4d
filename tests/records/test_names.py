"""Names in files: of stations, of variables in groups, and of variables that are no field."""

from __future__ import annotations

from pathlib import Path

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

import diffsim as ds
from diffsim.errors import DataError, SceneError
from diffsim.records import Layout, read_records
from diffsim.scene import field_on_grid
from tests.records.test_conventions import GRID, PLACES, SAMPLES, SIGMA, STATIONS, TIMES, VALUES, X, Y, truth

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
    (records,) = read_records(path, layout)
    np.testing.assert_array_equal(records.values, VALUES)
    assert records.names == STATION_NAMES
    assert records.trace(2).endswith("trace Cádiz") and records.without(["Brest"]).values.shape == (SAMPLES, 4)


def test_names_of_receivers_that_are_asked_for(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz", values=VALUES, times=TIMES, gauge=np.array(["a", "b", "c", "d", "a"]), code=np.array(list("vwxyz")), n=SIGMA
    )
    (records,) = read_records(tmp_path / "a.npz", Layout(receiver="code"))
    assert records.names == tuple("vwxyz")
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
def test_a_description_of_a_projection_is_no_field(kind: str, tmp_path: Path) -> None:
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


def test_a_name_in_a_file_of_one_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(GRID.shape))
    with pytest.raises(SceneError, match=r"file\.key: expected no name for .*a\.npy, which holds one array, found vp; drop it"):
        field_on_grid(tmp_path / "a.npy", GRID, key="vp")


def test_a_file_of_stations_for_arrays(tmp_path: Path) -> None:
    write_named(tmp_path, "npz")
    rows = [f"{name},{y},{x}" for name, (y, x) in zip(STATION_NAMES, PLACES.tolist(), strict=True)]
    (tmp_path / "s.csv").write_text("\n".join(["receiver,y [km],x", *rows[::-1]]))
    (records,) = read_records(tmp_path / "a.npz", Layout(stations=tmp_path / "s.csv", axes=("y", "x")))
    np.testing.assert_allclose(records.coordinates, PLACES * [1000.0, 1.0])


@pytest.mark.parametrize("kind", ["npz", "h5"])
@pytest.mark.parametrize("names", [("n", "e"), ("rows", "cols"), ("hochwert", "rechtswert"), ("a1", "a0")])
@pytest.mark.parametrize("falls", [(False, False), (True, False), (False, True)])
def test_coordinates_under_unknown_names_are_asked_for(tmp_path: Path, kind: str, names: tuple[str, str], falls: tuple[bool, bool]) -> None:
    """Rows from north to south would be read as from south to north, since nothing says that these numbers are theirs."""
    grid, path = ds.Grid((4, 5), 100.0, axes=("y", "x")), tmp_path / f"a.{kind}"
    places = [100.0 * np.arange(n)[:: -1 if down else 1] for n, down in zip(grid.shape, falls, strict=True)]
    field = places[0][:, None] + 7.0 * places[1]
    arrays = {"z": field, **dict(zip(names, places, strict=True))}
    if kind == "npz":
        np.savez(path, **arrays)  # type: ignore[arg-type]
    else:
        with h5py.File(path, "w") as file:
            for name, numbers in arrays.items():
                file[name] = numbers
    with pytest.raises(SceneError, match=rf"found {names[0]} and {names[1]}, whose numbers rise or fall .* name those along y, x by"):
        field_on_grid(path, grid, "m", key="z")
    expected = 100.0 * np.arange(4)[:, None] + 700.0 * np.arange(5)
    np.testing.assert_allclose(field_on_grid(path, grid, "m", key="z", coordinates=names), expected)


def test_other_arrays_are_no_coordinates(tmp_path: Path) -> None:
    """Numbers of cells, numbers without order, and those along one axis alone."""
    grid, field = ds.Grid((4, 5), 100.0, axes=("y", "x")), np.arange(20.0).reshape(4, 5)
    others = {"i": np.arange(4.0), "j": np.arange(1.0, 6.0), "s": np.array([3.0, 1.0, 2.0, 5.0]), "levels": 10.0 * np.arange(1.0, 6.0)}
    np.savez(tmp_path / "a.npz", z=field, **others)  # type: ignore[arg-type]
    np.testing.assert_array_equal(field_on_grid(tmp_path / "a.npz", grid, "m", key="z"), field)
