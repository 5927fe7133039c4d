"""Running sums, products and extrema; differences and integrals along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim import engine, kernels
from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.arrays.guard import require_both_parts
from diffsim.ad.core import Tracer, require_derivative
from diffsim.ad.ops import reduction as rd
from diffsim.ad.ops import structure as st
from diffsim.errors import BackendError
from diffsim.numpy import elementwise as ew
from diffsim.numpy.calling.dispatch import as_computed, as_copied, axes_of, one_axis, outside, plain, value_of
from diffsim.numpy.calling.rehearsal import rehearsed
from diffsim.numpy.reductions import sum
from diffsim.numpy.shapes.creation import asarray, full_like
from diffsim.numpy.shapes.joining import concatenate
from diffsim.numpy.shapes.shaping import broadcast_to, moveaxis, ndim, ravel

LARGE = 1 << 19
"""Entries from which a kernel finds running sums and products also outside of derivatives. For 10⁶ of them, NumPy takes 3.4 ms, a kernel
1.4 ms on one thread. The value of a function is then that of its `value_and_grad`, to the last bit."""


def _along(function: Callable[[Any], Any], a: Any, axis: int | None) -> Any:
    """`function` of a core value along its last axis, applied along another; None: along all entries."""
    value = value_of(a)
    if axis is None or value.ndim == 0:
        value, axis = st.reshape(value, shape=(-1,)), -1 if axis is None else axis
    axis = one_axis(axis, value.ndim)
    if axis == value.ndim - 1:
        return as_computed(function(value), value)
    order = (*(k for k in range(value.ndim) if k != axis), axis)
    back = tuple(int(k) for k in np.argsort(order))
    return as_computed(st.transpose(function(st.transpose(value, axes=order)), axes=back), value)


def _widened(value: Any, dtype: Any) -> Any:
    """Small integers and booleans are added up as NumPy does, in its default integer."""
    if dtype is None and value.dtype.kind in "iub":
        dtype = np.cumsum(np.zeros(1, value.dtype)).dtype
    require_both_parts(value, dtype)
    return value if dtype is None else st.astype(value, dtype=np.dtype(dtype))


def _in(value: Any, dtype: Any) -> Any:
    return value if dtype is None or value.dtype == np.dtype(dtype) else st.astype(value, dtype=np.dtype(dtype))


def _by_kernel(running: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray | None]:
    """Running results of a large NumPy array of floats, along its only or its last axis, by the kernel that derivatives use; else None."""

    def find(a: Any, axis: Any = None, dtype: Any = None, **others: Any) -> np.ndarray | None:
        if type(a) is not np.ndarray or a.size < LARGE or a.dtype not in rd.COMPILED or not a.flags.c_contiguous:
            return None
        if dtype is not None or others or not (axis is None or (type(axis) is int and axis in (-1, a.ndim - 1))):
            return None
        n = a.size if axis is None else a.shape[-1]
        try:
            if not engine.backend().on_host:  # copies to a device and back take longer
                return None
            return running(a.reshape(-1, n, 1)).reshape(-1 if axis is None else a.shape)
        except BackendError:  # no kernel runs in this process: it was forked
            return None

    return find


@outside(np, large=_by_kernel(kernels.cumsum))
def cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Running sum along an axis, along all entries by default."""
    return _along(lambda v: _in(rd.cumsum(_widened(v, dtype), reverse=False), dtype), a, axis)


@outside(np, large=_by_kernel(kernels.cumprod))
def cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Running product along an axis, along all entries by default; its derivatives are exact with zeros."""
    return _along(lambda v: _in(rd.cumprod(_widened(v, dtype), reverse=False), dtype), a, axis)


def _with_initial(running: Any, a: Any, axis: int | None, first: float, include: bool) -> Any:
    if axis is None and ndim(a) > 1:
        raise ValueError(f"a running result of an array with {ndim(a)} axes needs the axis")
    out = running(a, axis)
    if not include:
        return out
    axis = one_axis(axis or 0, out.ndim)
    return concatenate([full_like(out, first, shape=(*out.shape[:axis], 1, *out.shape[axis + 1 :])), out], axis)


@outside(np)
def cumulative_sum(x: Any, *, axis: int | None = None, include_initial: bool = False) -> Any:
    """The array API's name of `cumsum`."""
    return _with_initial(cumsum, x, axis, 0, include_initial)


@outside(np)
def cumulative_prod(x: Any, *, axis: int | None = None, include_initial: bool = False) -> Any:
    """The array API's name of `cumprod`."""
    return _with_initial(cumprod, x, axis, 1, include_initial)


@outside(np)
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Running sum in which NaN counts as 0."""
    return cumsum(as_copied(ew.where(np.isnan(plain(a)), 0, a), a), axis, dtype)


@outside(np)
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Running product in which NaN counts as 1."""
    return cumprod(as_copied(ew.where(np.isnan(plain(a)), 1, a), a), axis, dtype)


def _running_extremum(a: Any, axis: int | None, largest: bool) -> Any:
    return _along(lambda v: rd.pick(v, rd.running_winners(v, largest), -1) if v.size else v, a, axis)


def _running(a: Any, axis: int | None = None) -> Any:
    """Refuse for a running extremum the arguments that NumPy refuses for a running sum."""
    return np.cumsum(a, axis).astype(np.asarray(a).dtype)


