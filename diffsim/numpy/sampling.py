"""Interpolation, counting, convolution and polynomials."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.core import Tracer
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.matrix import sliding
from diffsim.base.messages import shown
from diffsim.numpy.calling.dispatch import in_rows, is_complex, outside, plain, value_of
from diffsim.numpy.elementwise import conj, where
from diffsim.numpy.padding import pad
from diffsim.numpy.shapes.creation import asarray, zeros_like
from diffsim.numpy.shapes.joining import flip


def _double(x: Any) -> Any:
    value = value_of(x)
    return wrap(st.astype(value, dtype=np.result_type(value.dtype, float)))


@outside(np)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Any:
    """Piecewise linear interpolation through (xp, fp), constant outside; differentiable in all of them."""
    if is_complex(x) or is_complex(xp):
        raise TypeError(f"interp at complex numbers (x of {value_of(x).dtype}, xp of {value_of(xp).dtype}), expected real ones")
    x, xp, fp = _double(x), _double(xp), _double(fp)
    if not is_complex(fp) and any(end is not None and is_complex(end) for end in (left, right)):
        raise TypeError("interp of real fp with a complex value outside, expected real left and right")
    if xp.ndim != 1 or fp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(f"interp through xp of shape {xp.shape} and fp of shape {fp.shape}, expected vectors of one length, 1 or more")
    places, nodes, values = plain(x), plain(xp), plain(fp)
    low = np.clip(np.searchsorted(nodes, places, side="right") - 1, 0, nodes.size - 1)
    before = np.minimum(low, builtins.max(nodes.size - 2, 0))
    after = np.minimum(before + 1, nodes.size - 1)
    with np.errstate(all="ignore"):
        steps, rises = nodes[after] - nodes[before], values[after] - values[before]
        at_node = places == nodes[low]
        endless = ~(np.isfinite(nodes[before]) & np.isfinite(values[before]))
    inside = ~((places < nodes[0]) | (places > nodes[-1]))
    # the node that the line is drawn from: the one to the left, unless it lies at infinity
    origin = np.where(endless & inside & ~at_node & (low < nodes.size - 1), after, low)
    sloped = inside & np.isfinite(steps) & (steps > 0) & (np.isfinite(rises) | (~at_node & (values[after] != values[before])))
    slope = where(sloped, (fp[after] - fp[before]) / where(sloped, xp[after] - xp[before], 1.0), 0.0)
    moved = where(sloped | (np.isnan(places) & (nodes.size > 1)), x - xp[origin], 0.0)
    result = fp[origin] + slope * moved
    lost = np.isnan(np.interp(places, nodes, values))  # between infinities that do not agree
    result = where(lost, np.nan, result) if lost.any() else result
    result = result if left is None else where(places < nodes[0], left, result)
    result = result if right is None else where(places > nodes[-1], right, result)
    return result if x.ndim else result[()]


@outside(np)
def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Counts of non-negative integers, or sums of their weights."""
    counts = np.bincount(plain(x), minlength=minlength)
    places = np.asarray(plain(x)).astype(np.intp)
    if weights is None:
        return wrap(counts)
    if is_complex(weights):
        raise TypeError("bincount with complex weights, expected real ones; count real and imaginary parts apart")
    weights = _double(weights)
    if weights.shape != places.shape:
        raise ValueError(f"bincount of {places.size} numbers with weights of shape {weights.shape}, expected one weight for each")
    return wrap(st.index_add(np.zeros(counts.size), core(weights), index=(places,)))


@outside(np)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Discrete convolution of two vectors; "full", "same" or "valid"."""
    a, v = _vector(a), _vector(v)
    a, v = (v, a) if v.shape[0] > a.shape[0] else (a, v)
    return correlate(a, conj(flip(v)), mode)


@outside(np)
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Cross-correlation of two vectors: sums of a[k + i] times conj(v[i])."""
    a, v = _vector(a), _vector(v)
    n, m = a.shape[0], v.shape[0]
    if not n or not m:
        raise ValueError(f"vectors of lengths {n} and {m} have no correlation, expected one entry at least")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode = {shown(mode)}, expected 'full', 'same' or 'valid'")
    if n < m:
        return in_rows(flip(conj(correlate(v, a, mode))))
    if not (isinstance(core(a), Tracer) or isinstance(core(v), Tracer)):
        return wrap(np.correlate(plain(a), plain(v), mode))  # type: ignore[call-overload]
    dtype = np.result_type(a.dtype, v.dtype)
    a, v = a.astype(dtype), v.astype(dtype)
    if mode != "valid":
        before = m - 1 if mode == "full" else m // 2
        after = m - 1 if mode == "full" else m - 1 - m // 2
        a = pad(a, (before, after))
    return wrap(sliding(core(a), core(conj(v))))


def _vector(x: Any) -> Any:
    """A vector; a number is one of one entry."""
    x = asarray(x)
    if x.ndim > 1:
        raise ValueError(f"a convolution of an array of shape {x.shape}, expected a vector")
    return x if x.ndim else x.reshape(1)


@outside(np)
def polyval(p: Any, x: Any) -> Any:
    """A polynomial by Horner's rule, the highest power first."""
    x = asarray(x)
    total: Any = zeros_like(x)
    for coefficient in asarray(p):
        total = total * x + coefficient
    return total
