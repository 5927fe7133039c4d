"""Systems along the lines of one axis, each cell with its two neighbours: all lines at once.

The lines are put one behind the other, with nothing between them: one tridiagonal matrix, which LAPACK factors with pivoting. Ends that
know one another (a periodic axis) are a change of rank one, for which the formula of Sherman and Morrison gives the solution from two.

Reference: Press et al., Numerical Recipes, 3rd ed. (2007), section 2.7.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from diffsim.errors import SingularError
from diffsim.linear.stencil import Stencil

SMALLEST = 3
"""Cells along a line, at least."""


def axis_of(stencil: Stencil) -> int | None:
    """The axis along which a stencil has no more than the next neighbours, if there is one, and its ends fit; otherwise None."""
    axes = {axis for offset in stencil.offsets for axis, step in enumerate(offset) if step}
    if len(axes) > 1 or any(abs(step) > 1 for offset in stencil.offsets for step in offset):
        return None
    axis = axes.pop() if axes else len(stencil.shape) - 1
    n = stencil.shape[axis]
    fits = n >= SMALLEST and all(
        set(found) <= {row - 1, row, row + 1, *((n - 1,) if row == 0 else (0,) if row == n - 1 else ())}
        for matrix in stencil.along[axis].values()
        for row in (0, n - 1)
        for found in [matrix[[row]].indices.tolist()]
    )
    return axis if fits else None


class Tridiagonal:
    """The factors of a matrix.

    Args:
        stencil: whose `axis_of` is `axis`.
        axis: of the lines.
        weights: for each offset a number, or an array over the cells.

    Raises:
        SingularError: the matrix has no inverse, as far as round-off lets tell.
    """

    def __init__(self, stencil: Stencil, axis: int, weights: Sequence[float | npt.NDArray]) -> None:
        self.axis, self.shape = axis, stencil.shape
        n = stencil.shape[axis]
        size = (stencil.size // n, n)
        bands = {step: np.zeros(size) for step in (-1, 0, 1)}  # entry i of band s is that of column i + s
        corners = np.zeros((size[0], 2))  # of the first row and last column, and the other way round
        for offset, weight in zip(stencil.offsets, weights, strict=True):
            given = np.full(size, weight) if isinstance(weight, float) else self._lines(weight)
            step = offset[axis]
            inside = slice(max(0, -step), n - max(0, step))
            bands[step][:, inside] += given[:, inside]
            for row in (0,) if step < 0 else (n - 1,) if step > 0 else ():
                matrix = stencil.along[axis][step][[row]]
                for column, factor in zip(matrix.indices, matrix.data, strict=True):
                    to = bands[column - row][:, row] if abs(column - row) <= 1 else corners[:, int(row > 0)]
                    to += factor * given[:, row]
        self._factor(bands, corners)

    def _lines(self, values: npt.NDArray) -> npt.NDArray:
        """An array over the cells with a row for each line."""
        return np.moveaxis(values, self.axis, -1).reshape(-1, self.shape[self.axis]).astype(float)

    def _factor(self, bands: dict[int, npt.NDArray], corners: npt.NDArray) -> None:
        diagonal = bands[0]
        self._row = self._column = None
        if corners.any():
            first = np.where(diagonal[:, 0] == 0, 1.0, -diagonal[:, 0])
            self._column, self._row = np.zeros_like(diagonal), np.zeros_like(diagonal)
            self._column[:, 0], self._column[:, -1] = first, corners[:, 1]
            self._row[:, 0], self._row[:, -1] = 1, corners[:, 0] / first
            diagonal[:, 0] -= first
            diagonal[:, -1] -= corners[:, 0] * corners[:, 1] / first
        sizes = np.abs(diagonal) + np.abs(bands[-1]) + np.abs(bands[1])
        *self._factors, info = lapack.dgttrf(bands[-1].ravel()[1:], diagonal.ravel(), bands[1].ravel()[:-1])
        self._tiny = self.shape[self.axis] * np.finfo(float).eps
        pivots = np.abs(self._factors[1])
        if info or not (pivots > self._tiny * sizes.ravel()).all():
            raise self._singular()

    def _singular(self) -> SingularError:
        return SingularError(
            f"expected a matrix with an inverse, got one along axis {self.axis} that has none; add a term at the cell itself, or a "
            "boundary that fixes the solution"
        )

    def _solved(self, lines: npt.NDArray, transposed: bool) -> npt.NDArray:
        found, _ = lapack.dgttrs(*self._factors, lines.ravel(), trans="T" if transposed else "N")
        return found.reshape(lines.shape)

    def solve(self, right_side: npt.NDArray, transposed: bool) -> npt.NDArray:
        """The solution for the matrix, or for its transpose."""
        lines = self._solved(self._lines(right_side), transposed)
        if self._row is not None and self._column is not None:
            row, column = (self._column, self._row) if transposed else (self._row, self._column)
            through = self._solved(column, transposed)
            product = np.sum(row * through, axis=1, keepdims=True)
            if not (np.abs(1 + product) > self._tiny * (1 + np.abs(product))).all():
                raise self._singular()
            lines -= through * (np.sum(row * lines, axis=1, keepdims=True) / (1 + product))
        moved = [n for axis, n in enumerate(self.shape) if axis != self.axis]
        return np.moveaxis(lines.reshape(*moved, self.shape[self.axis]), -1, self.axis)
