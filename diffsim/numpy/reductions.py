"""Sums, products, extrema, means and their kin over axes."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.arrays.guard import require_both_parts
from diffsim.ad.core import Tracer, laid_out
from diffsim.ad.ops import reduction as rd
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.layout import axes_of_result
from diffsim.errors import DerivativeError
from diffsim.numpy import elementwise as ew
from diffsim.numpy.calling.dispatch import as_copied, as_number, axes_of, is_complex, outside, plain, reduced_axes, value_of
from diffsim.numpy.calling.rehearsal import rehearsed
from diffsim.numpy.decisions import all, any
from diffsim.numpy.shapes.creation import asarray
from diffsim.numpy.shapes.joining import concatenate
from diffsim.numpy.shapes.shaping import broadcast_to, shape


def _in(value: Any, dtype: Any) -> Any:
    if dtype is None:
        return value
    require_both_parts(value, dtype)
    return value if value.dtype == np.dtype(dtype) else st.astype(value, dtype=np.dtype(dtype))


def _masked(a: Any, where: Any, other: Any) -> Any:
    return a if where is None else ew.where(where, a, other)


@outside(np)
def sum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None) -> Any:
    """Sum over axes, all by default."""
    value = _in(value_of(_masked(a, where, 0)), dtype)
    total = st.add_up(value, axis=None if axis is None else reduced_axes(axis, value.ndim), keepdims=keepdims)
    if where is not None:
        total = _as_reduced(total, value_of(a), axis)
    total = _in(total, dtype)
    return wrap(total if initial is None else total + _in(value_of(initial), total.dtype))


def merged(value: Any, axis: Any) -> tuple[Any, tuple[int, ...]]:
    """A core value with the axes to reduce joined as its last one, and the shape with length 1 in their place."""
    rank = value.ndim
    axes = reduced_axes(axis, rank)
    rest = tuple(k for k in range(rank) if k not in axes)
    if rest + axes != tuple(range(rank)):
        value = st.transpose(value, axes=(*rest, *axes))
    kept = tuple(value.shape[: len(rest)])
    lengths = iter(kept)
    full_shape = tuple(1 if k in axes else next(lengths) for k in range(rank))
    return st.reshape(value, shape=(*kept, math.prod(value.shape[len(rest) :]))), full_shape


def _as_reduced(out: Any, value: Any, axis: Any) -> Any:
    """A core value laid out in memory as the reduction of `value` along axes."""
    axes = reduced_axes(axis, value.ndim)
    kept = laid_out(value)[tuple(slice(0, 1) if k in axes else slice(None) for k in range(value.ndim))]
    order = axes_of_result(kept)
    if out.ndim < value.ndim:
        order = tuple(builtins.sum(j not in axes for j in range(k)) for k in order if k not in axes)
    return st.compact(out, order)


@outside(np)
def prod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None) -> Any:
    """Product over axes, all by default; its derivatives are exact with zeros among the entries."""
    value = _in(value_of(_masked(a, where, 1)), dtype)
    rows, full_shape = merged(value, axis)
    total = rd.prod(rows)
    total = _as_reduced(st.reshape(total, shape=full_shape) if keepdims else total, value, axis)
    total = _in(total, dtype)
    return wrap(total if initial is None else total * _in(value_of(initial), total.dtype))


# extrema


def _extremum(a: Any, axis: Any, keepdims: bool, initial: Any, where: Any, largest: bool) -> Any:
    if where is not None and initial is None and not np.all(plain(where)):
        raise ValueError("a maximum or minimum of some entries needs an initial value, in case there are none")
    value = value_of(a)
    where = None if initial is None else where
    if initial is not None:
        initial = wrap(_in(value_of(initial), value.dtype))
        value = value_of(_masked(wrap(value), where, initial))
    if not isinstance(value, Tracer) and initial is None:
        return wrap(
            (np.max if largest else np.min)(value, axis=None if axis is None else reduced_axes(axis, value.ndim), keepdims=keepdims)
        )
    rows, full_shape = merged(value, axis)
    if initial is not None:
        last = broadcast_to(initial, (*rows.shape[:-1], 1))
        rows = core(concatenate([wrap(rows), last], -1))
    picked = rd.pick(rows, rd.winners(rows, largest=largest), -1)
    picked = _as_reduced(st.reshape(picked, shape=full_shape if keepdims else tuple(rows.shape[:-1])), value, axis)
    return wrap(picked if keepdims else as_number(picked))


@outside(np)
def max(a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None) -> Any:
    """The largest entry; of equal ones the first has the derivative."""
    return _extremum(a, axis, keepdims, initial, where, True)


@outside(np)
def min(a: Any, axis: Any = None, *, keepdims: bool = False, initial: Any = None, where: Any = None) -> Any:
    """The smallest entry; of equal ones the first has the derivative."""
    return _extremum(a, axis, keepdims, initial, where, False)


amax, amin = max, min


@outside(np)
def ptp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Largest less smallest entry."""
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


