"""Reading entries by position, and finding positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from diffsim.ad.array import Array, core, wrap
from diffsim.ad.core import bottom
from diffsim.ad.ops.reduction import pick
from diffsim.numpy.creation import asarray
from diffsim.numpy.shaping import ravel

ndindex = np.ndindex


def _values(x: Any) -> Any:
    """Plain values, that decide and are not differentiated."""
    return bottom(core(x))


def take(x: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    """Entries (or slices along an axis) at positions. An index out of bounds raises, unless mode is "clip" or "wrap"."""
    x = ravel(x) if axis is None else asarray(x)
    axis = 0 if axis is None else axis % x.ndim
    places = np.asarray(_values(indices))
    n = x.shape[axis]
    if mode == "clip":
        places = np.clip(places, 0, n - 1)
    elif mode == "wrap":
        places = places % n
    return x[(slice(None),) * axis + (places,)]


def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Any:
    """Entries at positions along an axis, one list of positions for each line."""
    value = core(ravel(x) if axis is None else x)
    places = np.asarray(_values(indices))
    axis = 0 if axis is None else axis % value.ndim
    if places.ndim != value.ndim:
        raise ValueError(f"indices have {places.ndim} axes, expected those of the array, {value.ndim}")
    shape = list(np.broadcast_shapes(value.shape[:axis] + (1,) + value.shape[axis + 1 :], places.shape))
    shape[axis] = places.shape[axis]
    return wrap(pick(value, np.broadcast_to(places, shape), axis))


def put_along_axis(x: Array, indices: Any, values: Any, axis: int) -> None:
    """Assign at positions along an axis, one list of positions for each line."""
    places = np.asarray(_values(indices))
    axis %= x.ndim
    index = list(np.ix_(*(np.arange(n) for n in places.shape)))
    index[axis] = places
    x[tuple(index)] = values


def put(x: Array, indices: Any, values: Any) -> None:
    """Assign at positions of the flattened array."""
    places = np.unravel_index(np.asarray(_values(indices)), x.shape)
    x[places] = values


def place(x: Array, mask: Any, values: Any) -> None:
    """Assign the first values where a mask holds."""
    chosen = np.asarray(_values(mask), bool)
    count = int(chosen.sum())
    flat = ravel(values)
    x[chosen] = flat[np.arange(count) % max(flat.shape[0], 1)]


def putmask(x: Array, mask: Any, values: Any) -> None:
    """Assign corresponding values where a mask holds."""
    chosen = np.asarray(_values(mask), bool)
    x[chosen] = values if np.ndim(bottom(core(values))) == 0 else asarray(values)[chosen]


def fill_diagonal(x: Array, value: Any) -> None:
    """Assign to the diagonal."""
    places = np.arange(min(x.shape))
    x[(places,) * x.ndim] = value


def compress(condition: Any, x: Any, axis: int | None = None) -> Any:
    """Slices where a condition holds."""
    return take(x, np.flatnonzero(_values(condition)), axis)


def extract(condition: Any, x: Any) -> Any:
    """Entries where a condition holds."""
    return compress(ravel(condition), x)


def choose(index: Any, choices: Any) -> Any:
    """For each entry the value of the choice that `index` names."""
    from diffsim.numpy.shaping import broadcast_arrays, stack

    places = np.asarray(_values(index))
    stacked = stack(broadcast_arrays(*choices, np.zeros(places.shape))[:-1])
    shape = np.broadcast_shapes(places.shape, stacked.shape[1:])
    return take_along_axis(stacked, np.broadcast_to(places, shape)[None], 0)[0]


def select(conditions: Any, choices: Any, default: Any = 0.0) -> Any:
    """For each entry the first choice whose condition holds."""
    from diffsim.numpy.elementwise import where

    found = default
    for condition, choice in zip(reversed(list(conditions)), reversed(list(choices)), strict=True):
        found = where(condition, choice, found)
    return found


def piecewise(x: Any, conditions: Any, functions: list[Any]) -> Any:
    """Functions applied where their condition holds; a further one where none does."""
    from diffsim.numpy.elementwise import where

    conditions = [np.asarray(_values(c)) for c in conditions]
    values = [f(x) if callable(f) else f for f in functions]
    found = values[len(conditions)] if len(values) > len(conditions) else 0.0
    for condition, value in zip(conditions, values, strict=False):
        found = where(condition, value, found)
    return found


def ndenumerate(x: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Indices with entries."""
    x = asarray(x)
    for index in np.ndindex(*x.shape):
        yield index, x[index]


def _of_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function whose result has no derivative, of the values alone."""

    def find(*args: Any, **kwargs: Any) -> Any:
        plain = [_values(a) if isinstance(a, (Array, list, tuple)) else a for a in args]
        found = function(*plain, **{key: _values(v) if isinstance(v, Array) else v for key, v in kwargs.items()})
        return tuple(map(wrap, found)) if isinstance(found, tuple) else wrap(found)

    find.__name__ = find.__qualname__ = function.__name__
    find.__doc__ = f"As `numpy.{function.__name__}`; it has no derivative."
    return find


nonzero, flatnonzero, argwhere, count_nonzero = (_of_values(f) for f in (np.nonzero, np.flatnonzero, np.argwhere, np.count_nonzero))
argmax, argmin, nanargmax, nanargmin = (_of_values(f) for f in (np.argmax, np.argmin, np.nanargmax, np.nanargmin))
searchsorted, digitize, bincount_values, lexsort = (_of_values(f) for f in (np.searchsorted, np.digitize, np.bincount, np.lexsort))
unravel_index, isin = _of_values(np.unravel_index), _of_values(np.isin)
tril_indices, triu_indices, diag_indices = (_of_values(f) for f in (np.tril_indices, np.triu_indices, np.diag_indices))
array_equal, allclose = _of_values(np.array_equal), _of_values(np.allclose)
ix_ = np.ix_


def argsort(x: Any, axis: int | None = -1, kind: Any = None, descending: bool = False, stable: bool = True) -> Any:
    """Positions that sort an array, equal entries in their order."""
    values = _values(x)
    return wrap(np.argsort(-values if descending else values, axis=axis, kind="stable"))
