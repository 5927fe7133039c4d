"""Evenly spaced numbers and grids of coordinates."""

from __future__ import annotations

import builtins
import operator
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.core import is_plain
from diffsim.ad.ops import structure as st
from diffsim.base.messages import shown
from diffsim.numpy.calling.dispatch import outside, plain, value_of
from diffsim.numpy.elementwise import floor, log10, power, where
from diffsim.numpy.shapes.creation import array, asarray
from diffsim.numpy.shapes.shaping import astype, broadcast_arrays, moveaxis, ndim, swapaxes


@outside(np)
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`, differentiable in both."""
    num, first, last = operator.index(num), value_of(start), value_of(stop)
    count = num - 1 if endpoint else num
    kind = np.result_type(*(plain(v) for v in (start, stop)), float(num))
    places = np.arange(num, dtype=kind.type(0).real.dtype).reshape((-1,) + (1,) * builtins.max(first.ndim, last.ndim))
    if is_plain(first, last):
        out = wrap(np.linspace(first, last, num, endpoint))
    else:
        out = wrap(first + places * ((last - first) / builtins.max(count, 1)))
        if endpoint and num > 1:
            out = where(places == count, wrap(last), out)
        out = wrap(st.astype(core(out), dtype=kind))
    if dtype is not None:
        out = astype(floor(out) if np.dtype(dtype).kind in "iu" and out.dtype.kind == "f" else out, dtype)  # down, as NumPy's
    out = moveaxis(out, 0, axis)
    return (out, (wrap(last) - wrap(first)) / (count if count > 0 else np.nan)) if retstep else out


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
    kind = np.result_type(*(value_of(v).dtype for v in (start, stop)), float, dtype or float)
    first, last = (wrap(st.astype(value_of(v), dtype=kind)) for v in (start, stop))
    sign = np.sign(plain(first))
    if not np.all(sign) or np.any(kind.kind == "f" and sign != np.sign(plain(last))):
        raise ValueError("geomspace goes from one number to another of its sign, neither of them zero")
    first, last = first / sign, last / sign  # a complex start is turned onto the real axis, where its logarithm is exact
    out = power(10.0, linspace(log10(first), log10(last), num, endpoint))
    places = np.arange(len(out)).reshape((-1,) + (1,) * (out.ndim - 1))
    out = where(places == 0, first, out)
    out = moveaxis((where(places == num - 1, last, out) if endpoint and num > 1 else out) * sign, 0, axis)
    return out if dtype is None else astype(out, dtype)


@outside(np)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    """Coordinate matrices of coordinate vectors."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing = {shown(indexing)}, expected 'xy' or 'ij'")
    rank = len(xi)
    out = tuple(asarray(x).reshape(tuple(-1 if i == k else 1 for i in range(rank))) for k, x in enumerate(xi))
    if indexing == "xy" and rank > 1:
        out = tuple(swapaxes(x, 0, 1) for x in out)
    out = out if sparse else broadcast_arrays(*out)
    return tuple(array(x, order="C") for x in out) if copy else out
