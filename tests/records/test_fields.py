"""Fields out of files that other libraries wrote, onto the grid of a scene, and messages for misfits."""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import rasterio
import xarray
from rasterio.transform import Affine

from diffsim.errors import DataError, SceneError
from diffsim.mesh.grid import Grid
from diffsim.records import read_field
from diffsim.scene.schema.parts import FieldModel
from diffsim.scene.setup.fields import build_field
from diffsim.scene.setup.place import Place
from tests.records import surveys
from tests.sampled import together

Y, X = np.array([40.0, 42.0, 44.0]), np.array([5.0, 6.0, 7.0, 8.0])
DEPTH = np.add.outer(100.0 * Y, X) - 3000.0
"""Linear, so that linear interpolation has no error."""
AXES = ("y", "x")


def tif(
    path: Path, values: np.ndarray = DEPTH, nodata: float | None = None, turn: float = 0.0, bands: int = 1, placed: bool = True
) -> Path:
    """Rows from north to south, as rasters are."""
    place = Affine(1.0, turn, 4.5, 0.0, -2.0, 45.0) if placed else Affine.identity()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        shape = {"height": DEPTH.shape[0], "width": DEPTH.shape[1], "count": bands}
        with rasterio.open(path, "w", driver="GTiff", dtype="float64", transform=place, nodata=nodata, **shape) as file:
            for band in range(bands):
                file.write((band + 1) * DEPTH[::-1], band + 1)
    return path


def nc(path: Path, values: np.ndarray = DEPTH, names: tuple[str, str] = AXES, unit: str = "m", order: int = 1, extra: bool = False) -> Path:
    data = xarray.DataArray(values, dims=names, coords=dict(zip(names, (Y, X), strict=True)), attrs={"units": unit})
    dataset = xarray.Dataset({"depth": data.isel({names[0]: slice(None, None, order)})})
    (dataset.assign(other=dataset["depth"] * 2) if extra else dataset).to_netcdf(path, engine="netcdf4")
    return path


