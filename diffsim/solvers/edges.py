"""The absorbing layer that solvers have as an option."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from diffsim.errors import ParameterError
from diffsim.grid import Grid
from diffsim.layers import CPML
from diffsim.layers.cells import cells_of_sides
from diffsim.typing import Natural

Layer: TypeAlias = Natural | tuple[Natural | tuple[Natural, Natural], ...]
"""Cells of a layer: one number for all sides, or one an axis, where a pair is that of the low and the high side."""


def layer_of(grid: Grid, dt: float, cells: Layer, speed: float | None, frequency: float | None) -> CPML:
    """The layer of a solver's options. A speed and a frequency are needed only if it has cells.

    Raises:
        ParameterError: they are missing, or the layer refuses them.
    """
    sides = cells_of_sides("layer", cells, grid)
    if not np.any(sides):
        return CPML(grid, dt, 0, 1.0, 1.0)
    if speed is None or frequency is None:
        raise ParameterError(
            f"layer = {cells} cells with layer_speed = {speed} and layer_frequency = {frequency}, expected the largest wave speed in m/s "
            "and the dominant frequency in Hz; give both"
        )
    return CPML(grid, dt, sides, speed, frequency)
