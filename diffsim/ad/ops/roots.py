"""Powers of roots, and exponentials of logarithms: their derivatives for the argument of the inner function.

At 0, the derivative of a root is infinite, that of a square is 0, and the chain rule multiplies both. But the square of a square root is a
smooth function. So is an even power of an absolute value, of a norm and of a standard deviation. Where a power is computed of the value of
a root, the value is the same as otherwise. The derivative is taken for the argument of the root, by one expression in which nothing is
infinite that need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.core import Primitive, Tracer, is_finite, local
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops.structure import broadcast_to, conjugate, like, unbroadcast

Partials = Callable[[Any, Sequence[Any]], list[Any]]
"""(r, arguments of the root) -> the partial derivative for each argument."""


def _power(r: Any, exponent: float) -> Any:
    """r to an exponent, as an outer function of a root again."""
    return 1.0 if exponent == 0 else r if exponent == 1 else ew.power(r, exponent)


def _of_root(exponent: Callable[[Sequence[Any]], float | None]) -> Callable[[float], Partials]:
    """For r = x^e with 0 < e < 1: (r^n)' = n e r^(n - 1/e)."""

    def power_of(n: float) -> Partials:
        def partials(r: Any, args: Sequence[Any]) -> list[Any]:
            e = exponent(args)
            assert e is not None
            return [n * e * _power(r, n - 1 / e), *(None for _ in args[1:])]

        return partials

    return power_of


def _of_length(n: float) -> Partials:
    """For r² = |x|², or x² + y²: (r^n)' = n r^(n - 2) x."""
    return lambda r, args: [n * _power(r, n - 2) * (conjugate(x) if _is_complex(x) else x) for x in args]


def _is_complex(x: Any) -> bool:
    return getattr(x, "dtype", np.dtype(float)).kind == "c"


def _fraction(args: Sequence[Any]) -> float | None:
    """The exponent of a power, if it is a number between 0 and 1."""
    e = args[1]
    return float(e) if not isinstance(e, Tracer) and np.ndim(e) == 0 and np.isreal(e) and 0 < e < 1 else None


ROOTS: dict[Primitive, Callable[[float], Partials] | None] = {
    ew.sqrt: _of_root(lambda args: 0.5),
    ew.cbrt: _of_root(lambda args: 1 / 3),
    ew.power: _of_root(_fraction),
    ew.root_or_zero: _of_root(_fraction),
    ew.absolute: _of_length,
    ew.hypot: _of_length,
    ew.log: None,
    ew.log2: None,
    ew.log1p: None,
}
"""Functions with an infinite or undefined derivative at a point; derivatives of their powers."""
INVERSES = {(ew.exp, ew.log), (ew.exp2, ew.log2), (ew.expm1, ew.log1p)}
for _primitive in (ew.power, ew.square, ew.multiply, ew.exp, ew.exp2, ew.expm1):
    _primitive.outer = True


def composed(outer: Primitive, root: Primitive | None, inner: Sequence[Any], args: Sequence[Any], same: bool) -> Partials | None:
    """The partial derivatives of a function of a root, for the arguments of the root; None if it is no power.

    Args:
        outer: the function.
        root: the root.
        inner: arguments of the root, as far as they are known.
        args: arguments of the function, of which the first is the value of the root.
        same: whether another one is the same.
    """
    assert root is not None
    if (outer, root) in INVERSES:
        return lambda r, args: [1.0]
    power_of = ROOTS[root]
    n = _exponent(outer, args, same)
    if power_of is None or n is None or (power_of is _of_length and n < 2):
        return None
    if root in (ew.power, ew.root_or_zero) and _fraction(inner) is None:
        return None
    return power_of(n)


def _exponent(outer: Primitive, args: Sequence[Any], same: bool) -> float | None:
    if outer is ew.square:
        return 2.0
    if outer is ew.multiply:
        return 2.0 if same else None
    if outer is not ew.power or same or isinstance(args[1], Tracer) or np.ndim(args[1]):
        return None
    return float(args[1]) if np.isreal(args[1]) and args[1] > 0 else None


def along(partials: Partials, r: Any, args: Sequence[Any], tangents: Sequence[Any], out: Any) -> Any:
    """The tangent of a power of a root."""
    total = None
    with np.errstate(all="ignore"):
        for p, t in zip(partials(r, args), tangents, strict=True):
            if p is None or t is None:
                continue
            if local.moving:
                term = ew.moved("power", t, p)
            elif is_finite(p):
                term = t * p
            else:
                ew.note("power", t, p)
                term = ew.scale(t, p)
            total = term if total is None else total + term
    assert total is not None
    return like(total if total.shape == out.shape else broadcast_to(total, shape=out.shape), out)


def _vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> list[Any]:
    partials = params["partials"](params["r"], args)
    return [
        unbroadcast(ew.pulled("power", ct, p), x) if w and p is not None else None for p, x, w in zip(partials, args, wanted, strict=True)
    ]


def _live(live: Any, args: Any, params: Any, parents: Any) -> list[Any]:
    return [None if p is None else live for p in parents]


COMPOSED = Primitive("power of a root", lambda *args: None, vjp=_vjp, live=_live)
"""A power of a root on a tape."""
