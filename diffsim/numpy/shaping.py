"""Changing the shape of arrays, joining and cutting them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from diffsim.ad.array import Array, core, wrap
from diffsim.ad.core import Tracer, bottom
from diffsim.ad.ops import structure as st
from diffsim.ad.views import ReadOnlyView
from diffsim.numpy.creation import asarray, zeros


def _array(x: Any) -> Any:
    return x if isinstance(x, (Array, np.ndarray)) else asarray(x)


def shape(x: Any) -> tuple[int, ...]:
    """Lengths of the axes."""
    return np.shape(bottom(core(x)))


def ndim(x: Any) -> int:
    """Number of axes."""
    return len(shape(x))


def size(x: Any, axis: int | None = None) -> int:
    """Number of entries, or the length of an axis."""
    return math.prod(shape(x)) if axis is None else shape(x)[axis]


def reshape(x: Any, shape: Any, order: str = "C", **other: Any) -> Any:
    """The entries in row-major order in another shape; a view where NumPy makes one."""
    shape = other.get("newshape", shape)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(operator.index(n) for n in shape)
    return _array(x).reshape(shape, order=order) if order != "C" else _array(x).reshape(shape)


def ravel(x: Any) -> Any:
    """All entries along one axis; a view where NumPy makes one."""
    return _array(x).ravel()


def transpose(x: Any, axes: Any = None) -> Any:
    """A view with the axes in another order, reversed by default."""
    return _array(x).transpose(axes) if axes is not None else _array(x).transpose()


permute_dims = transpose


def matrix_transpose(x: Any) -> Any:
    """A view with the last two axes swapped."""
    return swapaxes(x, -1, -2)


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """A view with two axes swapped."""
    x = _array(x)
    order = list(range(x.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return x.transpose(order)


def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    """A view with axes moved to other places."""
    x = _array(x)
    sources = [s % x.ndim for s in np.atleast_1d(source)]
    places = [d % x.ndim for d in np.atleast_1d(destination)]
    order = [a for a in range(x.ndim) if a not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return x.transpose([int(a) for a in order])


def rollaxis(x: Any, axis: int, start: int = 0) -> Any:
    """A view with an axis moved before another."""
    rank = ndim(x)
    axis, start = axis % rank, start % (rank + 1) if start >= 0 else start % rank
    return moveaxis(x, axis, start - 1 if axis < start else start)


def expand_dims(x: Any, axis: Any) -> Any:
    """A view with new axes of length 1."""
    x = _array(x)
    axes = [int(a) for a in np.atleast_1d(axis)]
    rank = x.ndim + len(axes)
    new = {a % rank for a in axes}
    return x[tuple(None if i in new else slice(None) for i in range(rank))]


def squeeze(x: Any, axis: Any = None) -> Any:
    """A view without axes of length 1."""
    x = _array(x)
    axes = [i for i, n in enumerate(x.shape) if n == 1] if axis is None else [int(a) % x.ndim for a in np.atleast_1d(axis)]
    if any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"cannot squeeze axes {axes} of an array of shape {x.shape}: they must have length 1")
    return x[(*(0 if i in axes else slice(None) for i in range(x.ndim)), Ellipsis)] if axes else x


def broadcast_to(x: Any, shape: Any) -> Any:
    """The entries repeated to a shape; a view that cannot be assigned to."""
    target = (shape,) if isinstance(shape, int) else tuple(shape)
    if isinstance(x, Array):
        return x.linked(ReadOnlyView(lambda c: st.broadcast_to(c, shape=target), lambda layout: np.broadcast_to(layout, target)))
    value = core(x)
    if not isinstance(value, Tracer):
        return wrap(np.broadcast_to(value, target))
    return wrap(st.broadcast_to(value, shape=target))


def broadcast_arrays(*xs: Any) -> tuple[Any, ...]:
    """All arrays broadcast to one shape."""
    target = np.broadcast_shapes(*(shape(x) for x in xs))
    return tuple(broadcast_to(x, target) for x in xs)


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""
    return np.broadcast_shapes(*shapes)


def atleast_1d(*xs: Any) -> Any:
    """Arrays with one axis at least."""
    out = [a if a.ndim else a.reshape(1) for a in map(_array, xs)]
    return out[0] if len(out) == 1 else tuple(out)


def atleast_2d(*xs: Any) -> Any:
    """Arrays with two axes at least, new ones first."""
    out = [a if a.ndim > 1 else a.reshape(1, -1) for a in map(_array, xs)]
    return out[0] if len(out) == 1 else tuple(out)


def atleast_3d(*xs: Any) -> Any:
    """Arrays with three axes at least."""
    out = [a if a.ndim > 2 else a.reshape({0: (1, 1, 1), 1: (1, -1, 1)}.get(a.ndim, (*a.shape, 1))) for a in map(_array, xs)]
    return out[0] if len(out) == 1 else tuple(out)


def astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    """`x` in another type; converting to integers ends the derivative."""
    value = core(x)
    return wrap(st.astype(value, dtype=np.dtype(dtype)))


# joining


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Arrays joined along an axis; None: all entries in one row."""
    parts = [core(a) for a in arrays]
    parts = [p if hasattr(p, "dtype") else np.asarray(p) for p in parts]
    if axis is None:
        parts, axis = [st.reshape(p, shape=(-1,)) for p in parts], 0
    if not any(isinstance(p, Tracer) for p in parts):
        return wrap(np.concatenate(parts, axis=axis, dtype=dtype))
    rank = parts[0].ndim
    if rank == 0:
        raise ValueError("arrays without axes cannot be concatenated; use stack")
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise ValueError(f"axis = {axis} is out of bounds for arrays with {rank} axes")
    axis %= rank
    joined = st.concatenate(*parts, axis=axis, lengths=tuple(p.shape[axis] for p in parts))
    return wrap(joined if dtype is None else st.astype(joined, dtype=np.dtype(dtype)))


