"""Determinants, and their derivatives: right at singular matrices up to the second order."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.core import Primitive, bottom, is_known
from diffsim.ad.ops.elementwise import equal, where
from diffsim.ad.ops.matrix import inv, matmul, require_regular, swap
from diffsim.ad.ops.structure import add_up, getitem, like
from diffsim.errors import SingularError

# With a = u s vh, det(a + x) = det(u) det(vh) det(s + u^H x vh^H): so derivatives of det are sums of products of singular values, of
# which those of as many rows are left out as there are derivatives. Nothing is divided.


def _products(s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Products of all entries before each one, and after it."""
    one = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([one, s[..., :-1]], axis=-1), axis=-1)
    after = np.cumprod(np.concatenate([one, s[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
    return before, after


def _without_pairs(s: np.ndarray) -> np.ndarray:
    """Products of all entries but i and j; 0 where i = j."""
    n = s.shape[-1]
    before, after = _products(s)
    later = np.tri(n, n, -1, dtype=bool).T  # k > i
    up_to = np.cumprod(np.where(later, s[..., None, :], 1.0), axis=-1)
    between = np.concatenate([np.ones_like(s[..., None, :1].repeat(n, axis=-2)), up_to[..., :-1]], axis=-1)
    upper = np.where(later, before[..., :, None] * between * after[..., None, :], 0.0)
    return upper + np.swapaxes(upper, -1, -2)


def _cofactors(a: np.ndarray) -> np.ndarray:
    """First derivatives of the determinant."""
    u, s, vh = np.linalg.svd(a)
    before, after = _products(s)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return sign[..., None, None] * np.conj((u * (before * after)[..., None, :]) @ vh)


def _cofactors_along(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The change of the cofactors of `a` along `x`: the second derivatives of the determinant, a symmetric form.

    Along x and y that is the sum over i and j of p_ij (x_ii y_jj - x_ij y_ji), p the products without pairs, x and y turned by u and vh.
    """
    u, s, vh = np.linalg.svd(a)
    turned = np.conj(np.swapaxes(u, -1, -2)) @ x @ np.conj(np.swapaxes(vh, -1, -2))
    p = _without_pairs(s)
    inner = -p * np.swapaxes(turned, -1, -2)
    n = np.arange(s.shape[-1])
    inner[..., n, n] = (p @ turned[..., n, n][..., None])[..., 0]
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return sign[..., None, None] * (np.conj(u) @ inner @ np.conj(vh))


def _trace_of(a: Any, b: Any) -> Any:
    return add_up(a * b, axis=(a.ndim - 2, a.ndim - 1), keepdims=False)


def _spread(ct: Any) -> Any:
    return getitem(ct, index=(Ellipsis, None, None)) if getattr(ct, "ndim", 0) else ct


def _det_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    return (like(_spread(ct) * cofactor(args[0]), args[0]),)


det: Primitive = Primitive(
    "det",
    np.linalg.det,
    jvp=lambda args, tangents, out, params: _trace_of(cofactor(args[0]), tangents[0]),
    vjp=_det_vjp,
    keeps=lambda wanted: ((True,), False),
)

cofactor: Primitive = Primitive(
    "cofactor",
    _cofactors,
    jvp=lambda args, tangents, out, params: cofactor_along(args[0], tangents[0]),
    vjp=lambda ct, args, out, params, wanted: (cofactor_along(args[0], ct),),
    keeps=lambda wanted: ((True,), False),
)
"""The matrix of cofactors, det(a) a^-T."""


def _third(a: Any, x: Any, y: Any) -> Any:
    """Third derivatives of the determinant along x and y, a symmetric form. They are divided by the determinant, so `a` is regular."""
    b = _inverse(a, "the third derivative of det")
    bx, by = matmul(b, x), matmul(b, y)
    tx, ty = (_spread(add_up(m * np.eye(m.shape[-1]), axis=(m.ndim - 2, m.ndim - 1), keepdims=False)) for m in (bx, by))
    txy = _spread(_trace_of(bx, swap(by)))
    twice = matmul(matmul(bx, by) + matmul(by, bx), b)
    inner = (tx * ty - txy) * b - tx * matmul(by, b) - ty * matmul(bx, b) + twice
    return _spread(det(a)) * swap(inner)


def _along_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    (a, x), (a_dot, x_dot) = args, tangents
    parts = [] if x_dot is None else [cofactor_along(a, x_dot)]
    parts += [] if a_dot is None else [_third(a, x, a_dot)]
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


cofactor_along: Primitive = Primitive(
    "cofactor_along",
    _cofactors_along,
    jvp=_along_jvp,
    vjp=lambda ct, args, out, params, wanted: (
        _third(args[0], args[1], ct) if wanted[0] else None,
        cofactor_along(args[0], ct) if wanted[1] else None,
    ),
    keeps=lambda wanted: ((True, wanted[0]), False),
)
"""The derivative of the cofactors of a matrix along another."""


# logarithms


def _inverse(a: Any, what: str, unused: Any = False) -> Any:
    """The inverse of matrices; of those that are not used, of another. Singular matrices are refused."""
    if is_known(a) and (np.isneginf(np.linalg.slogdet(bottom(a))[1]) & ~np.asarray(unused)).any():
        raise SingularError(f"{what} at a singular matrix is infinite, expected a regular matrix; take det, or add to the diagonal")
    if not is_known(unused) or np.any(unused):
        a = where(_spread(unused), np.eye(a.shape[-1], dtype=a.dtype), a)
    inverse = inv(a)
    return require_regular(inverse, a, inverse, np.ones((1, 1), a.dtype), what)


def _inverse_t(a: Any, unused: Any = False) -> Any:
    return swap(_inverse(a, "the derivative of slogdet", unused))


logabsdet: Primitive = Primitive(
    "logabsdet",
    lambda a: np.linalg.slogdet(a)[1],
    jvp=lambda args, tangents, out, params: _trace_of(_inverse_t(args[0]), tangents[0]),
    vjp=lambda ct, args, out, params, wanted: (_spread(ct) * _inverse_t(args[0], equal(bottom(ct), 0)),),
    keeps=lambda wanted: ((True,), False),
)
"""Logarithm of the absolute value of the determinant."""
det_sign: Primitive = Primitive("det_sign", lambda a: np.linalg.slogdet(a)[0], constant=True)
"""Sign of the determinant."""
