"""Systems along the lines of one axis, each cell with its two neighbours: all lines at once.

If the diagonal dominates, no pivoting is needed, and many lines are eliminated in parallel. Otherwise the lines are concatenated without
coupling into one tridiagonal matrix, which LAPACK factors with pivoting. Coupled ends (a periodic axis) are a change of rank one, for
which the formula of Sherman and Morrison combines two solutions.

Reference: Press et al., Numerical Recipes, 3rd ed. (2007), sections 2.4 and 2.7.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from diffsim.errors import SingularError
from diffsim.linear.sparse import ROUND_OFF
from diffsim.linear.stencil import Stencil

SMALLEST = 3
"""Fewest cells along a line."""
MANY = 128
"""Fewest lines for which parallel elimination is faster."""


def axis_of(stencil: Stencil) -> int | None:
    """The only axis along which a stencil reads neighbours, if it reads the next ones only and its ends are supported; otherwise None."""
    axes = {axis for offset in stencil.offsets for axis, step in enumerate(offset) if step}
    if len(axes) > 1 or any(abs(step) > 1 for offset in stencil.offsets for step in offset):
        return None
    axis = axes.pop() if axes else len(stencil.shape) - 1
    n = stencil.shape[axis]
    fits = n >= SMALLEST and all(
        set(columns) <= {row - 1, row, row + 1, *((n - 1,) if row == 0 else (0,) if row == n - 1 else ())}
        for matrix in stencil.along[axis].values()
        for row in (0, n - 1)
        for columns in [matrix[[row]].indices.tolist()]
    )
    return axis if fits else None


class Tridiagonal:
    """The factors of a matrix.

    Args:
        stencil: a stencil whose `axis_of` is `axis`.
        axis: axis of the lines.
        weights: for each offset a number, or an array over the cells.

    Raises:
        SingularError: the matrix has no inverse, within round-off.
    """

    def __init__(self, stencil: Stencil, axis: int, weights: Sequence[float | npt.NDArray]) -> None:
        self.axis, self.shape = axis, stencil.shape
        n = stencil.shape[axis]
        size = (n, stencil.size // n)
        bands = {step: np.zeros(size) for step in (-1, 0, 1)}  # row i of band s is that of column i + s
        corners = np.zeros((2, size[1]))  # first row and last column; last row and first column
        for offset, weight in zip(stencil.offsets, weights, strict=True):
            on_lines = np.full(size, weight) if isinstance(weight, float) else self._lines(weight)
            step = offset[axis]
            inside = slice(max(0, -step), n - max(0, step))
            bands[step][inside] += on_lines[inside]
            for row in (0,) if step < 0 else (n - 1,) if step > 0 else ():
                matrix = stencil.along[axis][step][[row]]
                for column, factor in zip(matrix.indices, matrix.data, strict=True):
                    to = bands[column - row][row] if abs(column - row) <= 1 else corners[int(row > 0)]
                    to += factor * on_lines[row]
        sums = bands[-1] + bands[0] + bands[1]
        sums[[0, -1]] += corners
        largest = np.max([np.abs(band).max(axis=0) for band in bands.values()], axis=0)
        if (np.abs(sums).max(axis=0) <= ROUND_OFF * largest).any():  # a line that maps constants to 0
            raise self._singular()
        self._factor(bands[-1], bands[0], bands[1], corners)

    def _lines(self, values: npt.NDArray) -> npt.NDArray:
        """An array over the cells with a column for each line."""
        return np.moveaxis(values, self.axis, 0).reshape(self.shape[self.axis], -1).astype(float)

    def _factor(self, lower: npt.NDArray, diagonal: npt.NDArray, upper: npt.NDArray, corners: npt.NDArray) -> None:
        self._row = self._column = None
        if corners.any():
            first = np.where(diagonal[0] == 0, 1.0, -diagonal[0])
            self._column, self._row = np.zeros_like(diagonal), np.zeros_like(diagonal)
            self._column[0], self._column[-1] = first, corners[1]
            self._row[0], self._row[-1] = 1, corners[0] / first
            diagonal[0] -= first
            diagonal[-1] -= corners[0] * corners[1] / first
        beside = np.abs(lower) + np.abs(upper)
        way = SideBySide if diagonal.shape[1] >= MANY and (np.abs(diagonal) >= beside).all() else InARow
        self._factors: InARow | SideBySide = way(lower, diagonal, upper)
        self._tiny = len(diagonal) * np.finfo(float).eps
        if not (np.abs(self._factors.pivots) > self._tiny * (np.abs(diagonal) + beside)).all():
            raise self._singular()

    def _singular(self) -> SingularError:
        return SingularError(
            f"expected a matrix with an inverse, got one along axis {self.axis} that has none; add a term at the cell itself, or a "
            "boundary that fixes the solution"
        )

    def solve(self, right_side: npt.NDArray, transposed: bool) -> npt.NDArray:
        """The solution for the matrix, or for its transpose."""
        lines = self._factors.solve(self._lines(right_side), transposed)
        if self._row is not None and self._column is not None:
            row, column = (self._column, self._row) if transposed else (self._row, self._column)
            through = self._factors.solve(column, transposed)
            product = np.sum(row * through, axis=0)
            if not (np.abs(1 + product) > self._tiny * (1 + np.abs(product))).all():
                raise self._singular()
            lines -= through * (np.sum(row * lines, axis=0) / (1 + product))
        moved = [n for axis, n in enumerate(self.shape) if axis != self.axis]
        return np.moveaxis(lines.reshape(self.shape[self.axis], *moved), 0, self.axis)


class InARow:
    """All lines as one matrix, factored by LAPACK with pivoting. The bands are 0 beyond the ends of lines."""

    def __init__(self, lower: npt.NDArray, diagonal: npt.NDArray, upper: npt.NDArray) -> None:
        from scipy.linalg import lapack

        *self._factors, _ = lapack.dgttrf(lower.T.ravel()[1:], diagonal.T.ravel(), upper.T.ravel()[:-1])
        self.pivots = self._factors[1].reshape(diagonal.shape[::-1]).T

    def solve(self, lines: npt.NDArray, transposed: bool) -> npt.NDArray:
        from scipy.linalg import lapack

        solution, _ = lapack.dgttrs(*self._factors, lines.T.ravel(), trans="T" if transposed else "N")
        return solution.reshape(lines.shape[::-1]).T


class SideBySide:
    """Elimination cell by cell along all lines at once, without pivoting, for matrices whose diagonal dominates.

    With 1024 lines of 1024 cells, factors take 6 ms instead of 46 by LAPACK, and a solution 7 ms instead of 22; with 64 of 64, 0.13 ms
    instead of 0.05, and as much.
    """

    def __init__(self, lower: npt.NDArray, diagonal: npt.NDArray, upper: npt.NDArray) -> None:
        self.pivots, self._upper, self._lower = diagonal.copy(), upper, lower.copy()
        with np.errstate(all="ignore"):  # a pivot of 0 is detected afterwards
            for i in range(1, len(diagonal)):
                self._lower[i] /= self.pivots[i - 1]
                self.pivots[i] -= self._lower[i] * upper[i - 1]
            self._inverse = 1 / self.pivots

    def solve(self, lines: npt.NDArray, transposed: bool) -> npt.NDArray:
        x, last = lines.copy(), len(lines) - 1
        lower, upper, inverse = self._lower, self._upper, self._inverse
        if transposed:
            x[0] *= inverse[0]
            for i in range(1, last + 1):
                x[i] -= upper[i - 1] * x[i - 1]
                x[i] *= inverse[i]
            for i in range(last - 1, -1, -1):
                x[i] -= lower[i + 1] * x[i + 1]
            return x
        for i in range(1, last + 1):
            x[i] -= lower[i] * x[i - 1]
        x[last] *= inverse[last]
        for i in range(last - 1, -1, -1):
            x[i] -= upper[i] * x[i + 1]
            x[i] *= inverse[i]
        return x
