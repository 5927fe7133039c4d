"""Heights and depths of files, whose attributes say which way they count, in fields that count one way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import SceneError
from diffsim.scene import Scene
from diffsim.scene.schema.parts import FieldModel
from diffsim.scene.setup.fields import build_field
from diffsim.scene.setup.place import Place
from tests.scene.tiny import WAVE, tables

GRID = ds.Grid((6, 8), spacing=100.0, axes=("y", "x"))
NUMBERS = 1.0 + np.arange(48.0).reshape(6, 8)
STATED: dict[str, tuple[str, dict[str, str]]] = {
    "up": ("a", {"positive": "up"}),
    "up, height": ("b", {"standard_name": "height_above_mean_sea_level"}),
    "up, altitude": ("b", {"standard_name": "surface_altitude"}),
    "up, level": ("zeta", {"standard_name": "sea_surface_height_above_geoid"}),
    "up, by name": ("elevation", {}),
    "down": ("c", {"positive": "Down"}),
    "down, floor": ("h", {"standard_name": "sea_floor_depth_below_geoid"}),
    "down, by name": ("Depth", {}),
    "down, positive first": ("elevation", {"positive": "down"}),
    "silent": ("bathymetry", {"long_name": "depth"}),
}


def written(folder: Path, name: str, attributes: dict[str, str], shape: tuple[int, ...] = (6, 8), spacing: float = 100.0) -> Path:
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    coordinates = {axis: spacing * np.arange(n) for axis, n in zip("yx", shape, strict=True)}
    values = 1.0 + np.arange(float(np.prod(shape))).reshape(shape)
    xarray.Dataset({name: (("y", "x"), values, {"units": "m", **attributes})}, coords=coordinates).to_netcdf(folder / "bed.nc")
    return folder / "bed.nc"


def built(path: Path, sense: str, **keys: Any) -> Any:
    part = FieldModel.model_validate({"file": {"path": str(path), **keys}}, context={})
    return build_field(part, Place(GRID, GRID, "fields.z", unit="m", sense=sense))


@pytest.mark.parametrize("scale", [1.0, -1.0, 2.5, -0.5])
@pytest.mark.parametrize("sense", ["up", "down", ""])
@pytest.mark.parametrize("stated", STATED)
def test_heights_are_no_depths(tmp_path: Path, stated: str, sense: str, scale: float) -> None:
    path, of_file = written(tmp_path, *STATED[stated]), stated.split(",")[0]
    known = sense != "" and of_file != "silent"
    if known and (of_file == sense) != (scale > 0):
        remedy = rf"give scale = {-scale:g}" if scale > 0 else rf"drop the sign of scale = {scale:g}"
        with pytest.raises(
            SceneError, match=rf"fields\.z\.file\.path: expected numbers that count {sense}, .* count {of_file}.*; {remedy}, or"
        ):
            built(path, sense, scale=scale)
        np.testing.assert_allclose(built(path, sense, scale=scale, allow=["sense"]), scale * NUMBERS)
        return
    np.testing.assert_allclose(built(path, sense, scale=scale), scale * NUMBERS)


@pytest.mark.parametrize("stated", ["up, height", "down, floor"])
def test_the_depth_of_a_scene_counts_downwards(tmp_path: Path, stated: str) -> None:
    path = written(tmp_path, *STATED[stated], shape=(14, 16), spacing=500.0)
    case = Scene(**tables(WAVE) | {"fields": {"H": {"file": {"path": str(path), "scale": 4.0}}}})
    if stated.startswith("up"):
        with pytest.raises(SceneError, match=r"fields\.H\.file\.path: expected numbers that count down, .*; give scale = -4, or allow"):
            case.problem("f64")
        return
    np.testing.assert_allclose(case.problem("f64").known["H"], 4.0 + 4.0 * np.arange(224.0).reshape(14, 16))


@pytest.mark.parametrize("stated", ["up, height", "down, floor", "down"])
def test_heights_of_another_map_projection_are_no_depths(tmp_path: Path, stated: str) -> None:
    pytest.importorskip("pyproj")
    path = written(tmp_path, *STATED[stated])
    keys = {"file": {"path": str(path), "crs": "EPSG:32654"}}
    part = FieldModel.model_validate(keys, context={})
    other = "up" if stated.startswith("down") else "down"
    for sense, fits in ((other, False), ("", True), (stated.split(",")[0], True)):
        place = Place(GRID, GRID, "fields.z", unit="m", sense=sense, crs="EPSG:32654")
        if fits:
            np.testing.assert_allclose(build_field(part, place), NUMBERS)
            continue
        with pytest.raises(SceneError, match=rf"fields\.z\.file\.path: expected numbers that count {sense}, .*; give scale = -1, or allow"):
            build_field(part, place)


def test_what_counts_up_and_down() -> None:
    """Solvers say so of their inputs, tides of several sides among them."""
    water = ds.solvers.ShallowWater(GRID, 0.1, sides=(("tide", "wall"), ("wall", "tide")))
    assert {name: water.positive.get(name, "") for name in (*water.parameters, *water.series, "eta")} == {
        "z": "up",
        "eta": "up",
        "tide_low_y": "up",
        "tide_high_x": "up",
    }
    assert ds.solvers.LongWave(GRID, 0.1).positive["H"] == "down"
