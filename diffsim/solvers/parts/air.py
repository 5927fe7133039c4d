"""Differences of elastic waves beside air: those that would reach beyond a free surface are of second order there."""

from __future__ import annotations

from collections.abc import Sequence

from diffsim.expr.functions import minimum, where
from diffsim.expr.operators import diff
from diffsim.expr.symbol import Symbol
from diffsim.solvers.parts.moduli import smaller


def far_from_air(rho: Symbol, reach: int, edge: Sequence[int] = ()) -> Symbol:
    """1 where the cells that a difference of this reach reads are solid or fluid, 0 next to air.

    Args:
        rho: density; 0 in air.
        reach: half of the order of the difference.
        edge: the axes of an edge; none: at centres.
    """
    least = rho
    for axis in range(rho.ndim):
        for cells in range(1, reach):
            least = minimum(least, minimum(rho.shifted(axis, -cells), rho.shifted(axis, cells)))
    for axis in edge:
        least = smaller(least, axis)
    return where(least > 0, 1.0, 0.0)


def stress_slope(f: Symbol, axis: int, order: int, far: Symbol | None) -> Symbol:
    """The derivative of a stress to faces: of `order` for the stresses that are `far` from air, of second order for others.

    Args:
        f: the stress.
        axis, order: of the derivative.
        far: `far_from_air` where the stress lies; None: there is no air, or the order is 2.
    """
    if far is None:
        return diff(f, axis, order)
    kept = far * f
    return diff(f, axis) + diff(kept, axis, order) - diff(kept, axis)


def velocity_slope(f: Symbol, axis: int, order: int, far: Symbol | None) -> Symbol:
    """The derivative of a velocity to where a stress lies, minus the transpose of `stress_slope`, so that energy is conserved."""
    slope = diff(f, axis, order)
    if far is None:
        return slope
    near = diff(f, axis)
    return near + far * (slope - near)
