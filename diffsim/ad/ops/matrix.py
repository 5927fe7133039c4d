"""Matrix products, contractions, solves and decompositions, on the last two axes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from diffsim.ad.core import Primitive, bottom, is_finite, is_known, local, require_not_recording
from diffsim.ad.ops import rounding
from diffsim.ad.ops.elementwise import isfinite, isnan, logical_not, where
from diffsim.ad.ops.structure import astype, conjugate, like, linear, transpose, unbroadcast
from diffsim.errors import SingularError


def swap(x: Any) -> Any:
    """The transpose of each matrix."""
    return transpose(x, axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _total(first: Any, second: Any) -> Any:
    return second if first is None else first if second is None else first + second


def zero_wins(product: Any, ct: Any, other: Any, params: Any) -> Any:
    """`product(ct, other, params)`, a sum of products, in which zeros of `ct` times infinity or NaN count as 0.

    Where other entries of `ct` meet infinity or NaN, it is the product with them; that part is not differentiated further.
    """
    plain, values = bottom(ct), bottom(other)
    if is_finite(other):
        return product(ct, other, params)
    bar = product(ct, where(isfinite(other), other, 0.0), params)

    def meet(bars: Any, factors: Any) -> Any:
        return product(astype(bars, dtype=_FLOAT), astype(factors, dtype=_FLOAT), params) > 0

    if plain.dtype.kind == "c" or values.dtype.kind == "c":
        return where(meet(plain != 0, logical_not(isfinite(values))), np.nan, bar)
    most, least = values == np.inf, values == -np.inf
    grows = meet(plain > 0, most) | meet(plain < 0, least)
    falls = meet(plain > 0, least) | meet(plain < 0, most)
    lost = meet(plain != 0, isnan(values)) | (grows & falls)
    edge = where(lost, np.nan, where(grows, np.inf, where(falls, -np.inf, 0.0)))
    return bar + astype(edge, dtype=bar.dtype)


_FLOAT = np.dtype(np.float64)


def bilinear(name: str, evaluate: Any, left: Any, right: Any) -> Primitive:
    """A primitive linear in each of two arguments; `left(ct, y, params)` and `right(ct, x, params)` are its transposes."""

    def jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
        (x, y), (x_dot, y_dot) = args, tangents
        total = _total(
            None if x_dot is None else primitive(x_dot, y, **params),
            None if y_dot is None else primitive(x, y_dot, **params),
        )
        return like(total, out)

    def vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
        x, y = args
        transposed = zero_wins if local.zero_wins else lambda product, ct, other, params: product(ct, other, params)
        return (
            unbroadcast(transposed(left, ct, y, params), x) if wanted[0] else None,
            unbroadcast(transposed(right, ct, x, params), y) if wanted[1] else None,
        )

    def live(entries: Any, args: Any, params: Any, parents: Any) -> list[Any]:
        """Which entries meet a live one and a factor that is no constant 0."""
        x, y = (
            None if other is None else np.ones(a.shape) if p is not None or not is_known(a) else (bottom(a) != 0).astype(float)
            for a, p, other in zip(args, parents, parents[::-1], strict=True)
        )
        ct = entries.astype(float)
        return [None if y is None else left(ct, y, params), None if x is None else right(ct, x, params)]

    primitive = Primitive(name, evaluate, jvp=jvp, vjp=vjp, keeps=lambda wanted: ((wanted[1], wanted[0]), False), live=live)
    return primitive


matmul: Primitive = bilinear(
    "matmul",
    np.matmul,
    lambda ct, y, params: matmul(ct, swap(y)),
    lambda ct, x, params: matmul(swap(x), ct),
)
"""Products of matrices, broadcast over leading axes; both of rank two or more."""


def _contract(x: Any, y: Any, x_axes: str, y_axes: str, out_axes: str) -> Any:
    return np.einsum(f"{x_axes},{y_axes}->{out_axes}", x, y, optimize=True)


contract: Primitive = bilinear(
    "contract",
    _contract,
    lambda ct, y, p: contract(ct, y, x_axes=p["out_axes"], y_axes=p["y_axes"], out_axes=p["x_axes"]),
    lambda ct, x, p: contract(ct, x, x_axes=p["out_axes"], y_axes=p["x_axes"], out_axes=p["y_axes"]),
)
"""Contraction of two arrays over letters, in which each letter is in two of the three places at least."""


_PART = 4096
"""Entries of a long vector that is slid along another: parts of it stay in the cache, and are too short for BLAS to wake its threads."""


def _sliding(a: np.ndarray, v: np.ndarray) -> np.ndarray:
    steps = a.shape[0] - v.shape[0]
    cuts = [(a[k : k + _PART + steps], v[k : k + _PART]) for k in range(0, v.shape[0], _PART)]
    return functools.reduce(np.add, [np.correlate(part, np.conj(slid), "valid") for part, slid in cuts])


sliding: Primitive = bilinear(
    "sliding",
    _sliding,
    lambda ct, v, params: convolved(ct, v),
    lambda ct, a, params: sliding(a, ct),
)
"""y_k = sum_i a_{k+i} v_i of vectors, the second one no longer than the first."""
convolved: Primitive = bilinear(
    "convolved",
    lambda a, v: np.convolve(a, v, "full"),
    lambda ct, v, params: sliding(ct, v),
    lambda ct, a, params: sliding(ct, a),
)
"""y_k = sum_i a_{k-i} v_i of vectors, at all k where there are products."""

# solves


def _checked(function: Any, name: str) -> Any:
    """A function of NumPy's that refuses singular matrices, with a message that names a remedy."""

    def evaluate(a: Any, *rest: Any) -> Any:
        try:
            return function(a, *rest)
        except np.linalg.LinAlgError:
            pass
        raise SingularError(
            f"{name} of a singular matrix (shape {np.shape(a)}, smallest singular value {np.linalg.svd(a, compute_uv=False).min():.3g}), "
            f"{rounding.REMEDY}"
        )

    return evaluate


