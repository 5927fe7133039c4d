"""Sums, products, extrema, means; running ones; sorting."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from diffsim.ad.array import core, wrap
from diffsim.ad.core import Tracer, bottom
from diffsim.ad.ops import reduction as rd
from diffsim.ad.ops import structure as st
from diffsim.numpy.elementwise import abs, exp, isnan, log, multiply, sqrt, where
from diffsim.numpy.indexing import _of_values, argsort, searchsorted, take, take_along_axis

all, any = _of_values(np.all), _of_values(np.any)


def _value(x: Any) -> Any:
    value = core(x)
    return value if hasattr(value, "dtype") else np.asarray(value)


def _axes(axis: Any, rank: int) -> tuple[int, ...] | None:
    if axis is None:
        return None
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    if builtins.any(not -rank <= a < rank for a in axes):
        raise np.exceptions.AxisError(f"axis {axis} is out of bounds for an array with {rank} axes")
    return tuple(int(a) % rank for a in axes)


def sum(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, where: Any = None, initial: Any = None) -> Any:
    """Sum over axes, all by default."""
    if where is not None:
        from diffsim.numpy.elementwise import where as chosen

        x = chosen(where, x, 0)
    value = _value(x)
    total = st.add_up(value, axis=_axes(axis, value.ndim), keepdims=keepdims)
    if dtype is not None:
        total = st.astype(total, dtype=np.dtype(dtype))
    return wrap(total if initial is None else total + core(initial))


def _merged(value: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """The array with the axes to reduce joined as its last one, and the shape with length 1 in their place."""
    rank = value.ndim
    axes = tuple(range(rank)) if axis is None else _axes(axis, rank)
    assert axes is not None
    rest = [a for a in range(rank) if a not in axes]
    if rest + list(axes) != list(range(rank)):
        value = st.transpose(value, axes=(*rest, *axes))
    kept = tuple(value.shape[: len(rest)])
    ones = tuple(1 if a in axes else 0 for a in range(rank))
    lengths = iter(kept)
    full = tuple(1 if one else next(lengths) for one in ones)
    last = math.prod(value.shape[len(rest) :])
    return st.reshape(value, shape=(*kept, last)), full


def prod(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
    """Product over axes, all by default; its derivatives are exact with zeros among the entries."""
    value = _value(x)
    if dtype is not None:
        value = st.astype(value, dtype=np.dtype(dtype))
    merged, full = _merged(value, axis)
    total = rd.prod(merged)
    total = st.reshape(total, shape=full) if keepdims else total
    return wrap(total if initial is None else total * core(initial))


def _extremum(x: Any, axis: Any, keepdims: bool, initial: Any, largest: bool) -> Any:
    value = _value(x)
    if initial is not None:
        from diffsim.numpy.elementwise import maximum, minimum

        bound = maximum if largest else minimum
        if value.size == 0:
            return full_result(initial, value, axis, keepdims)
        return bound(initial, _extremum(x, axis, keepdims, None, largest))
    if not isinstance(value, Tracer):
        return wrap((np.max if largest else np.min)(value, axis=None if axis is None else _axes(axis, value.ndim), keepdims=keepdims))
    merged, full = _merged(value, axis)
    winners = (np.argmax if largest else np.argmin)(bottom(merged), axis=-1, keepdims=True)
    found = rd.pick(merged, winners, -1)
    return wrap(st.reshape(found, shape=full if keepdims else found.shape[:-1]))


def full_result(initial: Any, value: Any, axis: Any, keepdims: bool) -> Any:
    """The initial value in the shape that a reduction gives."""
    from diffsim.numpy.creation import full

    return full(np.sum(np.zeros(value.shape), axis=axis, keepdims=keepdims).shape, initial)


def max(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
    """The largest entry; of equal ones the first has the derivative."""
    return _extremum(x, axis, keepdims, initial, True)


def min(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
    """The smallest entry; of equal ones the first has the derivative."""
    return _extremum(x, axis, keepdims, initial, False)


amax, amin = max, min


def ptp(x: Any, axis: Any = None) -> Any:
    """Largest less smallest entry."""
    return max(x, axis) - min(x, axis)


def _count(x: Any, axis: Any) -> int:
    shape = bottom(_value(x)).shape
    axes = _axes(axis, len(shape))
    return math.prod(shape if axes is None else [shape[a] for a in axes])


def mean(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    """Arithmetic mean over axes."""
    value = _value(x)
    if value.dtype.kind not in "fc":
        value = st.astype(value, dtype=np.dtype(float))
    if not isinstance(value, Tracer):
        return wrap(np.mean(value, axis=_axes(axis, value.ndim), keepdims=keepdims))
    return sum(wrap(value), axis, dtype, keepdims) / _count(x, axis)


def average(x: Any, axis: Any = None, weights: Any = None) -> Any:
    """Weighted mean over axes."""
    if weights is None:
        return mean(x, axis)
    shape = bottom(_value(x)).shape
    weights = wrap(core(weights))
    if axis is not None and np.ndim(bottom(core(weights))) == 1 and len(shape) > 1:
        weights = wrap(st.reshape(core(weights), shape=tuple(-1 if i == axis % len(shape) else 1 for i in range(len(shape)))))
        weights = weights + np.zeros(shape)
    return sum(multiply(x, weights), axis) / sum(weights, axis)


def var(x: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False, correction: float | None = None) -> Any:
    """Variance over axes, with the count less `ddof` below the line."""
    apart = x - mean(x, axis, keepdims=True)
    squares = multiply(abs(apart), abs(apart)) if np.iscomplexobj(bottom(core(x))) else multiply(apart, apart)
    return sum(squares, axis, None, keepdims) / (_count(x, axis) - (ddof if correction is None else correction))


def std(x: Any, axis: Any = None, ddof: float = 0, keepdims: bool = False, correction: float | None = None) -> Any:
    """Standard deviation over axes."""
    return sqrt(var(x, axis, ddof, keepdims, correction))


def nansum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Sum of the entries that are not NaN."""
    return sum(where(isnan(x), 0.0, x), axis, None, keepdims)


