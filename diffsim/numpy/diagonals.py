"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array
from diffsim.ad.arrays.views import ReadOnlyView
from diffsim.ad.ops import structure as st
from diffsim.numpy.calling.dispatch import axes_of, in_rows, outside, plain
from diffsim.numpy.decisions import result_type
from diffsim.numpy.elementwise import where
from diffsim.numpy.shapes.creation import asarray, zeros
from diffsim.numpy.shapes.joining import stack
from diffsim.numpy.shapes.shaping import moveaxis, ravel


def _below(m: Any, k: int) -> Any:
    """True if an entry of a matrix is on the diagonal `k` or below it; a vector stands for a square matrix of equal rows."""
    rows, columns = m.shape[-2:] if m.ndim > 1 else (m.shape[0], m.shape[0])
    return np.tri(rows, columns, plain(k), bool)


@outside(np)
def tril(m: Any, k: int = 0) -> Any:
    """The lower triangle, zero above it."""
    m = asarray(m)
    return where(_below(m, k), m, np.zeros((), m.dtype))


@outside(np)
def triu(m: Any, k: int = 0) -> Any:
    """The upper triangle, zero below it."""
    m = asarray(m)
    return where(_below(m, k - 1), np.zeros((), m.dtype), m)


@outside(np)
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Entries of the diagonal of the matrices in two axes, along a new last axis; a view that cannot be assigned to."""
    a = asarray(a)
    if a.ndim < 2:
        raise ValueError(f"an array with {a.ndim} axes has no diagonal, expected two at least")
    matrices = moveaxis(a, axes_of((axis1, axis2), a.ndim), (-2, -1))
    if not isinstance(matrices, Array):
        return np.diagonal(matrices, offset, -2, -1)
    return matrices.linked(ReadOnlyView(lambda c: st.diagonal(c, offset=offset), lambda layout: np.diagonal(layout, offset, -2, -1)))


@outside(np)
def diag(v: Any, k: int = 0) -> Any:
    """The diagonal of a matrix, or a matrix with a diagonal."""
    v = asarray(v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ValueError(f"diag of an array with {v.ndim} axes, expected one or two")
    places = np.arange(v.shape[0])
    n = v.shape[0] + (k if k > 0 else -k)
    matrix = zeros((n, n), v.dtype)
    matrix[places - min(k, 0), places + max(k, 0)] = v
    return matrix


@outside(np)
def diagflat(v: Any, k: int = 0) -> Any:
    """A matrix with all entries of `v` on a diagonal."""
    return diag(ravel(v), k)


@outside(np)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """Sum of the diagonal."""
    return diagonal(a, offset, axis1, axis2).sum(-1, dtype)


@outside(np)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of the entries as columns."""
    x = asarray(x)
    x = x.astype(result_type(x, int))
    powers = range(len(x) if N is None else N)
    np.empty((len(x), len(powers)), x.dtype)  # refuses more columns than there is memory for, before a loop over them
    if not powers:
        return zeros((len(x), 0), x.dtype)
    return in_rows(stack([x**k for k in (powers if increasing else reversed(powers))], -1))
