"""Finite-difference weights."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from diffsim.base.arguments import one_of
from diffsim.errors import ParameterError

ORDERS = (2, 4, 6, 8, 10, 12)


def fornberg(points: Sequence[Fraction | int | float], derivative: int) -> list[float]:
    """Weights w such that sum w_k f(points_k) approximates the derivative of f at 0, for unit spacing.

    Exact rational arithmetic, rounded once at the end.

    Reference: Fornberg, B. (1988), Generation of finite difference formulas on arbitrarily spaced grids,
        Math. Comp. 51, 699-706, doi:10.1090/S0025-5718-1988-0935077-0.
    """
    x = [Fraction(p) for p in points]
    count = len(x)
    if derivative >= count:
        raise ParameterError(f"derivative = {derivative} needs more than {count} points; give at least {derivative + 1}")
    table = [[Fraction(0)] * (derivative + 1) for _ in range(count)]
    table[0][0] = Fraction(1)
    product = Fraction(1)
    for n in range(1, count):
        previous = product
        product = Fraction(1)
        for k in range(n):
            gap = x[n] - x[k]
            product *= gap
            old = list(table[k])
            if k == n - 1:
                last = old
            for m in range(derivative + 1):
                table[k][m] = (x[n] * old[m] - (m * old[m - 1] if m else 0)) / gap
        for m in range(derivative + 1):
            table[n][m] = previous / product * ((m * last[m - 1] if m else 0) - x[n - 1] * last[m])
    return [float(row[derivative]) for row in table]


def centred(derivative: int, order: int) -> tuple[float, ...]:
    """Weights of offsets -order/2 .. order/2 for the first or second derivative at 0, unit spacing."""
    return _centred(derivative, check_order(order))


@cache
def _centred(derivative: int, order: int) -> tuple[float, ...]:
    reach = order // 2
    return tuple(fornberg(range(-reach, reach + 1), derivative))


def staggered(derivative: int, order: int) -> tuple[float, ...]:
    """Weights of offsets -order/2 + 1/2 .. order/2 - 1/2 at 0 (derivative 0: interpolation), unit spacing."""
    return _staggered(derivative, check_order(order))


@cache
def _staggered(derivative: int, order: int) -> tuple[float, ...]:
    return tuple(fornberg([Fraction(2 * k - order + 1, 2) for k in range(order)], derivative))


def check_order(order: object) -> int:
    """The order as Python's number."""
    return int(one_of("order", order, ORDERS))