def nanmean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Mean of the entries that are not NaN."""
    return nansum(x, axis, keepdims) / wrap(np.sum(~np.isnan(bottom(core(x))), axis=axis, keepdims=keepdims))


def nanmax(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Largest of the entries that are not NaN."""
    return max(where(isnan(x), -np.inf, x), axis, keepdims)


def nanmin(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Smallest of the entries that are not NaN."""
    return min(where(isnan(x), np.inf, x), axis, keepdims)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))) without overflow; an extension of NumPy's names."""
    top = np.max(bottom(_value(x)), axis=None if axis is None else _axes(axis, _value(x).ndim), keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = log(sum(exp(x - top), axis, None, True)) + top
    return total if keepdims else wrap(st.reshape(core(total), shape=np.sum(bottom(_value(x)), axis=axis).shape))


# running


def _along(function: Any, x: Any, axis: int | None) -> Any:
    """`function` of a core value along its last axis, applied along another; None: along all entries."""
    value = _value(x)
    if axis is None:
        if value.ndim > 1:
            value = st.reshape(value, shape=(-1,))
        axis = -1
    if value.ndim == 0:
        value = st.reshape(value, shape=(1,))
    axis %= value.ndim
    order = [a for a in range(value.ndim) if a != axis] + [axis]
    if axis == value.ndim - 1:
        return wrap(function(value))
    back = tuple(int(i) for i in np.argsort(order))
    return wrap(st.transpose(function(st.transpose(value, axes=tuple(order))), axes=back))


def _summable(value: Any, dtype: Any) -> Any:
    if dtype is not None:
        return st.astype(value, dtype=np.dtype(dtype))
    return st.astype(value, dtype=np.dtype(int)) if value.dtype == bool else value


def cumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Running sum along an axis, along all entries by default."""
    return _along(lambda v: rd.cumsum(_summable(v, dtype), reverse=False), x, axis)


def cumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Running product along an axis, along all entries by default; its derivatives are exact with zeros."""
    return _along(lambda v: rd.cumprod(_summable(v, dtype), reverse=False), x, axis)


def cumulative_sum(x: Any, axis: int | None = None, include_initial: bool = False) -> Any:
    """The array API's name of `cumsum`."""
    return _with_initial(cumsum(x, axis), axis, 0, include_initial)


def cumulative_prod(x: Any, axis: int | None = None, include_initial: bool = False) -> Any:
    """The array API's name of `cumprod`."""
    return _with_initial(cumprod(x, axis), axis, 1, include_initial)


def _with_initial(run: Any, axis: int | None, first: float, include: bool) -> Any:
    if not include:
        return run
    from diffsim.numpy.shaping import concatenate

    axis = 0 if axis is None else axis % run.ndim
    return concatenate([np.full((*run.shape[:axis], 1, *run.shape[axis + 1 :]), first, run.dtype), run], axis)


def _running(x: Any, axis: int | None, largest: bool) -> Any:
    def run(value: Any) -> Any:
        return rd.pick(value, rd.running_winners(value, largest), -1) if value.size else value

    return _along(run, x, axis)


def cummax(x: Any, axis: int | None = None) -> Any:
    """Running maximum; of equal entries the first has the derivative. An extension of NumPy's names."""
    return _running(x, axis, True)


def cummin(x: Any, axis: int | None = None) -> Any:
    """Running minimum; of equal entries the first has the derivative. An extension of NumPy's names."""
    return _running(x, axis, False)


def diff(x: Any, n: int = 1, axis: int = -1) -> Any:
    """Differences of neighbours, `n` times."""
    from diffsim.numpy.shaping import _array

    x = _array(x)
    lead = (slice(None),) * (axis % x.ndim)
    for _ in range(n):
        x = x[(*lead, slice(1, None))] - x[(*lead, slice(None, -1))]
    return x


def ediff1d(x: Any) -> Any:
    """Differences of neighbours of the flattened array."""
    from diffsim.numpy.shaping import ravel

    return diff(ravel(x))


def gradient(x: Any, spacing: float = 1.0, axis: int | None = None) -> Any:
    """Central differences inside, one-sided ones at the ends, for a uniform spacing; one array an axis."""
    from diffsim.numpy.shaping import _array, concatenate, moveaxis

    x = _array(x)

    def one(a: int) -> Any:
        y = moveaxis(x, a, 0)
        inner = (y[2:] - y[:-2]) / (2.0 * spacing)
        return moveaxis(concatenate([(y[1:2] - y[:1]) / spacing, inner, (y[-1:] - y[-2:-1]) / spacing]), 0, a)

    if axis is not None or x.ndim == 1:
        return one(axis or 0)
    return [one(a) for a in range(x.ndim)]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral by the trapezoidal rule."""
    from diffsim.numpy.shaping import moveaxis

    y = moveaxis(y, axis, -1)
    width = dx if x is None else diff(x if np.ndim(bottom(core(x))) == 1 else moveaxis(x, axis, -1))
    return sum((y[..., 1:] + y[..., :-1]) * width * 0.5, -1)


trapz = trapezoid


# sorting


def sort(x: Any, axis: int | None = -1, kind: Any = None, descending: bool = False, stable: bool = True) -> Any:
    """Sorted along an axis, equal entries in their order."""
    if axis is None:
        from diffsim.numpy.shaping import ravel

        x, axis = ravel(x), 0
    if np.ndim(bottom(core(x))) == 0:
        raise np.exceptions.AxisError("an array without axes cannot be sorted")
    return take_along_axis(x, argsort(x, axis, descending=descending), axis)


def partition(x: Any, kth: int, axis: int = -1) -> Any:
    """Partly sorted about position `kth`."""
    return take_along_axis(x, wrap(np.argpartition(bottom(core(x)), kth, axis)), axis)


def unique(x: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """Distinct entries in increasing order; the first of equal ones has the derivative."""
    from diffsim.numpy.shaping import ravel

    flat = ravel(x)
    _, first, inverse, counts = np.unique(bottom(core(flat)), return_index=True, return_inverse=True, return_counts=True)
    out = [take(flat, first)]
    out += [wrap(first)] * return_index + [wrap(inverse)] * return_inverse + [wrap(counts)] * return_counts
    return tuple(out) if len(out) > 1 else out[0]


def quantile(x: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Quantiles, interpolated linearly between sorted entries."""
    from diffsim.numpy.shaping import expand_dims, moveaxis, ravel

    flat = ravel(x) if axis is None else moveaxis(x, axis, -1)
    ordered = sort(flat)
    n = ordered.shape[-1]
    spot = np.asarray(bottom(core(q)), float) * (n - 1)
    low = np.floor(spot).astype(int)
    high = np.minimum(low + 1, n - 1)
    found = ordered[..., low] * (1.0 - (spot - low)) + ordered[..., high] * (spot - low)
    if spot.ndim:
        return moveaxis(found, -1, 0)
    return expand_dims(found, axis) if keepdims and axis is not None else found


def percentile(x: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Percentiles, interpolated linearly between sorted entries."""
    return quantile(x, np.asarray(bottom(core(q))) / 100.0, axis, keepdims)


def median(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The middle entry, or the mean of the two in the middle."""
    return quantile(x, 0.5, axis, keepdims)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Any:
    """Piecewise linear interpolation through (xp, fp), constant outside; differentiable in all three."""
    from diffsim.numpy.elementwise import clip

    xp, fp = wrap(core(xp)), wrap(core(fp))
    n = xp.shape[0]
    low = np.clip(np.asarray(bottom(core(searchsorted(xp, x, side="right")))) - 1, 0, builtins.max(n - 2, 0))
    x0, f0 = xp[low], fp[low]
    if n == 1:
        return f0 + 0.0 * x
    share = clip((x - x0) / (xp[low + 1] - x0), 0.0, 1.0)
    found = f0 + share * (fp[low + 1] - f0)
    if left is not None:
        found = where(x < xp[0], left, found)
    return found if right is None else where(x > xp[-1], right, found)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Counts of non-negative integers, or sums of their weights."""
    places = np.asarray(bottom(core(x)))
    if weights is None:
        return wrap(np.bincount(places, minlength=minlength))
    count = builtins.max(int(places.max()) + 1 if places.size else 0, minlength)
    value = core(weights)
    return wrap(st.index_add(np.zeros(count, value.dtype if value.dtype.kind in "fc" else float), value, index=(places,)))


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """Discrete convolution of two vectors; "full", "same" or "valid"."""
    from diffsim.numpy.shaping import flip

    return correlate(a, flip(v), mode)


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Cross-correlation of two vectors: sums of a[k + i] times conj(v[i])."""
    from diffsim.numpy.elementwise import conj
    from diffsim.numpy.products import matmul
    from diffsim.numpy.shaping import _array, flip, pad

    a, v = _array(a), _array(v)
    n, m = a.shape[0], v.shape[0]
    if n < m and mode != "full":
        return flip(correlate(conj(v), conj(a), mode))
    margin = {"full": m - 1, "same": None, "valid": 0}[mode]
    before, after = (m // 2, m - 1 - m // 2) if margin is None else (margin, margin)
    padded = pad(a, (before, after))
    windows = np.arange(padded.shape[0] - m + 1)[:, None] + np.arange(m)
    return matmul(padded[windows], conj(v) if np.iscomplexobj(bottom(core(v))) else v)
