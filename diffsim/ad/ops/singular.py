"""Singular values and vectors of real matrices, and their factors Q R.

With a = u diag(s) v^T and p = u^T a' v, the symmetric part of p turns u and v alike, by p_ij / (s_j - s_i). The skew part turns them
against each other, by p_ij / (s_i + s_j). The part that leaves the span of u or v is divided by s_j. So vectors have a derivative where
their singular values are neither equal nor 0. A function of singular values alone has the gradient u diag(s_bar) v^T, in which nothing is
divided. A singular value has a kink at 0, where its derivative is taken for 0, as that of `abs`.

Equal singular values are treated as equal eigenvalues are (`spectral`): the vectors that are differentiated are turned by a fixed rotation.

Reference: Townsend (2016), Differentiating the singular value decomposition, https://j-towns.github.io/papers/svd-derivative.pdf; Walter &
Lehmann (2018), Algorithmic differentiation of linear algebra functions with application in optimum experimental design, arXiv:1001.1654,
for Q R.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.core import Primitive, Tracer, bottom, is_plain
from diffsim.ad.ops import rounding
from diffsim.ad.ops.elementwise import where
from diffsim.ad.ops.matrix import matmul, rank_of, solve, swap
from diffsim.ad.ops.spectral import ROUNDING, columns, equal_pairs, example, gaps, largest, left_over, rotation, rows
from diffsim.ad.ops.structure import add_up, zeros_like
from diffsim.errors import DerivativeError, SingularError


def _vanishing(s: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Which singular values of matrices of a shape are 0 within rounding."""
    plain = bottom(s)
    return plain <= rounding.rank_bound(shape, plain.dtype) * plain.max(axis=-1, keepdims=True, initial=0.0)


def _sums(s: Any, zero: np.ndarray) -> Any:
    """1 / (s_i + s_j), 0 where both are 0 within rounding."""
    both = columns(zero) & rows(zero)
    return where(both, 0.0, 1.0 / where(both, 1.0, columns(s) + rows(s)))


def _inverse(s: Any, zero: np.ndarray) -> Any:
    return where(zero, 0.0, 1.0 / where(zero, 1.0, s))


def _parts(p: Any) -> tuple[Any, Any]:
    """The symmetric and the skew part."""
    return (p + swap(p)) * 0.5, (p - swap(p)) * 0.5


def _used(x: Any) -> Any:
    """Which matrices are not 0, or may be moved."""
    return np.True_ if isinstance(x, Tracer) else np.any(x != 0, axis=(-2, -1), keepdims=True)


# singular values and vectors


