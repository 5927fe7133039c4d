"""Indices as data: in one form, put one after another, and which of several writes to an entry stays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from diffsim.ad.arrays.guard import is_constant
from diffsim.ad.core import Tracer

Index = tuple[Any, ...]
_PLAIN = {int, type(None)}
"""Types of the bounds of a slice that stay as they are."""


def normalise(index: Any, plain: Callable[[Any], Any]) -> tuple[Index, bool]:
    """An index as a tuple of plain parts, and a flag if it makes a view: integers, slices, ... and newaxis only.

    Args:
        index: whatever stands between the brackets.
        plain: takes a part of any other type; an array of diffsim becomes NumPy's.
    """
    basic, parts = True, []
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, slice):
            bounds = part.start, part.stop, part.step
            if not _PLAIN.issuperset(map(type, bounds)):
                part = slice(*(None if b is None else operator.index(b) for b in bounds))
        elif part is not None and part is not Ellipsis and not isinstance(part, (int, np.integer)):
            part = plain(part)
        if isinstance(part, (list, tuple, range, np.ndarray, np.bool_)):
            if not is_constant(part):
                part = np.array(part)  # a copy: the tape keeps it
            if not part.size and part.dtype.kind == "f":
                part = part.astype(np.intp)  # an empty list
        if isinstance(part, (np.ndarray, bool, Tracer)):
            basic = False
        parts.append(part)
    return tuple(parts), basic


def compose(shape: tuple[int, ...], first: Index, second: Index) -> Index | None:
    """The one basic index of an array of `shape` that is `first` followed by `second`.

    None where there is none: an empty slice of an axis that `first` added.
    """
    before = _expanded(shape, first)
    kept = [part for part in before if not isinstance(part, int)]
    out: list[Any] = []
    rest = iter(before)
    for part in _expanded(tuple(1 if k is None else len(k) for k in kept), second):
        if part is None:
            out.append(None)
            continue
        axis = next(rest)
        while isinstance(axis, int):
            out.append(axis)
            axis = next(rest)
        if axis is not None:
            out.append(axis[part] if isinstance(part, int) else _slice(axis[_slice(part)]))
        elif not isinstance(part, int):
            if not part:
                return None
            out.append(None)
    out += [axis for axis in rest if isinstance(axis, int)]
    return (*out, Ellipsis) if Ellipsis in second else tuple(out)


def _expanded(shape: tuple[int, ...], index: Index) -> list[Any]:
    """A basic index with a part for every axis: a number, the range of the read entries, or None for a new axis."""
    named = sum(part is not None and part is not Ellipsis for part in index)
    if named > len(shape):
        raise IndexError(f"{named} indices were given for an array with {len(shape)} axes; drop the last ones")
    whole = [slice(None)] * (len(shape) - named)
    if Ellipsis in index:
        at = index.index(Ellipsis)
        index = (*index[:at], *whole, *index[at + 1 :])
    else:
        index = (*index, *whole)
    lengths = iter(shape)
    return [part if part is None else _of_axis(part, next(lengths)) for part in index]


def _of_axis(part: Any, length: int) -> Any:
    if isinstance(part, slice):
        return range(length)[part]
    if not -length <= part < length:
        raise IndexError(f"index {part} is out of bounds for an axis of length {length}")
    return int(part) % length


def _slice(entries: range) -> slice:
    """The slice that reads these entries; a range that runs down to 0 stops before it."""
    if not entries:
        return slice(0, 0)
    return slice(entries.start, entries.stop if entries.stop >= 0 else None, entries.step)


def same(a: Index, b: Index) -> bool:
    """True if two indices are written alike. Those with arrays never are."""
    return len(a) == len(b) and all(type(p) is type(q) and not isinstance(p, np.ndarray) and p == q for p, q in zip(a, b, strict=True))


def last_writes(index: Index, shape: tuple[int, ...]) -> np.ndarray | None:
    """None if an assignment writes each entry once, else 1 where a written value stays and 0 where a later one overwrites it."""
    arrays = [i for i in index if isinstance(i, np.ndarray)]
    if all(i.dtype == bool for i in arrays):
        return None
    if len(index) == 1 and len(np.unique(arrays[0] % max(shape[0], 1))) == arrays[0].size:
        return None
    places = np.arange(math.prod(shape)).reshape(shape)[index]
    flat = places.ravel()
    writers = np.empty(math.prod(shape), np.intp)
    writers[flat] = np.arange(flat.size)
    stays = writers[flat] == np.arange(flat.size)
    return None if stays.all() else stays.reshape(places.shape).astype(float)