concat = concatenate


def stack(arrays: Any, axis: int = 0) -> Any:
    """Arrays of one shape joined along a new axis."""
    parts = [_array(a) for a in arrays]
    return concatenate([expand_dims(p, axis) for p in parts], axis)


def vstack(arrays: Any) -> Any:
    """Arrays joined as rows."""
    return concatenate([atleast_2d(a) for a in arrays], 0)


def hstack(arrays: Any) -> Any:
    """Arrays joined along the second axis, vectors along their only one."""
    parts = [atleast_1d(a) for a in arrays]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1)


def dstack(arrays: Any) -> Any:
    """Arrays joined along the third axis."""
    return concatenate([atleast_3d(a) for a in arrays], 2)


def column_stack(arrays: Any) -> Any:
    """Vectors joined as columns."""
    parts = [_array(a) for a in arrays]
    return concatenate([p.reshape(-1, 1) if p.ndim < 2 else p for p in parts], 1)


def block(arrays: Any) -> Any:
    """Nested lists of blocks put together, innermost along the last axis."""

    def depth(x: Any) -> int:
        return 1 + depth(x[0]) if isinstance(x, list) else 0

    levels = depth(arrays)

    def build(x: Any, level: int) -> Any:
        if not isinstance(x, list):
            a = _array(x)
            return a.reshape((1,) * (levels - a.ndim) + tuple(a.shape)) if a.ndim < levels else a
        return concatenate([build(part, level - 1) for part in x], -level)

    return build(arrays, levels)


def append(x: Any, values: Any, axis: int | None = None) -> Any:
    """`values` joined to the end of `x`."""
    return concatenate([ravel(x), ravel(values)]) if axis is None else concatenate([x, values], axis)


