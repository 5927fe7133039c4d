"""Map projections: coordinates of files on the axes of a grid, by pyproj."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.base.messages import shown
from diffsim.base.quantities.units import conversion
from diffsim.errors import DataError
from diffsim.mesh.angles import LATITUDES, LONGITUDES
from diffsim.records.formats.packages import package
from diffsim.typing import Array

EAST = (*LONGITUDES, "x", "easting", "east")
"""Names of coordinates that count eastwards, in small letters."""
NORTH = (*LATITUDES, "y", "northing", "north")
"""Names of coordinates that count northwards."""


@dataclass(frozen=True, eq=False)
class Projection:
    """Takes coordinates of one map projection to those of another one.

    Attributes:
        transformer: of pyproj, with the coordinate to the east first.
        own: numbers of the coordinates of the file to the east and to the north.
        units: of the file's coordinates, one for each axis.
        wanted: units of the grid's coordinates.
        axes: numbers of the grid's axes to the east and to the north.
        reached: units in which pyproj gives the coordinates to the east and to the north.
    """

    transformer: Any
    own: tuple[int, int]
    units: tuple[str, ...]
    wanted: tuple[str, ...]
    axes: tuple[int, int]
    reached: tuple[str, str]

    @classmethod
    def between(cls, own: str, grid: str | None, names: Sequence[str], axes: Sequence[str], grid_units: Sequence[str]) -> Projection:
        """The projection from the coordinates of a file to those of a grid.

        Args:
            own: map projection of the file, as pyproj takes it, such as "EPSG:4326".
            grid: that of the grid; None: not stated.
            names: of the file's coordinates, one for each axis of the grid.
            axes: names of the grid's axes.
            grid_units: units of the grid's coordinates.

        Raises:
            DataError: pyproj is missing or does not know a projection, or axes are not two across the map.
        """
        if grid is None:
            raise DataError(f"crs: expected that of the grid too, found only {shown(own)} of a file; add grid.crs")
        if len(names) != len(axes):
            raise DataError(f"coordinates: expected {len(axes)} names, one for each axis of the grid, found {len(names)}; correct them")
        pyproj = package("pyproj", "map projections")
        systems = []
        for key, text in (("crs", own), ("grid.crs", grid)):
            try:
                systems.append(pyproj.CRS.from_user_input(text))
            except pyproj.exceptions.CRSError:
                raise DataError(f"{key}: expected a map projection that pyproj knows, such as EPSG:4326, found {shown(text)}") from None
        units = [_units(system) for system in systems]
        east, north = across(names)
        spread = list(grid_units)
        spread[east], spread[north] = units[0]
        transformer = pyproj.Transformer.from_crs(*systems, always_xy=True)
        return cls(transformer, (east, north), tuple(spread), tuple(grid_units), across(axes), units[1])

    def __call__(self, places: Array, where: str) -> Array:
        """Places of a file on the axes of the grid, in its units, shape (points, axes).

        Args:
            places: shape (points, axes), in `units`.
            where: the file, for messages.

        Raises:
            DataError: a place lies outside of the projection.
        """
        out = np.array(places, float)
        moved = self.transformer.transform(places[:, self.own[0]], places[:, self.own[1]])
        for axis, unit, values in zip(self.axes, self.reached, moved, strict=True):
            out[:, axis] = conversion(unit, self.wanted[axis])(values)
        return _within(out, places, where)

    def back(self, places: Array, where: str) -> Array:
        """Places on the axes of the grid in the coordinates of the file, in its units; see `__call__`."""
        out = np.array(places, float)
        own = [conversion(self.wanted[axis], unit)(places[:, axis]) for axis, unit in zip(self.axes, self.reached, strict=True)]
        moved = self.transformer.transform(*own, direction="INVERSE")
        for axis, values in zip(self.own, moved, strict=True):
            out[:, axis] = values
        return _within(out, places, where)


def across(names: Sequence[str]) -> tuple[int, int]:
    """Numbers of the coordinates to the east and to the north: by their names, else the last one and the one before it.

    Raises:
        DataError: there are less than two.
    """
    if len(names) < 2:
        raise DataError(f"crs: expected two axes across a map, found {', '.join(names)}; drop it")
    small = [name.lower() for name in names]
    east = next((k for k, name in enumerate(small) if name in EAST), None)
    north = next((k for k, name in enumerate(small) if name in NORTH), None)
    if east is None or north is None:
        return len(names) - 1, len(names) - 2
    return east, north


def _within(moved: Array, places: Array, where: str) -> Array:
    """Moved places, all of which exist.

    Raises:
        DataError: one does not.
    """
    bad = np.flatnonzero(~np.isfinite(moved).all(axis=1))
    if len(bad):
        place = ", ".join(f"{x:g}" for x in places[bad[0]])
        raise DataError(f"{where}: expected places within both map projections, found ({place}); correct crs, or the place")
    return moved


def _units(system: Any) -> tuple[str, str]:
    """Units of the coordinates to the east and to the north of a map projection."""
    unit = system.axis_info[0].unit_name
    plain = {"metre": "m", "degree": "degree", "US survey foot": "survey_foot", "foot": "foot"}.get(unit, unit)
    return plain, plain