def _solve_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    a, (a_dot, b_dot) = args[0], tangents
    return regular_solve(a, _total(b_dot, None if a_dot is None else -matmul(a_dot, out)))


def _solve_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    bar = regular_solve(swap(args[0]), ct)
    a_bar = unbroadcast(-matmul(bar, swap(out)), args[0]) if wanted[0] else None
    return a_bar, unbroadcast(bar, args[1]) if wanted[1] else None


_SOLVE: dict[str, Any] = {"jvp": _solve_jvp, "vjp": _solve_vjp, "keeps": lambda wanted: ((True, False), wanted[0])}
solve: Primitive = Primitive("solve", _checked(np.linalg.solve, "solve"), **_SOLVE)
"""x with a x = b; b a matrix of right-hand sides, so that its rank is two or more."""
regular_solve: Primitive = Primitive("regular_solve", _checked(rounding.solved, "solve"), **_SOLVE)
"""The same in derivatives, which refuse matrices that are singular within rounding."""


regular: Primitive = Primitive(
    "regular",
    lambda x, a, inverse, bar, what: x,
    jvp=lambda args, tangents, out, params: tangents[0],
    vjp=lambda ct, args, out, params, wanted: (ct, None, None, None),
    keeps=lambda wanted: ((False,) * 4, False),
)
"""x, after the test of `require_regular` in a kernel."""


def require_regular(x: Any, a: Any, inverse: Any, bar: Any, what: str) -> Any:
    """x; raises if a derivative reads it where the matrix `a` is singular within rounding.

    Args:
        x: the operand of the derivative.
        a: matrices.
        inverse: the norms for them.
        bar: the tangent or cotangent. Matrices for which it is 0 do not count.
        what: names the operation in the message.
    """
    a, inverse = bottom(a), bottom(inverse)
    require_not_recording(what)
    if not is_known(a, inverse):
        return regular(x, a, inverse, bottom(bar), what=what)
    rounding.require_inverse(a, inverse, what, np.any(bottom(bar) != 0, axis=(-2, -1)) if is_known(bar) else True)
    return x


def _inv_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    out = require_regular(out, args[0], out, tangents[0], "a derivative of inv")
    return -matmul(out, matmul(tangents[0], out))


def _inv_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    out = require_regular(out, args[0], out, ct, "a derivative of inv")
    return (-matmul(swap(out), matmul(ct, swap(out))),)


inv: Primitive = Primitive("inv", _checked(np.linalg.inv, "inv"), jvp=_inv_jvp, vjp=_inv_vjp)


# pseudo-inverse
#
# With p the pseudo-inverse of a matrix a of full rank, p' = -p a' p + p p^H a'^H (1 - a p) + (1 - p a) a'^H p^H p: of the last two
# terms one is 0, the second where there are as many columns as rows or more, the third where there are as many rows or more.
# Reference: Golub & Pereyra (1973), SIAM J. Numer. Anal. 10, 413 - 432, doi:10.1137/0710036.


def adjoint(x: Any) -> Any:
    """The conjugate transpose of each matrix."""
    return conjugate(swap(x)) if x.dtype.kind == "c" else swap(x)


def _beside(a: Any, p: Any) -> tuple[Any, Any] | None:
    """The factors before and behind a'^H; None for square matrices."""
    rows, columns = a.shape[-2:]
    if rows > columns:
        return matmul(p, adjoint(p)), np.eye(rows, dtype=a.dtype) - matmul(a, p)
    return (np.eye(columns, dtype=a.dtype) - matmul(p, a), matmul(adjoint(p), p)) if rows < columns else None


