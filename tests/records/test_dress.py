"""One field, and one set of records, as users write them: where coordinates go by other names, fall, lie in groups, or contradict.

Members are drawn at random. Each gives the same numbers in every dress, or one message; `slow` draws more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest

import diffsim as ds
from diffsim.base.quantities.named import SYMBOLS, WORDS, require_stated
from diffsim.errors import DataError, ParameterError, SceneError
from diffsim.records import Layout, read_records
from diffsim.scene import field_on_grid
from diffsim.scene.schema.schema import Data
from diffsim.scene.setup.recorded import Recorded, Shots, read_data

GATE, MORE = 60, 2000
"""Draws of the gate, and of the slow test."""
GRID = ds.Grid((4, 5), 10.0, origin=(5.0, 105.0), axes=("y", "x"))
NAMES = {"y": ("y", "Y", "northing", "lat", "latitude", "north", "yc"), "x": ("x", "X", "easting", "lon", "longitude", "east", "xc")}
CLOSE = 1e-9


def height(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """It is linear, so that interpolation is exact, and differs from its mirror images."""
    return 1 + 0.01 * y[:, None] + 0.003 * x[None, :]


def drawn_field(folder: Path, rng: np.random.Generator) -> tuple[Path, str, list[str]]:
    """A file of the field on the cells of the grid, or on others. Returns the path, the name of the field, and what was drawn."""
    kind = str(rng.choice(["npz", "npz open", "h5", "h5 open", "nc", "nc 2-D", "npz 2-D"]))
    y, x = (GRID.coordinates(axis) for axis in (0, 1))
    if rng.random() < 0.5:  # another raster around the grid
        y, x = np.arange(0.0, 46.0, 5.0), np.arange(100.0, 156.0, 8.0)
    if rng.random() < 0.5:
        y = y[::-1]
    if rng.random() < 0.5:
        x = x[::-1]
    turned = bool(rng.random() < 0.5)
    group = "model/" if rng.random() < 0.3 and not kind.startswith("npz") else ""
    names = {axis: str(rng.choice(words)) for axis, words in NAMES.items()}
    values = height(y, x)
    places = {"y": y, "x": x}
    if kind.endswith("2-D"):
        places = {"y": np.broadcast_to(y[:, None], values.shape), "x": np.broadcast_to(x[None, :], values.shape)}
        places = {axis: at.T if turned else at for axis, at in places.items()}
    if kind.endswith("open"):  # as numpy.ogrid makes them, and MATLAB
        places = {"y": y[:, None], "x": x[None, :]}
    stored, dims = (values.T, ("c", "r")) if turned else (values, ("r", "c"))
    over = {"y": ("r",), "x": ("c",)} if not kind.endswith("2-D") else dict.fromkeys("yx", dims)
    path = folder / f"a.{kind.split()[0]}"
    if kind.startswith("npz"):
        np.savez(path, H=stored, **{names[axis]: at for axis, at in places.items()})
    elif kind.startswith("h5"):
        with h5py.File(path, "w") as file:
            file[f"{group}H"] = stored
            for axis, at in places.items():
                file[f"{group}{names[axis]}"] = at
    else:
        with netCDF4.Dataset(path, "w") as file:
            inside = file.createGroup("model") if group else file
            for name, n in zip(dims, stored.shape, strict=True):
                inside.createDimension(name, n)
            inside.createVariable("H", "f8", dims)[:] = stored
            for axis, at in places.items():
                inside.createVariable(names[axis], "f8", over[axis])[:] = at
    return path, f"{group}H", [kind, *names.values(), f"turned: {turned}", f"y {y}", f"x {x}"]


def check_fields(folder: Path, seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        path, key, drawn = drawn_field(folder, rng)
        field = field_on_grid(path, GRID, "m", key=key)
        np.testing.assert_allclose(field, height(GRID.coordinates(0), GRID.coordinates(1)), rtol=CLOSE, err_msg=str(drawn))


def test_coordinates_under_any_name_are_used(tmp_path: Path) -> None:
    check_fields(tmp_path, 1, GATE)


@pytest.mark.slow
def test_more_coordinates_under_any_name(tmp_path: Path) -> None:
    check_fields(tmp_path, 2, MORE)


def test_numbers_of_cells_are_no_coordinates(tmp_path: Path) -> None:
    values = height(GRID.coordinates(0), GRID.coordinates(1))
    for first in (0, 1):
        np.savez(tmp_path / "a.npz", H=values, y=first + np.arange(4), x=first + np.arange(5))
        np.testing.assert_array_equal(field_on_grid(tmp_path / "a.npz", GRID, "m", key="H"), values)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"y": np.arange(4.0)[::-1]}, "found y and none along x; add them, or give spacing"),
        (
            {"lat": 5 + 10 * np.arange(4.0), "northing": np.arange(4.0)[::-1], "x": 105 + 10 * np.arange(5.0)},
            "found lat and northing; name",
        ),
        ({"y": 15 + 10 * np.arange(4.0), "x": 105 + 10 * np.arange(5.0)}, "expected a grid with y from 15 to 45"),
    ],
)
def test_coordinates_that_do_not_fit_are_refused(others: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", H=np.arange(20.0).reshape(4, 5), **others)
    with pytest.raises(SceneError, match=message):
        field_on_grid(tmp_path / "a.npz", GRID, "m", key="H")


def test_two_coordinates_of_a_dimension_are_refused(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        for name, n in (("r", 4), ("c", 5)):
            file.createDimension(name, n)
        file.createVariable("H", "f8", ("r", "c"))[:] = np.arange(20.0).reshape(4, 5)
        for name in ("lat", "northing"):
            file.createVariable(name, "f8", ("r",))[:] = 5 + 10 * np.arange(4.0)
    with pytest.raises(SceneError, match="one array of coordinates along the dimension r, found lat and northing"):
        field_on_grid(tmp_path / "a.nc", GRID, "m", key="H")


def test_a_series_goes_by_its_times(tmp_path: Path) -> None:
    """A row is a time step only where the file has no times."""
    steps = ds.Grid((11,), 0.2, axes=("time",))
    own = 0.1 * np.arange(21)
    for name in ("time", "t", "times"):
        np.savez(tmp_path / "a.npz", L=3 * own, **{name: own})
        np.testing.assert_allclose(field_on_grid(tmp_path / "a.npz", steps, "", key="L"), 3 * steps.coordinates(0), atol=CLOSE)


@pytest.mark.parametrize("dtype", [">f4", "<f8", ">f8", "<i4", "<i2"])
def test_bare_numbers_of_another_type_are_refused(dtype: str, tmp_path: Path) -> None:
    """Their bytes are as many as those of numbers in f32."""
    values = np.tile(1001.23 * height(GRID.coordinates(0), GRID.coordinates(1)).ravel(), 2).astype(dtype)
    (tmp_path / "a.bin").write_bytes(values.tobytes()[:80])
    with pytest.raises(SceneError, match=r"type float32, little-endian, found bytes that look like (integers|float)"):
        field_on_grid(tmp_path / "a.bin", GRID, "m")
    gaps = np.append(values[:3].astype(float), np.nan).astype("<f4")
    gaps.tofile(tmp_path / "b.bin")
    (records,) = read_records(tmp_path / "b.bin", Layout(dt=1.0, shape=gaps.shape))
    np.testing.assert_array_equal(records.values[:, 0], gaps)


@pytest.mark.parametrize("values", [[1500.0, 2000.0, 3000.0], [1.0], [0.5, -0.25]])
def test_round_numbers_of_a_big_endian_file_are_known_for_what_they_are(values: list[float], tmp_path: Path) -> None:
    np.repeat(np.array(values, ">f4"), 12).tofile(tmp_path / "a.bin")
    with pytest.raises(DataError, match="bytes that look like float32, big-endian"):
        read_records(tmp_path / "a.bin", Layout(dt=1.0, shape=(12 * len(values),)))


@pytest.mark.parametrize("formula", [lambda t: (1 - 2 * t**2) * np.exp(-(t**2)), lambda t: 1e-28 * (2 + np.cos(t))], ids=["tails", "tiny"])
def test_tails_and_tiny_numbers_are_read(formula: Callable[[np.ndarray], np.ndarray], tmp_path: Path) -> None:
    numbers = formula(np.linspace(-12, 12, 100)).astype("<f4")
    numbers.tofile(tmp_path / "a.bin")
    (records,) = read_records(tmp_path / "a.bin", Layout(dt=1.0, shape=(100,)))
    np.testing.assert_array_equal(records.values[:, 0], numbers)


@pytest.mark.parametrize("count", [10, 15000])
def test_large_integers_are_refused(count: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for numbers in (rng.normal(0, 1e8, count), 1e9 * rng.random(count), rng.integers(1000, 5000, count)):
        numbers.astype("<i4").tofile(tmp_path / "a.bin")
        with pytest.raises(DataError, match="bytes that look like integers"):
            read_records(tmp_path / "a.bin", Layout(dt=1.0, shape=(count,)))


def test_an_array_that_neither_rises_nor_falls_is_no_coordinate(tmp_path: Path) -> None:
    """The height of the ground along a section is not where its rows lie."""
    grid = ds.Grid((20, 30), 1.0, axes=("z", "x"))
    values = np.random.default_rng(0).random(grid.shape)
    np.savez(tmp_path / "a.npz", vp=values, elevation=100 * np.sin(np.arange(30.0)))
    np.testing.assert_array_equal(field_on_grid(tmp_path / "a.npz", grid, "m/s", key="vp"), values)
    np.savez(tmp_path / "a.npz", vp=values, depth=np.arange(20.0) * 2 + 1)
    with pytest.raises(SceneError, match="expected coordinates, or none at all, found depth and none along x"):
        field_on_grid(tmp_path / "a.npz", grid, "m/s", key="vp")


@pytest.mark.parametrize("name", ["CM", "Station KM", "site at 12 km", "x=5 km", "12.5 km", "gauge-D", "Min", "tau_d", "tau_h", "dt_min"])
def test_a_name_of_a_place_is_no_unit(name: str) -> None:
    for unit in ("m", "s"):
        require_stated(name, unit, "gauges.csv", of_place=True)
    with pytest.raises(DataError, match="expected the unit of G1_cm, whose name ends like cm"):
        require_stated("G1_cm", "m", "gauges.csv", of_place=True)
    require_stated("p_bar", "Pa", "mean.npz")  # a mean


BEFORE = ("time", "t", "x", "p", "dt", "G1", "elapsed")


@pytest.mark.parametrize("between", ["_", "/", ".", " ", "hump"])
@pytest.mark.parametrize("before", BEFORE)
def test_units_at_the_end_of_names(before: str, between: str) -> None:
    """A unit other than the wanted one is asked for, but where it may be an index of a symbol, as in dt_min, or a place, as in G1.cm."""
    for word, own in WORDS.items():
        name = before + word.capitalize() if between == "hump" else before + between + word
        for wanted in ("s", "m", "km", "Pa", "degrees"):
            is_place = before == "G1" and between != "_"
            is_index = word in SYMBOLS and between != "/" and before in ("p", "dt", "G1")
            is_symbol = before == "p" and between == "hump" and word in SYMBOLS
            if is_place or is_index or is_symbol or own not in SIZES.get(wanted, {}) or SIZES[wanted][own] == 1:
                require_stated(name, wanted, "a.csv")
                continue
            with pytest.raises(DataError, match=f"whose name ends like {own}, found none"):
                require_stated(name, wanted, "a.csv")


SIZES = {
    "s": dict.fromkeys(("ns", "us", "ms", "min", "h", "d", "week", "month", "year"), 2),
    "m": dict.fromkeys(("nm", "um", "mm", "cm", "km", "ft"), 2) | {"m": 1},
    "km": dict.fromkeys(("nm", "um", "mm", "cm", "m", "ft"), 2) | {"km": 1},
    "Pa": dict.fromkeys(("hPa", "kPa", "bar"), 2),
    "degrees": {"rad": 2, "degree": 1},
}
"""Wanted unit -> unit at the end of a name that converts to it -> 1 where both are the same."""


@pytest.mark.parametrize("key", ["time_unit", "unit"])
@pytest.mark.parametrize("kind", ["ns", "ms", "s", "m", "h", "D"])
def test_a_type_that_has_a_unit_takes_no_other(kind: str, key: str, tmp_path: Path) -> None:
    """The numbers were in seconds already: a key read them as minutes, 60 times as large."""
    spans = (np.arange(4) * np.timedelta64(1, "D")).astype(f"timedelta64[{kind}]")
    np.savez(tmp_path / "a.npz", values=np.arange(4.0) if key == "time_unit" else spans, times=spans)
    (records,) = read_records(tmp_path / "a.npz")
    np.testing.assert_array_equal(records.times, 86400.0 * np.arange(4))
    for unit in ("s", "min", "d"):
        with pytest.raises(DataError, match=f"expected no {key} for timedelta64, whose type has the unit, found '{unit}'; drop it"):
            read_records(tmp_path / "a.npz", Layout(**{key: unit}))
    np.savez(tmp_path / "b.npz", late=np.resize(spans, GRID.shape), y=GRID.coordinates(0), x=GRID.coordinates(1))
    np.testing.assert_array_equal(field_on_grid(tmp_path / "b.npz", GRID, "s", key="late").ravel()[:4], records.times)
    with pytest.raises(SceneError, match="expected no unit for timedelta64"):
        field_on_grid(tmp_path / "b.npz", GRID, "s", key="late", unit="min")


def test_a_strange_unit_of_times_is_stated_by_its_own_key(tmp_path: Path) -> None:
    for unit in ("m", "kg", "ton"):
        (tmp_path / "a.csv").write_text(f"time [{unit}],a\n0,1\n1,2\n")
        with pytest.raises(DataError, match="by time_unit"):
            read_records(tmp_path / "a.csv")


def test_formats_of_segy_that_are_not_read(tmp_path: Path) -> None:
    """Fixed point with gain has as many bytes as f32, for which it was taken."""
    head = bytearray(3600)
    for at, number in ((3216, 4000), (3220, 12)):
        head[at : at + 2] = number.to_bytes(2, "big")
    trace = bytearray(240)
    trace[114:116] = (12).to_bytes(2, "big")
    samples = np.arange(12)
    for code in (4, 0, 99, 2):
        head[3224:3226] = code.to_bytes(2, "big")
        (tmp_path / "a.sgy").write_bytes(bytes(head + trace) + samples.astype(">i4").tobytes())
        if code == 2:
            np.testing.assert_array_equal(read_records(tmp_path / "a.sgy")[0].values[:, 0], samples)
            continue
        with pytest.raises(DataError, match=rf"samples have a format code of 1, 2, .*, found {code}; write it again with code 5"):
            read_records(tmp_path / "a.sgy")


POINTS = np.array([[50.0, 60.0], [100.0, 250.0], [200.0, 120.0]])
TIMES = np.array([0.0, 7.5, 13.0, 21.0, 30.0, 44.0, 60.0])
VALUES = np.random.default_rng(0).standard_normal((7, 3))


def recorded(path: Path, **keys: Any) -> Recorded:
    """Records of a run of 60 s over a grid of 30 x 40 cells of 10 m."""
    return read_data(Data(path=[str(path)], **keys), "m", ds.Grid((30, 40), 10.0, axes=("y", "x")), POINTS, Shots(1), 0.5, 120)


def test_places_of_a_file_that_contradict_the_points_are_refused(tmp_path: Path) -> None:
    """Those within a cell, and an axis of zeros, say nothing else."""
    for places in (POINTS, POINTS + 9.9, POINTS * [1, 0]):
        np.savez(tmp_path / "a.npz", values=VALUES, times=TIMES, coordinates=places)
        np.testing.assert_array_equal(recorded(tmp_path / "a.npz").values[0], VALUES)
    np.savez(tmp_path / "a.npz", values=VALUES, times=TIMES, coordinates=POINTS[::-1])
    with pytest.raises(
        DataError, match=r"trace 0: expected a receiver at point 0 of the scene, y = 50, x = 60, found it at y = 200"
    ) as caught:
        recorded(tmp_path / "a.npz")
    assert len(str(caught.value).splitlines()) == 2  # the middle one is in its place
    np.testing.assert_array_equal(recorded(tmp_path / "a.npz", allow=["receivers"]).values[0], VALUES)


def test_times_in_f32_do_not_lose_the_last_sample(tmp_path: Path) -> None:
    for unit, size in (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86400.0)):
        np.savez(tmp_path / "a.npz", values=VALUES, times=(TIMES / size).astype("f4"))
        got = recorded(tmp_path / "a.npz", time_unit=unit)
        np.testing.assert_array_equal(got.until(60.0).values[0], VALUES)


def test_a_step_that_contradicts_times_under_another_name_is_refused(tmp_path: Path) -> None:
    for name in ("t", "Time", "TIMES"):
        np.savez(tmp_path / "a.npz", values=VALUES, **{name: 0.5 * np.arange(7)})
        assert read_records(tmp_path / "a.npz", Layout(dt=0.5))[0].times[-1] == 3.0
        with pytest.raises(
            DataError, match=f'found 10 s where they have 0.5 s; give times = "{name}" in place of dt, or rename {name} if it has no times'
        ):
            read_records(tmp_path / "a.npz", Layout(dt=10.0))
        assert read_records(tmp_path / "a.npz", Layout(times=name))[0].times[-1] == 3.0


@pytest.mark.parametrize(
    "other",
    [
        np.array([0.1, 0.5, 0.55]),  # picks, one for each receiver
        np.array(["2020-01-01T00:00:00", "2020-01-01T00:00:10"]),
        np.array(list("abcdefg")),
        np.arange(7),
        1 + np.arange(7),
        np.ones((7, 3)),
        280.0,
    ],
)
def test_a_step_beside_something_else_of_a_name_of_times_is_used(other: object, tmp_path: Path) -> None:
    for name in ("t", "Time"):
        np.savez(tmp_path / "a.npz", values=VALUES, **{name: other})
        assert read_records(tmp_path / "a.npz", Layout(dt=0.25))[0].times[-1] == 1.5


def test_a_step_beside_temperatures_is_used(tmp_path: Path) -> None:
    for unit, message in (("K", ""), ("ms", "where they have 0.003 s")):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["values"], file["t"] = VALUES, 280.0 + 3 * np.arange(7)
            file["t"].attrs["units"] = unit
        if not message:
            assert read_records(tmp_path / "a.h5", Layout(values="values", dt=0.25))[0].times[-1] == 1.5
            continue
        with pytest.raises(DataError, match=message):
            read_records(tmp_path / "a.h5", Layout(values="values", dt=0.25))


NAMED = [
    ("time_ms", "s", "ms"),
    ("minutes", "s", "min"),
    ("Time/min", "s", "min"),
    ("t (hours", "s", ""),
    ("height_cm", "m", "cm"),
    ("eta.km", "m", "km"),
    ("p-kPa", "Pa", "kPa"),
    ("p kpa", "Pa", "kPa"),
    ("T_degC", "K", "degC"),
    ("12 km", "m", ""),
    ("time_s", "s", ""),
    ("time", "s", ""),
    ("h", "m", ""),
    ("cm", "", ""),
    ("height_cm", "K", ""),
]
"""A name, the unit for which its numbers would be taken, and the one that its end means; "": nothing else."""


@pytest.mark.parametrize(("name", "wanted", "own"), NAMED)
def test_a_unit_at_the_end_of_a_name_is_asked_for(name: str, wanted: str, own: str) -> None:
    if not own:
        require_stated(name, wanted, "a.csv")
        return
    with pytest.raises(DataError, match=rf'whose name ends like {own}, found none; give unit = "{own}", or "{wanted}" if'):
        require_stated(name, wanted, "a.csv")


@pytest.mark.parametrize("unit", ["°C", "°F", "℃", "℉", "deg C", "degrees F", "Deg. C", "deg_C"])
@pytest.mark.parametrize("place", ["A", "plate 3", "water_temp", "Temp,"])
def test_degrees_at_the_end_of_a_name_are_asked_for(tmp_path: Path, unit: str, place: str) -> None:
    """As columns of a quantity and of a place: read in K, temperatures would be 273 too low."""
    own = "degF" if unit[-1] in "F℉" else "degC"
    for of_place in (False, True):
        with pytest.raises(DataError, match=f"whose name ends like {own}, found none"):
            require_stated(f"{place} {unit}", "K", "a.csv", of_place=of_place)
        require_stated(f"{place} {unit}", own, "a.csv", of_place=of_place)
        require_stated(f"{place} {unit}", "m", "a.csv", of_place=of_place)


def test_names_with_units_in_files(tmp_path: Path) -> None:
    """Times, values, receivers and coordinates; a unit that is stated replaces the name."""
    np.savez(tmp_path / "a.npz", height_cm=100 * VALUES, time_ms=1e3 * TIMES)
    names = {"values": "height_cm", "times": "time_ms"}
    with pytest.raises(DataError, match='whose name ends like ms, found none; give time_unit = "ms", or "s"'):
        recorded(tmp_path / "a.npz", **names)
    with pytest.raises(DataError, match='whose name ends like cm, found none; give unit = "cm", or "m"'):
        recorded(tmp_path / "a.npz", **names, time_unit="ms")
    np.testing.assert_allclose(recorded(tmp_path / "a.npz", **names, time_unit="ms", unit="cm").values[0], VALUES)
    lines = [",".join(map(repr, [t, *row])) for t, row in zip(TIMES.tolist(), (100 * VALUES).tolist(), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["time,a/cm,b/cm,c/cm", *lines]))
    with pytest.raises(DataError, match="the unit of a/cm, whose name ends like cm"):
        recorded(tmp_path / "a.csv")
    np.testing.assert_allclose(recorded(tmp_path / "a.csv", unit="cm").values[0], VALUES)
    np.savez(tmp_path / "b.npz", depth_km=np.ones((4, 5)))
    with pytest.raises(SceneError, match="the unit of depth_km, whose name ends like km"):
        field_on_grid(tmp_path / "b.npz", GRID, "m", key="depth_km")
    assert field_on_grid(tmp_path / "b.npz", GRID, "m", key="depth_km", unit="km")[0, 0] == 1000
    np.savez(tmp_path / "c.npz", values=VALUES, times=TIMES, y_km=POINTS[:, 0], x_km=POINTS[:, 1])
    with pytest.raises(DataError, match="y_km: expected the unit of y_km, whose name ends like km"):
        read_records(tmp_path / "c.npz", Layout(axes=("y", "x"), coordinates=("y_km", "x_km")))


@pytest.mark.parametrize(("unit", "expected"), [("km", "m"), ("cm", "m"), ("feet", "m"), ("rad", "degree")])
def test_a_grid_in_another_unit_is_refused(unit: str, expected: str) -> None:
    """Solvers count in metres, and on the sphere in degrees: lengths in km were taken for metres."""
    sphere = expected == "degree"
    grid = ds.Grid((8, 9), 0.5, axes=("lat", "lon") if sphere else ("y", "x"), unit=unit)
    with pytest.raises(ParameterError, match=f"grid.unit = '{unit}', expected {expected}, in which the equation counts; multiply"):
        ds.solvers.LongWave(grid, 1e-3, coordinates="sphere" if sphere else "plane")
    for usual in ("m", "metres", "degree", "degrees north", ""):
        ds.solvers.LongWave(ds.Grid((8, 9), 0.5, unit=usual), 1e-3)
    ds.solvers.Maxwell(ds.Grid((8, 9), 0.1, unit="µm"), 0.05, "TM")  # lengths in any unit
    ds.solvers.Schroedinger(ds.Grid((8,), 0.1, unit="nm"), 0.001)


def test_a_table_without_a_line_of_names_is_refused(tmp_path: Path) -> None:
    rows = "0.0,0.1,0.2\n1.0,0.3,0.1\n"
    (tmp_path / "a.csv").write_text(rows)
    with pytest.raises(DataError, match="line 1: expected a line of names, found numbers; add it"):
        read_records(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("# by hand,in,May\n# for a test,of,it\n# time,a,b\n" + rows)
    with pytest.raises(DataError, match='line 4: expected a line of names, found numbers; take the "#" away'):
        read_records(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("  # made by hand\ntime,a,b\n" + rows)
    assert read_records(tmp_path / "a.csv")[0].names == ("a", "b")
