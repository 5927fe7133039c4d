"""Sorting, and functions of sorted entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.ops import structure as st
from diffsim.base.messages import shown
from diffsim.errors import DerivativeError
from diffsim.numpy.calling.dispatch import as_copied, as_number, axes_of, in_rows, outside, plain, value_of
from diffsim.numpy.calling.rehearsal import rehearsed
from diffsim.numpy.decisions import argpartition, argsort
from diffsim.numpy.elementwise import where
from diffsim.numpy.indexing import take, take_along_axis
from diffsim.numpy.reductions import mean, merged
from diffsim.numpy.shapes.creation import asarray
from diffsim.numpy.shapes.shaping import moveaxis, ravel, reshape, shape


@rehearsed(np.sort)
def sort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None, descending: bool = False) -> Any:
    """Sorted along an axis, equal entries in their order."""
    a = ravel(a) if axis is None else asarray(a)
    axis = -1 if axis is None else axis
    return as_copied(take_along_axis(a, argsort(a, axis, descending=descending), axis), a)


@outside(np)
def partition(a: Any, kth: Any, axis: int | None = -1) -> Any:
    """Partly sorted about one position or several."""
    a = ravel(a) if axis is None else asarray(a)
    axis = -1 if axis is None else axis
    return as_copied(take_along_axis(a, argpartition(a, kth, axis), axis), a)


@outside(np)
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """Distinct entries in increasing order; the first of equal ones has the derivative."""
    _, first, *more = np.unique(plain(ar), return_index=True, return_inverse=True, return_counts=True)
    wanted = zip((return_index, return_inverse, return_counts), (first, *more), strict=True)
    out = [take(ar, first), *(wrap(part) for asked, part in wanted if asked)]
    return tuple(out) if len(out) > 1 else out[0]


@outside(np)
def quantile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    """Quantiles, interpolated linearly between sorted entries; NaN among entries makes them NaN."""
    alike = lambda result: as_copied(result, q) if len(shape(q)) > 1 and shape(result) == shape(q) else in_rows(result)  # noqa: E731
    return _quantile(a, q, axis, method, keepdims, alike)


def _quantile(a: Any, q: Any, axis: Any, method: str, keepdims: bool, laid: Callable[[Any], Any]) -> Any:
    """Quantiles; `laid` puts them in order in memory."""
    if method != "linear":
        raise DerivativeError(f"method = {shown(method)} of quantile is not differentiable here, expected 'linear'")
    rows, full = merged(value_of(a), axis)
    ordered = sort(wrap(rows if rows.dtype.kind in "fc" else st.astype(rows, dtype=np.dtype(float))))
    n = ordered.shape[-1]
    if isinstance(q, (int, float)):
        q = ordered.dtype.type(0).real.dtype.type(q)
    if n == 0 or np.any((plain(q) < 0) | (plain(q) > 1)):
        raise ValueError(f"quantile q = {plain(q)} of {n} entries, expected q in [0, 1] and one entry at least")
    spot = asarray(q) * (n - 1)
    low = np.floor(plain(spot)).astype(int)
    share = spot - low.astype(plain(spot).dtype)
    below, above = ordered[..., low], ordered[..., np.minimum(low + 1, n - 1)]
    result = where(plain(share) == 0, below, below * (1.0 - share) + above * share)  # an infinite entry above does not count
    lost = np.isnan(plain(ordered)[..., -1])
    result = where(lost.reshape(lost.shape + (1,) * low.ndim), np.nan, result) if lost.any() else result
    result = moveaxis(result, tuple(range(-low.ndim, 0)), tuple(range(low.ndim))) if low.ndim else result
    result = laid(result)
    return reshape(result, (*low.shape, *full)) if keepdims else wrap(as_number(core(result)))


@outside(np)
def percentile(a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    """Percentiles, interpolated linearly between sorted entries."""
    kind = value_of(a).dtype
    hundred = kind.type(100) if kind.kind == "f" else 100
    return quantile(a, q / 100.0 if isinstance(q, (int, float)) else asarray(q) / hundred, axis, method=method, keepdims=keepdims)


@outside(np)
def median(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The middle entry, or the mean of the two in the middle."""
    axes_of(axis, len(shape(a)))  # unlike a sum, it refuses an axis of a number
    if 0 in shape(a):
        return mean(a, axis, keepdims=keepdims)  # NaN, or no entries
    return _quantile(a, 0.5, axis, "linear", keepdims, lambda result: result)
