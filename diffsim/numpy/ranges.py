"""Evenly spaced numbers and grids of coordinates."""

from __future__ import annotations

import builtins
import operator
from typing import Any

import numpy as np

from diffsim.ad.array import wrap
from diffsim.ad.core import is_plain
from diffsim.ad.ops import structure as st
from diffsim.numpy.creation import array, asarray
from diffsim.numpy.dispatch import outside, plain, value_of
from diffsim.numpy.elementwise import exp, log, power
from diffsim.numpy.shaping import astype, broadcast_arrays, moveaxis, ndim, swapaxes


@outside(np)
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`, differentiable in both."""
    num, first, last = operator.index(num), value_of(start), value_of(stop)
    count = num - 1 if endpoint else num
    made = np.result_type(*(plain(v) for v in (start, stop)), float(num))
    share = np.arange(num, dtype=made) / made.type(max(count, 1))
    share = share.reshape((-1,) + (1,) * max(first.ndim, last.ndim))
    if is_plain(first, last):
        out = wrap(np.linspace(first, last, num, endpoint))
    else:
        out = wrap(st.astype(first * (1.0 - share) + last * share, dtype=made))
    out = moveaxis(out if dtype is None else astype(out, dtype), 0, axis)
    return (out, (wrap(last) - wrap(first)) / (count or np.nan)) if retstep else out


@outside(np)
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0) -> Any:
    """`base` to the powers `linspace(start, stop)`."""
    rank = builtins.max(ndim(start), ndim(stop), ndim(base))
    start, stop, base = (asarray(v)[(None,) * (rank - ndim(v)) + (...,)] if ndim(base) else v for v in (start, stop, base))
    out = moveaxis(power(base, linspace(start, stop, num, endpoint)), 0, axis)
    return out if dtype is None else astype(out, dtype)


@outside(np)
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    """`num` numbers of equal ratio from `start` to `stop`, of one sign."""
    sign = np.sign(plain(start))
    if np.any(sign != np.sign(plain(stop))) or not np.all(sign):
        raise ValueError("geomspace goes from one number to another of its sign, neither of them zero")
    first, last = (log(wrap(st.astype(value_of(v), dtype=np.dtype(float))) * sign) for v in (start, stop))
    out = moveaxis(exp(linspace(first, last, num, endpoint)) * sign, 0, axis)
    return out if dtype is None else astype(out, dtype)


@outside(np)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    """Coordinate matrices of coordinate vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing = {indexing!r}, expected 'xy' or 'ij'")
    rank = len(xi)
    out = tuple(asarray(x).reshape(tuple(-1 if i == k else 1 for i in range(rank))) for k, x in enumerate(xi))
    if indexing == "xy" and rank > 1:
        out = tuple(swapaxes(x, 0, 1) for x in out)
    out = out if sparse else broadcast_arrays(*out)
    return tuple(array(x, order="C") for x in out) if copy else out