@rehearsed(_running)
def cummax(a: Any, axis: int | None = None) -> Any:
    """Running maximum; of equal entries the first has the derivative. An extension of NumPy's names."""
    return _running_extremum(a, axis, True)


@rehearsed(_running)
def cummin(a: Any, axis: int | None = None) -> Any:
    """Running minimum; of equal entries the first has the derivative. An extension of NumPy's names."""
    return _running_extremum(a, axis, False)


ew.add.running, ew.multiply.running, ew.maximum.running, ew.minimum.running = cumsum, cumprod, cummax, cummin

# differences


def _one_more(x: Any, lengths: Sequence[int], axis: int) -> list[Any]:
    """An array to put before or after another along an axis: a number stands for one slice of it."""
    if x is None:
        return []
    return [asarray(x) if ndim(x) else broadcast_to(x, (*lengths[:axis], 1, *lengths[axis + 1 :]))]


@outside(np)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours, `n` times."""
    if n < 0:
        raise ValueError(f"n = {n} differences, expected 0 or more")
    a = asarray(a)
    axis = one_axis(axis, a.ndim)
    parts = [*_one_more(prepend, a.shape, axis), a, *_one_more(append, a.shape, axis)]
    a = concatenate(parts, axis) if len(parts) > 1 else a
    lead = (slice(None),) * axis
    for _ in range(n):
        if a.dtype == bool:
            a = ew.not_equal(a[(*lead, slice(1, None))], a[(*lead, slice(None, -1))])
        else:
            a = wrap(st.difference(value_of(a), axis=axis))
    return a


@outside(np)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array, with numbers put at the ends."""
    inner = diff(ravel(ary))
    ends = [[] if x is None else [ravel(asarray(x, inner.dtype))] for x in (to_begin, to_end)]
    return concatenate([*ends[0], inner, *ends[1]]) if ends != [[], []] else inner


@outside(np)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided ones of order 1 or 2 at the ends.

    Args:
        f: values on a grid.
        varargs: nothing (spacing 1), one spacing, or for each axis a spacing or the coordinates along it.
        axis: one or several axes; all by default.
        edge_order: 1 or 2.

    Returns:
        One array for one axis, else a tuple of them.
    """
    require_derivative("gradient")
    f = asarray(f)
    f = f if f.dtype.kind in "fc" else f.astype(float)
    axes = axes_of(axis, f.ndim)
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    if len(spacings) != len(axes) or edge_order not in (1, 2):
        raise ValueError(f"gradient along {len(axes)} axes got {len(varargs)} spacings and edge_order = {edge_order}, expected 1 or 2")
    slopes = tuple(_gradient(f, k, h, edge_order) for k, h in zip(axes, spacings, strict=True))
    return slopes[0] if len(slopes) == 1 else slopes


def _gradient(f: Any, axis: int, spacing: Any, edge_order: int) -> Any:
    y = moveaxis(f, axis, -1)
    n = y.shape[-1]
    if n < edge_order + 1:
        raise ValueError(f"an axis of length {n} is too short for differences, expected {edge_order + 1} at least")
    spacing = asarray(spacing, f.dtype)
    steps = diff(spacing) if spacing.ndim else broadcast_to(spacing, (n - 1,))
    slope = diff(y) / steps
    before, after = steps[:-1], steps[1:]
    inner = (slope[..., :-1] * after + slope[..., 1:] * before) / (before + after)
    first, last = slope[..., :1], slope[..., -1:]
    if edge_order == 2:
        first = first - (slope[..., 1:2] - first) * (steps[:1] / (steps[:1] + steps[1:2]))
        last = last + (last - slope[..., -2:-1]) * (steps[-1:] / (steps[-1:] + steps[-2:-1]))
    return as_copied(moveaxis(concatenate([first, inner, last], -1), -1, axis), f)


@outside(np)
def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    """Angles without jumps: whole periods are added, so its derivative is 1, and by the period their number."""
    p = asarray(p)
    turned = np.unwrap(plain(p), None if discont is None else plain(discont), axis, period=plain(period))
    with np.errstate(invalid="ignore"):
        added = np.where(turned == plain(p), 0, turned - plain(p)).astype(turned.dtype, copy=False)  # an infinite entry stays itself
    unwrapped = as_copied((p if p.dtype == turned.dtype else wrap(st.astype(core(p), dtype=turned.dtype))) + added, p)
    if not isinstance(core(period), Tracer):
        return unwrapped
    counts = np.where(added == 0, 0.0, np.rint(added / plain(period)))
    return ew.where(counts == 0, unwrapped, unwrapped + counts * (period - plain(period)))  # of no infinite periods there is no NaN


@outside(np)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral by the trapezoidal rule."""
    y = asarray(y)
    axis = one_axis(axis, y.ndim)
    if x is None:
        width = dx
    elif ndim(x) == 1:
        width = diff(x).reshape(tuple(-1 if k == axis else 1 for k in range(y.ndim)))
    else:
        width = diff(x, axis=axis)
    lead = (slice(None),) * axis
    return sum(width * (y[(*lead, slice(1, None))] + y[(*lead, slice(None, -1))]) / 2.0, axis)