def insert(x: Any, place: int, values: Any, axis: int | None = None) -> Any:
    """`values` put before a position along an axis."""
    x = ravel(x) if axis is None else _array(x)
    axis = 0 if axis is None else axis
    before, after = split(x, [place], axis)
    middle = _array(values)
    if middle.ndim < x.ndim:
        middle = expand_dims(broadcast_to(middle, x.shape[:axis] + x.shape[axis + 1 :]), axis) if middle.ndim < x.ndim - 1 or x.ndim > 1 else middle.reshape(1)
    return concatenate([before, middle, after], axis)


def delete(x: Any, places: Any, axis: int | None = None) -> Any:
    """`x` without the entries at some positions along an axis."""
    x = ravel(x) if axis is None else _array(x)
    axis = 0 if axis is None else axis
    keep = np.delete(np.arange(x.shape[axis]), bottom(core(places)) if not isinstance(places, slice) else places)
    return x[(slice(None),) * (axis % x.ndim) + (keep,)]


# cutting


def split(x: Any, parts: Any, axis: int = 0) -> list[Any]:
    """Views of equal parts, or of the parts between positions."""
    x = _array(x)
    if isinstance(parts, (int, np.integer)):
        if x.shape[axis] % parts:
            raise ValueError(f"an axis of length {x.shape[axis]} cannot be split into {parts} equal parts; use array_split")
        return array_split(x, parts, axis)
    return array_split(x, parts, axis)


def array_split(x: Any, parts: Any, axis: int = 0) -> list[Any]:
    """Views of nearly equal parts, or of the parts between positions."""
    x = _array(x)
    length = x.shape[axis]
    if isinstance(parts, (int, np.integer)):
        short, longer = length // parts, length % parts
        bounds = np.cumsum([0] + [short + 1] * longer + [short] * (int(parts) - longer))
        pairs = list(zip(bounds[:-1], bounds[1:], strict=True))
    else:
        cuts = [int(p) for p in parts]
        pairs = list(zip([0, *cuts], [*cuts, length], strict=True))
    lead = (slice(None),) * (axis % x.ndim)
    return [x[(*lead, slice(int(a), int(b)))] for a, b in pairs]


def vsplit(x: Any, parts: Any) -> list[Any]:
    """Split along the first axis."""
    return split(x, parts, 0)


def hsplit(x: Any, parts: Any) -> list[Any]:
    """Split along the second axis, a vector along its only one."""
    return split(x, parts, 0 if ndim(x) == 1 else 1)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis."""
    return tuple(moveaxis(x, axis, 0))


# moving


def flip(x: Any, axis: Any = None) -> Any:
    """A view with the order along axes reversed, all by default."""
    x = _array(x)
    axes = range(x.ndim) if axis is None else [int(a) % x.ndim for a in np.atleast_1d(axis)]
    return x[tuple(slice(None, None, -1) if i in set(axes) else slice(None) for i in range(x.ndim))]


def fliplr(x: Any) -> Any:
    """Columns in reversed order."""
    return flip(x, 1)


def flipud(x: Any) -> Any:
    """Rows in reversed order."""
    return flip(x, 0)


def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned by quarter turns in the plane of two axes."""
    match k % 4:
        case 0:
            return _array(x)[...]
        case 1:
            return swapaxes(flip(x, axes[1]), *axes)
        case 2:
            return flip(flip(x, axes[0]), axes[1])
        case _:
            return flip(swapaxes(x, *axes), axes[1])


