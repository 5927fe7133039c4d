"""Grids of one axis."""

from __future__ import annotations

from diffsim.errors import ParameterError
from diffsim.mesh.grid import Grid


def on_a_line(grid: Grid, least: int) -> Grid:
    """The grid, if it has one axis of at least `least` cells."""
    if grid.ndim != 1 or grid.shape[0] < least:
        raise ParameterError(f"grid of {' x '.join(map(str, grid.shape))} cells, expected one axis of at least {least}; take such a grid")
    return grid
