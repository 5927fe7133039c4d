"""Fields out of tables with a row for each cell."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import diffsim as ds
import diffsim.scene
from diffsim.errors import DataError
from diffsim.records import read_field

X, Y, Z = 1000.0 * np.arange(3), 2000.0 * np.arange(4) - 500, 30.0 * np.arange(2)
NAMES = {"y": ("y", "northing", "lat"), "x": ("x", "easting", "lon"), "z": ("z",)}


def rows_of(axes: tuple[str, ...], values: np.ndarray, places: dict[str, np.ndarray], seed: int) -> np.ndarray:
    """A row for each cell, in any order: the coordinates in the order of the axes, and the number."""
    each = np.meshgrid(*(places[axis] for axis in axes), indexing="ij")
    rows = np.column_stack([*(place.ravel() for place in each), values.ravel()])
    return np.random.default_rng(seed).permutation(rows)


@pytest.mark.parametrize("axes", [("y", "x"), ("x", "y"), ("z", "x"), ("z", "y", "x")])
@pytest.mark.parametrize("split", [",", "\t", " "])
@pytest.mark.parametrize("number", [0, 1])
def test_a_row_for_each_cell(tmp_path: Path, axes: tuple[str, ...], split: str, number: int) -> None:
    """Whatever the order of rows and columns: read by row they would be turned or mirrored."""
    places = {"x": X, "y": Y, "z": Z}
    values = np.random.default_rng(0).normal(size=tuple(len(places[axis]) for axis in axes))
    for order in itertools.permutations(range(len(axes) + 1)):
        rows = rows_of(axes, values, places, 1)[:, order]
        names = [*(NAMES[axis][number % len(NAMES[axis])] for axis in axes), "speed"]
        (tmp_path / "a.csv").write_text(
            "\n".join([split.join(names[k] for k in order), *(split.join(map(repr, row)) for row in rows.tolist())])
        )
        field = read_field(tmp_path / "a.csv", axes=axes)
        np.testing.assert_array_equal(field.values, values)
        assert field.coordinates is not None and field.axes == axes
        for axis, place in zip(axes, field.coordinates, strict=True):
            np.testing.assert_array_equal(place, places[axis])


@pytest.mark.parametrize("head", [["x [km],y [km],c [km/s]"], ["x,y,c", "km,km,km/s"], ["# x,y,c", "# km,km,km/s"]])
def test_units_of_a_row_for_each_cell(tmp_path: Path, head: list[str]) -> None:
    rows = rows_of(("x", "y"), np.arange(12.0).reshape(3, 4), {"x": X / 1000, "y": Y / 1000}, 2)
    (tmp_path / "a.csv").write_text("\n".join([*head, *(",".join(map(repr, row)) for row in rows.tolist())]))
    grid = ds.Grid((4, 3), (2000.0, 1000.0), origin=(-500.0, 0.0), axes=("y", "x"))
    speed = ds.scene.field_on_grid(tmp_path / "a.csv", grid, "m/s")
    np.testing.assert_allclose(speed, 1000 * np.arange(12.0).reshape(3, 4).T)


@pytest.mark.parametrize("split", [",", " ", "\t"])
@pytest.mark.parametrize("head", ["", "# by hand\n", "x{0}y{0}z\n", "# x{0}y{0}z\n"])
def test_an_xyz_file(tmp_path: Path, split: str, head: str) -> None:
    values = np.random.default_rng(3).normal(size=(4, 3))
    rows = rows_of(("y", "x"), values, {"x": X, "y": Y}, 3)[:, [1, 0, 2]]
    (tmp_path / "a.xyz").write_text(head.format(split) + "\n".join(split.join(map(repr, row)) for row in rows.tolist()))
    np.testing.assert_array_equal(read_field(tmp_path / "a.xyz", axes=("y", "x")).values, values)
    with pytest.raises(DataError, match="expected the name of one of the columns x, y, z, found none; give key"):
        read_field(tmp_path / "a.xyz", axes=("z", "x"))


def test_cells_without_a_row_are_gaps(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(4, 3)
    rows = rows_of(("y", "x"), values, {"x": X, "y": Y}, 4)
    rows = rows[~np.isin(rows[:, 2], [0, 4, 5, 10])]
    (tmp_path / "a.csv").write_text("\n".join(["y,x,c", *(",".join(map(repr, row)) for row in rows.tolist())]))
    field = read_field(tmp_path / "a.csv", axes=("y", "x"))
    there = np.isfinite(field.values)
    assert there.sum() == 8 and (field.values == values)[there].all()


@pytest.mark.parametrize("wrong", ["anywhere", "twice", "names", "gap", "key"])
def test_tables_that_are_no_grid_are_refused(tmp_path: Path, wrong: str) -> None:
    rows = rows_of(("y", "x"), np.arange(12.0).reshape(4, 3), {"x": X, "y": Y}, 5)
    names, match = "y,x,c", "expected one row for each cell of a regular grid, found 12 rows at .*; bring the points to a grid"
    if wrong == "anywhere":
        rows[:, :2] += np.random.default_rng(0).normal(size=(12, 2))
    elif wrong == "twice":
        rows, match = np.vstack([rows[1:], rows[5:6]]), "12 rows at 4 x 3 different y, x, some of them twice"
    elif wrong == "names":
        names, match = "row,col,c", "expected a column of coordinates along each axis, found none for y among row, col, c; name one"
    elif wrong == "gap":
        rows[3, 0], match = np.nan, "column y: expected coordinates, found a gap; delete its row"
    else:
        rows, names, match = np.column_stack([rows, rows[:, 2]]), "y,x,c,d", "found none; give key"
    (tmp_path / "a.csv").write_text("\n".join([names, *(",".join(map(repr, row)) for row in rows.tolist())]))
    with pytest.raises(DataError, match=match):
        read_field(tmp_path / "a.csv", axes=("y", "x"))
