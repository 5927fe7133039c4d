"""Linear algebra, named as in `numpy.linalg`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from diffsim.ad.array import core, wrap
from diffsim.ad.core import bottom
from diffsim.ad.ops import matrix as mx
from diffsim.ad.ops import structure as st
from diffsim.numpy.elementwise import abs, multiply, sqrt, where
from diffsim.numpy.products import _value, cross, matmul, outer, tensordot, vecdot
from diffsim.numpy.reductions import max as largest
from diffsim.numpy.reductions import min as smallest
from diffsim.numpy.reductions import sum as total
from diffsim.numpy.shaping import diagonal, matrix_transpose, trace

LinAlgError = np.linalg.LinAlgError


def _floating(x: Any) -> Any:
    value = _value(x)
    return value if value.dtype.kind in "fc" else st.astype(value, dtype=np.dtype(float))


def solve(a: Any, b: Any) -> Any:
    """x with a x = b. Its adjoint is a solve with the transpose."""
    x, y = _floating(a), _floating(b)
    if y.ndim == 1:
        return wrap(st.reshape(mx.solve(x, st.reshape(y, shape=(-1, 1))), shape=(*x.shape[:-2], y.shape[0])))
    return wrap(mx.solve(x, y))


def inv(a: Any) -> Any:
    """Inverse matrices."""
    return wrap(mx.inv(_floating(a)))


def det(a: Any) -> Any:
    """Determinants; of singular matrices the first derivative holds, and up to rank 3 all of them."""
    value = _floating(a)
    match value.shape[-1]:
        case 1:
            return wrap(value)[..., 0, 0]
        case 2:
            m = wrap(value)
            return m[..., 0, 0] * m[..., 1, 1] - m[..., 0, 1] * m[..., 1, 0]
        case 3:
            m = wrap(value)
            return total(multiply(m[..., 0, :], cross(m[..., 1, :], m[..., 2, :])), -1)
    return wrap(mx.det(value))


class SlogdetResult(NamedTuple):
    """Sign and logarithm of the absolute value of a determinant."""

    sign: Any
    logabsdet: Any


def slogdet(a: Any) -> SlogdetResult:
    """Sign and logarithm of the absolute value of the determinants of real regular matrices."""
    value = _floating(a)
    return SlogdetResult(wrap(np.linalg.slogdet(bottom(value))[0]), wrap(mx.logabsdet(value)))


def cholesky(a: Any) -> Any:
    """The lower triangular factor of real symmetric positive definite matrices; only their symmetric part counts."""
    return wrap(mx.cholesky(_floating(a)))


class EighResult(NamedTuple):
    """Eigenvalues in increasing order, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


def eigh(a: Any) -> EighResult:
    """Eigenvalues and eigenvectors of real symmetric matrices, whose symmetric part counts."""
    w, v = mx.eigh(_floating(a))
    return EighResult(wrap(w), wrap(v))


def eigvalsh(a: Any) -> Any:
    """Eigenvalues of real symmetric matrices in increasing order."""
    return eigh(a).eigenvalues


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Norms of vectors and matrices; where a Euclidean norm is 0 its derivative is 0."""
    value = wrap(_floating(x))
    rank = value.ndim
    if axis is None and (ord is None or rank == 1):
        axis = tuple(range(rank))
    elif axis is None:
        axis = (rank - 2, rank - 1)
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    if ord in (None, "fro") or (ord == 2 and len(axes) == 1):
        squares = multiply(abs(value), abs(value)) if np.iscomplexobj(bottom(core(value))) else multiply(value, value)
        return _safe_root(total(squares, axes, None, keepdims))
    if len(axes) == 1:
        match ord:
            case np.inf:
                return largest(abs(value), axes, keepdims)
            case _ if ord == -np.inf:
                return smallest(abs(value), axes, keepdims)
            case 0:
                return total(value != 0, axes, float, keepdims)
            case 1:
                return total(abs(value), axes, None, keepdims)
        return total(abs(value) ** ord, axes, None, keepdims) ** (1.0 / ord)
    rows, columns = (a % rank for a in axes)
    if ord in (1, np.inf):
        inner, outer_axis = (rows, columns) if ord == 1 else (columns, rows)
        return largest(total(abs(value), inner, None, True), (outer_axis, inner), keepdims)
    raise ValueError(f"ord = {ord!r} of a matrix norm, expected None, 'fro', 1 or inf")


def _safe_root(squares: Any) -> Any:
    none = squares == 0
    return where(none, 0.0, sqrt(where(none, 1.0, squares)))


vector_norm = norm


def matrix_norm(x: Any, ord: Any = "fro", keepdims: bool = False) -> Any:
    """Norms of matrices."""
    return norm(x, ord, (-2, -1), keepdims)


def matrix_power(a: Any, n: int) -> Any:
    """Integer powers of square matrices, by repeated squaring."""
    if n < 0:
        return matrix_power(inv(a), -n)
    value = wrap(_floating(a))
    out: Any = wrap(np.broadcast_to(np.eye(value.shape[-1], dtype=value.dtype), value.shape).copy())
    while n:
        if n & 1:
            out = matmul(out, value)
        n >>= 1
        value = matmul(value, value) if n else value
    return out


def multi_dot(arrays: Any) -> Any:
    """The product of several matrices, from left to right."""
    out = arrays[0]
    for a in arrays[1:]:
        out = matmul(out, a)
    return out


def pinv(a: Any) -> Any:
    """The pseudo-inverse of matrices of full rank."""
    value = wrap(_floating(a))
    n, m = value.shape[-2:]
    t = matrix_transpose(value)
    return solve(matmul(t, value), t) if n >= m else matrix_transpose(solve(matmul(value, t), value))


def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """The least-squares solution for a matrix of full column rank, by the normal equations; only the solution is given, as (x,)."""
    t = matrix_transpose(wrap(_floating(a)))
    return (solve(matmul(t, a), matmul(t, b)),)


__all__ = [
    "EighResult", "LinAlgError", "SlogdetResult", "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "slogdet", "solve", "tensordot", "trace",
    "vecdot", "vector_norm",
]  # fmt: skip
