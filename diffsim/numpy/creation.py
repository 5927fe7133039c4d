"""Making arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.array import Array, core, fresh, wrap
from diffsim.ad.core import Tracer, bottom, is_plain, local
from diffsim.ad.layout import NewOrder, Order
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.structure import astype as convert
from diffsim.ad.ops.structure import copy as duplicate
from diffsim.numpy.dispatch import layout_of, of_values, plain


def array(object: Any, dtype: Any = None, *, copy: bool | None = True, order: Order = "K", ndmin: int = 0) -> Any:
    """A new array with the values of a number, an array, or nested lists of them; with copy=None the array itself if it fits."""
    if not copy and isinstance(object, Array) and not object._scalar:
        made: Any = _fitting(object, dtype, order)
        if copy is not None and made is not object:
            raise ValueError(f"copy=False of an array of {object.dtype} that has to be copied; use copy=None, or asarray")
    else:
        order = _known(object, order)
        value = core(object)
        if isinstance(value, Tracer):
            value = _in_order(value if dtype is None or value.dtype == np.dtype(dtype) else convert(value, dtype=np.dtype(dtype)), order)
            made = Array(duplicate(value), owned=True)
        else:
            made = fresh(np.array(value, dtype, order=order))
    return made.reshape((1,) * (ndmin - made.ndim) + tuple(made.shape)) if ndmin > made.ndim else made


def _in_order(value: Any, order: Order) -> Any:
    """A core value in one of NumPy's orders in memory."""
    return value if order == "K" else st.compact(value, tuple(range(value.ndim))[:: -1 if order == "F" else 1])


def _known(x: Any, order: Order) -> Order:
    """The order that "A" means: columns if that is what `x` is, else rows."""
    return order if order != "A" else "F" if isinstance(x, (Array, np.ndarray)) and layout_of(x).flags.fnc else "C"


def _fitting(a: Array, dtype: Any, order: Order) -> Array:
    """An array itself if it is of a type and in an order, else a copy that is."""
    flags = a._layout().flags
    fits = flags.c_contiguous if order == "C" else flags.f_contiguous if order == "F" else True
    if fits and (dtype is None or a.dtype == np.dtype(dtype)):
        return a
    return array(a, dtype, order="K" if order == "A" else order)


def asarray(a: Any, dtype: Any = None, order: Order = "K", *, copy: bool | None = None) -> Any:
    """`a` as an array; one of ours comes back itself."""
    if copy or (isinstance(a, Array) and a._scalar):  # a number is not an array that could be shared
        return array(a, dtype, order=order)
    if isinstance(a, Array):
        return a if dtype is None and order == "K" else _fitting(a, dtype, order)
    if isinstance(a, np.ndarray) and not local.depth:
        return np.asarray(a, dtype, order)
    value, order = core(a), _known(a, order)
    if isinstance(value, Tracer):
        return wrap(_in_order(value if dtype is None else convert(value, dtype=np.dtype(dtype)), order))
    made = np.asarray(value, dtype, order)
    return Array(made, strides=a.strides) if made is value and isinstance(a, np.ndarray) and local.depth else wrap(made)


asanyarray = asarray


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """`a` as an array with one axis at least, the last one innermost in memory; itself if it is one."""
    made = asarray(a, dtype, "C")
    return made if made.ndim else made.reshape(1)


def asfortranarray(a: Any, dtype: Any = None) -> Any:
    """`a` as an array with the first axis innermost in memory; itself if it is one."""
    made = asarray(a, dtype, "F")
    return made if made.ndim else made.reshape(1)


def _lengths(shape: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in shape) if np.ndim(plain(shape)) else (int(shape),)


def zeros(shape: Any, dtype: Any = None, order: NewOrder = "C") -> Any:
    """An array of zeros."""
    return fresh(np.zeros(_lengths(shape), dtype, order))


def ones(shape: Any, dtype: Any = None, order: NewOrder = "C") -> Any:
    """An array of ones."""
    return fresh(np.ones(_lengths(shape), dtype, order))


def empty(shape: Any, dtype: Any = None, order: NewOrder = "C") -> Any:
    """An array to be filled: it holds zeros, so that what is read before it is assigned is defined."""
    return zeros(shape, dtype, order)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: NewOrder = "C") -> Any:
    """An array of equal values."""
    value = core(fill_value)
    if not isinstance(value, Tracer):
        return fresh(np.full(_lengths(shape), value, dtype, order))
    made = zeros(shape, dtype or value.dtype, order)
    made[...] = fill_value
    return made


def zeros_like(a: Any, dtype: Any = None, order: Order = "K", *, shape: Any = None) -> Any:
    """Zeros in the shape, type and order in memory of `a`."""
    return full_like(a, 0, dtype, order, shape=shape)


def empty_like(prototype: Any, dtype: Any = None, order: Order = "K", *, shape: Any = None) -> Any:
    """Zeros, to be filled, in the shape, type and order in memory of `prototype`."""
    return full_like(prototype, 0, dtype, order, shape=shape)


def ones_like(a: Any, dtype: Any = None, order: Order = "K", *, shape: Any = None) -> Any:
    """Ones in the shape, type and order in memory of `a`."""
    return full_like(a, 1, dtype, order, shape=shape)


def full_like(a: Any, fill_value: Any, dtype: Any = None, order: Order = "K", *, shape: Any = None) -> Any:
    """Equal values in the shape, type and order in memory of `a`."""
    lengths = None if shape is None else _lengths(shape)
    made = fresh(np.zeros_like(np.asarray(plain(a)), dtype, _known(a, order), shape=lengths))
    made[...] = fill_value
    return made


def copy(a: Any, order: Order = "K") -> Any:
    """A new array with the values of `a`."""
    return array(a, order=order)


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
