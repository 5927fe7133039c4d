"""Products, running sums and products, and linear recurrences, along the last axis; exact with zeros, to any order.

No rule divides. The product of all entries but one is the product of those before it times that of those after it, and a running
product obeys a linear recurrence, whose adjoint is a linear recurrence in the other direction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffsim import kernels
from diffsim.ad.core import Primitive, is_plain, local, require_not_recording
from diffsim.ad.ops.elementwise import scale
from diffsim.ad.ops.places import take
from diffsim.ad.ops.structure import add_up, concatenate, getitem, like, linear, reshape

COMPILED = (np.dtype(np.float32), np.dtype(np.float64))
"""Types that kernels are compiled for."""


def _rows(x: Any) -> Any:
    """A plain array as the kernels take it: (rows, n, 1)."""
    x = np.ascontiguousarray(x)
    return x.reshape(-1, x.shape[-1], 1) if x.size else x.reshape(0, x.shape[-1], 1)


def pick(x: Any, places: Any, axis: int) -> Any:
    """The entries of `x` at `places` along an axis; `places` has the rank of x."""
    axis %= x.ndim
    if not is_plain(places):
        whole = np.arange(math.prod(x.shape)).reshape(x.shape)
        starts = np.broadcast_to(whole[(slice(None),) * axis + (slice(0, 1),)], places.shape)
        return take(reshape(x, shape=(-1,)), starts + places * math.prod(x.shape[axis + 1 :]))
    index = list(np.ix_(*(np.arange(n) for n in places.shape)))
    index[axis] = places
    return getitem(x, index=tuple(np.broadcast_to(i, places.shape) for i in index))


def end(x: Any, start: int | None, stop: int | None) -> Any:
    """A cut along the last axis."""
    return getitem(x, index=(Ellipsis, slice(start, stop)))


def delayed(x: Any, first: float, reverse: bool = False) -> Any:
    """Each entry's predecessor in the running direction; `first` where there is none."""
    n = x.shape[-1]
    edge = np.full((*x.shape[:-1], min(n, 1)), first, x.dtype)
    if reverse:
        return concatenate(end(x, 1, None), edge, axis=x.ndim - 1, lengths=(max(n - 1, 0), min(n, 1)))
    return concatenate(edge, end(x, None, -1), axis=x.ndim - 1, lengths=(min(n, 1), max(n - 1, 0)))


def _accumulated(kernel: Any, function: np.ufunc, x: Any, reverse: bool) -> Any:
    """Running results by a kernel, of single and double precision, or by NumPy, of all others."""
    if x.dtype in COMPILED:
        return kernel(_rows(x), reverse=reverse).reshape(x.shape)
    return np.flip(function.accumulate(np.flip(x, -1), axis=-1), -1) if reverse else function.accumulate(x, axis=-1)


cumsum: Primitive = linear(
    "cumsum",
    lambda x, reverse=False: _accumulated(kernels.cumsum, np.add, x, reverse),
    lambda ct, x, params: like(cumsum(ct, reverse=not params.get("reverse", False)), x),
)
"""Running sum; `reverse` runs from the end."""


def _weighted(bar: Any, factor: Any) -> Any:
    """A cotangent times a factor."""
    return scale(bar, factor) if local.zero_wins else bar * factor


def _recurrence(a: Any, c: Any, reverse: bool = False) -> Any:
    dtype = np.result_type(a, c)
    shape = np.broadcast_shapes(np.shape(a), np.shape(c))
    if dtype not in COMPILED or local.zero_wins:
        return _simple_recurrence(np.broadcast_to(a, shape), np.broadcast_to(c, shape), reverse)
    spread = [_rows(np.broadcast_to(np.asarray(v, dtype), shape)) for v in (a, c)]
    return kernels.linear_recurrence(spread[0], spread[1], reverse=reverse).reshape(shape)


