"""Coordinates of files that are no plain lists: over two dimensions, of a rotated pole, heights and depths, and their units."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import xarray

import diffsim as ds
from diffsim.errors import DataError, SceneError
from diffsim.records import Layout, read_records
from diffsim.scene import field_on_grid
from tests.records.test_conventions import FT, GRID, PLACES, TIMES, VALUES, X, Y, truth, write_unit

CURVED = {
    "lat, lon": ("lat", "lon", {"units": "degrees_north"}, {"units": "degrees_east"}),
    "standard": ("a", "b", {"standard_name": "latitude"}, {"standard_name": "longitude"}),
    "projected": ("n", "e", {"standard_name": "projection_y_coordinate"}, {"axis": "X"}),
    "names": ("lat", "lon", {}, {}),
}
"""Names of coordinates over two dimensions, and their attributes."""
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
            field = field_on_grid(tmp_path / "a.nc", grid, "m", **keys)
            np.testing.assert_allclose(field, truth(GRID.coordinates(0), GRID.coordinates(1)), rtol=1e-6)
            continue
        with pytest.raises(
            SceneError, match=rf"a\.nc, depth: .* found {CURVED[words][0]} and|and {CURVED[words][0]}.* curvilinear .*xESMF"
        ):
            field_on_grid(tmp_path / "a.nc", grid, "m", **keys)
        if not asked:
            spaced = {"spacing": [250.0, 300.0], "origin": [0.0, 1000.0], "axes": ["lon", "lat"] if turned else ["lat", "lon"]}
            spaced |= {} if degrees else {"axes": ["x", "y"] if turned else ["y", "x"]}
            field = field_on_grid(tmp_path / "a.nc", grid, "m", **keys, **spaced)
            np.testing.assert_allclose(field, truth(GRID.coordinates(0), GRID.coordinates(1)), rtol=1e-12)
            bare = ds.records.read_field(tmp_path / "a.nc", "depth", curvilinear="leave out")
            assert bare.coordinates is None
            with pytest.raises(DataError, match="curvilinear"):
                ds.records.read_field(tmp_path / "a.nc", "depth")


@pytest.mark.parametrize("bent", [0.0, 0.1])
def test_latitudes_beside_coordinates_of_a_projection(bent: float, tmp_path: Path) -> None:
    """A grid of latitudes takes those over two dimensions, as of a Mercator projection; one of lengths takes the lengths."""
    lengths = {"y": ("y", 10 * Y, {"units": "m", "axis": "Y"}), "x": ("x", 10 * X, {"units": "m", "axis": "X"})}
    degrees = {"lat": (("y", "x"), Y[:, None] + bent * X, {"units": "degrees_north"})}
    degrees |= {"lon": (("y", "x"), X[None, :] + 0 * Y[:, None], {"units": "degrees_east"})}
    xarray.DataArray(truth(Y, X), dims=("y", "x"), coords=lengths | degrees, name="depth").to_netcdf(tmp_path / "a.nc")
    metres = ds.Grid(GRID.shape, 5000.0, tuple(10 * x for x in GRID.origin), ("y", "x"))
    np.testing.assert_allclose(field_on_grid(tmp_path / "a.nc", metres), truth(GRID.coordinates(0), GRID.coordinates(1)))
    earth = ds.Grid(GRID.shape, GRID.spacing, GRID.origin, ("latitude", "longitude"))
    if bent:
        with pytest.raises(SceneError, match=r"a\.nc, depth: .*curvilinear"):
            field_on_grid(tmp_path / "a.nc", earth)
    else:
        np.testing.assert_allclose(field_on_grid(tmp_path / "a.nc", earth), truth(GRID.coordinates(0), GRID.coordinates(1)))


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
        (records,) = read_records(tmp_path / "a.nc", Layout(axes=("z", "x")))
        np.testing.assert_allclose(records.coordinates, PLACES * [sign, 1.0])


@pytest.mark.parametrize(("unit", "size", "usual"), [("km", 1e3, "m"), ("feet", FT, "m"), ("", 1.0, ""), ("degrees_north", 1.0, "degree"),
                                                     ("arcminute", 1 / 60, "degree"), ("hours", 3600.0, "s"), ("hPa", 1.0, "hPa"),
                                                     ("days since 2011-03-11", 86400.0, "s")])  # fmt: skip
def test_the_unit_of_coordinates_where_no_grid_is_given(unit: str, size: float, usual: str, tmp_path: Path) -> None:
    """The numbers are those that a grid would get, and the field says their unit."""
    write_unit(tmp_path / "a.nc", "m", unit)
    field = ds.records.read_field(tmp_path / "a.nc")
    assert field.coordinates is not None and field.coordinate_units == (usual, usual)
    assert field.epoch == (np.datetime64("2011-03-11") if "since" in unit else None)
    np.testing.assert_allclose(field.coordinates[0], Y * size)
    if usual == "m":
        asked = ds.records.read_field(tmp_path / "a.nc", axes=("x", "y"))
        np.testing.assert_array_equal(asked.coordinates[1], field.coordinates[0])
        assert asked.coordinate_units == ("m", "m") and asked.axes == ("x", "y")


@pytest.mark.parametrize("degrees", [0.0, 1.0])
def test_a_rotated_grid_of_large_coordinates_is_not_taken_for_regular(degrees: float, tmp_path: Path) -> None:
    """Cells of 1 m at 4500 km: rounding in f32 would be half a cell, and so much a turn by a degree may not be mistaken for."""
    j, i = np.meshgrid(np.arange(100.0), np.arange(100.0), indexing="ij")
    turn = np.deg2rad(degrees)
    y, x = 5.6e6 + np.cos(turn) * j + np.sin(turn) * i, 4.5e6 + np.cos(turn) * i - np.sin(turn) * j
    data = {"depth": (("eta", "xi"), 1.0 + 0.01 * j + 0.02 * i), "lat": (("eta", "xi"), y), "lon": (("eta", "xi"), x)}
    field = xarray.Dataset(data)
    field["lat"].attrs["units"] = field["lon"].attrs["units"] = "m"
    field["depth"].attrs["coordinates"] = "lat lon"
    for name in ("lat", "lon"):
        field[name].attrs["standard_name"] = f"projection_{'y' if name == 'lat' else 'x'}_coordinate"
    field.to_netcdf(tmp_path / "t.nc")
    grid = ds.Grid((50, 50), 1.0, origin=(5.6e6 + 20.0, 4.5e6 + 20.0), axes=("y", "x"))
    if degrees:
        with pytest.raises(SceneError, match="expected coordinates that change along one dimension each"):
            field_on_grid(tmp_path / "t.nc", grid, key="depth")
    else:
        read = field_on_grid(tmp_path / "t.nc", grid, key="depth")
        np.testing.assert_allclose(read, 1.0 + 0.01 * j[20:70, 20:70] + 0.02 * i[20:70, 20:70], rtol=1e-9)


TWO = PLACES[:2]
"""Places of two receivers, m."""


def written(path: Path, names: tuple[str, str]) -> Path:
    """Two receivers whose coordinates, in feet where a format can say so, have these names."""
    first, second = names
    if path.suffix == ".csv":
        rows = [f"{t},{name},{t},{y},{x}" for t in (0, 1) for name, (y, x) in zip("ab", TWO / FT, strict=True)]
        path.write_text("\n".join([f"time,receiver,value,{first} [ft],{second} [ft]", *rows]))
    elif path.suffix == ".npz":
        np.savez(path, values=np.zeros((2, 2)), times=[0.0, 1.0], **dict(zip(names, TWO.T, strict=True)))
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["values"], file["times"] = np.zeros((2, 2)), [0.0, 1.0]
            for name, places in zip(names, TWO.T, strict=True):
                file[name] = places / FT
                file[name].attrs["units"] = "ft"
    else:
        places = {name: ("gauge", column / FT, {"units": "ft"}) for name, column in zip(names, TWO.T, strict=True)}
        xarray.Dataset({"values": (("time", "gauge"), np.zeros((2, 2))), **places}, {"time": [0.0, 1.0]}).to_netcdf(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "npz", "h5", "nc"])
@pytest.mark.parametrize("names", [("north", "east"), ("x", "y"), ("b", "a")])
def test_coordinates_of_receivers_have_the_names_that_the_layout_gives(kind: str, names: tuple[str, str], tmp_path: Path) -> None:
    """Also where the file's x is along the grid's y. A name that is none, and one too few, are refused with those that there are."""
    path = written(tmp_path / f"a.{kind}", names)
    (records,) = read_records(path, Layout(axes=("y", "x"), coordinates=names))
    assert records.coordinates is not None
    np.testing.assert_allclose(records.coordinates, TWO)
    with pytest.raises(DataError, match="found no nowhere; name one of"):
        read_records(path, Layout(axes=("y", "x"), coordinates=(names[0], "nowhere")))
    with pytest.raises(DataError, match=r"coordinates: expected 2 names, one for each axis of the grid \(y, x\), found 1; correct them"):
        read_records(path, Layout(axes=("y", "x"), coordinates=names[:1]))
