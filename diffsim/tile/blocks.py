"""Blocks of whole arrays: read at a position for each tile, and stored or added up again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from diffsim.ad.core import Primitive
from diffsim.ad.ops.structure import like, linear

Places = tuple[Any, ...]
"""The first index along each axis of the block of each tile: arrays of shape (tiles,)."""


def flat_positions(at: Places, block: tuple[int, ...], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the entries of all blocks among those of an array, and which of them lie inside; both of shape (tiles, *block)."""
    rank = len(shape)
    position = np.zeros((1,) * (rank + 1), np.int64)
    inside = np.ones((1,) * (rank + 1), bool)
    for axis, (first, n, length) in enumerate(zip(at, block, shape, strict=True)):
        lengths = [1] * (rank + 1)
        lengths[axis + 1] = n
        index = np.asarray(first).reshape(-1, *(1,) * rank) + np.arange(n).reshape(lengths)
        inside = inside & (index >= 0) & (index < length)
        position = position + np.clip(index, 0, length - 1) * math.prod(shape[axis + 1 :])
    full = (max(len(np.atleast_1d(a)) for a in at) if at else 1, *block)
    return np.broadcast_to(position, full), np.broadcast_to(inside, full)


def _load(x: Any, at: Places, block: tuple[int, ...]) -> Any:
    position, inside = flat_positions(at, block, x.shape)
    found = np.asarray(x).reshape(-1)[position]
    return found if inside.all() else np.where(inside, found, found.dtype.type(0))


def _add(values: Any, at: Places, shape: tuple[int, ...]) -> Any:
    position, inside = flat_positions(at, values.shape[1:], shape)
    weights = values if inside.all() else np.where(inside, values, values.dtype.type(0))
    count = math.prod(shape)
    if values.dtype.kind == "f":
        return np.bincount(position.ravel(), np.ravel(weights), count).astype(values.dtype).reshape(shape)
    out = np.zeros(count, values.dtype)
    np.add.at(out, position.ravel(), np.ravel(weights))
    return out.reshape(shape)


load_blocks: Primitive = linear("load_blocks", _load, lambda ct, x, params: like(add_blocks(ct, at=params["at"], shape=x.shape), x))
"""The blocks of an array at these places, 0 beyond its edges."""
add_blocks: Primitive = linear("add_blocks", _add, lambda ct, x, params: like(load_blocks(ct, at=params["at"], block=x.shape[1:]), x))
"""Zeros with blocks added at these places; what lies beyond the edges is dropped. Sums are taken in double precision."""


def covered(at: Sequence[np.ndarray], block: Sequence[int]) -> tuple[int, ...]:
    """The shape of the smallest array that has all blocks."""
    return tuple(int(np.max(first)) + n for first, n in zip(at, block, strict=True))
