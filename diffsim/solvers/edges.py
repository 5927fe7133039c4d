"""The absorbing layer that solvers have as an option."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from diffsim.errors import ParameterError
from diffsim.grid import Grid
from diffsim.layers import CPML
from diffsim.layers.cells import cells_of_sides
from diffsim.typing import Natural

Layer: TypeAlias = Natural | tuple[Natural | tuple[Natural, Natural], ...]
"""Cells of a layer: one number for all sides, or one an axis, where a pair is that of the low and the high side."""


def layer_of(
    grid: Grid, dt: float, cells: Layer, speed: float | None, frequency: float | None, joined: Sequence[bool], low: bool = True
) -> CPML:
    """The layer of a solver's options. A speed and a frequency are needed only if it has cells.

    Args:
        grid: of the equation.
        dt: time step, s.
        cells: at all sides that are not joined to another one, or an entry an axis.
        speed: largest wave speed.
        frequency: dominant one.
        joined: for each axis, whether its ends are joined (a periodic boundary).
        low: whether the low side of axis 0 has a layer.

    Raises:
        ParameterError: they are missing, a joined side has a layer, or the layer refuses them.
    """
    wanted: Any = cells
    if isinstance(cells, (int, np.integer)) and any(joined):
        wanted = tuple(0 if ends else cells for ends in joined)
    sides = cells_of_sides("layer", wanted, grid)
    for axis, (ends, pair) in enumerate(zip(joined, sides, strict=True)):
        if ends and any(pair):
            raise ParameterError(f"axis {axis} is periodic and has a layer of {pair} cells, expected one of both; give it 0 cells")
    if not low:
        sides = ((0, sides[0][1]), *sides[1:])
    if not np.any(sides):
        return CPML(grid, dt, 0, 1.0, 1.0)
    if speed is None or frequency is None:
        raise ParameterError(
            f"layer = {cells} cells with layer_speed = {speed} and layer_frequency = {frequency}, expected the largest wave speed in m/s "
            "and the dominant frequency in Hz; give both"
        )
    return CPML(grid, dt, sides, speed, frequency)
