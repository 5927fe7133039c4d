"""Reading and assigning entries by position or condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, wrap
from diffsim.ad.core import is_known
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.places import within
from diffsim.ad.ops.reduction import pick
from diffsim.base.messages import shown
from diffsim.numpy.calling.dispatch import as_array, as_copied, in_rows, one_axis, outside, places_of, plain, value_of
from diffsim.numpy.decisions import result_type
from diffsim.numpy.elementwise import where
from diffsim.numpy.shapes.creation import asarray, zeros
from diffsim.numpy.shapes.joining import stack
from diffsim.numpy.shapes.shaping import broadcast_to, ravel, shape


def _placed(indices: Any, length: int, mode: str) -> Any:
    """Positions as they are, or brought within bounds."""
    places = places_of(indices)
    places = places.astype(np.intp) if places.dtype == bool or not places.size else places
    match mode:
        case "raise":
            return places
        case "clip":
            return np.clip(places, 0, length - 1)
        case "wrap":
            return places % length
    raise ValueError(f"mode = {shown(mode)}, expected 'raise', 'clip' or 'wrap'")


@outside(np)
def take(a: Any, indices: Any, axis: int | None = None, *, mode: str = "raise") -> Any:
    """Entries (or slices along an axis) at positions. An index out of bounds raises, unless mode is "clip" or "wrap"."""
    a = ravel(a) if axis is None else asarray(a)
    axis = 0 if axis is None else one_axis(axis, a.ndim)
    return in_rows(a[(slice(None),) * axis + (_placed(indices, a.shape[axis], mode),)])


@outside(np)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """Entries at positions along an axis, one list of positions for each line."""
    value = value_of(ravel(arr) if axis is None else arr)
    places = places_of(indices)
    axis = 0 if axis is None else one_axis(axis, value.ndim)
    if places.ndim != value.ndim:
        raise ValueError(f"indices have {places.ndim} axes, expected those of the array, {value.ndim}")
    lengths = list(np.broadcast_shapes((*value.shape[:axis], 1, *value.shape[axis + 1 :]), places.shape))
    lengths[axis] = places.shape[axis]
    full = (*lengths[:axis], value.shape[axis], *lengths[axis + 1 :])
    value = value if value.shape == full else st.broadcast_to(value, shape=full)
    if not is_known(places):
        places = within(places, length=value.shape[axis])
    return wrap(pick(value, np.broadcast_to(places, lengths), axis))


# assignment


@outside(np)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """Assign at positions along an axis, one list of positions for each line (axis None: of all entries)."""
    places = places_of(indices)
    if axis is None:
        arr[np.unravel_index(np.where(places < 0, places + arr.size, places), arr.shape)] = values
        return
    axis = one_axis(axis, arr.ndim)
    index = list(np.ix_(*map(np.arange, arr.shape)))  # a list of one line counts for all of them
    index[axis] = places
    arr[tuple(index)] = values


def _cycled(values: Any, places: np.ndarray) -> Any:
    """All entries of `values` in their order, at these positions, over and over."""
    flat = ravel(values)
    return flat[places % max(flat.shape[0], 1)]


@outside(np)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Assign at positions of the flattened array."""
    places = np.atleast_1d(_placed(ind, a.size, mode)).ravel()
    if not np.size(plain(v)):
        return
    if not a.ndim:  # which has one entry and no axis to count along
        for value in _cycled(v, np.arange(places.size))[-1:]:
            a[()] = value
        return
    a[np.unravel_index(np.where(places < 0, places + a.size, places), a.shape)] = _cycled(v, np.arange(places.size))


@outside(np)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Assign the first values where a mask holds."""
    chosen = np.asarray(plain(mask), bool).reshape(arr.shape)
    arr[chosen] = _cycled(vals, np.arange(int(chosen.sum())))


@outside(np)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Assign corresponding values where a mask holds."""
    chosen = np.asarray(plain(mask), bool).reshape(a.shape)
    if not np.size(plain(values)):
        return
    a[chosen] = _cycled(values, np.flatnonzero(chosen))


@outside(np)
def fill_diagonal(a: Any, val: Any) -> None:
    """Assign to the diagonal."""
    places = np.arange(min(a.shape))
    a[(places,) * a.ndim] = _cycled(val, places)


@outside(np)
def copyto(dst: Any, src: Any, *, where: Any = True) -> None:
    """Assign all entries, or those where a condition holds."""
    if where is True:
        dst[...] = src
    else:
        chosen = np.broadcast_to(np.asarray(plain(where), bool), dst.shape)
        dst[chosen] = broadcast_to(src, dst.shape)[chosen]


# choice


@outside(np)
def compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    """Slices where a condition holds."""
    return take(a, np.flatnonzero(plain(condition)), axis)


@outside(np)
def extract(condition: Any, arr: Any) -> Any:
    """Entries where a condition holds."""
    return take(arr, np.flatnonzero(plain(condition)))


@outside(np)
def choose(a: Any, choices: Any, *, mode: str = "raise") -> Any:
    """For each entry the value of the choice that `a` names."""
    places = _placed(a, len(choices), mode)
    if np.any((places < 0) | (places >= len(choices))):
        raise ValueError(f"an index of choose is out of bounds for {len(choices)} choices; see mode='clip' or 'wrap'")
    target = np.broadcast_shapes(places.shape, *map(shape, choices))
    dtype = np.result_type(*(c if type(c) in (int, float, complex) else value_of(c).dtype for c in choices))
    stacked = stack([broadcast_to(c if isinstance(c, Array) else np.asarray(c, dtype), target) for c in choices])
    return in_rows(take_along_axis(stacked, np.broadcast_to(places, target)[None], 0)[0])


@outside(np)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """For each entry the first choice whose condition holds."""
    values = [*choicelist, default]
    dtype = np.result_type(*(v if type(v) in (int, float, complex) else value_of(v).dtype for v in values))
    chosen = default
    for condition, choice in zip(reversed(list(condlist)), reversed(list(choicelist)), strict=True):
        chosen = where(condition, choice, chosen)
    chosen = value_of(chosen)
    return as_array(in_rows(wrap(chosen if chosen.dtype == dtype else st.astype(chosen, dtype=dtype))))


@outside(np, calls=True)
def piecewise(x: Any, condlist: Any, funclist: list[Any], *args: Any, **kw: Any) -> Any:
    """Functions, each of the entries where its condition holds; a further one for the rest."""
    x = asarray(x)
    several = isinstance(condlist, (list, tuple)) or np.ndim(plain(condlist))
    if not several or (
        x.ndim and not (isinstance(condlist[0], (list, np.ndarray)) or (isinstance(condlist[0], Array) and condlist[0].ndim > 0))
    ):
        condlist = [condlist]  # one condition
    conditions = list(np.asarray([plain(c) for c in condlist], bool))
    if len(funclist) == len(conditions) + 1:
        conditions.append(~np.any(conditions, axis=0))
    if len(funclist) != len(conditions):
        raise ValueError(f"{len(funclist)} functions for {len(conditions)} conditions, expected as many or one more")
    result = zeros(x.shape, result_type(x))
    for condition, function in zip(conditions, funclist, strict=True):
        if not isinstance(function, Callable):  # type: ignore[arg-type]
            result[condition] = function
        elif (chosen := x[condition]).size:
            result[condition] = function(chosen, *args, **kw)
    return as_array(as_copied(result, x))


@outside(np)
def ndenumerate(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Indices with entries."""
    arr = asarray(arr)
    return ((index, arr[index]) for index in np.ndindex(*arr.shape))
