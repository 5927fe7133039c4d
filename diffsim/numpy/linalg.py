"""Linear algebra, named as in `numpy.linalg`."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from diffsim.ad.arrays.array import wrap
from diffsim.ad.core import is_plain, laid_out
from diffsim.ad.ops import determinant, singular, spectral
from diffsim.ad.ops import matrix as mx
from diffsim.ad.ops import structure as st
from diffsim.base.messages import shown
from diffsim.errors import DerivativeError, SingularError
from diffsim.numpy import diagonals, products
from diffsim.numpy.calling.dispatch import as_computed, axes_of, in_rows, is_complex, outside, plain, value_of, without_rules
from diffsim.numpy.elementwise import absolute, conj, root_or_zero, square
from diffsim.numpy.products import vecdot as _vecdot
from diffsim.numpy.reductions import max as largest
from diffsim.numpy.reductions import min as smallest
from diffsim.numpy.reductions import sum as total
from diffsim.numpy.shapes.creation import array, asarray, empty_like, eye
from diffsim.numpy.shapes.joining import concatenate
from diffsim.numpy.shapes.shaping import expand_dims, matrix_transpose, moveaxis, reshape, transpose

LinAlgError = np.linalg.LinAlgError
__getattr__ = without_rules(np.linalg)


def _floating(x: Any) -> Any:
    value = value_of(x)
    return value if value.dtype.kind in "fc" else st.astype(value, dtype=np.dtype(float))


def _matrices(x: Any, name: str, real: bool = False) -> Any:
    """Square matrices as a core value."""
    value = _floating(x)
    if value.ndim < 2 or value.shape[-1] != value.shape[-2]:
        raise LinAlgError(f"{name} of an array of shape {value.shape}, expected square matrices in the last two axes")
    if real and value.dtype.kind == "c" and not is_plain(value):
        raise DerivativeError(f"{name} of complex matrices has no derivative; write the problem with real and imaginary parts")
    return value


# equations


@outside(np.linalg)
def matmul(x1: Any, x2: Any) -> Any:
    """Products of matrices, broadcast over leading axes."""
    return products.matmul(x1, x2)


@outside(np.linalg)
def solve(a: Any, b: Any) -> Any:
    """x with a x = b. Its adjoint is a solve with the transpose."""
    x, y = _matrices(a, "solve"), _floating(b)
    if y.ndim == 1:
        return wrap(st.reshape(mx.solve(x, st.reshape(y, shape=(-1, 1))), shape=(*x.shape[:-2], y.shape[0])))
    return wrap(mx.solve(x, y))


@outside(np.linalg)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """x with `tensordot(a, x, x.ndim) = b`.

    Args:
        a: coefficients of shape `b.shape + x.shape`, in which both parts have as many entries.
        b: the right side.
        axes: of `a`, which are moved to its end before.

    Raises:
        LinAlgError: the two parts of the shape of `a` differ in size.
        SingularError: there is no solution.
    """
    a, b = asarray(a), asarray(b)
    if axes is not None:
        last = [axis % a.ndim for axis in axes]
        a = transpose(a, (*(k for k in range(a.ndim) if k not in last), *last))
    shape = a.shape[b.ndim :]
    return reshape(solve(reshape(a, (b.size, -1)), reshape(b, (-1,))), shape)


@outside(np.linalg)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse for `tensordot(a, x, ind)`: of shape `a.shape[ind:] + a.shape[:ind]`, both parts with as many entries.

    Raises:
        LinAlgError: the two parts of the shape differ in size.
        SingularError: there is no inverse.
    """
    a = asarray(a)
    return reshape(inv(reshape(a, (math.prod(a.shape[:ind]), -1))), a.shape[ind:] + a.shape[:ind])


@outside(np.linalg)
def inv(a: Any) -> Any:
    """Inverse matrices."""
    return wrap(mx.inv(_matrices(a, "inv")))


@outside(np.linalg)
def pinv(a: Any) -> Any:
    """The pseudo-inverse of matrices of full rank."""
    return wrap(mx.pinv(_floating(a)))


class LstsqResult(NamedTuple):
    """Solution, sums of squared residuals (empty unless there are more equations than unknowns), rank, singular values."""

    x: Any
    residuals: Any
    rank: Any
    s: Any