def _pinv_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    (a,), (a_dot,) = args, tangents
    sides = _beside(a, out)
    through = -matmul(out, matmul(a_dot, out))
    return through if sides is None else through + matmul(sides[0], matmul(adjoint(a_dot), sides[1]))


def _pinv_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    (a,) = args
    sides = _beside(a, out)
    bar = -matmul(swap(out), matmul(ct, swap(out)))
    return (bar if sides is None else bar + adjoint(matmul(swap(sides[0]), matmul(ct, swap(sides[1])))),)


def _pinv(a: np.ndarray) -> np.ndarray:
    s, full = np.linalg.svd(a, compute_uv=False), min(a.shape[-2:])
    rank = np.min(rank_of(s, a), initial=full)
    if rank < full:
        raise SingularError(
            f"pinv of a matrix of rank {rank} within rounding and shape {a.shape[-2:]} has no derivative, expected full rank; add to the "
            "matrix, or hold it constant with ds.stop_gradient"
        )
    return np.linalg.pinv(a)


def rank_of(s: np.ndarray, a: np.ndarray) -> Any:
    """The rank of each matrix within rounding, by its singular values."""
    return np.sum(s > rounding.rank_bound(a.shape, a.dtype) * s.max(axis=-1, keepdims=True, initial=0.0), axis=-1)


pinv: Primitive = Primitive("pinv", _pinv, jvp=_pinv_jvp, vjp=_pinv_vjp)
"""The pseudo-inverse of matrices of full rank."""


# Cholesky


regular_factor: Primitive = Primitive(
    "regular_factor",
    lambda x, factor, bar, what: x,
    jvp=lambda args, tangents, out, params: tangents[0],
    vjp=lambda ct, args, out, params, wanted: (ct, None, None),
    keeps=lambda wanted: ((False,) * 3, False),
)
"""x, after a test in a kernel whether the matrix with this factor is regular."""


def _lower_half(x: Any) -> Any:
    """The lower triangle with half of the diagonal."""
    n = x.shape[-1]
    return x * (np.tril(np.ones((n, n), x.dtype)) - 0.5 * np.eye(n, dtype=x.dtype))


def _sides(lower: Any, x: Any) -> Any:
    """lower^-1 x lower^-T."""
    return swap(solve(lower, swap(solve(lower, x))))


def _of_regular(lower: Any, ct: Any) -> Any:
    """A factor that a derivative reads. Its matrix is not singular within rounding."""
    factor, what = bottom(lower), "a derivative of cholesky"
    require_not_recording(what)
    if not is_known(factor):
        return regular_factor(lower, factor, bottom(ct), what=what)
    inverse = inv(factor)
    return require_regular(lower, matmul(factor, swap(factor)), matmul(swap(inverse), inverse), ct, what)


def _cholesky_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    out = _of_regular(out, tangents[0])
    dot = (tangents[0] + swap(tangents[0])) * 0.5
    return matmul(out, _lower_half(_sides(out, dot)))


def _cholesky_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    out = _of_regular(out, ct)
    phi = _lower_half(matmul(swap(out), ct))
    bar = _sides_t(out, phi)
    return ((bar + swap(bar)) * 0.5,)


def _sides_t(lower: Any, x: Any) -> Any:
    """lower^-T x lower^-1."""
    return swap(solve(swap(lower), swap(solve(swap(lower), x))))


def symmetric(a: np.ndarray) -> np.ndarray:
    """The symmetric part of each matrix."""
    return (a + np.swapaxes(a, -1, -2)) * 0.5


def _cholesky(a: np.ndarray) -> np.ndarray:
    part = a if np.iscomplexobj(a) else symmetric(a)
    try:
        return np.linalg.cholesky(part)
    except np.linalg.LinAlgError:
        pass
    raise SingularError(
        f"cholesky of a matrix that is not positive definite (shape {a.shape}, smallest eigenvalue "
        f"{np.linalg.eigvalsh(part).min():.3g}); add a small multiple of the unit matrix"
    )


cholesky: Primitive = Primitive(
    "cholesky",
    _cholesky,
    jvp=_cholesky_jvp,
    vjp=_cholesky_vjp,
    keeps=lambda wanted: ((False,), True),
)
"""The lower factor of a real symmetric positive definite matrix, of which the symmetric part counts."""


# Fourier transform

fft: Primitive = linear(
    "fft",
    lambda x, axes, inverse: (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes),
    lambda ct, x, params: like(fft(ct, **params), x),
)
"""The Fourier transform of complex arrays. Its matrix is symmetric, so it is its own transpose."""
