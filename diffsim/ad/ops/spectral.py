"""Eigenvalues and eigenvectors of symmetric matrices, also where eigenvalues are equal.

With a = v diag(w) v^T, eigenvectors change by v k, k_ij = (v^T a' v)_ij / (w_j - w_i). Where eigenvalues are equal, only the span of
their eigenvectors has a derivative. A function of eigenvalues alone has the gradient v diag(w_bar) v^T, in which nothing is divided. Its
derivative is divided differences of w_bar, which for equal eigenvalues are second derivatives of the function, and known only where w_bar
is constant.

A function of eigenvectors has a derivative if it does not change as vectors of equal eigenvalues are turned. The rules test if its
derivative along such a turn is 0, at the vectors at hand. At the vectors of a library it may be 0 by chance: those of a unit matrix are
unit vectors, at which each single entry is largest or smallest. So where eigenvalues are equal, the vectors that are differentiated are
turned by a fixed rotation that nothing else knows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.core import Primitive, Tracer, bottom, is_known, is_plain
from diffsim.ad.ops import rounding
from diffsim.ad.ops.elementwise import absolute, logical_not, where
from diffsim.ad.ops.matrix import matmul, swap, symmetric
from diffsim.ad.ops.reduction import pick, winners
from diffsim.ad.ops.structure import add_up, getitem, reshape, zeros_like
from diffsim.errors import DerivativeError

ROUNDING = 64
"""The largest sum of terms that cancel, in units of one rounding of the largest term."""


def equal_pairs(w: Any, size: int = 0) -> Any:
    """Which pairs of different eigenvalues, or singular values of matrices with `size` rows or columns, are equal within rounding."""
    w, n = bottom(w), w.shape[-1]
    bound = rounding.apart(max(n, size), w.dtype) * largest(w)
    return (absolute(columns(w) - rows(w)) <= bound) & ~np.eye(n, dtype=bool)


def rows(w: Any) -> Any:
    return getitem(w, index=(Ellipsis, None, slice(None)))


def columns(w: Any) -> Any:
    return getitem(w, index=(Ellipsis, slice(None), None))


def largest(x: Any) -> Any:
    """The largest absolute value along the last axis, with two axes of length 1 in its place."""
    size = absolute(x)
    top = pick(size, winners(size, largest=True), -1) if x.shape[-1] else np.zeros((*x.shape[:-1], 1), x.dtype)
    return getitem(top, index=(Ellipsis, None))


def gaps(w: Any, size: int = 0) -> Any:
    """1 / (w_j - w_i), 0 on the diagonal and for equal eigenvalues."""
    unlike = logical_not(equal_pairs(w, size) | np.eye(w.shape[-1], dtype=bool))
    apart = rows(w) - columns(w)
    return where(unlike, 1.0 / where(unlike, apart, 1.0), 0.0)


def left_over(x: Any, of: Any, equal: Any) -> Any:
    """Where, among pairs of equal eigenvalues, a matrix is not 0 within rounding, or may have a derivative. `of`: it is made of sums of
    products of these entries, which may cancel."""
    if isinstance(x, Tracer) and not x.abstract:
        return equal
    bound = ROUNDING * x.shape[-1] * rounding.unit(x.dtype) * largest(reshape(of, shape=(*x.shape[:-2], -1)))
    return equal & logical_not(absolute(x) <= bound)


def _turned(x: Any, v: Any) -> Any:
    """v^T x v of the symmetric part of x."""
    return matmul(swap(v), matmul((x + swap(x)) * 0.5, v))


def _turned_back(x: Any, v: Any) -> Any:
    return matmul(v, matmul(x, swap(v)))


def diagonal(x: Any) -> Any:
    return add_up(x * np.eye(x.shape[-1], dtype=x.dtype), axis=(x.ndim - 1,), keepdims=False)


def example(w: np.ndarray, pairs: np.ndarray) -> str:
    *place, i, j = np.argwhere(pairs)[0]
    values = w[tuple(place)]
    return f"{min(i, j)} and {max(i, j)} ({values[i]:.6g} and {values[j]:.6g})"


def _eigh_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    w, v = out
    inner, own = _turned(tangents[0], v), _turned(tangents[0], _own(w, v))
    turn = where(left_over(inner, tangents[0], equal_pairs(w)), np.nan, inner * gaps(w))
    return diagonal(own), matmul(v, turn)


def _eigh_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    (w_bar, v_bar), (w, v) = ct, out
    bar = rebuilt(w_bar, args[0], w, _own(w, v))
    if is_plain(v_bar) and not v_bar.any():
        return (bar,)
    inner = matmul(swap(v), v_bar)
    inner = (inner - swap(inner)) * 0.5
    lost = left_over(inner, v_bar, equal_pairs(w))
    if not is_known(lost):
        return (bar + _turned_back(where(lost, np.nan, inner * gaps(w)), v),)
    if lost.any():
        raise DerivativeError(
            f"a derivative of eigenvectors is taken where eigenvalues {example(bottom(w), lost)} are equal within rounding, so that their "
            "vectors are not determined; use functions of the span of these vectors (v @ v.T) or of the eigenvalues alone, whose first "
            "derivatives exist, or a matrix whose eigenvalues differ"
        )
    return (bar + _turned_back(inner * gaps(w), v),)


def _eigh(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    w, v = np.linalg.eigh(symmetric(a))
    equal = equal_pairs(w)
    return (w, v @ rotation(equal).astype(v.dtype)) if equal.any() else (w, v)


def _own(w: Any, v: Any) -> Any:
    """The vectors that NumPy gave, with which functions of eigenvalues alone are differentiated."""
    pairs = equal_pairs(w) if is_known(w) else None
    return v if pairs is None or not pairs.any() else matmul(v, swap(rotation(pairs).astype(v.dtype)))


def rotation(pairs: np.ndarray) -> np.ndarray:
    """A rotation of the axes that form pairs, of which no entry is special (Cayley's form)."""
    n = pairs.shape[-1]
    some = np.random.default_rng(n).uniform(0.25, 0.75, (n, n))
    skew = np.where(pairs, np.triu(some, 1) - np.triu(some, 1).T, 0.0)
    return np.linalg.solve(np.eye(n) + skew, np.eye(n) - skew)


eigh: Primitive = Primitive("eigh", _eigh, jvp=_eigh_jvp, vjp=_eigh_vjp, keeps=lambda wanted: ((True,), True), multiple=True)
"""Eigenvalues and vectors of real symmetric matrices; of equal eigenvalues' vectors, others than NumPy's."""


def _along(x: Any, args: Any, depends: bool) -> Any:
    """The change of v diag(d) v^T as the matrix moves along x, which is its own transpose. `depends`: so does d."""
    d, _, w, v = args
    inner, plain = _turned(x, v), bottom(d)
    equal = equal_pairs(w)
    differ = absolute(columns(plain) - rows(plain)) > ROUNDING * rounding.unit(plain.dtype) * largest(plain)
    lost = left_over(inner, x, equal if depends else equal & differ)
    apart = rows(d) - columns(d)
    if not is_known(lost):
        return _turned_back(where(lost, np.nan, inner * (apart * gaps(w))), v)
    if lost.any():
        raise DerivativeError(
            f"a second derivative of a function of eigenvalues is taken where eigenvalues {example(bottom(w), lost)} are equal within "
            "rounding; the function's derivatives for the eigenvalues do not determine it there. Write the function with the matrix "
            "itself, as trace(a @ a) for sum(w**2), or take a matrix whose eigenvalues differ"
        )
    return _turned_back(inner * (apart * gaps(w)), v)


def _rebuilt_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    d_dot, a_dot = tangents[:2]
    if a_dot is None:
        return zeros_like(out) if d_dot is None else rebuilt(d_dot, *args[1:])
    moved = _along(a_dot, args, d_dot is not None)
    return moved if d_dot is None else moved + rebuilt(d_dot, *args[1:])


def _rebuilt_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    d_bar = diagonal(_turned(ct, args[3])) if wanted[0] else None
    return d_bar, _along(ct, args, wanted[0]) if wanted[1] else None, None, None


rebuilt: Primitive = Primitive(
    "rebuilt",
    lambda d, a, w, v: np.matmul(v * d[..., None, :], np.swapaxes(v, -1, -2)),
    jvp=_rebuilt_jvp,
    vjp=_rebuilt_vjp,
)
"""v diag(d) v^T, w and v being the eigenvalues and vectors of a: a function of d and a."""
