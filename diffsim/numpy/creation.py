"""Making arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.array import Array, core, fresh, wrap
from diffsim.ad.core import Tracer, bottom, is_plain, local
from diffsim.ad.ops.structure import astype as convert
from diffsim.ad.ops.structure import copy as duplicate
from diffsim.numpy.dispatch import of_values, plain


def array(object: Any, dtype: Any = None, *, copy: bool = True, ndmin: int = 0) -> Any:
    """A new array with the values of a number, an array, or nested lists of them."""
    value = core(object)
    if isinstance(value, Tracer):
        value = value if dtype is None or value.dtype == np.dtype(dtype) else convert(value, dtype=np.dtype(dtype))
    if isinstance(value, Tracer):
        made: Any = Array(duplicate(value) if copy else value, owned=copy)
    else:
        made = fresh(np.array(value, dtype))
    return made.reshape((1,) * (ndmin - made.ndim) + tuple(made.shape)) if ndmin > made.ndim else made


def asarray(a: Any, dtype: Any = None, *, copy: bool | None = None) -> Any:
    """`a` as an array; one of ours comes back itself."""
    if copy or (isinstance(a, Array) and a._scalar):  # a number is not an array that could be shared
        return array(a, dtype)
    if isinstance(a, Array) and (dtype is None or a.dtype == np.dtype(dtype)):
        return a
    if isinstance(a, np.ndarray) and not local.depth:
        return np.asarray(a, dtype)
    value = core(a)
    if isinstance(value, Tracer):
        return wrap(value if dtype is None else convert(value, dtype=np.dtype(dtype)))
    return wrap(np.asarray(value, dtype))


asanyarray = asarray


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """`a` as an array with one axis at least."""
    made = asarray(a, dtype)
    return made if made.ndim else made.reshape(1)


def _lengths(shape: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in shape) if np.ndim(plain(shape)) else (int(shape),)


def zeros(shape: Any, dtype: Any = None) -> Any:
    """An array of zeros."""
    return fresh(np.zeros(_lengths(shape), dtype))


def ones(shape: Any, dtype: Any = None) -> Any:
    """An array of ones."""
    return fresh(np.ones(_lengths(shape), dtype))


def empty(shape: Any, dtype: Any = None) -> Any:
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


def zeros_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """Zeros in the shape and type of `a`."""
    return full_like(a, 0, dtype, shape=shape)


def empty_like(prototype: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """Zeros, to be filled, in the shape and type of `prototype`."""
    return full_like(prototype, 0, dtype, shape=shape)


def ones_like(a: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """Ones in the shape and type of `a`."""
    return full_like(a, 1, dtype, shape=shape)


def full_like(a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    """Equal values in the shape and type of `a`."""
    model = np.asarray(plain(a))
    return full(model.shape if shape is None else shape, fill_value, dtype or model.dtype)


def copy(a: Any) -> Any:
    """A new array with the values of `a`."""
    return array(a)


def arange(start_or_stop: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """Evenly spaced numbers from a start (0 if only a stop is given) up to `stop`, differentiable in start and step."""
    first, last = (0, start_or_stop) if stop is None else (start_or_stop, stop)
    values = [core(v) for v in (first, last, step)]
    made = np.arange(*map(bottom, values), dtype=dtype)
    if is_plain(values[0], values[2]):
        return fresh(made)
    return wrap(convert(values[0] + np.arange(len(made), dtype=made.dtype) * values[2], dtype=made.dtype))


def _made_by(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy that makes arrays of plain numbers."""
    values = of_values(function)

    def make(*args: Any, **kwargs: Any) -> Any:
        made = values(*args, **kwargs)
        return tuple(fresh(plain(m)) for m in made) if isinstance(made, tuple) else fresh(plain(made))

    make.__name__ = make.__qualname__ = function.__name__
    make.__doc__ = f"As `numpy.{function.__name__}`; its arguments are plain numbers."
    return make


eye, identity, tri, indices = _made_by(np.eye), _made_by(np.identity), _made_by(np.tri), _made_by(np.indices)
hanning, hamming, blackman, bartlett = _made_by(np.hanning), _made_by(np.hamming), _made_by(np.blackman), _made_by(np.bartlett)


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    """`function` of the arrays of indices."""
    return function(*(fresh(i) for i in np.indices(shape, dtype=dtype)), **kwargs)
