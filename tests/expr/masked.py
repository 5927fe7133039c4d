"""Random expressions that are singular where a mask cuts them off, written for any namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Expression = Callable[[Any, Any, Any], Any]
"""(namespace with where, maximum, sqrt, ..., q, h) -> value. Only where h > 0 it is regular."""

SINGULAR: tuple[Expression, ...] = (
    lambda X, q, h: q / h,
    lambda X, q, h: X.sqrt(h) * q,
    lambda X, q, h: h * X.log(h),
    lambda X, q, h: q * h**-1.5,
    lambda X, q, h: X.exp(0.1 / h**2),
    lambda X, q, h: q / X.sqrt(h * h + h),
    lambda X, q, h: X.sin(q / h),
)
AROUND: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda X, s, q: s,
    lambda X, s, q: X.tanh(s),
    lambda X, s, q: s * s,
    lambda X, s, q: s * q,
    lambda X, s, q: X.maximum(s, q),
    lambda X, s, q: X.minimum(0.3, s) * s,
    lambda X, s, q: X.cos(s) / (1.5 + s * s),
)
MASKS: tuple[Callable[..., Any], ...] = (
    lambda X, a, b, q, h: X.where(h > 0, a, 0.0),
    lambda X, a, b, q, h: X.where(h <= 0, q, a + b),
    lambda X, a, b, q, h: X.where(h > 0, X.where(q > 0, a, b), 0.5 * q),
    lambda X, a, b, q, h: X.where(h > 0, a, q) + q * X.where(h > 0.7, a * b, 0.0),
    lambda X, a, b, q, h: 0.3 * X.where(h > 0, a, 0.0) - X.where(h > 0.1, b, q),
    lambda X, a, b, q, h: X.sqrt(0.1 + X.where(h > 0, a * a, 0.0)),
    lambda X, a, b, q, h: q * X.sqrt(X.maximum(h - 0.2, 0.0)) + X.where(h > 0, b, 0.0),
    lambda X, a, b, q, h: q * X.sqrt(X.where(h > 0, h, 0.0)),
)


def expression(rng: np.random.Generator) -> Expression:
    """One of them: two singular parts, what is around them, and a mask."""
    first, second = (int(k) for k in rng.integers(len(SINGULAR), size=2))
    inner, outer = (int(k) for k in rng.integers(len(AROUND), size=2))
    mask = int(rng.integers(len(MASKS)))

    def value(X: Any, q: Any, h: Any) -> Any:
        a = AROUND[inner](X, SINGULAR[first](X, q, h), q)
        b = AROUND[outer](X, SINGULAR[second](X, q, h) + a, q)
        return MASKS[mask](X, a, b, q, h)

    return value


def fields(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(q, h): a third of h is 0 or negative."""
    h = np.where(rng.random(shape) < 0.33, rng.choice([0.0, -1.0, -0.3], shape), rng.uniform(0.5, 2.0, shape))
    return rng.normal(size=shape), h
