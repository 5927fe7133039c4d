"""Pairings, directions and differences for functions of several arrays with several results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Arrays = list[Any]
STEP = 5e-4
"""Step of central differences of order 4: for smooth functions of order 1 the error is 1e-13 by truncation, 1e-12 by rounding."""


def leaves(x: Any) -> Arrays:
    """The arrays and numbers in a result."""
    if isinstance(x, (tuple, list)):
        return [leaf for part in x for leaf in leaves(part)]
    return [x]


def like(x: Any, parts: Arrays) -> Any:
    """`parts` in the containers of `x`."""
    if not isinstance(x, (tuple, list)):
        return parts.pop(0)
    rebuilt = [like(part, parts) for part in x]
    return type(x)(*rebuilt) if hasattr(x, "_fields") else type(x)(rebuilt)


def is_floating(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "fc"


def direction(rng: np.random.Generator, x: Any) -> Any:
    """Random numbers of the shape and type of `x`; None if that has no derivative."""
    x = np.asarray(x)
    if x.dtype.kind not in "fc":
        return None
    values = rng.normal(size=x.shape)
    if x.dtype.kind == "c":
        values = values + 1j * rng.normal(size=x.shape)
    return values.astype(x.dtype)[()]


def directions(rng: np.random.Generator, x: Any) -> Any:
    return like(x, [direction(rng, leaf) for leaf in leaves(x)])


def pairing(bars: Any, dots: Any) -> float:
    """Sum of products over all entries, of complex ones the real part."""
    pairs = zip(leaves(bars), leaves(dots), strict=True)
    return float(sum(np.real(np.sum(np.multiply(b, d))) for b, d in pairs if b is not None and d is not None))


def size(bars: Any, dots: Any) -> float:
    """A bound of the pairing, to measure errors against."""
    pairs = zip(leaves(bars), leaves(dots), strict=True)
    return 1.0 + float(sum(np.sum(np.abs(np.multiply(b, d))) for b, d in pairs if b is not None and d is not None))


def differences(f: Callable[..., Any], values: Sequence[Any], dots: Sequence[Any]) -> Arrays:
    """Derivative of all results of `f` along a direction; None for those without."""
    runs = [leaves(f(*(x + k * STEP * d for x, d in zip(values, dots, strict=True)))) for k in (1, -1, 2, -2)]
    slopes = []
    for a, b, c, d in zip(*runs, strict=True):
        slopes.append((8.0 * (a - b) - (c - d)) / (12.0 * STEP) if is_floating(a) else None)
    return slopes