@outside(np.linalg)
def lstsq(a: Any, b: Any, rcond: Any = None) -> LstsqResult:
    """The least-squares solution for a matrix of full column rank."""
    if rcond is not None and np.ndim(plain(rcond)):
        raise DerivativeError(f"rcond of shape {np.shape(plain(rcond))} of lstsq, expected a number; leave rcond out")
    a, b = wrap(_floating(a)), wrap(_floating(b))
    _, _, rank, s = np.linalg.lstsq(plain(a), plain(b), rcond)
    rank = min(rank, mx.rank_of(s, plain(a)))
    if rank < a.shape[1]:
        raise SingularError(
            f"lstsq with a matrix of rank {rank} within rounding and {a.shape[1]} columns has no derivative, expected full column rank; "
            "add rows that penalise the solution, or leave out columns"
        )
    x = matmul(pinv(a), b)
    rest = total(square(absolute(b - matmul(a, x))), 0)
    return LstsqResult(x, reshape(rest, (-1,)) if a.shape[0] > a.shape[1] else array([], rest.dtype), rank, wrap(s))


# determinants


@outside(np.linalg)
def det(a: Any) -> Any:
    """Determinants; of singular matrices the first two derivatives hold, and up to 3 x 3 all of them."""
    value = _matrices(a, "det")
    m = wrap(value)
    match value.shape[-1]:
        case 1:
            return total(m, (-2, -1))
        case 2:
            return m[..., 0, 0] * m[..., 1, 1] - m[..., 0, 1] * m[..., 1, 0]
        case 3:
            return total(m[..., 0, :] * products.cross(m[..., 1, :], m[..., 2, :]), -1)
    return wrap(determinant.det(value))


class SlogdetResult(NamedTuple):
    """Sign and logarithm of the absolute value of a determinant."""

    sign: Any
    logabsdet: Any


@outside(np.linalg)
def slogdet(a: Any) -> SlogdetResult:
    """Sign and logarithm of the absolute value of the determinants of real regular matrices."""
    value = _matrices(a, "slogdet", real=True)
    return SlogdetResult(wrap(determinant.det_sign(value)), wrap(determinant.logabsdet(value)))


# symmetric matrices


@outside(np.linalg)
def cholesky(a: Any, *, upper: bool = False) -> Any:
    """The lower (or upper) triangular factor of real symmetric positive definite matrices; only their symmetric part counts."""
    lower = wrap(mx.cholesky(_matrices(a, "cholesky", real=True)))
    return in_rows(conj(matrix_transpose(lower))) if upper else lower


class EighResult(NamedTuple):
    """Eigenvalues in increasing order, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


@outside(np.linalg)
def eigh(a: Any, UPLO: str = "L") -> EighResult:
    """Eigenvalues and eigenvectors of real symmetric matrices, whose symmetric part counts.

    While they are differentiated, vectors of equal eigenvalues are others than NumPy's: a function that depends on the choice is refused.
    """
    value = _matrices(a, "eigh", real=True)
    w, v = np.linalg.eigh(value if value.dtype.kind == "c" else mx.symmetric(value)) if is_plain(value) else spectral.eigh(value)
    return EighResult(wrap(w), wrap(v))


@outside(np.linalg)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of real symmetric matrices in increasing order."""
    return eigh(a).eigenvalues


# factors of any matrices


def _real(x: Any, name: str) -> Any:
    """Real matrices of any shape as a core value."""
    value = _floating(x)
    if value.ndim < 2:
        raise LinAlgError(f"{name} of an array of shape {value.shape}, expected matrices in the last two axes")
    if value.dtype.kind == "c" and not is_plain(value):
        raise DerivativeError(f"{name} of complex matrices has no derivative; write the problem with real and imaginary parts")
    return value


class QRResult(NamedTuple):
    """A matrix with orthonormal columns, and an upper triangular one."""

    Q: Any
    R: Any