# means


def _count(a: Any, axis: Any, keepdims: bool, where: Any) -> Any:
    lengths = shape(a)
    if where is None:
        return math.prod(lengths[k] for k in axes_of(axis, len(lengths)))
    chosen = np.broadcast_to(plain(where), lengths)
    return np.sum(chosen, axis=None if axis is None else reduced_axes(axis, len(lengths)), keepdims=keepdims)


def _floating(a: Any, dtype: Any) -> Any:
    value = value_of(a)
    return wrap(_in(value, dtype or (value.dtype if value.dtype.kind in "fc" else float)))


@outside(np)
def mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = None) -> Any:
    """Arithmetic mean over axes; half-precision numbers are added up in single precision."""
    half = dtype is None and value_of(a).dtype == np.float16
    x = _floating(a, np.float32 if half else dtype)
    result = _mean(x, axis, keepdims, where)
    return wrap(_in(core(result), np.float16)) if half else result


def _mean(x: Any, axis: Any, keepdims: bool, where: Any) -> Any:
    return _divided(sum(x, axis, keepdims=keepdims, where=where), _count(x, axis, keepdims, where), x.dtype)


def _divided(total: Any, count: Any, dtype: Any) -> Any:
    """A sum over a count, in a type, laid out in memory as the sum."""
    quotient = wrap(_in(core(total / count), dtype))
    return as_copied(quotient, total) if shape(count) else quotient


@outside(np)
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """Weighted mean over axes; with `returned` also the sum of the weights."""
    a = asarray(a)
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        total: Any = float(_count(a, axis, keepdims, None))
    else:
        weights = asarray(weights)
        spread = _spread_weights(weights, a.shape, axis)
        dtype = np.result_type(a.dtype, weights.dtype, *([] if a.dtype.kind in "fc" else [float]))
        total = sum(spread, axis, dtype, keepdims=keepdims)
        result = sum(ew.multiply(a, spread), axis, keepdims=keepdims) / total
    if not returned:
        return result
    return result, total if shape(total) == shape(result) else broadcast_to(total, shape(result))


def _spread_weights(weights: Any, lengths: tuple[int, ...], axis: Any) -> Any:
    """Weights in the shape of the averaged array, given in that shape or along the axes alone."""
    if weights.shape == lengths:
        return weights
    axes = axes_of(axis, len(lengths))
    if axis is None:
        raise TypeError(
            f"weights have the shape {weights.shape}, expected that of the array, {lengths}; or give the axis that they belong to"
        )
    if weights.shape != tuple(lengths[k] for k in axes):
        raise ValueError(f"weights have the shape {weights.shape}, expected that of the array, {lengths}, or of its axes {axis}")
    order = [axes.index(k) for k in sorted(axes)]
    thin = weights.transpose(order).reshape(tuple(n if k in axes else 1 for k, n in enumerate(lengths)))
    return broadcast_to(thin, lengths)


@outside(np)
def var(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, where: Any = None, correction: Any = None
) -> Any:
    """Variance over axes, with the count less `ddof` below the line."""
    return _variance(a, axis, dtype, ddof if correction is None else correction, keepdims, where)


