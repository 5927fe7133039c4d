"""Indices that are values of the program themselves: reading and writing at positions known only when a kernel runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffsim.ad.arrays.indices import Index
from diffsim.ad.arrays.masked import Masked
from diffsim.ad.core import Tracer, require_not_recording
from diffsim.ad.ops import places as pl
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.elementwise import where
from diffsim.errors import TileError


def is_computed(index: Index) -> bool:
    """True if a part of an index is a value of the program."""
    return any(isinstance(part, Tracer) for part in index)


def read(x: Any, index: Index) -> Any:
    """The entries of a core value at an index."""
    mask = _mask(index, x)
    if mask is not None:
        return Masked(x, mask)
    return pl.take(_vector(x), _positions(x.shape, index))


def written(x: Any, index: Index, value: Any) -> Any:
    """A core value with others at an index."""
    mask = _mask(index, x)
    if mask is not None:
        if isinstance(value, Masked):
            value = value.of(mask)
        elif getattr(value, "size", 1) != 1 and value.shape != x.shape[mask.ndim :]:
            raise TileError(
                f"x[mask] = an array of shape {value.shape}, expected a number or one value for each entry; write x[:] = where(mask, a, x)"
            )
        mask = st.reshape(mask, shape=(*mask.shape, *(1,) * (x.ndim - mask.ndim)))
        return st.like(where(mask, value, x), x)
    places = _positions(x.shape, index)
    value = _spread(value, places.shape, x.dtype)
    return st.reshape(pl.put(_vector(x), places, value), shape=x.shape)


def added(x: Any, index: Index, value: Any) -> Any:
    """A core value with others added at an index, as often as an entry is named."""
    places = _positions(x.shape, index)
    return st.reshape(pl.add_at(_vector(x), places, _spread(value, places.shape, x.dtype)), shape=x.shape)


def _vector(x: Any) -> Any:
    return st.reshape(x, shape=(-1,))


def _spread(value: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    value = value if hasattr(value, "dtype") else np.asarray(value, dtype)
    value = value if value.dtype == dtype else st.astype(value, dtype=dtype)
    return value if value.shape == shape else st.broadcast_to(value, shape=shape)


def _mask(index: Index, x: Any) -> Any:
    if any(isinstance(part, Tracer) and part.dtype == bool for part in index):
        require_not_recording("x[mask]")
    mask = index[0] if len(index) == 1 and isinstance(index[0], Tracer) and index[0].dtype == bool else None
    return mask if mask is not None and mask.shape == x.shape[: mask.ndim] else None


def _positions(shape: tuple[int, ...], index: Index) -> Any:
    """Positions of the entries of an index among all entries.

    A position is a sum over axes. The contribution of the known parts is read from an array of positions, in which each computed part is
    replaced by 0. Each computed part adds its own positions times the distance of its axis; which of them belongs to which entry of the
    result is read from an array of coordinates along that axis.
    """
    if any(isinstance(part, Tracer) and part.dtype == bool for part in index):
        raise TileError("a mask together with other indices differs from tile to tile, expected positions; write where(mask, a, b)")
    axes = _axes(shape, index)
    known = tuple(np.zeros(part.shape, np.intp) if isinstance(part, Tracer) else part for part in index)
    total: Any = np.arange(math.prod(shape)).reshape(shape)[known]
    for number, part in enumerate(index):
        if not isinstance(part, Tracer):
            continue
        axis = axes[number]
        count = math.prod(part.shape)
        lengths = (*shape[:axis], max(count, 1), *shape[axis + 1 :])
        along = np.broadcast_to(np.arange(max(count, 1)).reshape(-1, *(1,) * (len(shape) - axis - 1)), lengths)
        turned = tuple(np.arange(count).reshape(part.shape) if k == number else known[k] for k in range(len(index)))
        place = pl.within(part, length=shape[axis])
        spread = st.getitem(_vector(place), index=(along[turned],))
        total = total + spread * math.prod(shape[axis + 1 :])
    return total


def _is_mask(part: Any) -> bool:
    return getattr(part, "dtype", None) == np.dtype(bool)


def _axes(shape: tuple[int, ...], index: Index) -> list[int]:
    """The axis of the array that each part of an index belongs to."""
    named = sum(_axes_named(part) for part in index)
    if named > len(shape):
        raise IndexError(f"{named} indices were given for an array with {len(shape)} axes; drop the last ones")
    axes, axis = [], 0
    for part in index:
        axes.append(axis)
        if part is Ellipsis:
            axis += len(shape) - named
        elif part is not None:
            axis += _axes_named(part)
    return axes


def _axes_named(part: Any) -> int:
    """How many axes a part of an index belongs to: a mask belongs to all of its own."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if _is_mask(part) else 1