@outside(np.linalg)
def qr(a: Any, mode: str = "reduced") -> Any:
    """Factors of real matrices: `a = Q @ R`.

    Where derivatives are taken, the columns are linearly independent; of a matrix with fewer rows than columns, as many as it has rows, the
    first ones. The signs are NumPy's, so a function that does not change with them has the right derivative.

    Args:
        a: matrices of shape (..., m, n).
        mode: "reduced": Q of shape (..., m, k) and R of shape (..., k, n), k the smaller one of m and n. "r": R alone. "complete": Q of
            shape (..., m, m), for m up to n.

    Returns:
        Q and R, or R.

    Raises:
        DerivativeError: there is no derivative in this mode, or of complex matrices.
        SingularError: the columns are linearly dependent within rounding.

    Reference: Walter & Lehmann (2018), Algorithmic differentiation of linear algebra functions, arXiv:1001.1654.
    """
    value = _real(a, "qr")
    if is_plain(value):
        factors = np.linalg.qr(value, mode)  # type: ignore[call-overload]
        return wrap(factors) if mode == "r" else QRResult(*map(wrap, factors))
    rows, columns = value.shape[-2:]
    if mode == "raw" or (mode == "complete" and rows > columns):
        raise DerivativeError(
            f"qr with mode={shown(mode)} of matrices of shape {value.shape[-2:]} has no derivative, expected mode='reduced' or 'r'"
        )
    if rows >= columns:
        q, r = map(wrap, singular.qr(value))
    else:
        q, first = map(wrap, singular.qr(st.getitem(value, index=(Ellipsis, slice(rows)))))
        rest = wrap(st.getitem(value, index=(Ellipsis, slice(rows, None))))
        upper = np.ones(value.shape[-2:], bool)  # NumPy chooses entries of a copy by such a mask
        r = as_computed(concatenate([first, matmul(matrix_transpose(q), rest)], axis=-1), upper, np.empty_like(laid_out(value)))
    return r if mode == "r" else QRResult(q, r)


class SVDResult(NamedTuple):
    """Left vectors as columns, singular values in decreasing order, and right vectors as rows."""

    U: Any
    S: Any
    Vh: Any


@outside(np.linalg)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Singular values and vectors of real matrices: `a = U @ diag(S) @ Vh`.

    Singular values alone have a derivative also where they are equal or 0; that of one that is 0 is taken for 0, as that of `abs`. Vectors
    have one where their singular values differ from one another and from 0. While they are differentiated, vectors of equal singular values
    are others than NumPy's: a function that depends on the choice is refused.

    Args:
        a: matrices of shape (..., m, n).
        full_matrices: whether there are m left and n right vectors, not k of both, k the smaller one of m and n. For a derivative of
            vectors it is False, or m = n.
        compute_uv: whether to give vectors.
        hermitian: False where a derivative is taken.

    Returns:
        U of shape (..., m, k), S of shape (..., k) and Vh of shape (..., k, n); or S.

    Raises:
        DerivativeError: there is no derivative with these arguments, or of complex matrices; or, when a derivative of vectors is taken,
            their singular values are equal or 0 within rounding.

    Reference: Townsend (2016), Differentiating the singular value decomposition.
    """
    value = _real(a, "svd")
    if is_plain(value):
        factors = np.linalg.svd(value, full_matrices, compute_uv, hermitian)  # type: ignore[call-overload]
        return SVDResult(*map(wrap, factors)) if compute_uv else wrap(factors)
    if hermitian:
        raise DerivativeError("svd with hermitian=True has no derivative; leave hermitian out, or take eigh")
    u, s, vh = map(wrap, singular.svd(value))
    if not compute_uv:
        return s
    if full_matrices and value.shape[-1] != value.shape[-2]:
        raise DerivativeError(
            f"svd with full_matrices=True of matrices of shape {value.shape[-2:]} has no derivative, for some vectors belong to no "
            "singular value; pass full_matrices=False"
        )
    return SVDResult(u, s, vh)


@outside(np.linalg)
def svdvals(x: Any, /) -> Any:
    """Singular values of real matrices in decreasing order, see `svd`.

    Raises:
        DerivativeError: a derivative is taken of complex matrices.
    """
    return svd(x, compute_uv=False)


# norms


@outside(np.linalg)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Norms of vectors and matrices; where a norm is 0 its derivative is 0.

    Raises:
        DerivativeError: a norm of complex matrices that needs their singular values, or of another order than NumPy's.
    """
    x = wrap(_floating(x))
    axes = axes_of(axis, x.ndim)
    if ord is None and axis is None:
        return _euclidean(x, axes, keepdims)
    if len(axes) == 1:
        return _vector_norm(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) != 2:
        raise ValueError(f"norm along {len(axes)} axes, expected 1 (of vectors) or 2 (of matrices)")
    rows, columns = axes
    match ord:
        case None | "fro":
            return _euclidean(x, axes, keepdims)
        case 1 | -1:
            sums = total(absolute(x), rows, keepdims=True)
        case 2 | -2 | "nuc":
            s = svdvals(moveaxis(x, axes, (-2, -1)))
            result = total(s, -1) if ord == "nuc" else (largest if ord > 0 else smallest)(s, -1)
            return expand_dims(result, tuple(sorted(axes))) if keepdims else result
        case _ if ord in (np.inf, -np.inf):
            sums = total(absolute(x), columns, keepdims=True)
        case _:
            raise DerivativeError(f"ord = {shown(ord)} of a matrix norm has no derivative here, expected 'fro', 'nuc', ±1, ±2 or ±inf")
    return (largest if ord > 0 else smallest)(sums, axes, keepdims=keepdims)


