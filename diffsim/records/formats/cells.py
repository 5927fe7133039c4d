"""Fields out of tables that have a row for each cell of a regular grid, as x,y,z files have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from diffsim.base.messages import name_shown
from diffsim.errors import DataError
from diffsim.records.conventions.dimensions import by_name
from diffsim.records.conventions.likely import named_alike
from diffsim.records.conventions.variables import Variable, Variables, listed, pick

XYZ = (".xyz",)
"""Extension of a table of three columns without a line of names: x, y and a quantity."""
BARE = ("x", "y", "z")
"""Names of the columns of such a file."""
LEAST = 0.5
"""Part of the cells that a regular grid has at least: points anywhere have far fewer."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A field of a table.

    Attributes:
        name: of the column of its numbers.
        variable: its numbers over the axes of the grid; NaN where the table has no row.
        coordinates: names of the columns of coordinates, one for each axis.
        places: the coordinates along each axis, which rise.
    """

    name: str
    variable: Variable
    coordinates: tuple[str, ...]
    places: tuple[Variable, ...]


def cells_of(columns: Variables, key: str | None, axes: Sequence[str], coordinates: Sequence[str]) -> Cells:
    """The field of a table with a row for each cell, in any order.

    Args:
        columns: of the table.
        key: the column of the field; None: the only one beside the coordinates.
        axes: names of the axes of the grid, two or more.
        coordinates: names of the columns of coordinates, one for each axis; none: those whose names mean the axes.

    Raises:
        DataError: a column is missing or may be another one, or the rows are not those of a regular grid.
    """
    names = tuple(coordinates) or tuple(_column(columns, key, axis) for axis in axes)
    if len(names) != len(axes):
        raise DataError(f"{columns.where}: expected coordinates for {', '.join(axes)}, found {len(names)}; name one column for each")
    places = [pick(columns, name, "coordinates") for name in names]
    name = key or _only(columns, names)
    variable = pick(columns, name, "key")
    for own, place in zip(names, places, strict=True):
        if not np.isfinite(place.values).all():
            raise DataError(f"{columns.where}, column {name_shown(own)}: expected coordinates, found a gap; delete its row")
    uniques = [np.unique(place.values, return_inverse=True) for place in places]
    shape, rows = tuple(len(at) for at, _ in uniques), len(variable.values)
    index = np.ravel_multi_index([inverse for _, inverse in uniques], shape)
    twice = len(np.unique(index)) < rows
    if twice or rows < LEAST * math.prod(shape):
        counted = f"{rows} rows at {' x '.join(map(str, shape))} different {', '.join(map(name_shown, names))}"
        wrong = f"{counted}, some of them twice" if twice else counted
        raise DataError(
            f"{columns.where}: expected one row for each cell of a regular grid, found {wrong}; bring the points to a grid, such as with "
            "gdal_grid or GMT, or name other coordinates"
        )
    values = np.full(shape, np.nan)
    values.flat[index] = variable.values
    along = tuple(replace(place, values=at, axes=(own,)) for own, place, (at, _) in zip(names, places, uniques, strict=True))
    return Cells(name, replace(variable, values=values, axes=names), names, along)


def _column(columns: Variables, key: str | None, axis: str) -> str:
    """The column whose name means an axis: that of the same name, else the only one."""
    alike = [name for name in named_alike(columns, key or "", [axis]).get(axis, ()) if name != key]
    if len(alike) != 1:
        what = f"{' and '.join(map(name_shown, alike))} for {axis}" if alike else f"none for {axis} among {listed(columns.names)}"
        raise DataError(
            f"{columns.where}: expected a column of coordinates along each axis, found {what}; name one for each by coordinates"
        )
    return alike[0]


def _only(columns: Variables, coordinates: Sequence[str]) -> str:
    """The only column beside those of coordinates. One whose name means a horizontal axis is none."""
    names = [name for name in columns.names if name not in coordinates]
    if len(names) != 1 or by_name(names[0]) in ("x", "y", "t"):
        raise DataError(f"{columns.where}: expected the name of one of the columns {listed(columns.names)}, found none; give key")
    return names[0]
