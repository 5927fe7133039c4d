"""The reference element: polynomials on [0, 1] by their values at the Gauss-Legendre nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import DTypeLike

import diffsim.numpy as dnp
from diffsim.typing import Array

COURANT = {1: 0.333, 2: 0.209, 3: 0.142, 4: 0.120}
"""Order p -> largest stable Σ |a| dt / h with the upwind flux and the stages below, from the eigenvalues of periodic grids: the least of
both equations in one and two dimensions. On a line p = 3 and 4 are stable up to 0.145 and 0.125. Up to p = 3 the limits on a line are
those of Cockburn and Shu (2001), table 2.2."""
STAGES = {1: (1 / 2, 1), 2: (1 / 3, 1 / 2, 1), 3: (1 / 4, 1 / 3, 1 / 2, 1), 4: (7 / 40, 1 / 5, 1 / 4, 1 / 3, 1 / 2, 1)}
"""Order p -> the parts of dt of the stages in time. They give the Taylor polynomial of exp(dt L) up to dt^(p + 1). For p = 4 that alone
would amplify long waves, in each step by (k a dt)⁶ / 144; a sixth stage damps them instead."""


@dataclass(frozen=True, eq=False)
class Element:
    """The matrices of one axis. A field of an element has the shape (nodes along axis 0, nodes along axis 1), the latter 1 on a line.

    Attributes:
        weights: of the n = p + 1 nodes, p being the degree of the polynomials, shape (n,). They sum to 1, and integrate polynomials of
            degree 2 p + 1 exactly.
        centre_weights: of the centres of n equal cells, shape (n,). They integrate polynomials of degree p exactly.
        slope: derivatives at the nodes from values there, shape (n, n), for an element of width 1.
        low: values at the low face from those at the nodes, shape (n,).
        high: the same for the high face.
        lift_low: rates of the nodes by a flux of 1 through the low face: low / weights, shape (n,).
        lift_high: the same for the high face.
        to_nodes: values at the nodes from those at the centres of n equal cells, shape (n, n).
        to_centres: the inverse.
    """

    weights: Array
    centre_weights: Array
    slope: Array
    low: Array
    high: Array
    lift_low: Array
    lift_high: Array
    to_nodes: Array
    to_centres: Array

    def change(self, matrix: Array, q: Any, ndim: int) -> Any:
        """A matrix applied to the nodes of fields, shape (..., n, n), along all axes."""
        return matrix @ q @ matrix.T if ndim == 2 else matrix @ q

    def faces(self, q: Any, axis: int) -> tuple[Any, Any]:
        """Values of a field at the nodes of the low and of the high face across an axis."""
        return (self.low @ q, self.high @ q) if axis == 0 else (q @ self.low, q @ self.high)

    def derivative(self, f: Any, at_low: Any, at_high: Any, axis: int) -> Any:
        """∂f/∂x with the fluxes `at_low` and `at_high` through the faces: D f + lift (f* - f), for an element of width 1."""
        low, high = self.faces(f, axis)
        low, high = at_low - low, at_high - high
        if axis == 0:
            return self.slope @ f + dnp.outer(self.lift_high, high) - dnp.outer(self.lift_low, low)
        return f @ self.slope.T + dnp.outer(high, self.lift_high) - dnp.outer(low, self.lift_low)


@cache
def reference_element(order: int, dtype: DTypeLike = np.float64) -> Element:
    """The element of an order, its matrices in a type.

    Reference: Hesthaven and Warburton (2008), Nodal Discontinuous Galerkin Methods, chapter 3, doi:10.1007/978-0-387-72067-8.
    """
    n = order + 1
    x, w = legendre.leggauss(n)
    centres = (2 * np.arange(n) + 1) / n - 1
    to_modes = np.linalg.inv(legendre.legvander(x, order))
    modal_slope = 2 * legendre.legval(x, legendre.legder(np.eye(n))).T  # on [0, 1], not on [-1, 1]
    low, high = (legendre.legvander(np.array([end]), order)[0] @ to_modes for end in (-1.0, 1.0))
    to_centres = legendre.legvander(centres, order) @ to_modes
    to_nodes = np.linalg.inv(to_centres)
    weights = 0.5 * w
    matrices = {
        "weights": weights,
        "centre_weights": weights @ to_nodes,
        "slope": modal_slope @ to_modes,
        "low": low,
        "high": high,
        "lift_low": low / weights,
        "lift_high": high / weights,
        "to_nodes": to_nodes,
        "to_centres": to_centres,
    }
    return Element(**{name: np.ascontiguousarray(values, dtype) for name, values in matrices.items()})
