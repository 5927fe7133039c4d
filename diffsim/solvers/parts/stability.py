"""Largest stable time steps of explicit schemes, from the largest eigenvalue of their discrete operators."""

from __future__ import annotations

from diffsim.base.arguments import instance, positive, whole
from diffsim.errors import ParameterError, StabilityError
from diffsim.expr.weights import centred, staggered
from diffsim.mesh.grid import Grid
from diffsim.typing import Array


def check_common(grid: Grid, dt: float, sponge: int = 0) -> float:
    """The time step in seconds. Raise `ParameterError` unless solvers' common arguments are a grid, a time step, and cells of a sponge."""
    instance("grid", grid, Grid, "a diffsim.Grid", "write it like diffsim.Grid((100, 200), 10.0)")
    whole("sponge", sponge, 0, remedy="give the cells of absorbing sponge at every edge, 0 for none")
    return positive("dt", dt, "give the time step in seconds", "s")


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
