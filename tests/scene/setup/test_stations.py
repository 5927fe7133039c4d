"""Records of a scene by a table of stations: a file, a window, a weight and a deviation for each receiver, and other map projections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from diffsim.errors import SceneError
from diffsim.mesh.grid import Grid
from diffsim.scene import Scene, field_on_grid
from diffsim.scene.disk.folder import identify
from tests.scene.tiny import WAVE, tables

NAMES = ("north", "middle", "south")
PLACES = WAVE["receivers"]["eta"]["points"]
TIMES = np.arange(0.0, 61.0, 5.0)
ZONE = "EPSG:32654"
"""UTM north, zone 54, whose middle is 141 degrees east."""
CORNER = (4_200_000.0, 500_000.0)
"""Northing and easting of the first cell: on the middle of the zone, 38 degrees north."""


def stations(folder: Path, rows: list[str], head: str = "name,y,x,from [min],until [min],w,sigma [cm]") -> Path:
    """A table, and for each station a record of its own, 1 + its number + t / 100, m."""
    (folder / "stations.csv").write_text("\n".join([head, *rows]))
    for number, name in enumerate(NAMES):
        with h5py.File(folder / f"gauge_{name}.hdf5", "w") as file:
            file["time"], file["elev"] = TIMES, 1.0 + number + TIMES / 100
    return folder / "stations.csv"


def scene(folder: Path, **more: Any) -> Scene:
    data: dict[str, Any] = {
        "path": str(folder / "gauge_{receiver}.hdf5"),
        "values": "elev",
        "receiver": "name",
        "stations": str(folder / "stations.csv"),
    }
    keys = {key: value for key, value in (data | more).items() if value is not None}
    return Scene(**tables(WAVE, truth=None, receivers=None) | {"data": {"eta": keys}})


def row(number: int, *more: object) -> str:
    return ",".join(map(str, (NAMES[number], *PLACES[number], *more)))


def test_each_station_has_a_file_a_window_a_weight_and_a_deviation(tmp_path: Path) -> None:
    stations(tmp_path, [row(0, 0.0, 0.5, 1.0, 10), row(1, 0.25, 1.0, 2.0, 20), row(2, 0.0, 1.0, 0.5, 40)])
    objective = scene(tmp_path, window=["from", "until"], weights="w", deviations="sigma", unit="m").objective("f64")
    record = objective.problem.setup.data["eta"]
    assert record.names == NAMES
    np.testing.assert_allclose(record.positions, PLACES)
    for number, (first, last) in enumerate([(0, 30), (15, 60), (0, 60)]):
        inside = np.clip(TIMES, first, last) == TIMES
        np.testing.assert_allclose(record.values[0, :, number], np.where(inside, 1.0 + number + TIMES / 100, np.nan))
    assert record.weight is not None and record.deviation is not None
    np.testing.assert_allclose(record.weight[0, 4], [1.0, 2.0, 0.5])
    np.testing.assert_allclose(record.deviation[0, 4], [0.1, 0.2, 0.4])


def test_records_that_count_alike_count_by_the_weights_of_the_table(tmp_path: Path) -> None:
    """A deviation, which scales with a record, has no influence: of records of 0 the misfit is 1, of which each has its weight."""
    stations(tmp_path, [row(0, 1.0, 10), row(1, 2.0, 20), row(2, 0.5, 40)], "name,y,x,w,sigma [cm]")
    misfit = [{"of": "traces", "state": "eta", "normalise": "receivers"}]
    case = scene(tmp_path, weights="w", deviations="sigma", unit="m")
    objective = Scene(**tables(WAVE, truth=None, receivers=None, misfit=misfit) | {"data": case.data}).objective("f64")
    data = objective.observed.traces["eta"][0]
    part = objective.misfits.terms["traces of eta"][1][0]
    for number, share in enumerate([1.0, 2.0, 0.5]):
        others = np.where(np.arange(3) == number, 0.0, data)
        assert part.factor * float(part.misfit(others)) == pytest.approx(share / 3.5, rel=1e-12)


def test_another_record_of_a_station_is_another_run(tmp_path: Path) -> None:
    stations(tmp_path, [row(k) for k in range(3)], "name,y,x")
    before = identify(scene(tmp_path), "f64").search
    with h5py.File(tmp_path / "gauge_south.hdf5", "a") as file:
        file["elev"][3] = 7.0
    assert identify(scene(tmp_path), "f64").search != before


def test_places_in_degrees_lie_on_a_grid_in_metres(tmp_path: Path) -> None:
    """On the middle of a zone of UTM, 0.01 degrees to the north are 1110 m times 0.9996; a place on the grid comes back to itself."""
    pyproj = pytest.importorskip("pyproj")
    inverse = pyproj.Transformer.from_crs(ZONE, "EPSG:4326", always_xy=True)
    rows = []
    for name, (y, x) in zip(NAMES, PLACES, strict=True):
        longitude, latitude = inverse.transform(CORNER[1] + x, CORNER[0] + y)
        rows.append(f"{name},{longitude},{latitude}")
    stations(tmp_path, rows, "name,longitude,latitude")
    table = tables(WAVE, truth=None, receivers=None)
    grid = table["grid"] | {"origin": list(CORNER), "crs": ZONE}
    data = scene(tmp_path, crs="EPSG:4326", coordinates=["latitude", "longitude"]).data
    table = table | {"fields": {"H": {"constant": 1000.0}}, "grid": grid}
    problem = Scene(**table | {"data": data}).objective("f64").problem
    np.testing.assert_allclose(problem.setup.data["eta"].positions - CORNER, PLACES, atol=1e-3)
    assert abs(inverse.transform(500_000.0, 0.0)[0] - 141.0) < 1e-9


@pytest.mark.parametrize(("method", "within"), [("linear", 0.01), ("nearest", 14.0)])
def test_a_depth_in_degrees_lies_on_a_grid_in_metres(tmp_path: Path, method: str, within: float) -> None:
    """A depth that is linear in latitude and longitude, at the cells, worked out by pyproj itself."""
    pyproj = pytest.importorskip("pyproj")
    lat, lon = np.linspace(37.9, 38.1, 41), np.linspace(140.95, 141.15, 51)
    depth = 1000.0 + 4000.0 * (lat[:, None] - 38.0) + 2000.0 * (lon[None] - 141.0)
    np.savez(tmp_path / "depth.npz", lat=lat, lon=lon, H=depth)
    keys = {"key": "H", "crs": "EPSG:4326", "coordinates": ["lat", "lon"], "method": method, "grid_crs": ZONE}
    grid = Grid((14, 16), 500.0, CORNER)
    field = field_on_grid(tmp_path / "depth.npz", grid, **keys)
    north, east = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
    longitude, latitude = pyproj.Transformer.from_crs(ZONE, "EPSG:4326", always_xy=True).transform(east, north)
    expected = 1000.0 + 4000.0 * (latitude - 38.0) + 2000.0 * (longitude - 141.0)
    assert np.abs(field - expected).max() < within
    north_of_it = Grid((14, 16), 500.0, (CORNER[0] + 14_000.0, CORNER[1]))
    with pytest.raises(SceneError, match=r"expected a grid within 37\.9 to 38\.1 along y.*extend"):
        field_on_grid(tmp_path / "depth.npz", north_of_it, **keys)
    continued = field_on_grid(tmp_path / "depth.npz", north_of_it, extend="edge", **keys)
    assert continued[-1].max() <= depth.max() + 1e-9
    np.savez(tmp_path / "square.npz", lat=lat, lon=lon[:41], H=depth[:, :41])
    with pytest.raises(SceneError, match=r'expected names of the dimensions .* \["y", "x"\] or'):
        field_on_grid(tmp_path / "square.npz", grid, extend="edge", **keys)
    with pytest.raises(SceneError, match=r"grid\.crs"):
        field_on_grid(tmp_path / "depth.npz", grid, **keys | {"grid_crs": None})


def test_coordinates_of_the_table_may_have_names_of_their_own(tmp_path: Path) -> None:
    """Without a map projection: those of the grid, here in km."""
    rows = [f"{name},{x / 1000},{y / 1000}" for name, (y, x) in zip(NAMES, PLACES, strict=True)]
    stations(tmp_path, rows, "name,to the east [km],to the north [km]")
    named = scene(tmp_path, coordinates=["to the north", "to the east"])
    np.testing.assert_allclose(named.objective("f64").problem.setup.data["eta"].positions, PLACES)


@pytest.mark.parametrize(
    ("more", "head", "message"),
    [
        ({"stations": None}, "name,y,x", "expected stations together with path with {receiver}"),
        ({"window": ["from", "until"]}, "name,y,x", "found no from"),
        ({"crs": "EPSG:4326"}, "name,y,x", r"expected that of the grid too.*add grid\.crs"),
        ({"coordinates": ["b", "a"]}, "name,y,x", "expected one of the columns .*, found no b; name one"),
        ({"coordinates": ["x"]}, "name,y,x", r"expected 2 names, one for each axis of the grid \(y, x\), found 1; correct"),
        ({"coordinates": ["latitude", "lon"]}, "name,latitude,lon", "lengths in m along y, found latitude, which is an angle; add crs"),
        ({"values": "height"}, "name,y,x", "gauge_north.hdf5"),
        ({"weights": "w"}, "name,y,x,w", "column w: expected a weight of 0 or more, found -1"),
        ({"weights": "share"}, "name,y,x", r"stations.csv: expected columns for the weights .* found no share; add"),
        ({"window": ["y", "w"]}, "name,y,x,w", "expected a window that rises for north"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path: Path, more: dict[str, Any], head: str, message: str) -> None:
    stations(tmp_path, [row(k, *([-1.0] if head.endswith("w") else [])) for k in range(3)], head)
    with pytest.raises(SceneError, match=message):
        scene(tmp_path, **more).objective("f64")


def test_a_station_twice_in_the_table_is_refused(tmp_path: Path) -> None:
    stations(tmp_path, [row(0), row(1), row(0)], "name,y,x")
    with pytest.raises(SceneError, match=r"stations\.csv, column name: expected each station once, found north twice; drop a row"):
        scene(tmp_path).objective("f64")


def test_a_grid_in_an_unknown_projection_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyproj")
    stations(tmp_path, [row(k) for k in range(3)], "name,y,x")
    named = scene(tmp_path, crs="EPSG:4326")
    table = tables(WAVE, truth=None, receivers=None) | {"data": named.data}
    table["grid"]["crs"] = "nowhere"
    with pytest.raises(SceneError, match=r"grid\.crs: expected a map projection that pyproj knows.*'nowhere'"):
        Scene(**table).objective("f64")


@pytest.mark.parametrize("column", ["names/label", "label", "receiver"])
def test_the_array_of_names_and_the_column_of_stations_may_differ(column: str, tmp_path: Path) -> None:
    """The array of a file that has the names of receivers lies in a group, and a table cannot be expected to call its column so."""
    (tmp_path / "stations.csv").write_text("\n".join([f"{column},y,x", row(2), row(0), row(1)]))
    with h5py.File(tmp_path / "all.h5", "w") as file:
        file["time"], file["elev"] = TIMES, np.arange(3.0) + TIMES[:, None] / 100
        file["names/label"] = [name.encode() for name in NAMES]
    keys = {"path": str(tmp_path / "all.h5"), "values": "elev", "receiver": "names/label"}
    record = scene(tmp_path, **keys).objective("f64").problem.setup.data["eta"]
    assert record.names == NAMES
    np.testing.assert_allclose(record.positions, PLACES)


def test_a_table_without_receivers_is_named_with_the_columns_that_it_may_have(tmp_path: Path) -> None:
    (tmp_path / "stations.csv").write_text("\n".join(["place,y,x", row(0)]))
    with pytest.raises(SceneError, match=r"expected a column of receivers among place, y, x, found no name and no receiver; name one"):
        scene(tmp_path).objective("f64")


UNITS = {"m": 1.0, "metre": 1.0, "cm": 100.0, "mm": 1000.0, "ft": 1 / 0.3048}
"""Numbers of each unit in a metre."""


def csv_files(folder: Path, units: tuple[str, ...], gap: float | None = None) -> list[str]:
    """A CSV file for each station in a unit of its own: 1 + its number + t / 100 in metres, with a number that means no sample at 10 s."""
    paths = []
    for number, (name, unit) in enumerate(zip(NAMES, units, strict=True)):
        values = UNITS[unit] * (1.0 + number + TIMES / 100)
        if gap is not None:
            values[2] = gap
        rows = [f"{t},{value!r}" for t, value in zip(TIMES.tolist(), values.tolist(), strict=True)]
        paths.append(folder / f"{name}.csv")
        paths[-1].write_text("\n".join([f"time,{name} [{unit}]", *rows]))
    (folder / "stations.csv").write_text(
        "\n".join(["receiver,y,x,sigma,noise [cm]", *(row(number, 0.1 * (number + 1), 10.0 * (number + 1)) for number in range(3))])
    )
    return list(map(str, paths))


def of_csv(folder: Path, **more: Any) -> Scene:
    return scene(folder, **{"path": str(folder / "{receiver}.csv"), "values": None, "receiver": None} | more)


@pytest.mark.parametrize("by", [{"deviations": "sigma"}, {"deviation": 0.1}], ids=["column", "number"])
@pytest.mark.parametrize("units", [("m", "cm", "m"), ("mm", "m", "metre"), ("ft", "ft", "cm"), ("m", "metre", "m"), ("cm", "cm", "cm")])
def test_deviations_without_a_unit_are_refused_beside_files_of_several_units(
    tmp_path: Path, units: tuple[str, ...], by: dict[str, Any]
) -> None:
    csv_files(tmp_path, units)
    sizes = [UNITS[unit] for unit in units]
    if len(set(sizes)) > 1:
        with pytest.raises(
            SceneError, match=r"expected a unit, or files of one unit, found no unit, .*csv.*; (write its unit|give deviat)"
        ):
            of_csv(tmp_path, **by).problem("f64")
        return
    record = of_csv(tmp_path, **by).problem("f64").setup.data["eta"]
    assert record.deviation is not None
    expected = np.array([0.1, 0.2, 0.3] if "deviations" in by else [0.1] * 3) / sizes[0]
    np.testing.assert_allclose(record.deviation[0, 4], expected)


@pytest.mark.parametrize("units", [("m", "cm", "mm"), ("mm", "m", "ft")])
def test_a_column_with_a_unit_has_the_deviations_of_files_of_several_units(tmp_path: Path, units: tuple[str, ...]) -> None:
    csv_files(tmp_path, units)
    record = of_csv(tmp_path, deviations="noise").problem("f64").setup.data["eta"]
    assert record.deviation is not None
    np.testing.assert_allclose(record.deviation[0, 4], [0.1, 0.2, 0.3])


@pytest.mark.parametrize("listed", [False, True], ids=["template", "list"])
@pytest.mark.parametrize("units", [("m", "cm", "mm"), ("mm", "m", "ft"), ("cm", "mm", "cm")])
@pytest.mark.parametrize("gap", [-9999.0, -999.0, 1e20])
def test_numbers_that_mean_no_sample_are_those_of_each_file(tmp_path: Path, units: tuple[str, ...], gap: float, listed: bool) -> None:
    """A file's number for a gap is no length: it has no other number where the file is converted to the unit of the first."""
    paths = csv_files(tmp_path, units, gap)
    case = {"path": paths} if listed else {}
    with pytest.raises(SceneError, match=r"expected measured values, found .* which looks like a fill value"):
        of_csv(tmp_path, **case).problem("f64")
    record = of_csv(tmp_path, missing=[gap], **case).problem("f64").setup.data["eta"]
    expected = 1.0 + np.arange(3) + TIMES[:, None] / 100
    expected[2] = np.nan
    np.testing.assert_allclose(record.values[0], expected)


@pytest.mark.parametrize("row", [0, 4])
def test_a_measured_value_is_no_gap_in_the_unit_of_another_file(tmp_path: Path, row: int) -> None:
    """`missing` has numbers of each file, not of the unit that all files have then."""
    csv_files(tmp_path, ("cm", "m", "mm"))
    converted = 100 * (2.0 + TIMES[row] / 100)  # of the second file, in the unit of the first
    record = of_csv(tmp_path, missing=[converted + d for d in (-1e-13, 0.0, 1e-13)]).problem("f64").setup.data["eta"]
    np.testing.assert_allclose(record.values[0, row, 1], converted / 100)