def _euclidean(x: Any, axes: Any, keepdims: bool) -> Any:
    squares = square(absolute(x)) if is_complex(x) else square(x)
    return root_or_zero(total(squares, axes, keepdims=keepdims))


def _vector_norm(x: Any, order: Any, axes: Any, keepdims: bool) -> Any:
    match order:
        case 2:
            return _euclidean(x, axes, keepdims)
        case np.inf:
            return largest(absolute(x), axes, keepdims=keepdims)
        case _ if order == -np.inf:
            return smallest(absolute(x), axes, keepdims=keepdims)
        case 0:
            return total(x != 0, axes, np.dtype(plain(absolute(x)).dtype), keepdims=keepdims)
        case 1:
            return total(absolute(x), axes, keepdims=keepdims)
    return root_or_zero(total(absolute(x) ** order, axes, keepdims=keepdims), 1.0 / order)


@outside(np.linalg)
def vector_norm(x: Any, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Norms of vectors along axes, of all entries by default."""
    x = wrap(_floating(x))
    return _vector_norm(x, ord, axes_of(axis, x.ndim), keepdims)


@outside(np.linalg)
def matrix_norm(x: Any, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Norms of matrices."""
    return norm(x, ord, (-2, -1), keepdims)


# products


@outside(np.linalg)
def matrix_power(a: Any, n: int) -> Any:
    """Integer powers of square matrices, by repeated squaring."""
    if n < 0:
        return matrix_power(inv(a), -n)
    _matrices(a, "matrix_power")
    value = asarray(a)
    if n == 0:
        product = empty_like(value)
        product[...] = eye(value.shape[-1], dtype=value.dtype)
        return product
    out = None
    while n:
        if n & 1:
            out = value if out is None else matmul(out, value)
        n >>= 1
        value = matmul(value, value) if n else value
    return out


@outside(np.linalg)
def multi_dot(arrays: Any) -> Any:
    """The product of several matrices, from left to right."""
    out, *rest = arrays
    for a in rest:
        out = matmul(out, a)
    return out


@outside(np.linalg)
def cross(x1: Any, x2: Any, *, axis: int = -1) -> Any:
    """Cross product of vectors in space."""
    return products.cross(x1, x2, axis=axis)


@outside(np.linalg)
def outer(x1: Any, x2: Any) -> Any:
    """Products of all pairs of entries of two vectors."""
    return products.outer(x1, x2)


@outside(np.linalg)
def tensordot(x1: Any, x2: Any, *, axes: Any = 2) -> Any:
    """Sum over pairs of axes."""
    return products.tensordot(x1, x2, axes)


@outside(np.linalg)
def diagonal(x: Any, *, offset: int = 0) -> Any:
    """Entries of the diagonal of the matrices in the last two axes."""
    return diagonals.diagonal(x, offset, -2, -1)


@outside(np.linalg)
def trace(x: Any, *, offset: int = 0, dtype: Any = None) -> Any:
    """Sum of the diagonal of the matrices in the last two axes."""
    return diagonals.trace(x, offset, -2, -1, dtype)


@outside(np.linalg)
def vecdot(x1: Any, x2: Any, *, axis: int = -1) -> Any:
    """As `numpy.vecdot`."""
    return _vecdot(x1, x2, axis=axis)


__all__ = [
    "EighResult", "LinAlgError", "LstsqResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cross", "det", "diagonal",
    "eigh", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_transpose", "multi_dot", "norm", "outer",
    "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip
