"""Making arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, borrowed, core, fresh, wrap
from diffsim.ad.arrays.guard import require_both_parts
from diffsim.ad.core import Tracer, bottom, is_plain, laid_out, local
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.layout import NewOrder, Order
from diffsim.ad.ops.structure import astype as convert
from diffsim.ad.ops.structure import copy as duplicate
from diffsim.errors import DerivativeError
from diffsim.numpy.calling.dispatch import layout_of, of_values, plain
from diffsim.numpy.calling.rehearsal import rehearsed


@rehearsed(np.array)
def array(object: Any, dtype: Any = None, *, copy: bool | None = True, order: Order = "K", ndmin: int = 0) -> Any:
    """A new array with the values of a number, an array, or nested lists of them; with copy=None the array itself if it fits."""
    if not copy and isinstance(object, np.ndarray) and local.depth:
        object = asarray(object)
    if not copy and isinstance(object, Array) and not object._scalar:
        result: Any = _fitting(object, dtype, order)
        if copy is not None and result is not object:
            raise ValueError(f"copy=False of an array of {object.dtype} that has to be copied; use copy=None, or asarray")
    else:
        order = _known(object, order)
        value = object if _of_numbers(object) else core(object)
        if local.depth and value is not object:
            require_both_parts(value, dtype)
        if isinstance(value, Tracer):
            value = _in_order(value if dtype is None or value.dtype == np.dtype(dtype) else convert(value, dtype=np.dtype(dtype)), order)
            result = Array(duplicate(value), owned=True)
        else:
            result = fresh(np.array(value, dtype, order=order))
    return result.reshape((1,) * (ndmin - result.ndim) + tuple(result.shape)) if ndmin > result.ndim else result


def _of_numbers(x: Any) -> bool:
    """True if a list holds real numbers and texts only, of which NumPy makes the array of a wanted type without rounding twice."""
    return isinstance(x, (list, tuple)) and all(type(part) in (int, float, bool, str, bytes) or _of_numbers(part) for part in x)


def _in_order(value: Any, order: Order) -> Any:
    """A core value in one of NumPy's orders in memory."""
    return value if order == "K" else st.compact(value, tuple(range(value.ndim))[:: -1 if order == "F" else 1])


def _known(x: Any, order: Order) -> Order:
    """The order that "A" means: columns if `x` lies in columns, else rows."""
    return order if order != "A" else "F" if isinstance(x, (Array, np.ndarray)) and layout_of(x).flags.fnc else "C"


def _fitting(a: Array, dtype: Any, order: Order) -> Array:
    """An array itself if it is of a type and in an order, else a copy that is."""
    flags = a._layout().flags
    fits = flags.c_contiguous if order == "C" else flags.f_contiguous if order == "F" else True
    if fits and (dtype is None or a.dtype == np.dtype(dtype)):
        return a
    return array(a, dtype, order="K" if order == "A" else order)


@rehearsed(np.asarray)
def asarray(a: Any, dtype: Any = None, order: Order = "K", *, copy: bool | None = None) -> Any:
    """`a` as an array; an `Array` comes back itself."""
    if copy or (isinstance(a, Array) and a._scalar):  # a number is not an array that could be shared
        return array(a, dtype, order=order)
    if isinstance(a, Array):
        return a if dtype is None and order == "K" else _fitting(a, dtype, order)
    if isinstance(a, np.ndarray) and not local.depth:
        return np.asarray(a, dtype, order)
    value, order = a if _of_numbers(a) else core(a), _known(a, order)
    if local.depth and value is not a:
        require_both_parts(value, dtype)
    if isinstance(value, Tracer):
        return wrap(_in_order(value if dtype is None else convert(value, dtype=np.dtype(dtype)), order))
    result = np.asarray(value, dtype, order)
    return borrowed(a) if result is value and isinstance(a, np.ndarray) and local.depth else wrap(result)


asanyarray = asarray


@rehearsed(np.ascontiguousarray)
def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    """`a` as an array with one axis at least, the last one innermost in memory; itself if it is one."""
    result = asarray(a, dtype, "C")
    return result if result.ndim else result.reshape(1)


@rehearsed(np.asfortranarray)
def asfortranarray(a: Any, dtype: Any = None) -> Any:
    """`a` as an array with the first axis innermost in memory; itself if it is one."""
    result = asarray(a, dtype, "F")
    return result if result.ndim else result.reshape(1)


