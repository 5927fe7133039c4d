"""The absorbing layer that solvers have as an option, and its memory variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from diffsim.base.arguments import positive
from diffsim.boundary import Boundary, OddImage, per_axis
from diffsim.errors import ParameterError
from diffsim.expr.symbol import Symbol
from diffsim.layers import CPML
from diffsim.layers.cells import cells_of_sides
from diffsim.mesh.grid import Grid
from diffsim.stepping.declare.equation import Variable
from diffsim.typing import Natural

Layer: TypeAlias = Natural | tuple[Natural | tuple[Natural, Natural], ...]
"""Cells of a layer: one number for all sides, or one an axis, where a pair is that of the low and the high side."""


PERIODIC, SURFACE = "is periodic", "has a free surface"
Taken: TypeAlias = Sequence[tuple[str, str]]
"""The replacement of a layer, for the low and the high side of each axis; "": nothing."""


def taken_by(boundary: Boundary, ndim: int) -> Taken:
    """Replacements of a layer by the rules of a pressure: a free surface, or the other end of the axis."""
    return [
        tuple(PERIODIC if rule.joins else SURFACE if isinstance(rule, OddImage) else "" for rule in pair)  # type: ignore[misc]
        for pair in per_axis(boundary, ndim)
    ]


def taken_at(sides: Sequence[str], surface: bool = False) -> Taken:
    """The same where each axis has the name of its sides; with a surface, that is the low side of axis 0."""
    low = [SURFACE if surface and axis == 0 else "" for axis in range(len(sides))]
    return [(PERIODIC, PERIODIC) if side == "periodic" else (first, "") for side, first in zip(sides, low, strict=True)]


def layer_of(grid: Grid, dt: float, cells: Layer, speed: float | None, frequency: float | None, taken: Taken) -> CPML:
    """The layer of a solver's options. A speed and a frequency are needed only if it has cells.

    Args:
        grid: of the equation.
        dt: time step, s.
        cells: an entry an axis, or one number for all sides whose place is not taken.
        speed: largest wave speed.
        frequency: dominant one.
        taken: the sides that have none.

    Raises:
        ParameterError: they are missing, a side whose place is taken has a layer, or the layer refuses them.
    """
    wanted: Any = cells
    if isinstance(cells, (int, np.integer)) and any(map(any, taken)):
        wanted = tuple(tuple(0 if what else cells for what in pair) for pair in taken)
    sides = cells_of_sides("layer", wanted, grid)
    for axis, (pair, counts) in enumerate(zip(taken, sides, strict=True)):
        for what, count, side in zip(pair, counts, ("low", "high"), strict=True):
            if what and count:
                raise ParameterError(
                    f"axis {axis} {what} and a layer of {count} cells at its {side} side, expected one of the two; give that side 0 cells, "
                    "or one number for all sides, which leaves it out"
                )
    if not np.any(sides):
        return CPML(grid, dt, 0, 1.0, 1.0)
    if speed is None or frequency is None:
        raise ParameterError(
            f"layer = {cells} cells with layer_speed = {speed} and layer_frequency = {frequency}, expected the largest wave speed in m/s "
            "and the dominant frequency in Hz; give both"
        )
    speed = positive("layer_speed", speed, "give the largest wave speed in the layer, m/s", "m/s")
    frequency = positive("layer_frequency", frequency, "give the dominant frequency of the waves, Hz", "Hz")
    return CPML(grid, dt, sides, speed, frequency)


def memories(layer: CPML, axes: str, derivatives: Iterable[tuple[str, str, Variable]]) -> dict[str, Variable]:
    """The memory variable of each derivative across a layer: `psi_vx_y` of ∂vx/∂y.

    Args:
        layer: of the equation.
        axes: letters of its axes.
        derivatives: of which field, along which axis, and a field that lies where the derivative does.
    """
    numbered = ((name, along, axes.index(along), there) for name, along, there in derivatives)
    return {f"psi_{name}_{along}": layer.memory(axis, there.location) for name, along, axis, there in numbered if any(layer.cells[axis])}


class Stretched:
    """Derivatives of a step, taken along the coordinates of a layer where it has memory variables for them.

    Attributes:
        following: the next values of those memory variables.
    """

    def __init__(self, layer: CPML, axes: str, now: Mapping[str, Symbol]) -> None:
        self.layer, self.axes, self.now = layer, axes, now
        self.following: dict[str, Symbol] = {}

    def __call__(self, derivative: Symbol, name: str, along: str) -> Symbol:
        """The derivative of a field along an axis, given on the grid."""
        memory = f"psi_{name}_{along}"
        if memory in self.now:
            derivative, self.following[memory] = self.layer.stretch(derivative, self.axes.index(along), self.now[memory])
        return derivative
