"""Interpolation, counting, convolution and polynomials."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from diffsim.ad.array import core, wrap
from diffsim.ad.ops import structure as st
from diffsim.numpy.creation import asarray, zeros_like
from diffsim.numpy.dispatch import in_rows, outside, plain, value_of
from diffsim.numpy.elementwise import clip, conj, where
from diffsim.numpy.joining import flip, pad
from diffsim.numpy.products import matmul


def _double(x: Any) -> Any:
    value = value_of(x)
    return wrap(st.astype(value, dtype=np.result_type(value.dtype, float)))


@outside(np)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Any:
    """Piecewise linear interpolation through (xp, fp), constant outside; differentiable in all of them."""
    x, xp, fp = _double(x), _double(xp), _double(fp)
    n = xp.shape[0]
    low = np.clip(np.searchsorted(plain(xp), plain(x), side="right") - 1, 0, builtins.max(n - 2, 0))
    if n == 1:
        found = fp[low] + 0.0 * x
    else:
        share = clip((x - xp[low]) / (xp[low + 1] - xp[low]), 0.0, 1.0)
        found = fp[low] + share * (fp[low + 1] - fp[low])
    found = found if left is None else where(x < xp[0], left, found)
    return found if right is None else where(x > xp[-1], right, found)


@outside(np)
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Counts of non-negative integers, or sums of their weights."""
    places = np.asarray(plain(x))
    if weights is None:
        return wrap(np.bincount(places, minlength=minlength))
    if places.size and places.min() < 0:
        raise ValueError(f"bincount of the negative number {places.min()}, expected 0 or more")
    count = builtins.max(int(places.max()) + 1 if places.size else 0, minlength)
    return wrap(st.index_add(np.zeros(count), core(_double(weights)), index=(places,)))


@outside(np)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Discrete convolution of two vectors; "full", "same" or "valid"."""
    a, v = asarray(a), asarray(v)
    a, v = (v, a) if v.shape[0] > a.shape[0] else (a, v)
    return correlate(a, conj(flip(v)), mode)


@outside(np)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Cross-correlation of two vectors: sums of a[k + i] times conj(v[i])."""
    a, v = asarray(a), asarray(v)
    n, m = a.shape[0], v.shape[0]
    if not n or not m:
        raise ValueError(f"vectors of lengths {n} and {m} have no correlation, expected one entry at least")
    if n < m:
        return in_rows(flip(conj(correlate(v, a, mode))))
    margins = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}
    if mode not in margins:
        raise ValueError(f"mode = {mode!r}, expected 'full', 'same' or 'valid'")
    padded = pad(a, margins[mode])
    windows = np.arange(padded.shape[0] - m + 1)[:, None] + np.arange(m)
    return matmul(padded[windows], conj(v))


@outside(np)
def polyval(p: Any, x: Any) -> Any:
    """A polynomial by Horner's rule, the highest power first."""
    x = asarray(x)
    total: Any = zeros_like(x)
    for coefficient in asarray(p):
        total = total * x + coefficient
    return total
