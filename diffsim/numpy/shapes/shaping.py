"""Changing the shape, the order of axes and the type of arrays; views where NumPy makes them."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, core, wrap
from diffsim.ad.arrays.guard import require_both_parts
from diffsim.ad.arrays.refusals import refusing
from diffsim.ad.arrays.views import ReadOnlyView
from diffsim.ad.core import Tracer, local
from diffsim.ad.ops import structure as st
from diffsim.numpy.calling.dispatch import as_array, axes_of, one_axis, outside, plain, value_of
from diffsim.numpy.calling.rehearsal import rehearsed
from diffsim.numpy.shapes.creation import asarray


def shape(a: Any) -> tuple[int, ...]:
    """Lengths of the axes."""
    return np.shape(plain(a))


def ndim(a: Any) -> int:
    """Number of axes."""
    return len(shape(a))


@rehearsed(np.size)
def size(a: Any, axis: Any = None) -> int:
    """Number of entries, or the length of axes."""
    lengths = shape(a)
    return math.prod(lengths[k] for k in axes_of(axis, len(lengths)))


@outside(np)
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """The entries in another shape, in row-major order or (order "F") in column-major order."""
    a = asarray(a)
    lengths = tuple(operator.index(n) for n in shape) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    if not copy:
        result = a.reshape(lengths, order=order)
        if copy is not None and isinstance(result, Array) and result._base is None:
            raise ValueError(f"reshape of {a.shape} to {lengths} with copy=False has to copy; use copy=None")
        return result
    return a.copy(order).reshape(lengths, order=order)


@outside(np)
def ravel(a: Any, order: str = "C") -> Any:
    """All entries along one axis."""
    return asarray(a).ravel(order)


@outside(np)
def transpose(a: Any, axes: Any = None) -> Any:
    """A view with the axes in another order, reversed by default; a number itself."""
    if isinstance(a, np.generic) or (isinstance(a, Array) and a._scalar):
        return a
    a = asarray(a)
    if axes is None:
        return a.transpose()
    order = axes_of(tuple(axes), a.ndim)
    if len(order) != a.ndim:
        raise ValueError(f"axes = {tuple(axes)} do not match an array of {a.ndim} axes; name each axis once")
    return a.transpose(order)


permute_dims = transpose


@outside(np)
def matrix_transpose(x: Any) -> Any:
    """A view with the last two axes swapped."""
    if ndim(x) < 2:
        raise ValueError(f"matrix_transpose of an array with {ndim(x)} axes, expected two at least")
    return swapaxes(x, -1, -2)


@outside(np)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """A view with two axes swapped."""
    a = asarray(a)
    i, j = one_axis(axis1, a.ndim), one_axis(axis2, a.ndim)
    order = list(range(a.ndim))
    order[i], order[j] = j, i
    return a.transpose(order)


@outside(np)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """A view with axes moved to other places."""
    a = asarray(a)
    sources, places = axes_of(source, a.ndim), axes_of(destination, a.ndim)
    if len(sources) != len(places):
        raise ValueError(f"{len(sources)} axes are moved to {len(places)} places, expected as many")
    order = [k for k in range(a.ndim) if k not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return a.transpose(order)


@outside(np)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """A view with an axis moved before another."""
    rank = ndim(a)
    axis = one_axis(axis, rank)
    before = start + rank if start < 0 else start
    return moveaxis(a, axis, before - 1 if axis < before else before)


@outside(np)
def expand_dims(a: Any, axis: Any) -> Any:
    """A view with new axes of length 1."""
    a = asarray(a)
    rank = a.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1)
    new = axes_of(axis, rank)
    return a[(*(None if k in new else slice(None) for k in range(rank)), ...)]


@outside(np)
def squeeze(a: Any, axis: Any = None) -> Any:
    """A view without axes of length 1; a number itself."""
    if isinstance(a, np.generic) or (isinstance(a, Array) and a._scalar):
        return a  # NumPy's numbers take any axis of theirs
    a = asarray(a)
    axes = [k for k, n in enumerate(a.shape) if n == 1] if axis is None else axes_of(axis, a.ndim)
    if any(a.shape[k] != 1 for k in axes):
        raise ValueError(f"axes {tuple(axes)} of an array of shape {a.shape} cannot be squeezed out, expected length 1")
    return a[(*(0 if k in axes else slice(None) for k in range(a.ndim)), ...)]


@outside(np)
def broadcast_to(array: Any, shape: Any) -> Any:
    """The entries repeated to a shape; a view that cannot be assigned to."""
    target = tuple(shape) if np.ndim(shape) else (operator.index(shape),)
    if isinstance(array, np.ndarray):
        array = asarray(array)
    if isinstance(array, Array):
        return array.linked(ReadOnlyView(lambda c: st.broadcast_to(c, shape=target), lambda layout: np.broadcast_to(layout, target)))
    return wrap(st.broadcast_to(value_of(array), shape=target))


@outside(np)
def broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    """All arrays broadcast to one shape."""
    target = np.broadcast_shapes(*map(shape, args))
    if all(shape(x) == target for x in args):
        return tuple(map(asarray, args))
    return tuple(broadcast_to(x, target) for x in args)


broadcast_shapes = refusing("numpy.broadcast_shapes")(np.broadcast_shapes)


def _each(arrays: tuple[Any, ...], raised: Any) -> Any:
    out = tuple(raised(asarray(a)) for a in arrays)
    return out[0] if len(out) == 1 else out


@outside(np)
def atleast_1d(*arys: Any) -> Any:
    """Arrays with one axis at least."""
    return _each(arys, lambda a: a if a.ndim else a.reshape(1))


@outside(np)
def atleast_2d(*arys: Any) -> Any:
    """Arrays with two axes at least, new ones first."""
    return _each(arys, lambda a: a if a.ndim > 1 else a[(None,) * (2 - a.ndim) + (...,)])


@outside(np)
def atleast_3d(*arys: Any) -> Any:
    """Arrays with three axes at least."""
    index: list[Any] = [(None, None, None, ...), (None, slice(None), None), (slice(None), slice(None), None)]
    return _each(arys, lambda a: a if a.ndim > 2 else a[index[a.ndim]])


@rehearsed(np.astype)
def astype(x: Any, dtype: Any, *, copy: bool = True) -> Any:
    """`x` in another type; converting to integers ends the derivative. With copy=False `x` itself if it is of that type."""
    if not copy:
        return asarray(x, dtype)
    value = core(x)
    if local.depth:
        require_both_parts(value, dtype)
    if isinstance(value, Tracer):
        result = st.astype(value, dtype=np.dtype(dtype))
        return as_array(result) if isinstance(x, Array) and not x._scalar else wrap(result)
    return wrap(np.asarray(value).astype(dtype)[()] if np.ndim(value) == 0 and not isinstance(value, np.ndarray) else value.astype(dtype))