def _simple_recurrence(a: Any, c: Any, reverse: bool) -> Any:
    out, before = np.empty(a.shape, np.result_type(a, c)), np.zeros(a.shape[:-1], c.dtype)
    for k in range(a.shape[-1])[:: -1 if reverse else 1]:
        before = _weighted(before, a[..., k]) + c[..., k]
        out[..., k] = before
    return out


def _recurrence_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    (a, _), (a_dot, c_dot) = args, tangents
    source = c_dot
    if a_dot is not None:
        term = a_dot * delayed(out, 0.0, params["reverse"])
        source = term if source is None else source + term
    return None if source is None else linear_recurrence(a, like(source, out), reverse=params["reverse"])


def _recurrence_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    reverse = params["reverse"]
    a, c = args
    bar = linear_recurrence(delayed(a, 0.0, not reverse), ct, reverse=not reverse)
    a_bar = like(_weighted(bar, delayed(out, 0.0, reverse)), a) if wanted[0] else None
    return a_bar, like(bar, c) if wanted[1] else None


linear_recurrence: Primitive = Primitive(
    "linear_recurrence",
    _recurrence,
    jvp=_recurrence_jvp,
    vjp=_recurrence_vjp,
    keeps=lambda wanted: ((True, False), wanted[0]),
)
"""y_i = a_i y_{i-1} + c_i, from y = 0 before the first; a and c of one shape."""


def _cumprod_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    reverse = params["reverse"]
    return linear_recurrence(args[0], like(tangents[0] * delayed(out, 1.0, reverse), out), reverse=reverse)


def _cumprod_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    x, reverse = args[0], params["reverse"]
    require_not_recording("the derivative of cumprod")
    if is_plain(ct, x, out) and x.dtype in COMPILED and not local.zero_wins:
        return (kernels.cumprod_vjp(_rows(x), _rows(out), _rows(ct), reverse=reverse).reshape(x.shape),)
    bar = linear_recurrence(delayed(x, 0.0, not reverse), ct, reverse=not reverse)
    return (like(_weighted(bar, delayed(out, 1.0, reverse)), x),)


cumprod: Primitive = Primitive(
    "cumprod",
    lambda x, reverse: _accumulated(kernels.cumprod, np.multiply, x, reverse),
    jvp=_cumprod_jvp,
    vjp=_cumprod_vjp,
)
"""Running product."""


def others(x: Any) -> Any:
    """For each entry the product of all the others."""
    return delayed(cumprod(x, reverse=False), 1.0) * delayed(cumprod(x, reverse=True), 1.0, reverse=True)


def _prod_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    return add_up(others(args[0]) * tangents[0], axis=(args[0].ndim - 1,), keepdims=False)


def _prod_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    x = args[0]
    spread = getitem(ct, index=(Ellipsis, None)) if x.ndim > 1 else ct
    return (like(_weighted(spread, others(x)), x),)


prod: Primitive = Primitive("prod", lambda x: np.prod(x, axis=-1), jvp=_prod_jvp, vjp=_prod_vjp, keeps=lambda wanted: ((True,), False))


def _running_winners(x: Any, largest: bool, reverse: bool) -> np.ndarray:
    run = kernels.cummax if largest else kernels.cummin
    x = x.astype(np.float32) if x.dtype == np.float16 else x
    return run(_rows(x), reverse=reverse)[1].reshape(x.shape)


_running: Primitive = Primitive("running_winners", _running_winners, constant=True)


def running_winners(x: Any, largest: bool, reverse: bool = False) -> Any:
    """Positions along the last axis of the running maximum (or minimum); of equal entries the one that came first."""
    return _running(x, largest=largest, reverse=reverse)


winners: Primitive = Primitive(
    "winners", lambda x, largest: (np.argmax if largest else np.argmin)(x, axis=-1, keepdims=True), constant=True
)
"""Positions along the last axis, which stays with length 1, of the largest (or smallest) entry; of equal ones the first."""