def _variance(a: Any, axis: Any, dtype: Any, ddof: float, keepdims: bool, where: Any, in_place: bool = False) -> Any:
    """The variance; `in_place`: NumPy writes the deviations into the memory of `a`."""
    if dtype is not None and np.dtype(dtype).kind not in "fc":
        raise DerivativeError(f"dtype = {np.dtype(dtype)} of a variance, expected a floating-point type; convert the result")
    real = value_of(a).dtype.kind != "c"
    x = _masked(_floating(a, dtype), where, 0)
    whole = x - _mean(x, axis, True, where)
    apart = _masked(whole, where, 0)
    squares = ew.square(ew.absolute(apart)) if is_complex(x) else ew.square(apart)
    divisor = np.maximum(_count(x, axis, keepdims, where) - ddof, 0)
    if in_place:  # of no entries that count
        divisor = np.where(divisor > 0, divisor, np.nan)[()]
    total = sum(squares, axis, keepdims=keepdims)
    total = total if where is None else wrap(_as_reduced(core(total), value_of(a if in_place else whole), axis))
    return _divided(total, divisor, np.dtype(squares.dtype if dtype is None or not real else dtype))


@outside(np)
def std(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, where: Any = None, correction: Any = None
) -> Any:
    """Standard deviation over axes; where it is 0 its derivative is 0."""
    squared = var(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, correction=correction)
    alone = np.all(np.asarray(_count(asarray(a), axis, keepdims, where)) <= 1)
    return squared if alone else ew.root_or_zero(squared)  # of one entry it is 0 whatever the entry is


# without the entries that are not a number


def _without(a: Any, other: float) -> Any:
    """A copy of `a` with another number in the place of NaN."""
    none = np.isnan(plain(a))
    return as_copied(ew.where(none, other, a), a) if none.any() or shape(a) else a


@outside(np)
def nansum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Sum of the entries that are not NaN."""
    return sum(_without(a, 0), axis, dtype, keepdims=keepdims)


@outside(np)
def nanprod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Product of the entries that are not NaN."""
    return prod(_without(a, 1), axis, dtype, keepdims=keepdims)


@outside(np)
def nanmean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Mean of the entries that are not NaN."""
    if value_of(a).dtype.kind not in "fc":
        return mean(a, axis, dtype, keepdims=keepdims)
    return _mean(_floating(_without(a, 0), dtype), axis, keepdims, ~np.isnan(plain(a)))


@outside(np)
def nanvar(a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, correction: Any = None) -> Any:
    """Variance of the entries that are not NaN."""
    less = ddof if correction is None else correction
    if value_of(a).dtype.kind not in "fc":
        return _variance(a, axis, dtype, less, keepdims, None)
    return _variance(_without(a, 0), axis, dtype, less, keepdims, ~np.isnan(plain(a)), in_place=True)


@outside(np)
def nanstd(a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, correction: Any = None) -> Any:
    """Standard deviation of the entries that are not NaN."""
    return ew.root_or_zero(nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims, correction=correction))


@outside(np)
def nanmax(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Largest of the entries that are not NaN; NaN if there are none."""
    return _without_nan(max, a, axis, keepdims, -np.inf)


@outside(np)
def nanmin(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Smallest of the entries that are not NaN; NaN if there are none."""
    return _without_nan(min, a, axis, keepdims, np.inf)


def _without_nan(extremum: Any, a: Any, axis: Any, keepdims: bool, initial: float) -> Any:
    none = np.isnan(plain(a))
    if not none.any():
        return extremum(a, axis, keepdims=keepdims)
    extreme = extremum(a, axis, keepdims=keepdims, initial=initial, where=~none)
    return ew.either(all(none, axis, keepdims=keepdims), np.nan, extreme)


def _logsumexp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Refuse for `logsumexp` the arguments that NumPy refuses for a sum of floating-point numbers."""
    a = np.asarray(a)
    return np.sum(np.log(np.exp(a.astype(float) if a.dtype.kind in "iub" else a)), axis, keepdims=keepdims)


@rehearsed(_logsumexp)
def logsumexp(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """log(sum(exp(a))) without overflow; an extension of NumPy's names."""
    a = _floating(asarray(a), None)
    top = np.max(plain(a), axis=None if axis is None else axes_of(axis, a.ndim), keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    total = sum(ew.exp(a - top), axis, keepdims=True)
    none = total == 0
    result = ew.where(none, -np.inf, ew.log(ew.where(none, 1.0, total)) + top)
    return result if keepdims else sum(result, axis)


ew.add.reduction, ew.multiply.reduction = sum, prod
ew.maximum.reduction, ew.minimum.reduction = max, min
ew.fmax.reduction, ew.fmin.reduction = nanmax, nanmin
ew.logical_and.reduction, ew.logical_or.reduction = all, any
