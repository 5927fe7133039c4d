"""Fluxes of momentum, and of scalars at the centres of cells, by a flow on the staggered grid, in divergence form of order 2, 4 and 6.

For each axis these are differences over 1, 3, ... cells, with the weights of a difference of this order, of fluxes whose carried value is a
mean over as many cells. So the carried amount is kept, and its square too where the velocity has no divergence of the same order.

Reference: Morinishi, Lund, Vasilyev and Moin (1998), Fully conservative higher order finite difference schemes for incompressible flow,
    J. Comput. Phys. 143, 90-124, doi:10.1006/jcph.1998.5962.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffsim.expr.operators import add, diff, interpolate
from diffsim.expr.symbol import Symbol
from diffsim.expr.weights import staggered


def advection(v: Sequence[Symbol], k: int, order: int) -> Symbol:
    """∇·(v v_k) at the place of component k."""
    return add([add(_fluxes(interpolate(v[axis], k, order), v[k], axis, order)) for axis in range(len(v))])


def carried(v: Sequence[Symbol], scalar: Symbol, order: int) -> Symbol:
    """∇·(v s) of a scalar at the centres."""
    return add([add(_fluxes(v[axis], scalar, axis, order)) for axis in range(len(v))])


def _fluxes(carrying: Symbol, carried: Symbol, axis: int, order: int) -> list[Symbol]:
    """The parts of ∂(carrying · carried) along an axis, one for each distance."""
    if order == 2:  # on stretched grids too
        return [diff(carrying * interpolate(carried, axis), axis)]
    weights, spacing = staggered(1, order)[order // 2 :], carried.spacing[axis]
    assert spacing is not None  # a higher order is refused elsewhere
    parts = []
    for n, weight in enumerate(weights):
        left, right = _pair(carried, axis, n)
        below, above = _pair(carrying * (0.5 * (left + right)).across(axis), axis, n)
        parts.append((weight / spacing * (above - below)).across(axis))
    return parts


def _pair(f: Symbol, axis: int, n: int) -> tuple[Symbol, Symbol]:
    """The values of f at both sides of the places half a cell away, 2 n + 1 cells apart."""
    place = f.location[axis]
    assert place is not None
    return f.shifted(axis, -n - place), f.shifted(axis, n + 1 - place)
