"""Largest stable time steps of explicit schemes, from the largest eigenvalue of their discrete operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from diffsim.base.arguments import instance, positive, whole
from diffsim.base.messages import shown
from diffsim.base.quantities.units import SAME, conversion, plain
from diffsim.errors import DataError, ParameterError, StabilityError
from diffsim.expr.weights import centred, staggered
from diffsim.mesh.grid import Grid
from diffsim.typing import Array

SILENT = ("m", "1", "degree")
"""Units of grids about which nothing is to be said: metres, none, and degrees on a sphere."""


def check_common(grid: Grid, dt: float, sponge: int = 0, metres: bool = True) -> float:
    """The time step in seconds.

    Args:
        grid: of the equation.
        dt: s.
        sponge: cells.
        metres: whether the equation counts lengths in metres; else they are pure numbers.

    Raises:
        ParameterError: these are no grid, no time step or no cells of a sponge; or the grid counts lengths in another unit.
    """
    instance("grid", grid, Grid, "a diffsim.Grid", "write it like diffsim.Grid((100, 200), 10.0)")
    if metres and plain(grid.unit) not in SILENT:
        _require_usual(grid)
    whole("sponge", sponge, 0, remedy="give the cells of absorbing sponge at every edge, 0 for none")
    return positive("dt", dt, "give the time step in seconds", "s")


OF_PRINT = frozenset({"px", "pixel", "pixels", "pt", "point", "points", "dot", "dots", "pica", "picas"})
"""Lengths of printers, which as the unit of a grid mean its cells."""


def _require_usual(grid: Grid) -> None:
    """Refuse a grid whose lengths would be taken for metres, or whose angles for degrees."""
    if grid.unit.lower() in OF_PRINT:
        return
    for usual in ("m", "degree"):
        try:
            convert = conversion(grid.unit, usual)
        except DataError:  # something else
            continue
        if convert != SAME:
            raise ParameterError(
                f"grid.unit = {shown(grid.unit)}, expected {usual}, in which the equation counts; multiply spacing and origin by "
                f"{convert.scale:.6g}, and all other places with them, and give this unit"
            )


def laplacian_bound(grid: Grid, order: int) -> float:
    """Largest eigenvalue of the negative discrete Laplacian of `diffsim.expr.laplacian`, 1/m², or a bound where cells differ."""
    weights = centred(2, order)
    reach = order // 2
    alternating = -sum(w * (-1) ** k for k, w in zip(range(-reach, reach + 1), weights, strict=True))
    return sum(alternating / h**2 for h in grid.smallest)


def staggered_number(order: int) -> float:
    """Largest discrete wave number of `diffsim.expr.diff` with spacing 2: the sum of the weights' magnitudes on one side."""
    return 0.5 * sum(abs(w) for w in staggered(1, order))


def check_step(dt: float, limit: float, why: str, unit: str = " s") -> None:
    """Raise `StabilityError` if `dt` exceeds `limit`, naming the reason. The unit of both is that of messages."""
    if not dt > 0:
        raise ParameterError(f"dt = {dt:g}{unit}, expected a positive time step")
    if dt > limit:
        raise StabilityError(f"dt = {dt:.4g}{unit} exceeds the stable {limit:.4g}{unit} for {why}; lower dt or coarsen the grid", limit)


def check_sign(name: str, values: Array, unit: str, positive: bool = True) -> None:
    """Raise `ParameterError` unless all values are positive (or, with `positive=False`, none is negative)."""
    least = float(values.min())
    if least < 0 or (positive and least == 0):
        kind = "positive" if positive else "zero or more"
        raise ParameterError(f"{name} has a value of {least:g} {unit}, expected {kind} everywhere; correct the data")


GROWTH = 1.01
"""A larger growth a step of the fastest mode is refused. Heun's method lets modes without viscosity grow, by 1 % at dt |v|/dx = 0.53."""

Factor: TypeAlias = Callable[[Any, Any], Any]
"""The factor by which a step multiplies a mode, from dt times the eigenvalues of its explicit rates and of its friction."""


def check_flow(dt: float, factor: Factor, speed: float, nu: float, width: float, what: str, name: str = "nu") -> None:
    """Raise `StabilityError` where waves grow in a uniform flow, by central differences of second order.

    The wave of phase θ a cell has the eigenvalues i |v| sin θ / dx of the flow and -4 ν sin²(θ/2) / dx² of friction. Those of a scalar
    have its diffusivity κ for ν.

    Args:
        dt: time step, s.
        factor: of the method.
        speed: of the flow, m/s.
        nu: viscosity or diffusivity, m²/s.
        width: of a cell along the flow, m.
        what: the input that has this speed.
        name: the input that is this viscosity or diffusivity.
    """
    phase = np.linspace(0.0, np.pi, 181)
    flow, friction = 1j * speed / width * np.sin(phase), -4 * nu / width**2 * np.sin(0.5 * phase) ** 2

    def grows(step: float) -> bool:
        return float(np.abs(factor(step * flow, step * friction)).max()) > GROWTH

    if grows(dt):
        below, above = 0.0, dt
        for _ in range(40):
            middle = 0.5 * (below + above)
            below, above = (below, middle) if grows(middle) else (middle, above)
        check_step(dt, below, f"{what} of {speed:.4g} m/s, {name} = {nu:.4g} m²/s, dx = {width:.4g} m")