def roll(x: Any, shift: Any, axis: Any = None) -> Any:
    """Entries moved along axes, those that leave coming in at the other end."""
    x = _array(x)
    if axis is None:
        return roll(ravel(x), shift, 0).reshape(x.shape)
    for s, a in np.broadcast(shift, axis):
        n = x.shape[a]
        k = int(s) % n if n else 0
        if k:
            lead = (slice(None),) * (int(a) % x.ndim)
            x = concatenate([x[(*lead, slice(n - k, None))], x[(*lead, slice(None, n - k))]], int(a))
    return x + 0 if x is not None and not isinstance(x, Array) else x.copy()


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each entry along an axis repeated."""
    x = ravel(x) if axis is None else _array(x)
    axis = 0 if axis is None else axis % x.ndim
    places = np.repeat(np.arange(x.shape[axis]), bottom(core(repeats)))
    return x[(slice(None),) * axis + (places,)]


def tile(x: Any, reps: Any) -> Any:
    """The whole array repeated along axes."""
    x = _array(x)
    counts = (int(reps),) if np.ndim(reps) == 0 else tuple(int(r) for r in reps)
    rank = max(x.ndim, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    lengths = (1,) * (rank - x.ndim) + tuple(x.shape)
    spread = x.reshape([m for n in lengths for m in (1, n)])
    spread = broadcast_to(spread, [m for n, r in zip(lengths, counts, strict=True) for m in (r, n)])
    return reshape(spread, tuple(n * r for n, r in zip(lengths, counts, strict=True)))


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    """Entries added around an array: constants, or by index with mode "edge", "reflect", "symmetric" or "wrap"."""
    x = _array(x)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(i, pad_width.get(i - x.ndim, (0, 0))) for i in range(x.ndim)]
    widths = np.broadcast_to(np.asarray(pad_width, int), (x.ndim, 2))
    if mode == "constant":
        made = zeros(tuple(int(n + a + b) for n, (a, b) in zip(x.shape, widths, strict=True)), x.dtype)
        if not (isinstance(constant_values, (int, float)) and constant_values == 0):
            made[...] = constant_values
        made[tuple(slice(int(a), int(a) + n) for n, (a, _) in zip(x.shape, widths, strict=True))] = x
        return made
    for axis, (a, b) in enumerate(widths):
        places = np.pad(np.arange(x.shape[axis]), (int(a), int(b)), mode=mode)  # type: ignore[call-overload]
        x = x[(slice(None),) * axis + (places,)]
    return x


def tril(x: Any, k: int = 0) -> Any:
    """The lower triangle, zero above it."""
    from diffsim.numpy.elementwise import where

    x = _array(x)
    return where(np.tri(*x.shape[-2:], k=k, dtype=bool), x, np.zeros((), x.dtype))


def triu(x: Any, k: int = 0) -> Any:
    """The upper triangle, zero below it."""
    from diffsim.numpy.elementwise import where

    x = _array(x)
    return where(np.tri(*x.shape[-2:], k=k - 1, dtype=bool), np.zeros((), x.dtype), x)


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Entries of the diagonal, along a new last axis; a view that cannot be assigned to."""
    if not isinstance(x, Array):
        return wrap(np.diagonal(x, offset, axis1, axis2))
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    n, m = x.shape[-2:]
    count = max(0, min(n + min(offset, 0), m - max(offset, 0)))
    places = np.arange(count)
    index = (Ellipsis, places - min(offset, 0), places + max(offset, 0))
    return x.linked(ReadOnlyView(lambda c: st.getitem(c, index=index), lambda layout: np.diagonal(layout, offset, -2, -1)))


def diag(x: Any, k: int = 0) -> Any:
    """The diagonal of a matrix, or a matrix with a diagonal."""
    x = _array(x)
    if x.ndim == 2:
        return diagonal(x, k)
    n = x.shape[0] + builtins_abs(k)
    made = zeros((n, n), x.dtype)
    places = np.arange(x.shape[0])
    made[places - min(k, 0), places + max(k, 0)] = x
    return made


builtins_abs = operator.abs


def diagflat(x: Any, k: int = 0) -> Any:
    """A matrix with all entries of `x` on a diagonal."""
    return diag(ravel(x), k)


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Sum of the diagonal."""
    from diffsim.numpy.reductions import sum

    return sum(diagonal(x, offset, axis1, axis2), axis=-1)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803 -- NumPy's name
    """Powers of the entries as columns."""
    x = _array(x)
    powers: Sequence[int] = range(len(x) if N is None else N)
    return stack([x**k for k in (powers if increasing else reversed(powers))], -1)