def _svd(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    pairs = equal_pairs(s, max(a.shape[-2:]))
    if not pairs.any():
        return u, s, vh
    turn = rotation(pairs).astype(u.dtype)
    return u @ turn, s, swap(turn) @ vh


def _own(u: Any, s: Any, vh: Any, size: int) -> tuple[Any, Any]:
    """The vectors that NumPy gave, with which functions of singular values alone are differentiated."""
    pairs = equal_pairs(s, size)
    if not pairs.any():
        return u, vh
    turn = rotation(pairs).astype(u.dtype)
    return matmul(u, swap(turn)), matmul(turn, vh)


def _svd_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    (a,), (a_dot,), (u, s, vh) = args, tangents, out
    size, zero, v = max(a.shape[-2:]), _vanishing(s, a.shape), swap(vh)
    own_u, own_vh = _own(u, s, vh, size)
    s_dot = where(zero, 0.0, add_up(matmul(a_dot, swap(own_vh)) * own_u, axis=(a.ndim - 2,), keepdims=False))
    across, down = matmul(a_dot, v), matmul(swap(a_dot), u)
    p = matmul(swap(u), across)
    alike, against = _parts(p)
    alike = where(left_over(alike, a_dot, equal_pairs(s, size)), np.nan, alike * gaps(s, size))
    against = against * _sums(s, zero)
    inverse, lost = rows(_inverse(s, zero)), rows(zero) & _used(a_dot)
    u_dot = matmul(u, alike + against) + (across - matmul(u, p)) * inverse
    v_dot = matmul(v, alike - against) + (down - matmul(v, swap(p))) * inverse
    return where(lost, np.nan, u_dot), s_dot, swap(where(lost, np.nan, v_dot))


def _svd_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    (u_bar, s_bar, vh_bar), (a,), (u, s, vh) = ct, args, out
    size, zero, v, v_bar = max(a.shape[-2:]), _vanishing(s, a.shape), swap(vh), swap(vh_bar)
    _require_finite_slope(s_bar, s, zero)
    own_u, own_vh = _own(u, s, vh, size)
    bar = recomposed(s_bar, a, own_u, s, own_vh)
    if is_plain(u_bar, vh_bar) and not u_bar.any() and not vh_bar.any():
        return (bar,)
    _require_no_zero((u_bar, v_bar), s, zero)
    mu, mv = matmul(swap(u), u_bar), matmul(vh, v_bar)
    alike, against = _parts(mu + mv)[1], _parts(mu - mv)[1]
    _require_apart(alike, (u_bar, v_bar), s, size)
    inverse = rows(_inverse(s, zero))
    inner = alike * gaps(s, size) + against * _sums(s, zero)
    bar = bar + matmul(u, matmul(inner, vh))
    if a.shape[-2] > a.shape[-1]:
        bar = bar + matmul((u_bar - matmul(u, mu)) * inverse, vh)
    if a.shape[-2] < a.shape[-1]:
        bar = bar + matmul(u, swap((v_bar - matmul(v, mv)) * inverse))
    return (bar,)


def _require_apart(inner: Any, of: tuple[Any, Any], s: Any, size: int) -> None:
    equal = equal_pairs(s, size)
    lost = left_over(inner, np.concatenate(of, axis=-2), equal) if is_plain(inner, *of) else equal
    if lost.any():
        raise DerivativeError(
            f"a derivative of singular vectors is taken where singular values {example(bottom(s), lost)} are equal within rounding, so "
            "that their vectors are not determined; use functions of the span of these vectors (u @ u.T) or of the singular values alone, "
            "whose first derivatives exist, or a matrix whose singular values differ"
        )


def _require_no_zero(bars: tuple[Any, Any], s: Any, zero: np.ndarray) -> None:
    used: Any = np.False_
    for bar in bars:
        used = used | (np.any(bottom(bar) != 0, axis=-2) if is_plain(bar) else np.True_)
    lost = zero & used
    if lost.any():
        k = int(np.argwhere(lost)[0][-1])
        raise DerivativeError(
            f"a derivative of the singular vectors of index {k} is taken where their singular value ({bottom(s)[lost][0]:.3g}, the largest "
            f"is {np.max(bottom(s)):.3g}) is 0 within rounding, so that the vectors are not determined; use the vectors of the others, the "
            "singular values alone (compute_uv=False), or the eigenvectors of a.T @ a for null vectors"
        )


def _require_finite_slope(s_bar: Any, s: Any, zero: np.ndarray) -> None:
    """Raise where a function of singular values that are 0 within rounding is so steep that it has no derivative there."""
    slope = np.abs(bottom(s_bar))
    steep = rounding.unit(slope.dtype) ** -0.25 * np.max(np.where(zero, 0.0, slope), axis=-1, keepdims=True, initial=0.0)
    lost = zero & (np.isinf(slope) | (slope > steep)) & (steep > 0)
    if lost.any():
        raise DerivativeError(
            f"the derivative of a function of singular values, {slope[lost][0]:.3g} for one that is 0 within rounding "
            f"({bottom(s)[lost][0]:.3g}), is infinite within rounding; use a function that is not steep at 0, or a matrix of full rank"
        )


svd: Primitive = Primitive("svd", _svd, jvp=_svd_jvp, vjp=_svd_vjp, multiple=True)
"""u, s and vh of real matrices, as many of each as the matrix has rows or columns, whichever are fewer."""


def _along(x: Any, args: Any, depends: bool) -> Any:
    """The change of u diag(d) v^T as the matrix moves along x, which is its own transpose. `depends`: so does d."""
    d, a, u, s, vh = args
    size, zero, plain, v = max(a.shape[-2:]), _vanishing(s, a.shape), bottom(d), swap(vh)
    least = ROUNDING * rounding.unit(plain.dtype) * largest(plain)
    equal = equal_pairs(s, size)
    kink = zero & (np.True_ if depends else np.abs(plain) > least[..., 0]) & _used(x)[..., 0]
    across, down = matmul(x, v), matmul(swap(u), x)
    p = matmul(down, v)
    alike, against = _parts(p)
    lost = left_over(alike, x, equal if depends else equal & (np.abs(columns(plain) - rows(plain)) > least))
    if kink.any() or lost.any():
        where_ = f"of index {int(np.argwhere(kink)[0][-1])} is 0" if kink.any() else f"{example(bottom(s), lost)} are equal"
        raise DerivativeError(
            f"a second derivative of a function of singular values is taken where that {where_} within rounding; the function's "
            "derivatives for the singular values do not determine it there. Write the function with the matrix itself, as sum(a**2) for "
            "sum(s**2), or take a matrix whose singular values differ from one another and from 0"
        )
    d = where(zero, 0.0, d)
    inner = alike * ((rows(d) - columns(d)) * gaps(s, size)) + against * ((rows(d) + columns(d)) * _sums(s, zero))
    moved, ratio = matmul(u, matmul(inner, vh)), d * _inverse(s, zero)
    if a.shape[-2] > a.shape[-1]:
        moved = moved + matmul((across - matmul(u, p)) * rows(ratio), vh)
    if a.shape[-2] < a.shape[-1]:
        moved = moved + matmul(u, columns(ratio) * (down - matmul(p, vh)))
    return moved


def _recomposed(d: np.ndarray, a: np.ndarray, u: np.ndarray, s: np.ndarray, vh: np.ndarray) -> np.ndarray:
    return np.matmul(u * np.where(_vanishing(s, a.shape), 0, d)[..., None, :], vh)


def _recomposed_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    d_dot, a_dot = tangents[:2]
    if a_dot is None:
        return zeros_like(out) if d_dot is None else recomposed(d_dot, *args[1:])
    moved = _along(a_dot, args, d_dot is not None)
    return moved if d_dot is None else moved + recomposed(d_dot, *args[1:])


def _recomposed_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    _, a, u, s, vh = args
    d_bar = None
    if wanted[0]:
        d_bar = where(_vanishing(s, a.shape), 0.0, add_up(matmul(ct, swap(vh)) * u, axis=(a.ndim - 2,), keepdims=False))
    return d_bar, _along(ct, args, wanted[0]) if wanted[1] else None, None, None, None


recomposed: Primitive = Primitive("recomposed", _recomposed, jvp=_recomposed_jvp, vjp=_recomposed_vjp)
"""u diag(d) vh without vectors whose singular values are 0, these being singular values and vectors of a: a function of d and a."""


# Q R


def _full(r: Any, rows_: int, *bars: Any) -> Any:
    """R of a matrix whose columns are linearly independent within rounding, whatever their units; of one that is not used, another.

    Raises:
        SingularError: the columns of a matrix whose tangent or cotangent is not 0 depend on one another.
    """
    plain, n = bottom(r), r.shape[-1]
    used = np.any([np.any(bottom(bar) != 0, axis=(-2, -1)) if is_plain(bar) else np.ones(r.shape[:-2], bool) for bar in bars], axis=0)
    size = np.sqrt(np.sum(np.square(plain), axis=-2, keepdims=True))
    tested = (used & np.isfinite(plain).all(axis=(-2, -1)))[..., None, None]
    s = np.linalg.svd(np.where(tested, plain / np.where(size > 0, size, 1), np.eye(n)), compute_uv=False)
    rank = np.min(rank_of(s, np.empty((rows_, n), plain.dtype)), initial=n)
    if rank < n:
        raise SingularError(
            f"a derivative of qr of a matrix whose first {n} columns have rank {rank} within rounding (shape of R {plain.shape}), "
            "expected linearly independent columns; leave out columns, or add rows that are a small multiple of the unit matrix"
        )
    return r if used.all() else where(used[..., None, None], r, np.eye(n, dtype=r.dtype))


def _lower(x: Any) -> Any:
    return x * np.tri(x.shape[-1], k=-1, dtype=x.dtype)


def _behind(x: Any, r: Any) -> Any:
    """x r^-1."""
    return swap(solve(swap(r), swap(x)))


def _qr_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    (a_dot,), (q, r) = tangents, out
    moved = _behind(a_dot, _full(r, q.shape[-2], a_dot))
    inner = matmul(swap(q), moved)
    turn = _lower(inner) - swap(_lower(inner))
    rest = inner - turn
    return moved - matmul(q, rest), matmul(rest, r) * np.triu(np.ones(r.shape[-2:], r.dtype))


def _qr_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    (q_bar, r_bar), (q, r) = ct, out
    r_bar = r_bar * np.triu(np.ones(r.shape[-2:], r.dtype))
    m = matmul(r, swap(r_bar)) - matmul(swap(q_bar), q)
    lower = _lower(m)
    mirrored = lower + swap(lower) + m * np.eye(m.shape[-1], dtype=m.dtype)
    return (swap(solve(_full(r, q.shape[-2], *ct), swap(q_bar + matmul(q, mirrored)))),)


qr: Primitive = Primitive(
    "qr",
    lambda a: tuple(np.linalg.qr(a)),
    jvp=_qr_jvp,
    vjp=_qr_vjp,
    keeps=lambda wanted: ((False,), True),
    multiple=True,
)
"""Q and R of real matrices of as many rows as columns, or more, and of full rank."""
