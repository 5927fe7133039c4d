"""Where cells lie and how large they are."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from functools import partial
from typing import Any

import numpy as np
import pytest

from diffsim.errors import ParameterError, ShapeError
from diffsim.mesh.angles import ANGLES
from diffsim.mesh.grid import Grid


def test_cells_lie_where_they_are_said_to_lie() -> None:
    grid = Grid((3, 4), (0.5, 2.0), (10.0, -4.0))
    np.testing.assert_array_equal(grid.coordinates(0), [10.0, 10.5, 11.0])
    np.testing.assert_array_equal(grid.coordinates(1), [-4.0, -2.0, 0.0, 2.0])
    np.testing.assert_array_equal(grid.coordinates(0, 1), [10.25, 10.75, 11.25])
    np.testing.assert_array_equal(grid.coordinates(-1, 1), [-3.0, -1.0, 1.0, 3.0])


@pytest.mark.parametrize(
    ("shape", "spacing", "volume", "axes"),
    [((5,), 3.0, 3.0, ("x",)), ((5, 6), 3.0, 9.0, ("y", "x")), ((5, 6, 7), (2.0, 3.0, 4.0), 24.0, ("z", "y", "x"))],
)
def test_sizes(shape: tuple[int, ...], spacing: float | tuple[float, ...], volume: float, axes: tuple[str, ...]) -> None:
    grid = Grid(shape, spacing)
    assert grid.cell_volume == volume
    assert grid.size == np.zeros(shape).size
    assert grid.axes == axes
    assert grid.origin == (0.0,) * len(shape)


def test_a_text_names_an_axis_by_each_letter() -> None:
    assert Grid((5, 6), 1.0, axes="zx").axes == Grid.from_faces(FACES, axes="zx").axes == ("z", "x")
    for text in ("depth", ""):
        with pytest.raises(ParameterError, match="expected a list of names"):
            Grid((5, 6), 1.0, axes=text)


FACES = (np.array([0.0, 1.0, 3.0, 3.5]), np.linspace(-1.0, 1.0, 5))
"""Stretched along the first axis, equally spaced along the second one."""


def test_latitudes_and_longitudes_are_degrees_unless_a_grid_says_otherwise() -> None:
    sphere, stretched = Grid((3, 4), 0.1, axes=("Latitude", "lon")), Grid.from_faces(([30.0, 31.0, 33.0],), axes=("lat",))
    assert sphere.unit == stretched.unit == sphere.repeated(2, "time").unit == sphere.part([(0, 2), (0, 2)]).unit == "degree"
    assert sphere.axis_units == ("degrees_north", "degrees_east") and stretched.axis_units == ("degrees_north",)
    assert Grid((3, 4), 0.1, axes=("rlat", "rlon")).axis_units == ("degree", "degree")
    assert "unit" not in repr(sphere) and "unit='m'" in repr(Grid((3, 4), 0.1, axes=("lat", "lon"), unit="m"))
    assert Grid((3, 4), 0.1, axes=("depth", "x")).axis_units == ("m", "m")
    for unit in ("m", "km"):
        assert Grid((3, 4), 0.1, axes=("lat", "lon"), unit=unit).axis_units == (unit, unit)


@pytest.mark.parametrize("angle", ANGLES)
def test_axes_of_which_some_are_angles_need_a_unit(angle: str) -> None:
    for axes in itertools.permutations((angle.upper(), "depth", "x")):
        said = (
            rf"^grid axes = {re.escape(str(axes))} without a unit, expected one, since .*, unit='m' or unit='degree' \(units of a scene\)$"
        )
        for make in (partial(Grid, (2, 3, 4), 0.1, axes=axes), partial(Grid.from_faces, ([0, 1, 3],) * 3, axes)):
            with pytest.raises(ParameterError, match=said):
                make()
            metres = make(unit="m")
            assert metres.axis_units == ("m", "m", "m") and "unit='m'" in repr(metres)
            assert all(unit.startswith("degree") for unit in make(unit="degree").axis_units)


def test_a_stretched_grid_has_its_centres_half_way_between_faces() -> None:
    grid = Grid.from_faces(FACES)
    assert grid.shape == (3, 4) and grid.axes == ("y", "x") and grid.size == 12
    np.testing.assert_allclose(grid.coordinates(0), [0.5, 2.0, 3.25])
    np.testing.assert_allclose(grid.coordinates(0, 1), [1.0, 3.0, 3.5])
    np.testing.assert_allclose(grid.widths(0), [1.0, 2.0, 0.5])
    np.testing.assert_allclose(grid.widths(0, 1), [1.5, 1.25, 0.5])
    np.testing.assert_allclose(grid.widths(1), 0.5)
    np.testing.assert_allclose(grid.coordinates(1), [-0.75, -0.25, 0.25, 0.75])
    assert grid.uniform_spacing == (None, 0.5) and grid.smallest == (0.5, 0.5) and grid.origin == (0.5, -0.75)
    assert repr(grid) == "Grid(shape=(3, 4), spacing=(0.5 to 2, 0.5), origin=(0.5, -0.75), axes=('y', 'x'))"


def test_stretched_grids_compare_and_travel() -> None:
    grid = Grid.from_faces(FACES)
    other = Grid.from_faces((FACES[0] * [1, 1, 1.01, 1.2], FACES[1]))
    assert grid == Grid.from_faces(FACES) == copy.deepcopy(grid) == pickle.loads(pickle.dumps(grid)) and grid != other
    assert hash(grid) == hash(Grid.from_faces(FACES))


def test_equally_spaced_faces_make_a_uniform_grid() -> None:
    grid, same = Grid.from_faces([FACES[1]]), Grid((4,), 0.5, -0.75)
    assert grid == same and grid.spacing == (0.5,) and grid.cell_volume == 0.5 and grid.faces == (None,)


@pytest.mark.parametrize("name", ["spacing", "cell_volume"])
def test_a_stretched_grid_has_no_spacing(name: str) -> None:
    with pytest.raises(ShapeError, match=r"stretched along y, expected the same everywhere; .*grid\.widths\(axis\)"):
        getattr(Grid.from_faces(FACES), name)


WRONG: dict[str, tuple[Any, str]] = {
    "no tuple": (FACES[0], "expected 1 to 3 arrays in a tuple"),
    "four": ((FACES[0],) * 4, "expected 1 to 3 arrays"),
    "number": ((1.0,), r"axis 0 have shape \(\), expected \(cells \+ 1,\)"),
    "one face": ((FACES[1], [1.0]), r"axis 1 have shape \(1,\)"),
    "falling": ((FACES[0][::-1],), "do not increase, expected finite, increasing"),
    "twice": (([0.0, 1.0, 1.0],), "do not increase"),
    "infinite": (([0.0, 1.0, np.inf],), "do not increase, expected finite"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_faces(what: str) -> None:
    faces, message = WRONG[what]
    with pytest.raises(ShapeError, match=message):
        Grid.from_faces(faces)
    with pytest.raises(ParameterError, match="grid faces along axis 0"):
        Grid.from_faces(["north"])  # type: ignore[list-item]
