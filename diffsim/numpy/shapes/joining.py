"""Arrays from several arrays, several arrays from one, and entries moved about."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import wrap
from diffsim.ad.arrays.guard import require_both_parts
from diffsim.ad.core import Tracer
from diffsim.ad.ops import structure as st
from diffsim.numpy.calling.dispatch import as_copied, axes_of, in_order, in_rows, layout_of, one_axis, outside, plain, value_of
from diffsim.numpy.shapes.creation import asarray
from diffsim.numpy.shapes.shaping import (
    astype,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_to,
    expand_dims,
    moveaxis,
    ndim,
    ravel,
    reshape,
    swapaxes,
)

# joining


@outside(np)
def concatenate(arrays: Any, axis: int | None = 0, *, dtype: Any = None) -> Any:
    """Arrays joined along an axis; None: all entries in one row."""
    parts = [value_of(a) for a in arrays]
    if axis is None:
        parts, axis = [st.reshape(p, shape=(-1,)) for p in parts], 0
    if not any(isinstance(p, Tracer) for p in parts):
        return wrap(np.concatenate(parts, axis=axis, dtype=dtype))
    rank = parts[0].ndim
    if rank == 0:
        raise ValueError("arrays without axes cannot be concatenated; use stack")
    if any(p.ndim != rank for p in parts):
        raise ValueError(f"arrays of shapes {[p.shape for p in parts]} cannot be concatenated, expected {rank} axes each")
    axis = one_axis(axis, rank)
    joined = st.concatenate(*parts, axis=axis, lengths=tuple(p.shape[axis] for p in parts))
    require_both_parts(joined, dtype)
    return wrap(joined if dtype is None else st.astype(joined, dtype=np.dtype(dtype)))


concat = concatenate


@outside(np)
def stack(arrays: Any, axis: int = 0, *, dtype: Any = None) -> Any:
    """Arrays of one shape joined along a new axis."""
    parts = [asarray(a) for a in arrays]
    if len({p.shape for p in parts}) > 1:
        raise ValueError(f"arrays of shapes {[p.shape for p in parts]} cannot be stacked, expected one shape")
    return concatenate([expand_dims(p, axis) for p in parts], axis, dtype=dtype)


@outside(np)
def vstack(tup: Any, *, dtype: Any = None) -> Any:
    """Arrays joined as rows."""
    return concatenate([atleast_2d(a) for a in tup], 0, dtype=dtype)


@outside(np)
def hstack(tup: Any, *, dtype: Any = None) -> Any:
    """Arrays joined along the second axis, vectors along their only one."""
    parts = [atleast_1d(a) for a in tup]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


@outside(np)
def dstack(tup: Any) -> Any:
    """Arrays joined along the third axis."""
    return concatenate([atleast_3d(a) for a in tup], 2)


@outside(np)
def column_stack(tup: Any) -> Any:
    """Vectors joined as columns."""
    return concatenate([a if a.ndim > 1 else a.reshape(-1, 1) for a in map(asarray, tup)], 1)


@outside(np)
def block(arrays: Any) -> Any:
    """Nested lists of blocks put together, innermost along the last axis."""

    def leaves(x: Any, depth: int) -> list[tuple[int, int]]:
        return [leaf for part in x for leaf in leaves(part, depth + 1)] if isinstance(x, list) else [(depth, ndim(x))]

    levels = max(depth for depth, _ in leaves(arrays, 0))
    rank = max(levels, *(n for _, n in leaves(arrays, 0)))

    def build(x: Any, level: int) -> Any:
        if isinstance(x, list):
            return concatenate([build(part, level - 1) for part in x], -level)
        a = asarray(x)
        return a[(None,) * (rank - a.ndim) + (...,)]

    return asarray(build(arrays, levels), copy=True, order="K" if levels else "C")


@outside(np)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """`values` joined to the end of `arr`."""
    return concatenate([ravel(arr), ravel(values)]) if axis is None else concatenate([arr, values], axis)


@outside(np)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """`values` put before positions (a number, several or a slice) along an axis."""
    x = ravel(arr) if axis is None else asarray(arr)
    axis = 0 if axis is None else one_axis(axis, x.ndim)
    length = x.shape[axis]
    places = np.arange(length)[obj] if isinstance(obj, slice) else np.asarray(plain(obj))
    new = asarray(values)
    if places.size == 1:
        new = new[(None,) * (x.ndim - new.ndim) + (...,)]
        new = moveaxis(new, 0, axis) if places.ndim == 0 else new
        count = new.shape[axis]
    else:
        count = int(places.sum()) if places.dtype == bool else places.size
    new = astype(broadcast_to(new, (*x.shape[:axis], count, *x.shape[axis + 1 :])), x.dtype)
    order = np.insert(np.arange(length), places, np.arange(length, length + count))
    return in_order(concatenate([x, new], axis)[(slice(None),) * axis + (order,)], as_cut(x))


def as_cut(x: Any) -> tuple[int, ...]:
    """The order in memory of a new array that is made of parts of `x`: its own if it is columns side by side, else rows."""
    return tuple(range(x.ndim))[:: -1 if layout_of(x).flags.fnc else 1]


@outside(np)
def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """`arr` without the entries at some positions along an axis."""
    x = ravel(arr) if axis is None else asarray(arr)
    axis = 0 if axis is None else one_axis(axis, x.ndim)
    gone = obj if isinstance(obj, slice) else np.asarray(plain(obj))
    if isinstance(gone, np.ndarray) and not gone.size and not isinstance(obj, np.ndarray):
        gone = gone.astype(np.intp)  # NumPy's type of an empty list is that of numbers
    keep = np.delete(np.arange(x.shape[axis]), gone)
    result = x[(slice(None),) * axis + (keep,)]
    listed = isinstance(gone, np.ndarray) and (gone.size != 1 or gone.dtype.kind not in "ui")
    return result if listed else in_order(result, as_cut(x))


# cutting


@outside(np)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Views of equal parts, or of the parts between positions."""
    ary = asarray(ary)
    length = ary.shape[one_axis(axis, ary.ndim)]
    if np.ndim(indices_or_sections) == 0 and length % indices_or_sections:
        raise ValueError(f"an axis of length {length} cannot be split into {indices_or_sections} equal parts; use array_split")
    return array_split(ary, indices_or_sections, axis)


