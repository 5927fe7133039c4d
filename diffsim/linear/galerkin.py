"""One multigrid cycle for a symmetric sparse matrix on a grid, as an approximate inverse.

Each coarser grid has half as many cells along an axis. Values are interpolated linearly between cell centres to the finer grid, residuals
are restricted by the transpose, and the coarse matrix is the product of transpose, matrix and interpolation, so it needs no coefficients.
Before and after, Jacobi's method damps errors that vary from cell to cell. Its diagonal is the row sums of magnitudes, so it never
amplifies.

Reference: Briggs, Henson, McCormick, A multigrid tutorial, 2nd ed. (2000), chapters 3 and 8; Baker et al., Multigrid smoothers for
ultraparallel computing, SIAM Journal on Scientific Computing 33 (2011) 2864 - 2887, doi:10.1137/100798806, for the diagonal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array

COARSEST = 300
"""Most unknowns of the coarsest grid, which uses a dense inverse."""
SMOOTHINGS = 2
"""Smoothing steps before the coarser grid, and as many after it."""
FEWEST = 4
"""Fewest cells along an axis that is halved."""


class Galerkin:
    """The grids below a matrix.

    Args:
        matrix: symmetric, positive or negative definite, or with constants as its null space.
        shape: shape of the grid.
    """

    def __init__(self, matrix: csr_array, shape: tuple[int, ...]) -> None:
        self._levels: list[tuple[csr_array, csr_array, npt.NDArray]] = []
        while matrix.shape[0] > COARSEST and max(shape) >= FEWEST:
            down, shape = _interpolation(shape)
            sums = np.asarray(abs(matrix).sum(axis=1)).ravel()
            scale = np.where(matrix.diagonal() < 0, -1, 1) / np.where(sums == 0, 1, sums)
            self._levels.append((matrix, down, scale))
            matrix = (down.T @ (matrix @ down)).tocsr()
        self._last = np.linalg.pinv(matrix.toarray(), hermitian=True)

    def __call__(self, values: npt.NDArray) -> npt.NDArray:
        """One cycle."""
        return self._cycle(values.ravel(), 0)

    def _cycle(self, right_side: npt.NDArray, level: int) -> npt.NDArray:
        if level == len(self._levels):
            return self._last @ right_side
        matrix, down, scale = self._levels[level]
        x = scale * right_side
        for _ in range(SMOOTHINGS - 1):
            x += scale * (right_side - matrix @ x)
        x += down @ self._cycle(down.T @ (right_side - matrix @ x), level + 1)
        for _ in range(SMOOTHINGS):
            x += scale * (right_side - matrix @ x)
        return x


def _interpolation(shape: tuple[int, ...]) -> tuple[csr_array, tuple[int, ...]]:
    """The interpolation from a coarser grid, and the shape of that grid."""
    from scipy.sparse import csr_array, eye_array, kron

    total, coarse = None, []
    for n in shape:
        along = _halved(n) if n >= FEWEST else eye_array(n, format="csr")
        coarse.append(along.shape[1])
        total = along if total is None else kron(total, along, format="csr")
    return csr_array(total), tuple(coarse)


def _halved(n: int) -> csr_array:
    """Linear interpolation from cells twice as wide to n cells. Beyond the last centre the value is constant."""
    from scipy.sparse import coo_array

    cells, wide = np.arange(n), (n + 1) // 2
    near = cells // 2
    far = np.clip(near + np.where(cells % 2, 1, -1), 0, wide - 1)
    values = np.concatenate([np.full(n, 0.75), np.full(n, 0.25)])
    return coo_array((values, (np.concatenate([cells, cells]), np.concatenate([near, far]))), shape=(n, wide)).tocsr()
