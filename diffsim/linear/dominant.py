"""Sparse elimination for symmetric matrices with a dominant diagonal, such as those of Poisson equations with coefficients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from diffsim.linear.sparse import ROUND_OFF, Factored, is_symmetric, leaves_constants, without_mean

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class DominantFactors(Factored):
    """Elimination in an order for symmetric matrices, without pivoting, which a dominant diagonal does not need.

    On 256 x 512 cells a solution takes half the time of `Factored`. If the matrix maps constants to 0, the first unknown is 0 while the
    others are solved for, and the solution has mean zero; the right side must have mean zero.

    Args:
        matrix: of the system, see `dominates`.

    Raises:
        SingularError: the matrix has no inverse, though it does not map constants to 0.
    """

    def __init__(self, matrix: csr_array) -> None:
        self._open = leaves_constants(matrix)
        kept = matrix.tocsr()[1:, 1:] if self._open else matrix
        super().__init__(kept, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})

    def solve(self, right_side: npt.NDArray, transposed: bool, size: npt.NDArray | None = None) -> npt.NDArray:
        if not self._open:
            return super().solve(right_side, False)
        values = without_mean(right_side.ravel().astype(float), right_side, transposed, size)
        solution = np.append(0.0, super().solve(values[1:], False))
        return (solution - solution.mean()).reshape(right_side.shape)


def dominates(matrix: csr_array) -> bool:
    """True if a matrix is symmetric, no diagonal entry is 0, and each is at least as large as the others of its row together."""
    diagonal = np.abs(matrix.diagonal())
    others = np.asarray(abs(matrix).sum(axis=1)).ravel() - diagonal
    return bool(is_symmetric(matrix) and diagonal.min() > 0 and (others - diagonal <= ROUND_OFF * diagonal.max()).all())
