"""Tests for matrices that are singular, and eigenvalues that are equal, within rounding.

A backward-stable algorithm gives the exact result of a matrix that differs from the given one by a small multiple of its norm times the
unit of rounding. So do the operations that made the matrix. Two libraries, and two processors, differ by as much. Hence no bound here is
the error of one library. Each leaves room above the largest error that was measured with four kinds of kernels of OpenBLAS and four
drivers of LAPACK, and grows with the matrix as errors do. A matrix within a bound is refused by name. For a matrix just above it, the
derivative has about one digit, as has that of a matrix that differs by rounding.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffsim.errors import SingularError

EQUAL = 64
"""Eigenvalues that differ by less than this times √n, in units of rounding of the largest one, are equal. Those of matrices with equal
eigenvalues differed by up to 7 √n (n from 2 to 256)."""
ROOM = 16
"""A condition number of more than 1 / ROOM, in units of rounding, is that of a singular matrix. Matrices of lower rank had at least 0.56.

It is the product of the Frobenius norms of matrix and inverse. The smallest pivot would be no measure: in matrices of lower rank it was
up to 35 000 √n units.
"""
PROBES = 4
"""Random right sides that estimate the norm of an inverse: with 4, a norm is found too small by a factor of 9 in 1 of 10 000 matrices."""

REMEDY = "expected a regular one; add a small multiple of the unit matrix, or take pinv of a matrix of full rank"


def unit(dtype: Any) -> float:
    """The unit of rounding."""
    return float(np.finfo(dtype).eps)


def apart(n: int, dtype: Any) -> float:
    """How far different eigenvalues of n x n matrices are apart at least, relative to the largest one."""
    return EQUAL * math.sqrt(n) * unit(dtype)


def rank_bound(shape: tuple[int, ...], dtype: Any) -> float:
    """How large the singular values of matrices of full rank are at least, relative to the largest one.

    It is larger than the bound below which NumPy takes them for 0.
    """
    return (ROOM + max(shape[-2:], default=0)) * unit(dtype)


def _scales(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Factors of rows and of columns, by which all rows and columns of a matrix are of order 1: units do not make it singular."""
    size = np.abs(a)
    rows = size.max(axis=-1, keepdims=True, initial=0.0)
    rows = np.where(rows == 0, 1, rows)
    columns = (size / rows).max(axis=-2, keepdims=True, initial=0.0)
    return rows, np.where(columns == 0, 1, columns)


def _norm(a: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(np.square(np.abs(a), dtype=float), axis=(-2, -1)))


def _require(condition: np.ndarray, used: Any, what: str, a: np.ndarray) -> None:
    """Raise where condition numbers are too large. Infinity and NaN in a matrix go on into its results."""
    lost = ~(condition * ROOM * unit(a.dtype) < 1) & np.isfinite(a).all(axis=(-2, -1)) & used
    if lost.any():
        values = np.linalg.svd(a[tuple(np.argwhere(lost)[0])], compute_uv=False)
        raise SingularError(
            f"{what} of a matrix that is singular within rounding (shape {a.shape}, singular values from {values[-1]:.3g} to "
            f"{values[0]:.3g}), {REMEDY}"
        )


def require_inverse(a: np.ndarray, inverse: np.ndarray, what: str, used: Any = True) -> None:
    """Raise where a matrix that was inverted is singular within rounding.

    Args:
        a: matrices.
        inverse: the norms for them.
        what: names the operation in the message.
        used: which of the matrices count.
    """
    rows, columns = _scales(a)
    with np.errstate(all="ignore"):
        condition = _norm(a / rows / columns) * _norm(np.swapaxes(columns, -1, -2) * inverse * np.swapaxes(rows, -1, -2))
    _require(condition, used, what, a)


def solved(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The solution of a x = b for a derivative, where the matrix is regular.

    The norm of the inverse is the mean over its products with random right sides (Hutchinson's estimator), which share the factors.

    Raises:
        SingularError: a matrix is singular within rounding, and its right side is not 0.
    """
    n = a.shape[-1]
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, columns = _scales(a)
    probes = np.random.default_rng(n).standard_normal((n, PROBES))
    sides = [np.broadcast_to(b, (*lead, *b.shape[-2:])), np.broadcast_to(rows * probes, (*lead, n, PROBES))]
    solution = np.linalg.solve(a, np.concatenate(sides, axis=-1))
    x, tried = solution[..., :-PROBES], solution[..., -PROBES:]
    with np.errstate(all="ignore"):
        condition = _norm(a / rows / columns) * _norm(np.swapaxes(columns, -1, -2) * tried) / math.sqrt(PROBES)
    _require(condition, np.any(b != 0, axis=(-2, -1)), "a derivative of solve", np.broadcast_to(a, (*lead, n, n)))
    return x.astype(np.result_type(a, b), copy=False)
