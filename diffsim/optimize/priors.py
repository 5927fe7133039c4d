"""Knowledge of fields before the records, as Gaussian distributions: the priors of `posterior`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.ndimage import gaussian_filter1d
from scipy.sparse.linalg import splu, spsolve_triangular

from diffsim.base.arguments import real_array, shape_of
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError
from diffsim.optimize.parametrise import check_mask_shape, spread
from diffsim.typing import Array

F64 = npt.NDArray[np.float64]

BLOCK = 256
"""Columns of the inverse that are solved for together."""
SINGULAR = 1e-10
"""A pivot below this part of the largest leaves a direction without a prior."""


class Prior(Protocol):
    """A Gaussian distribution of n variables around any mean, by a root L of its covariance L Lᵀ.

    Example:
        See `posterior`.
    """

    size: int
    """Number of variables, n."""
    inner: int
    """Number of columns of L."""

    def root(self, z: Array) -> F64:
        """L z; of independent standard normal z it is a sample."""
        ...

    def root_transpose(self, v: Array) -> F64:
        """Lᵀ v."""
        ...

    def variance(self) -> F64:
        """Diagonal of L Lᵀ."""
        ...


class CorrelatedPrior:
    """A field of a standard deviation and a correlation length: covariance σᵢ σⱼ exp(-½ Σ_a (rₐ/ℓₐ)²) in the interior of the grid.

    The root is a Gaussian filter, mirrored at the grid's edge and divided by its own deviation, so that the deviation is σ everywhere.

    Args:
        shape: of the grid.
        deviation: σ > 0, unit of the field; a number or broadcast to `shape`.
        length: ℓ >= 0, cells; a number, or one for each axis. 0: cells are independent.
        mask: the cells that are variables, in C order; None: all.

    Raises:
        ShapeError: an argument does not fit the shape.
        ParameterError: a deviation or a length out of range.

    Example:
        import numpy as np

        import diffsim as ds

        prior = ds.optimize.CorrelatedPrior((40, 50), deviation=2.0, length=3.0)
        samples = np.array([prior.root(z) for z in np.random.default_rng(0).standard_normal((200, prior.inner))])
        assert np.allclose(prior.variance(), 4.0) and abs(samples.std() - 2.0) < 0.2
    """

    def __init__(
        self, shape: Sequence[int], deviation: npt.ArrayLike, length: npt.ArrayLike = 0.0, mask: npt.NDArray[np.bool_] | None = None
    ) -> None:
        self.shape = shape_of("shape", shape)
        lengths = spread("length", length, (len(self.shape),))
        if not np.all(np.isfinite(lengths) & (lengths >= 0)):
            raise ParameterError(f"length: expected numbers of cells >= 0, got {shown(length)}; 0 makes cells independent")
        self._inside = np.ones(self.shape, bool) if mask is None else check_mask_shape(mask, self.shape) != 0
        sigma = spread("deviation", deviation, self.shape)
        if not np.all(np.isfinite(sigma) & (sigma > 0)):
            raise ParameterError("deviation: expected finite numbers > 0, got another; leave cells that are known out by `mask`")
        self._filters = [_filter(n, float(ell)) for n, ell in zip(self.shape, lengths, strict=True)]
        squares = [np.sum(f**2, axis=1) for f in self._filters]
        self._scale = sigma / np.sqrt(reduce(np.multiply.outer, squares))
        self._variance = (sigma**2)[self._inside]
        self.inner = int(np.prod(self.shape))
        self.size = int(np.count_nonzero(self._inside))

    def root(self, z: Array) -> F64:
        """L z, a value for each variable."""
        return (self._scale * self._filtered(np.reshape(z, self.shape)))[self._inside]

    def root_transpose(self, v: Array) -> F64:
        """Lᵀ v."""
        field = np.zeros(self.shape)
        field[self._inside] = v
        return self._filtered(self._scale * field, transposed=True).ravel()

    def variance(self) -> F64:
        """σ² of each variable."""
        return self._variance.copy()

    def _filtered(self, field: F64, transposed: bool = False) -> F64:
        for axis, matrix in enumerate(self._filters):
            field = np.moveaxis(np.tensordot(matrix.T if transposed else matrix, field, (1, axis)), 0, axis)
        return field


def _filter(n: int, length: float) -> F64:
    """The Gaussian filter along an axis as a matrix; that of deviation s correlates over √2 s."""
    return gaussian_filter1d(np.eye(n), length / np.sqrt(2), axis=0, mode="reflect") if length else np.eye(n)


class PrecisionPrior:
    """A Gaussian by its precision matrix, the inverse of its covariance, such as the Hessian of a Tikhonov penalty.

    The matrix is factorised once. The variance needs a solution for each variable, some milliseconds each for a plane of 10 000 cells.

    Args:
        precision: symmetric and positive definite, shape (n, n), sparse or dense.

    Raises:
        ShapeError: the matrix is not square.
        ParameterError: it is not positive definite: it leaves a combination of the variables free, as a penalty on slopes leaves the mean.

    Example:
        import numpy as np

        import diffsim as ds

        prior = ds.optimize.PrecisionPrior([[2.0, -1.0], [-1.0, 2.0]])
        root = np.column_stack([prior.root(z) for z in np.eye(2)])
        assert np.allclose(root @ root.T, np.linalg.inv([[2.0, -1.0], [-1.0, 2.0]])) and np.allclose(prior.variance(), 2 / 3)
    """

    def __init__(self, precision: Any) -> None:
        matrix = sparse.csc_matrix(precision if sparse.issparse(precision) else real_array("precision", precision, np.float64))
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
            raise ShapeError(f"precision: expected a square matrix, got shape {matrix.shape}; give one row a variable")
        self.size = self.inner = matrix.shape[0]
        self._precision = matrix
        try:
            self._factors = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        except RuntimeError as error:  # exactly singular
            raise self._not_definite() from error
        pivots = self._factors.U.diagonal()
        if not np.array_equal(self._factors.perm_r, self._factors.perm_c) or np.min(pivots) <= SINGULAR * np.max(pivots):
            raise self._not_definite()
        self._order = self._factors.perm_r
        self._lower = sparse.csr_matrix(self._factors.L @ sparse.diags_array(np.sqrt(pivots)))
        self._upper = sparse.csr_matrix(self._lower.T)

    def root(self, z: Array) -> F64:
        """L z, with L Lᵀ the inverse of the precision."""
        return np.asarray(spsolve_triangular(self._upper, np.array(z, np.float64), lower=False))[self._order]

    def root_transpose(self, v: Array) -> F64:
        """Lᵀ v."""
        ordered = np.empty(self.size)
        ordered[self._order] = v
        return np.asarray(spsolve_triangular(self._lower, ordered, lower=True))

    def precision(self, v: Array) -> F64:
        """The inverse of the covariance times v."""
        return np.asarray(self._precision @ np.asarray(v, np.float64))

    def variance(self) -> F64:
        """Diagonal of the inverse of the precision."""
        out = np.empty(self.size)
        for first in range(0, self.size, BLOCK):
            some = np.arange(first, min(first + BLOCK, self.size))
            columns = np.zeros((self.size, some.size))
            columns[some, np.arange(some.size)] = 1.0
            out[some] = self._factors.solve(columns)[some, np.arange(some.size)]
        return out

    def _not_definite(self) -> ParameterError:
        return ParameterError(
            "precision: expected a positive definite matrix, got one that leaves a combination of the variables free; add a penalty on "
            "values (Tikhonov of order 0), or take a CorrelatedPrior"
        )


class StackedPriors:
    """Independent priors of variables one after another.

    Args:
        parts: the priors.

    Example:
        import diffsim as ds

        speed = ds.optimize.CorrelatedPrior((30,), deviation=100.0, length=2.0)
        both = ds.optimize.StackedPriors([speed, ds.optimize.CorrelatedPrior((3,), deviation=0.1)])
        assert both.size == 33 and both.variance()[-1] == 0.1**2
    """

    def __init__(self, parts: Sequence[Prior]) -> None:
        self._parts = list(parts)
        sizes, inners = [part.size for part in parts], [part.inner for part in parts]
        self.size, self.inner = sum(sizes), sum(inners)
        self._outer_ends, self._inner_ends = np.cumsum(sizes)[:-1], np.cumsum(inners)[:-1]

    def root(self, z: Array) -> F64:
        """L z."""
        return np.concatenate([part.root(each) for part, each in zip(self._parts, np.split(z, self._inner_ends), strict=True)])

    def root_transpose(self, v: Array) -> F64:
        """Lᵀ v."""
        return np.concatenate([part.root_transpose(each) for part, each in zip(self._parts, np.split(v, self._outer_ends), strict=True)])

    def variance(self) -> F64:
        """Variance of each variable."""
        return np.concatenate([part.variance() for part in self._parts])
