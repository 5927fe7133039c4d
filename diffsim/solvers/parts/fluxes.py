"""Fluxes of momentum, and of scalars at the centres of cells, by a flow on the staggered grid, of order 2, 4 and 6.

Along each axis a cell i exchanges with those 1, 2 and 3 cells away, j, the amount c_ij (s_i + s_j), where c_ij = -c_ji is a sum of the
velocities between them. What one cell gains the other loses, so the carried amount is kept. The sum over j of c_ij s_i is s_i/2 times the
divergence of the flow in cell i by differences of the same order, which is 0. Without it c_ij s_j is left, a matrix with C = -Cᵀ: so the
square of the carried amount is kept too.

In a uniform flow orders 4 and 6 are both the centred difference of sixth order, over 3 cells to each side. They differ in the sums of
velocities, which have to fit the divergence. Order 2 exchanges with neighbours alone.

Reference: Morinishi, Lund, Vasilyev and Moin (1998), Fully conservative higher order finite difference schemes for incompressible flow,
    J. Comput. Phys. 143, 90-124, doi:10.1006/jcph.1998.5962, with fluxes over 1, 3 and 5 cells, whose error of fourth order in a uniform
    flow is 2.25 times that of the centred difference. Pirozzoli (2010), Generalized conservative approximations of split convective
    derivative operators, J. Comput. Phys. 229, 7180-7190, doi:10.1016/j.jcp.2010.06.006, has exchanges over several cells where all values
    lie at one place; the weights here are of this solver.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffsim.expr.operators import add, diff, interpolate
from diffsim.expr.symbol import Symbol

SHARES = {
    4: ((27 / 40, 3 / 80), (-3 / 40,), (1 / 60,)),
    6: ((87 / 128, 9 / 256), (-9 / 128, -3 / 640), (1 / 384, 9 / 1280)),
}
"""By order: for exchanges over 1, 2 and 3 cells, the weights of the velocities in the middle of the pair and further from it. Over 1 and 3
cells the first is that of the velocity in the middle, and the others of those 1 cell to both sides; over 2 cells they are those of the
velocities 1/2 and 3/2 cells to both sides."""


def advection(v: Sequence[Symbol], k: int, order: int) -> Symbol:
    """∇·(v v_k) at the place of component k."""
    return add([add(_fluxes(interpolate(v[axis], k, order), v[k], axis, order)) for axis in range(len(v))])


def carried(v: Sequence[Symbol], scalar: Symbol, order: int) -> Symbol:
    """∇·(v s) of a scalar at the centres."""
    return add([add(_fluxes(v[axis], scalar, axis, order)) for axis in range(len(v))])


def _fluxes(carrying: Symbol, carried: Symbol, axis: int, order: int) -> list[Symbol]:
    """The parts of ∂(carrying · carried) along an axis, one for each distance of an exchange."""
    if order == 2:  # on stretched grids too
        return [diff(carrying * interpolate(carried, axis), axis)]
    spacing = carried.spacing[axis]
    assert spacing is not None  # a higher order is refused elsewhere
    parts = []
    for cells, weights in enumerate(SHARES[order], 1):
        share = _weighted(carrying, axis, cells - 1, [weight / spacing for weight in weights])
        below, above = _apart(share * add(_apart(carried, axis, cells)), axis, cells)
        parts.append(above - below)
    return parts


def _weighted(f: Symbol, axis: int, first: int, weights: Sequence[float]) -> Symbol:
    """A sum of values of f around places; its first weight is that of values which are an odd or even number `first` of cells apart."""
    terms = []
    for n, weight in enumerate(weights):
        cells = first % 2 + 2 * n
        terms.append(weight * (add(_apart(f, axis, cells)) if cells else f))
    return add(terms)


def _apart(f: Symbol, axis: int, cells: int) -> tuple[Symbol, Symbol]:
    """The values of f that lie some cells apart, at the place in their middle: half a cell from those of f if the number is odd."""
    if cells % 2 == 0:
        return f.shifted(axis, -cells // 2), f.shifted(axis, cells // 2)
    place = f.location[axis]
    assert place is not None
    low = -(cells // 2) - place
    return f.shifted(axis, low).across(axis), f.shifted(axis, low + cells).across(axis)