@outside(np)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Views of nearly equal parts, or of the parts between positions."""
    ary = asarray(ary)
    axis = one_axis(axis, ary.ndim)
    length = ary.shape[axis]
    if np.ndim(indices_or_sections):
        bounds = [0, *map(int, indices_or_sections), length]
    else:
        parts = operator.index(indices_or_sections)
        if parts < 1:
            raise ValueError(f"an axis cannot be split into {parts} parts, expected 1 or more")
        short, longer = length // parts, length % parts
        bounds = [k * short + min(k, longer) for k in range(parts + 1)]
    return [ary[(slice(None),) * axis + (slice(a, b),)] for a, b in itertools.pairwise(bounds)]


@outside(np)
def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the first axis."""
    return split(ary, indices_or_sections, 0)


@outside(np)
def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the second axis, a vector along its only one."""
    return split(ary, indices_or_sections, 0 if ndim(ary) == 1 else 1)


@outside(np)
def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Split along the third axis."""
    return split(ary, indices_or_sections, 2)


@outside(np)
def unstack(x: Any, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis."""
    first = moveaxis(x, axis, 0)
    return tuple(first[k] for k in range(first.shape[0]))


# moving


@outside(np)
def flip(m: Any, axis: Any = None) -> Any:
    """A view with the order along axes reversed, all by default; without axes its number, as of NumPy."""
    m = asarray(m)
    axes = axes_of(axis, m.ndim)
    return m[tuple(slice(None, None, -1 if k in axes else None) for k in range(m.ndim))]


@outside(np)
def fliplr(m: Any) -> Any:
    """Columns in reversed order."""
    return flip(m, 1)


@outside(np)
def flipud(m: Any) -> Any:
    """Rows in reversed order."""
    return flip(m, 0)


@outside(np)
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned by quarter turns in the plane of two axes."""
    match k % 4:
        case 0:
            return asarray(m)[...]
        case 1:
            return swapaxes(flip(m, axes[1]), *axes)
        case 2:
            return flip(m, axes)
        case _:
            return flip(swapaxes(m, *axes), axes[1])


@outside(np)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Entries moved along axes, those that leave coming in at the other end."""
    a = asarray(a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    moved = a
    for distance, along in np.broadcast(plain(shift), axis):
        along = one_axis(along, a.ndim)
        length = a.shape[along]
        start = -int(distance) % length if length else 0
        lead = (slice(None),) * along
        moved = concatenate([moved[(*lead, slice(start, None))], moved[(*lead, slice(None, start))]], along) if start else moved
    return as_copied(moved.copy() if moved is a else moved, a)


@outside(np)
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each entry along an axis repeated."""
    a = ravel(a) if axis is None else asarray(a)
    axis = 0 if axis is None else one_axis(axis, a.ndim)
    return in_rows(a[(slice(None),) * axis + (np.repeat(np.arange(a.shape[axis]), plain(repeats)),)])


@outside(np)
def tile(A: Any, reps: Any) -> Any:
    """The whole array repeated along axes."""
    x = asarray(A)
    counts = tuple(int(r) for r in reps) if np.ndim(reps) else (int(reps),)
    rank = max(x.ndim, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    lengths = (1,) * (rank - x.ndim) + tuple(x.shape)
    if all(n == 1 for n in counts):
        return reshape(asarray(x, copy=True), lengths)
    apart = x.reshape([m for n in lengths for m in (1, n)])
    spread = broadcast_to(apart, [m for n, r in zip(lengths, counts, strict=True) for m in (r, n)])
    return asarray(in_rows(reshape(spread, tuple(n * r for n, r in zip(lengths, counts, strict=True)))), copy=True)