def hdf5(path: Path, **change: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in ({"depth": DEPTH, "y": Y, "x": X} | change).items():
            if values is not None:
                file[name] = values
    return path


def npz(path: Path, **change: Any) -> Path:
    np.savez(path, **{name: v for name, v in ({"depth": DEPTH, "y": Y, "x": X} | change).items() if v is not None})
    return path


def asc(path: Path, change: Callable[[str], str] = str, corner: bool = True) -> Path:
    first = "xllcorner 4.5\nyllcorner 39\n" if corner else "xllcenter 5\nyllcenter 40\n"
    rows = "\n".join(" ".join(f"{value:.17g}" for value in row) for row in np.repeat(DEPTH[:, [0, 1, 2]], 1, axis=0)[::-1])
    path.write_text(change(f"NCOLS 3\nNROWS 3\n{first}cellsize 2\nNODATA_value -1\n{rows}\n"))
    return path


WRITERS: dict[str, tuple[Callable[[Path], Path], dict[str, Any]]] = {
    "a.tif": (tif, {}),
    "a.nc": (nc, {}),
    "turned.nc": (lambda path: nc(path, order=-1), {}),
    "a.h5": (hdf5, {"key": "depth"}),
    "a.npz": (npz, {"key": "depth", "coordinates": ("y", "x")}),
}


@pytest.mark.parametrize("name", WRITERS)
def test_values_and_coordinates(name: str, tmp_path: Path) -> None:
    write, more = WRITERS[name]
    field = read_field(write(tmp_path / name), axes=AXES, **more)
    np.testing.assert_array_equal(field.values, DEPTH)
    assert field.coordinates is not None
    np.testing.assert_allclose(field.coordinates[0], Y)
    np.testing.assert_allclose(field.coordinates[1], X)
    assert field.unit == ("m" if name.endswith("nc") else "")


@pytest.mark.parametrize("corner", [True, False])
def test_an_ascii_grid(corner: bool, tmp_path: Path) -> None:
    field = read_field(asc(tmp_path / "a.asc", lambda text: text.replace(f"{DEPTH[0, 0]:.17g}", "-1"), corner))
    expected = DEPTH[:, :3].copy()
    expected[0, 0] = np.nan
    np.testing.assert_array_equal(field.values, expected)
    assert field.coordinates is not None
    np.testing.assert_allclose(field.coordinates[0], [40.0, 42.0, 44.0])
    np.testing.assert_allclose(field.coordinates[1], [5.5, 7.5, 9.5] if corner else [5.0, 7.0, 9.0])


def test_axes_in_another_order_and_one_of_one_entry(tmp_path: Path) -> None:
    data = xarray.DataArray(DEPTH.T[:, None], dims=("x", "time", "y"), coords={"x": X, "y": Y, "time": [0.0]})
    xarray.Dataset({"depth": data}).to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    field = read_field(tmp_path / "a.nc", axes=AXES)
    np.testing.assert_array_equal(field.values, DEPTH)


NAMED = [(("lat", "lon"), ("lat", "lon")), (AXES, ()), (AXES, AXES), (("x", "y"), ("x", "y"))]
"""Names of the dimensions of a file, and its coordinates."""


@together(itertools.product(itertools.permutations((0, 1, 2)), [(3, 3), (1, 3), (3, 1), (1, 1), (2, 3)], NAMED), apart=True)
def test_values_follow_their_coordinates(
    order: tuple[int, ...], shape: tuple[int, int], named: tuple[tuple[str, str], tuple[str, ...]], tmp_path: Path
) -> None:
    """Whatever the order of the axes in the file, and also where they are as long as each other, or have one entry."""
    names, coordinates = named
    places = [start + np.arange(float(n)) for start, n in zip((40.0, 5.0), shape, strict=True)]
    expected = np.add.outer(100.0 * places[0], places[1])
    whole = xarray.DataArray(expected[..., None], dims=(*names, "time"), coords=dict(zip((*names, "time"), (*places, [99.0]), strict=True)))
    data = whole.transpose(*(whole.dims[k] for k in order))
    xarray.Dataset({"depth": data}).to_netcdf(tmp_path / "a.nc", engine="netcdf4")
    field = read_field(tmp_path / "a.nc", "depth", coordinates=coordinates, axes=AXES)
    np.testing.assert_array_equal(field.values, expected)
    assert field.coordinates is not None
    for one, other in zip(field.coordinates, places, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_section_and_a_band(tmp_path: Path) -> None:
    section = read_field(surveys.segy(tmp_path / "a.sgy", DEPTH))
    np.testing.assert_array_equal(section.values, DEPTH)
    assert section.coordinates is None
    np.testing.assert_array_equal(read_field(tif(tmp_path / "a.tif", bands=2), "2").values, 2 * DEPTH)
    assert read_field(tif(tmp_path / "b.tif", placed=False)).coordinates is None
    lost = read_field(tif(tmp_path / "c.tif", nodata=DEPTH[1, 1])).values
    np.testing.assert_array_equal(np.isnan(lost), DEPTH[1, 1] == DEPTH)


GRID = Grid((5, 4), (0.9, 0.8), (40.2, 5.1), AXES)


def built(part: dict[str, Any], grid: Grid = GRID, unit: str = "m") -> np.ndarray:
    return build_field(FieldModel(file=part), Place(grid, grid, "fields.H", unit=unit))


@pytest.mark.parametrize("name", ["a.tif", "a.nc", "a.h5", "a.npz"])
def test_a_file_is_brought_to_the_grid(name: str, tmp_path: Path) -> None:
    write, more = WRITERS[name]
    part = {"path": str(write(tmp_path / name)), **more, "scale": -1.0, "offset": 1.0}
    places = np.meshgrid(GRID.coordinates(0), GRID.coordinates(1), indexing="ij")
    np.testing.assert_allclose(built(part), 1.0 - (100 * places[0] + places[1] - 3000), rtol=1e-12)


def test_means_keep_the_integral(tmp_path: Path) -> None:
    """A cell of the grid gets the mean of the samples in it: on a grid of the same region the sum of values times area is the same."""
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "a.npz", depth=rng.random((12, 30)))
    region = Grid((4, 7), (3.0, 30 / 7), (1.0, 0.5 * 30 / 7 - 0.5), AXES)
    part = {"path": str(tmp_path / "a.npz"), "key": "depth", "spacing": 1.0, "method": "mean"}
    fine = np.load(tmp_path / "a.npz")["depth"]
    means = built(part, region)
    assert means.sum() * 3.0 * 30 / 7 == pytest.approx(fine.sum(), rel=1e-12)
    assert built(part, Grid((4, 10), 3.0, 1.0, AXES)) == pytest.approx(fine.reshape(4, 3, 10, 3).mean(axis=(1, 3)), rel=1e-12)


def test_spacing_and_origin_of_a_file_without_coordinates(tmp_path: Path) -> None:
    """A model of SEG-Y on a grid of its own."""
    surveys.segy(tmp_path / "a.sgy", DEPTH)
    part = {"path": str(tmp_path / "a.sgy"), "spacing": [2.0, 1.0], "origin": [40.0, 5.0], "axes": ["y", "x"]}
    places = np.meshgrid(GRID.coordinates(0), GRID.coordinates(1), indexing="ij")
    np.testing.assert_allclose(built(part), 100 * places[0] + places[1] - 3000, rtol=1e-6)


def test_units_and_places_without_numbers(tmp_path: Path) -> None:
    nc(tmp_path / "a.nc", unit="km")
    metres = built({"path": str(nc(tmp_path / "b.nc"))})
    np.testing.assert_allclose(built({"path": str(tmp_path / "a.nc")}), 1000 * metres)
    np.testing.assert_allclose(built({"path": str(tmp_path / "a.nc"), "unit": "m"}), metres)
    np.testing.assert_allclose(built({"path": str(tmp_path / "a.nc")}, unit=""), metres)  # labels have no unit
    lost = nc(tmp_path / "c.nc", np.where(DEPTH[1, 1] == DEPTH, np.nan, DEPTH))
    filled = built({"path": str(lost), "fill": 0.0, "method": "nearest"})
    nearest = built({"path": str(tmp_path / "b.nc"), "method": "nearest"})
    np.testing.assert_array_equal(filled, np.where(nearest == DEPTH[1, 1], 0.0, nearest))
    assert (filled == 0).any()
    for method in ("linear", "cubic"):
        with pytest.raises(SceneError, match=r"fields\.H\.file.*give fill"):
            built({"path": str(lost), "method": method})


BROKEN: dict[str, tuple[str, Callable[[Path], Any], dict[str, Any], str]] = {
    "unit": ("a.nc", lambda p: nc(p, unit="Pa"), {}, r"expected a unit that converts to m, found 'Pa'"),
    "grid outside": (
        "a.nc",
        lambda p: nc(p),
        {"grid": Grid((5, 4), 2.0, (40, 5), AXES)},
        r"expected a grid with y from 40 to 44",
    ),
    "two variables": ("a.nc", lambda p: nc(p, extra=True), {}, r"expected the name of one of the variables depth, other, .*give key"),
    "no variable": ("a.nc", nc, {"key": "H"}, r"expected one of the variables depth, y, x, found no H; name one"),
    "no variable of HDF5": ("a.h5", hdf5, {"key": "H"}, r"expected one of the variables depth, x, y, found no H"),
    "no coordinates": (
        "a.h5",
        lambda p: hdf5(p, y=None),
        {"key": "depth"},
        r"expected coordinates, or .* give spacing",
    ),
    "lengths": (
        "a.h5",
        lambda p: hdf5(p, y=Y[:2]),
        {"key": "depth"},
        r"expected coordinates y, x of the lengths",
    ),
    "coordinates jump": (
        "a.npz",
        lambda p: npz(p, y=Y[[0, 2, 1]]),
        {"key": "depth", "coordinates": AXES},
        r"coordinates that rise",
    ),
    "axes": (
        "a.npz",
        lambda p: npz(p, depth=DEPTH[0], y=None),
        {"key": "depth", "spacing": 1.0},
        r"2 axes in .*, found the shape \(4,\)",
    ),
    "few for cubic": ("a.nc", nc, {"method": "cubic"}, r'expected at least 4 numbers along y for "cubic", found 3; choose'),
    "turned": ("a.tif", lambda p: tif(p, turn=0.1), {}, r"expected rows along x and columns along y, found a raster that is turned"),
    "bands": ("a.tif", lambda p: tif(p, bands=2), {}, r"expected the number of a band from 1 to 2, found None; give it as key"),
    "band": ("a.tif", tif, {"key": "2"}, r"expected the number of a band from 1 to 1, found '2'"),
    "gaps": ("a.tif", lambda p: tif(p, nodata=DEPTH[1, 1]), {}, r"expected numbers in every cell, found none at y = 4.* give fill"),
    "unplaced": ("a.tif", lambda p: tif(p, placed=False), {}, r"expected coordinates, or the grid's shape"),
    "asc: few": ("a.asc", lambda p: asc(p, lambda t: t.replace("NROWS 3", "NROWS 4")), {}, r"expected 4 x 3 = 12 numbers, found 9"),
    "asc: no size": (
        "a.asc",
        lambda p: asc(p, lambda t: t.replace("cellsize 2\n", "")),
        {},
        r"ncols, .*found no cellsize",
    ),
    "asc: no place": ("a.asc", lambda p: asc(p, lambda t: t.replace("yllcorner 39\n", "")), {}, r"found no yllcorner; add it"),
    "asc: a word": (
        "a.asc",
        lambda p: asc(p, lambda t: t.replace("cellsize 2", "cellsize two")),
        {},
        r"cellsize: expected .*'two'",
    ),
    "asc: a letter": ("a.asc", lambda p: asc(p, lambda t: t[:-2] + "x\n"), {}, r"expected a number, found"),
    "asc: size 0": (
        "a.asc",
        lambda p: asc(p, lambda t: t.replace("cellsize 2", "cellsize 0")),
        {},
        r"above 0, found 3 x 3 of 0",
    ),
    "asc: nan": ("a.asc", lambda p: asc(p, lambda t: t.replace("NROWS 3", "NROWS nan")), {}, r"above 0, found 0 x 3 of 2"),
    "asc: empty": ("a.asc", lambda p: p.write_text(""), {}, r"found no ncols; add it"),
    "asc: bytes": ("a.asc", lambda p: p.write_bytes(bytes(range(256))), {}, r"expected an ASCII grid, found .*unreadable"),
    "extension": ("a.grib", lambda p: p.write_bytes(b"x"), {}, r"expected a file that ends in .*\.bin, found"),
    "none": ("a.tif", lambda p: None, {}, r"expected a file, found no "),
    "html": ("a.tif", lambda p: p.write_text("<html>"), {}, r"expected a GeoTIFF file, found .*unreadable"),
    "cut": ("a.tif", lambda p: p.write_bytes(tif(p).read_bytes()[:-20]), {}, r"a\.tif"),
}
"""Name -> file, its writer, the keys of the scene, the message."""


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(name: str, tmp_path: Path) -> None:
    file, write, more, message = BROKEN[name]
    write(tmp_path / file)
    grid = more.get("grid", GRID)
    with pytest.raises(SceneError, match=message) as caught:
        built({"path": str(tmp_path / file), **{key: value for key, value in more.items() if key != "grid"}}, grid)
    assert str(caught.value).startswith("fields.H.file")


def test_a_tif_that_leads_to_another_file_is_not_read(tmp_path: Path) -> None:
    """GDAL would follow a virtual raster under any name."""
    tif(tmp_path / "secret.tif")
    source = '<SourceFilename relativeToVRT="1">secret.tif</SourceFilename><SourceBand>1</SourceBand>'
    band = f'<VRTRasterBand dataType="Float64" band="1"><SimpleSource>{source}</SimpleSource></VRTRasterBand>'
    place = "<GeoTransform>4.5, 1.0, 0.0, 45.0, 0.0, -2.0</GeoTransform>"
    (tmp_path / "a.tif").write_text(f'<VRTDataset rasterXSize="4" rasterYSize="3">{place}{band}</VRTDataset>')
    with rasterio.open(tmp_path / "a.tif") as file:
        np.testing.assert_array_equal(file.read(1)[::-1], DEPTH)
    with pytest.raises(DataError, match="expected a GeoTIFF file"):
        read_field(tmp_path / "a.tif")


def test_rasterio_that_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.tif").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "rasterio", None)
    with pytest.raises(DataError, match=r"expected the package rasterio, .*python -m pip install rasterio$"):
        read_field(tmp_path / "a.tif")