def _lengths(shape: Any) -> tuple[int, ...]:
    lengths = plain(shape)
    return tuple(map(operator.index, lengths)) if np.ndim(lengths) else (operator.index(lengths),)


@rehearsed(np.zeros)
def zeros(shape: Any, dtype: Any = None, order: NewOrder = "C") -> Any:
    """An array of zeros."""
    return fresh(np.zeros(_lengths(shape), dtype, order))


@rehearsed(np.ones)
def ones(shape: Any, dtype: Any = None, order: NewOrder = "C") -> Any:
    """An array of ones."""
    return fresh(np.ones(_lengths(shape), dtype, order))


@rehearsed(np.empty)
def empty(shape: Any, dtype: Any = None, order: NewOrder = "C") -> Any:
    """An array to be filled: it holds zeros, so that entries read before their assignment are defined."""
    return zeros(shape, dtype, order)


@rehearsed(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: NewOrder = "C") -> Any:
    """An array of equal values."""
    value = core(fill_value)
    if local.depth:
        require_both_parts(value, dtype)
    if not isinstance(value, Tracer):
        return fresh(np.full(_lengths(shape), value, dtype, order))
    result = zeros(shape, dtype or value.dtype, order)
    result[...] = fill_value
    return result


@rehearsed(np.zeros_like)
def zeros_like(a: Any, dtype: Any = None, order: Order = "K", *, shape: Any = None) -> Any:
    """Zeros in the shape, type and order in memory of `a`."""
    return fresh(np.zeros_like(np.asarray(laid_out(core(a))), dtype, _known(a, order), shape=None if shape is None else _lengths(shape)))


@rehearsed(np.empty_like)
def empty_like(prototype: Any, dtype: Any = None, order: Order = "K", *, shape: Any = None) -> Any:
    """Zeros, to be filled, in the shape, type and order in memory of `prototype`."""
    return zeros_like(prototype, dtype, order, shape=shape)


@rehearsed(np.ones_like)
def ones_like(a: Any, dtype: Any = None, order: Order = "K", *, shape: Any = None) -> Any:
    """Ones in the shape, type and order in memory of `a`."""
    return full_like(a, 1, dtype, order, shape=shape)


@rehearsed(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: Order = "K", *, shape: Any = None) -> Any:
    """Equal values in the shape, type and order in memory of `a`."""
    lengths = None if shape is None else _lengths(shape)
    result = fresh(np.zeros_like(np.asarray(laid_out(core(a))), dtype, _known(a, order), shape=lengths))
    result[...] = fill_value
    return result


@rehearsed(np.copy)
def copy(a: Any, order: Order = "K") -> Any:
    """A new array with the values of `a`."""
    return array(a, order=order)


@rehearsed(np.arange)
def arange(start_or_stop: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """Evenly spaced numbers from a start (0 if only a stop is given) up to `stop`, differentiable in start and step."""
    first, last = (0, start_or_stop) if stop is None else (start_or_stop, stop)
    values = [core(v) for v in (first, last, step)]
    result = np.arange(*map(bottom, values), dtype=dtype)
    if is_plain(values[0], values[2]) or result.dtype.kind not in "fc":
        return fresh(result)
    return wrap(convert(values[0] + np.arange(len(result), dtype=result.dtype) * values[2], dtype=result.dtype))


def _made_by(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy that makes arrays of plain numbers."""
    values = of_values(function)

    def make(*args: Any, **kwargs: Any) -> Any:
        result = values(*args, **kwargs)
        return tuple(fresh(plain(m)) for m in result) if isinstance(result, tuple) else fresh(plain(result))

    make.__name__ = make.__qualname__ = function.__name__
    make.__doc__ = f"As `numpy.{function.__name__}`; its arguments are plain numbers."
    return make


eye, identity, tri, indices = _made_by(np.eye), _made_by(np.identity), _made_by(np.tri), _made_by(np.indices)
hanning, hamming, blackman, bartlett = _made_by(np.hanning), _made_by(np.hamming), _made_by(np.blackman), _made_by(np.bartlett)


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, like: None = None, **kwargs: Any) -> Any:
    """`function` of the arrays of indices."""
    if like is not None:
        raise DerivativeError("fromfunction inside of a derivative takes no like=; the arrays of indices are NumPy's")
    return function(*(fresh(i) for i in np.indices(shape, dtype=dtype)), **kwargs)
