"""Particles that a flow carries: the velocity at any place, by a smooth spline through the stream function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import diffsim.numpy as dnp
from diffsim.mesh.grid import Grid
from diffsim.typing import Array

BEYOND = 2
"""Coefficients beyond the points of the grid at each end of an axis: that of the coast, and one more."""

FOUR = np.arange(4).reshape(4, 1, 1)
"""The four coefficients around a place."""
SPLINES = np.array([[1, -3, 3, -1], [4, 0, -6, 3], [1, 3, 3, -3], [0, 0, 0, 1]]) / 6
"""Cubic B-splines, a row each, by powers of the place in a cell."""
SLOPES = np.array([[-1, 2, -1], [0, -4, 3], [1, 2, -3], [0, 0, 1]]) / 2


class Drift:
    """The velocity of a particle for each point of the grid, which was at this point before it moved by `drift_y` and `drift_x`.

    The stream function is that of its values at the points, by a cubic spline in both directions: twice differentiable, so that velocities
    and their gradients are continuous. Velocities are the derivatives of this one function, so the flow between the points has no
    divergence, and no particle crosses a coast, along which the spline is 0.

    Args:
        grid: two axes, (y, x), of uniform spacing.
        sides: for each axis the words of its low and its high side: "periodic", "slip" or "no_slip".

    Reference: Unser, Aldroubi and Eden (1991), Fast B-spline transforms for continuous image representation and interpolation, IEEE Trans.
        Pattern Anal. Mach. Intell. 13, 277-285, doi:10.1109/34.75515.
    """

    def __init__(self, grid: Grid, sides: Sequence[tuple[str, str]]) -> None:
        self.spacing = grid.spacing
        self.periodic = tuple(low == "periodic" for low, _ in sides)
        self.matrices = tuple(spline_coefficients(n, pair) for n, pair in zip(grid.shape, sides, strict=True))

    def velocity(self, psi: Any, drift_y: Any, drift_x: Any) -> tuple[Any, Any]:
        """v = ψₓ and u = -ψ_y at the places of the particles, m/s, shape of the grid.

        Args:
            psi: the stream function at the points, m²/s.
            drift_y: how far each particle is from its point, m.
            drift_x: likewise.
        """
        along_y, along_x = (matrix.astype(psi.dtype) for matrix in self.matrices)
        coefficients = along_y @ psi @ along_x.T
        (first_y, y), (first_x, x) = (self._place(axis, drift) for axis, drift in enumerate((drift_y, drift_x)))
        index = (first_y + FOUR[:, None]) * coefficients.shape[1] + first_x + FOUR
        near = coefficients.ravel()[index]
        dy, dx = self.spacing
        v = dnp.einsum("jiyx,jyx,iyx->yx", near, splines(y), splines(x, 1)) / dx
        u = dnp.einsum("jiyx,jyx,iyx->yx", near, splines(y, 1), splines(x)) / -dy
        return v, u

    def _place(self, axis: int, drift: Any) -> tuple[Array, Any]:
        """The number of the first of the four coefficients around each place along an axis, and the place from the second one, in cells."""
        n = drift.shape[axis]
        moved = drift / self.spacing[axis]
        own = np.arange(n).reshape([-1, 1] if axis == 0 else [1, -1])
        whole = dnp.floor(moved)
        cell = whole.astype(int) + own
        if self.periodic[axis]:
            return cell % n + (BEYOND - 1), moved - whole
        inside = dnp.clip(cell, -1, n - 1)  # the coasts are the points -1 and n
        return inside + (BEYOND - 1), moved - (inside - own).astype(moved.dtype)


def spline_coefficients(n: int, sides: tuple[str, str]) -> Array:
    """The coefficients of the cubic B-splines through n values, BEYOND more at each end, as a matrix.

    On a coast the spline is 0. Across a coast of slip it is odd, and across one without slip even, so its slope is 0.
    """
    system = (4 * np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)) / 6
    low, high = sides
    if low == "periodic":
        system[0, -1] += 1 / 6
        system[-1, 0] += 1 / 6
        inverse = np.linalg.inv(system)
        return np.concatenate([inverse[-BEYOND:], inverse, inverse[:BEYOND]])
    # On the coast (2 c₁ + 4 c₀) / 6 = 0 of an even spline gives its coefficient c₀.
    coast = {"slip": (0.0, -1.0), "no_slip": (-0.5, 1.0)}
    system[0, 0] += coast[low][0] / 6
    system[-1, -1] += coast[high][0] / 6
    inverse = np.linalg.inv(system)
    (at_low, beyond_low), (at_high, beyond_high) = coast[low], coast[high]
    rows = [beyond_low * inverse[0], at_low * inverse[0], *inverse, at_high * inverse[-1], beyond_high * inverse[-1]]
    return np.stack(rows)


def splines(t: Any, derivative: int = 0) -> Any:
    """The four cubic B-splines that are not 0 at a place t of 0 to 1 in a cell, or their first derivatives, a cell."""
    weights = (SPLINES, SLOPES)[derivative].astype(t.dtype)
    return dnp.tensordot(weights, dnp.stack([dnp.ones_like(t), t, t * t, t * t * t][: 4 - derivative]), 1)
