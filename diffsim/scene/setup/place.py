"""The grid, the key and the unit of a field that is built."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from diffsim.errors import SceneError
from diffsim.mesh.grid import Grid
from diffsim.scene.words.rules import TIME
from diffsim.scene.words.suggest import require_known
from diffsim.typing import Array

BEYOND = 0.5
"""A grid may reach past a data set by this many of the data set's cells."""


@dataclass(frozen=True)
class Place:
    """The grid and the key of a field to build.

    Attributes:
        grid: the grid of the field.
        base: the scene's own grid, which covers the same region. Files hold values over its cells.
        key: key of the field in the scene, for messages.
        beyond: the grid may reach past given numbers by this many of their cells. There the end values continue.
        unit: of the field; "": none is known, and numbers out of files are taken as they are.
        inner: the cells of `base` without those around it for a layer, where numbers out of files continue; None: there are none around.
        crs: map projection of the axes; None: not stated.
        sense: "up" or "down" of a field of heights or depths; "": it is none.
    """

    grid: Grid
    base: Grid
    key: str
    beyond: float = BEYOND
    unit: str = ""
    inner: Grid | None = None
    crs: str | None = None
    sense: str = ""

    @property
    def given(self) -> Grid:
        """The grid over whose cells files hold numbers."""
        return self.inner or self.base

    def mesh(self) -> list[Array]:
        """Coordinates of the cells, one array an axis, ready to broadcast."""
        grid = self.grid
        return list(np.meshgrid(*(grid.coordinates(axis) for axis in range(grid.ndim)), indexing="ij", sparse=True))

    def axis(self, name: str) -> int:
        """Number of the axis of that name."""
        require_known(f"{self.key}.axis", name, self.grid.axes)
        return self.grid.axes.index(name)

    def point(self, values: tuple[float, ...], key: str) -> tuple[float, ...]:
        """Return `values` if they have an entry for each axis."""
        ndim = self.grid.ndim
        if len(values) != ndim:
            raise SceneError(f"{self.key}.{key}: expected {ndim} numbers, one an axis of the grid, found {len(values)}; add or drop some")
        return values

    def widths(self, values: tuple[float, ...], key: str) -> tuple[float, ...]:
        """Return `values` with an entry for each axis. A single value is repeated."""
        return self.point(values * self.grid.ndim if len(values) == 1 else values, key)

    def at(self, key: str) -> Place:
        """The same place with a longer key."""
        return replace(self, key=f"{self.key}{'' if key.startswith('[') else '.'}{key}")

    def under(self, key: str) -> Place:
        """The same place with another key."""
        return replace(self, key=key)

    def plain(self) -> Place:
        """The same place for numbers that are not of the field's unit, such as labels."""
        return replace(self, unit="")


def coordinate_units(grid: Grid) -> tuple[str, ...]:
    """The unit of coordinates along each axis of a grid."""
    return tuple("s" if axis == TIME else grid.unit for axis in grid.axes)
