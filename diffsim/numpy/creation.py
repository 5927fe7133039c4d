"""Making arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.array import Array, core, fresh, wrap
from diffsim.ad.core import Tracer, bottom, local
from diffsim.ad.ops.structure import astype as convert
from diffsim.ad.ops.structure import copy as duplicate


def array(x: Any, dtype: Any = None, *, copy: bool = True, ndmin: int = 0) -> Any:
    """A new array with the values of `x`: a number, an array, or nested lists of them."""
    value = core(x)
    if isinstance(value, Tracer):
        value = value if dtype is None or value.dtype == np.dtype(dtype) else convert(value, dtype=np.dtype(dtype))
        made: Any = Array(duplicate(value) if copy else value, owned=copy)
    else:
        made = fresh(np.array(value, dtype))
    return made.reshape((1,) * (ndmin - made.ndim) + tuple(made.shape)) if ndmin > made.ndim else made


def asarray(x: Any, dtype: Any = None, *, copy: bool | None = None) -> Any:
    """`x` as an array; one of ours comes back itself."""
    if copy or (isinstance(x, Array) and x._scalar):  # a number is not an array that could be shared
        return array(x, dtype)
    if isinstance(x, Array) and (dtype is None or x.dtype == np.dtype(dtype)):
        return x
    if isinstance(x, np.ndarray) and not local.depth:
        return np.asarray(x, dtype)
    value = core(x)
    if isinstance(value, Tracer):
        return Array(value if dtype is None else convert(value, dtype=np.dtype(dtype)))
    return wrap(np.asarray(value, dtype))


def _lengths(shape: Any) -> Any:
    return tuple(int(n) for n in shape) if isinstance(shape, (tuple, list, Array, np.ndarray)) and np.ndim(bottom(shape)) else int(shape)


def zeros(shape: Any, dtype: Any = float) -> Any:
    """An array of zeros."""
    return fresh(np.zeros(_lengths(shape), dtype))


def ones(shape: Any, dtype: Any = float) -> Any:
    """An array of ones."""
    return fresh(np.ones(_lengths(shape), dtype))


def empty(shape: Any, dtype: Any = float) -> Any:
    """An array to be filled: it holds zeros, so that what is read before it is assigned is defined."""
    return zeros(shape, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """An array of equal values."""
    value = core(fill_value)
    if not isinstance(value, Tracer):
        return fresh(np.full(_lengths(shape), value, dtype))
    made = zeros(shape, dtype or value.dtype)
    made[...] = fill_value
    return made


def zeros_like(x: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Zeros in the shape and type of `x`."""
    value = bottom(core(x))
    return zeros(np.shape(value) if shape is None else shape, dtype or np.asarray(value).dtype)


empty_like = zeros_like


def ones_like(x: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Ones in the shape and type of `x`."""
    return full_like(x, 1, dtype, shape)


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Equal values in the shape and type of `x`."""
    value = bottom(core(x))
    return full(np.shape(value) if shape is None else shape, fill_value, dtype or np.asarray(value).dtype)


def copy(x: Any) -> Any:
    """A new array with the values of `x`."""
    return array(x)


def _made_by(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function that makes arrays of plain numbers, of which traced ones are read and not differentiated."""

    def make(*args: Any, **kwargs: Any) -> Any:
        plain = [_number(a) for a in args]
        made = function(*plain, **{key: _number(value) for key, value in kwargs.items()})
        return tuple(map(fresh, made)) if isinstance(made, tuple) else fresh(made)

    make.__name__ = make.__qualname__ = function.__name__
    make.__doc__ = f"As `numpy.{function.__name__}`; its arguments are plain numbers."
    return make


def _number(x: Any) -> Any:
    return bottom(x._current()) if isinstance(x, Array) and x.dtype.kind in "iub" else x


eye, identity, arange, tri = (_made_by(f) for f in (np.eye, np.identity, np.arange, np.tri))
indices, hanning, hamming, blackman = (_made_by(f) for f in (np.indices, np.hanning, np.hamming, np.blackman))


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`, differentiable in both."""
    first, last = core(start), core(stop)
    if not isinstance(first, Tracer) and not isinstance(last, Tracer):
        return fresh(np.linspace(first, last, num, endpoint, dtype=dtype))
    share = np.arange(num) / max(num - 1 if endpoint else num, 1)
    share = share.reshape((-1,) + (1,) * max(np.ndim(bottom(first)), np.ndim(bottom(last))))
    return wrap(first * (1.0 - share) + last * share)


def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0) -> Any:
    """`base` to the powers `linspace(start, stop)`."""
    return base ** linspace(start, stop, num, endpoint)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True) -> Any:
    """`num` numbers of equal ratio from `start` to `stop`, both positive."""
    first, last = core(start), core(stop)
    if not isinstance(first, Tracer) and not isinstance(last, Tracer):
        return fresh(np.geomspace(first, last, num, endpoint))
    from diffsim.numpy.elementwise import exp, log

    return exp(linspace(log(start), log(stop), num, endpoint))


def fromfunction(function: Callable[..., Any], shape: Any, dtype: Any = float) -> Any:
    """`function` of the arrays of indices."""
    return function(*(fresh(i) for i in np.indices(shape, dtype=dtype)))


def meshgrid(*xs: Any, indexing: str = "xy", sparse: bool = False) -> list[Any]:
    """Coordinate matrices of coordinate vectors."""
    from diffsim.numpy.shaping import broadcast_arrays, reshape, swapaxes

    rank = len(xs)
    out = [reshape(asarray(x), tuple(-1 if i == k else 1 for i in range(rank))) for k, x in enumerate(xs)]
    if indexing == "xy" and rank > 1:
        out = [swapaxes(x, 0, 1) for x in out]
    return out if sparse else [array(x) for x in broadcast_arrays(*out)]
