"""Blocks of whole arrays at a place for each tile: read, stored, added up.

Tiles are gone through in their order by one thread, so that sums and overlapping blocks do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from diffsim import engine
from diffsim.ad.core import Primitive
from diffsim.ad.ops.structure import like, linear, zeros_like
from diffsim.base import buffers
from diffsim.expr.source import Text
from diffsim.tile.source.values import row_strides

LARGEST = 2**31 - 1
"""Entries that kernels can count."""
COMPILED = tuple(map(np.dtype, ("f4", "f8", "i4", "i8")))
"""Types that kernels copy. NumPy does the others."""


def _source(axes: int, action: str) -> str:
    """The kernel that reads, puts or adds blocks of arrays with so many axes. The control array has the tiles, block and shape."""
    text = Text()
    text("@ti.kernel")
    with text.block("def blocks(control: Control, places: Control, whole: Values, parts: Values)"):
        text("ti.loop_config(serialize=True)")
        with text.block("for t in range(control[0])"):
            _block(text, axes, 0, "t", "0", action)
    return str(text)


def _block(text: Text, axes: int, axis: int, part: str, place: str, action: str) -> None:
    if axis == axes:
        lines = {
            "load": f"parts[{part}] = whole[{place}]",
            "put": f"whole[{place}] = parts[{part}]",
            "add": f"whole[{place}] = whole[{place}] + parts[{part}]",
        }
        text(lines[action])
        return
    n, length = f"control[{1 + axis}]", f"control[{1 + axes + axis}]"
    text(f"first{axis} = places[t * {axes} + {axis}]")
    with text.block(f"for b{axis} in range({n})"):
        text(f"at{axis} = first{axis} + b{axis}")
        with text.block(f"if at{axis} >= 0 and at{axis} < {length}"):
            text(f"part{axis} = ({part}) * {n} + b{axis}")
            text(f"place{axis} = ({place}) * {length} + at{axis}")
            _block(text, axes, axis + 1, f"part{axis}", f"place{axis}", action)


def _run(action: str, whole: np.ndarray, parts: np.ndarray, places: np.ndarray) -> None:
    """Read, put or add blocks, in place. Entries beyond the edges are left out."""
    block = parts.shape[1:]
    if engine.backend().on_host and whole.dtype in COMPILED and max(whole.size, parts.size) <= LARGEST:
        kind = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}[whole.dtype.name]

        def names() -> dict[str, Any]:
            ti = engine.language()
            return {"Control": ti.types.ndarray(dtype=ti.i32, ndim=1), "Values": ti.types.ndarray(dtype=getattr(ti, kind), ndim=1)}

        control = np.array([len(parts), *block, *whole.shape], np.int32)
        kernel = engine.shared_kernel(_source(len(block), action), "blocks", ("blocks", kind), names)
        with engine.lock:
            kernel(control, places.astype(np.int32).reshape(-1), whole.reshape(-1), parts.reshape(-1))
        return
    position, inside = flat_positions(places, block, whole.shape)
    flat = whole.reshape(-1)
    if action == "load":
        parts[inside] = flat[position[inside]]
    elif action == "put":
        flat[position[inside]] = parts[inside]
    else:
        np.add.at(flat, position[inside], parts[inside])


def flat_positions(places: np.ndarray, block: Sequence[int], shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the entries of all blocks among those of an array, and which of them lie inside; both of shape (tiles, *block)."""
    rank = len(shape)
    position, inside = np.zeros((1,) * (rank + 1), np.int64), np.ones((1,) * (rank + 1), bool)
    for axis, (n, length, stride) in enumerate(zip(block, shape, row_strides(shape), strict=True)):
        lengths = [1] * (rank + 1)
        lengths[axis + 1] = n
        index = places[:, axis].reshape(-1, *(1,) * rank) + np.arange(n).reshape(lengths)
        inside = inside & (index >= 0) & (index < length)
        position = position + np.clip(index, 0, length - 1) * stride
    full = (len(places), *block)
    return np.broadcast_to(position, full), np.broadcast_to(inside, full)


def _load(x: Any, places: np.ndarray, block: tuple[int, ...]) -> Any:
    inside = fit(places, block, x.shape)
    out = buffers.empty((len(places), *block), x.dtype) if inside else np.zeros((len(places), *block), x.dtype)
    _run("load", np.ascontiguousarray(x), out, places)
    return out


def _add(parts: Any, places: np.ndarray, shape: tuple[int, ...]) -> Any:
    out = np.zeros(shape, parts.dtype)
    _run("add", out, np.ascontiguousarray(parts), places)
    return out


def _put(base: Any, parts: Any, places: np.ndarray) -> Any:
    out = np.array(base, order="C")
    _run("put", out, np.ascontiguousarray(parts, out.dtype), places)
    return out


def fit(places: np.ndarray, block: Sequence[int], shape: Sequence[int]) -> bool:
    """True if all blocks lie inside."""
    return bool((places >= 0).all() and (places + np.asarray(block) <= np.asarray(shape)).all())


def overlap(places: np.ndarray, block: Sequence[int]) -> bool:
    """True if blocks may overlap: they do not where they are different ones of a lattice."""
    rest = places % np.maximum(block, 1)
    return bool((rest != rest[:1]).any()) or len(np.unique(places, axis=0)) < len(places)


load_blocks: Primitive = linear("load_blocks", _load, lambda ct, x, params: like(add_blocks(ct, places=params["places"], shape=x.shape), x))
"""The blocks of an array at places of shape (tiles, axes), 0 beyond its edges."""
add_blocks: Primitive = linear(
    "add_blocks", _add, lambda ct, x, params: like(load_blocks(ct, places=params["places"], block=x.shape[1:]), x)
)
"""Zeros of a shape with blocks added at places; entries beyond the edges are left out."""


def _put_jvp(args: Any, tangents: Any, out: Any, params: Any) -> Any:
    base, parts = (zeros_like(a) if t is None else t for a, t in zip(args, tangents, strict=True))
    return put_blocks(base, parts, **params)


def _put_vjp(ct: Any, args: Any, out: Any, params: Any, wanted: Any) -> Any:
    """A block takes the entries at its place that no later block overwrites; the rest, cleared there, goes on to the older entries."""
    places, block = params["places"], tuple(args[1].shape[1:])
    bar = None
    if wanted[1]:
        bar = load_blocks(ct, places=places, block=block)
        if overlap(places, block):
            own = np.arange(math.prod(args[1].shape)).reshape(args[1].shape)
            last = _load(_put(np.full(ct.shape, -1), own, places), places, block)
            bar = bar * (last == own).astype(ct.dtype)
    return put_blocks(ct, np.zeros(args[1].shape, ct.dtype), places=places) if wanted[0] else None, bar


put_blocks: Primitive = Primitive("put_blocks", _put, jvp=_put_jvp, vjp=_put_vjp, keeps=lambda wanted: ((False, False), False))
"""An array with blocks at places; where blocks overlap, that of the last tile stays."""


def covered(places: np.ndarray, block: Sequence[int]) -> tuple[int, ...]:
    """The shape of the smallest array that has all blocks."""
    return tuple(int(n) for n in places.max(axis=0) + np.asarray(block))
