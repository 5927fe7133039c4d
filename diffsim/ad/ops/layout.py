"""Where the entries of an array lie in memory. That decides if NumPy makes a view, and in which order a result is laid out.

The values inside of arrays are laid out as NumPy would lay them out, so that its functions, called on them, decide as they do outside.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from diffsim.base import buffers

_HAS_COPY_FLAG = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def blank(shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...]) -> np.ndarray:
    """The layout of an array. Its entries must not be touched: there are none."""
    return np.lib.stride_tricks.as_strided(np.empty((), dtype), shape, strides, writeable=False)


def reshaped(layout: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The layout of a view of another shape; None where NumPy has to copy."""
    try:
        if _HAS_COPY_FLAG:
            return layout.reshape(shape, copy=False)
        view = layout.view()
        view.shape = shape  # this never copies
    except (ValueError, AttributeError):
        return None
    return view


def snapshot(array: np.ndarray) -> np.ndarray:
    """A copy with the axes in the same order in memory; an axis along which the array is broadcast stays broadcast."""
    if 0 not in array.strides:
        return buffers.copy(array)
    return np.broadcast_to(np.array(array[once(array)]), array.shape)


def once(array: np.ndarray) -> tuple[slice, ...]:
    """The index that reads the memory of a broadcast array once."""
    return tuple([slice(0, 1) if s == 0 else slice(None) for s in array.strides])


def repeated(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The same as `numpy.broadcast_to`, for a number in a third of the time."""
    number = np.asarray(x)
    if number.ndim:
        return np.broadcast_to(number, shape)
    view: np.ndarray = np.ndarray(shape, number.dtype, number, 0, (0,) * len(shape))
    view.flags.writeable = False
    return view


Order = Literal["K", "A", "C", "F"]
"""NumPy's names of orders in memory: as the argument, as it or rows, rows, columns."""
NewOrder = Literal["C", "F"]
Axes = tuple[int, ...]
"""The axes of an array from the one with the largest step in memory to the one with the smallest."""


def axes_in_memory(array: np.ndarray) -> Axes:
    """The order that a copy of an array has (order "K")."""
    return tuple(sorted(range(array.ndim), key=lambda k: -abs(array.strides[k])))


def axes_of_result(*arrays: np.ndarray) -> Axes:
    """The order in which a universal function of these arrays lays out its result."""
    if all(a.flags.c_contiguous for a in arrays):
        return tuple(range(max(a.ndim for a in arrays)))
    flags: Any = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
    return axes_in_memory(np.nditer([*arrays, None], ["zerosize_ok"], flags).operands[-1])


def is_compact(array: np.ndarray, axes: Axes) -> bool:
    """True if the entries lie side by side, with the axes in this order."""
    return array.transpose(axes).flags.c_contiguous


def compact(array: np.ndarray, axes: Axes) -> np.ndarray:
    """The entries side by side, with the axes in this order; the array itself where they are."""
    if is_compact(array, axes):
        return array
    packed = np.ascontiguousarray(array.transpose(axes))
    return packed.transpose(np.argsort(axes))
