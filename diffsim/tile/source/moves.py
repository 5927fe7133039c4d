"""Operations that move entries: views, parts, assignment, and positions that differ from tile to tile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diffsim.tile.source import entries
from diffsim.tile.source.rules import converted_copy, lanes_at, number_of, rule
from diffsim.tile.source.values import Affine, Uniform, Value, View, row_strides
from diffsim.tile.source.writer import Writer, broadcast, picked
from diffsim.tile.trace.program import Operation, Variable


def _moved(w: Writer, operation: Operation, change: Callable[[Value], Value]) -> None:
    """A result that is a view of the operand."""
    value = w.operand(operation.operands[0])
    w.give(operation.results[0], change(value))
    w.used(operation.operands[0])


@rule("copy", "layout", "stop_gradient")
def _copy(w: Writer, operation: Operation) -> None:
    _moved(w, operation, lambda value: value)


@rule("reshape")
def _reshape(w: Writer, operation: Operation) -> None:
    shape = operation.results[0].shape

    def change(value: Value) -> Value:
        if isinstance(value, Uniform):
            return value.reshaped(shape)
        kept = [(n, s) for n, s in zip(value.shape, value.strides, strict=True) if n != 1]
        if [n for n, _ in kept] == [n for n in shape if n != 1]:
            strides = iter(s for _, s in kept)
            return replace(value, shape=shape, strides=tuple(0 if n == 1 else next(strides) for n in shape))
        whole = value if value.contiguous else w.in_memory(value)
        return replace(whole, shape=shape, strides=row_strides(shape))

    _moved(w, operation, change)


@rule("transpose")
def _transpose(w: Writer, operation: Operation) -> None:
    axes = [a % len(operation.params["axes"]) for a in operation.params["axes"]]

    def change(value: Value) -> Value:
        shape = tuple(value.shape[a] for a in axes)
        return (
            value.reshaped(shape)
            if isinstance(value, Uniform)
            else replace(value, shape=shape, strides=tuple(value.strides[a] for a in axes))
        )

    _moved(w, operation, change)


@rule("broadcast_to")
def _broadcast_to(w: Writer, operation: Operation) -> None:
    _moved(w, operation, lambda value: broadcast(value, operation.results[0].shape))


def _view(value: View, positions: np.ndarray) -> View | None:
    """The part of a value at positions among its entries in rows, if that is a view."""
    if value.contiguous:
        return picked(value, positions)
    if not positions.size or not value.size:
        return None
    own = np.zeros(value.shape, np.int64)
    for axis, (n, stride) in enumerate(zip(value.shape, value.strides, strict=True)):
        lengths = [1] * len(value.shape)
        lengths[axis] = n
        own = own + stride * np.arange(n).reshape(lengths)
    return picked(replace(value, shape=(value.size,), strides=(1,)), own.ravel()[positions])


def _picked(w: Writer, operation: Operation, positions: np.ndarray) -> None:
    """The entries at known positions."""

    def change(value: Value) -> Value:
        if isinstance(value, Uniform):
            return value.reshaped(positions.shape)
        viewed = _view(value, positions)
        if viewed is not None:
            return viewed
        moved = w.allocate(positions.shape, value.kind)
        if positions.size:
            source = _in_scratch(w, value)
            table = w.constant(positions.astype(np.int32))
            with w.loops(positions.shape, [moved.strides, *([table.strides] if isinstance(table, View) else [])]) as index:
                at = w.variable(_position(positions, table, index))
                w.assign(moved, index, _entry(source, at))
        return moved

    _moved(w, operation, change)


def _in_scratch(w: Writer, value: View) -> View:
    """A value whose entries can be read at any position: in scratch memory or among the constants, in rows."""
    return value if value.array in "sc" and value.contiguous else w.in_memory(value)


def _position(positions: np.ndarray, table: Value, index: Sequence[Affine]) -> str:
    """Source of one of the known positions, the same for all tiles. `table`: the positions as constants of the kernel."""
    if isinstance(table, Uniform):  # they are all equal
        return str(int(positions.flat[0]))
    return f"c_i[{table.at(index)}]"


def _entry(view: View, at: str) -> str:
    """Source of the entry at a position that is the same for all tiles."""
    kept = "i" if view.kind == "b" else view.kind
    entry = f"s_{kept}[s0_{kept} + {view.offset} + {at}]" if view.array == "s" else f"V_{kept}(c_{kept}[{view.offset} + {at}])"
    return f"({entry} != 0)" if view.kind == "b" else entry


@rule("getitem")
def _getitem(w: Writer, operation: Operation) -> None:
    shape = operation.operands[0].shape
    _picked(w, operation, np.asarray(np.arange(math.prod(shape)).reshape(shape)[operation.params["index"]]))


@rule("diagonal")
def _diagonal(w: Writer, operation: Operation) -> None:
    shape = operation.operands[0].shape
    _picked(w, operation, np.diagonal(np.arange(math.prod(shape)).reshape(shape), operation.params["offset"], -2, -1))


@rule("concatenate")
def _concatenate(w: Writer, operation: Operation) -> None:
    (result,), axis, start = operation.results, operation.params["axis"], 0
    joined = w.allocate(result.shape, w.kind(result.dtype))
    w.hold(joined)
    for operand, length in zip(operation.operands, operation.params["lengths"], strict=True):
        value = w.operand(operand)
        part = replace(joined, shape=value.shape, offset=joined.offset + start * joined.strides[axis]) if value.kind != "number" else joined
        converted_copy(w, value, part)
        start += length
    w.give(result, joined)
    w.release(joined)
    for operand in operation.operands:
        w.used(operand)


# assignment


def _target(w: Writer, operand: Any, kind: str, shape: tuple[int, ...]) -> View:
    """The memory of a value that is about to be written to: its own where nothing else refers to it, else a copy. Held by the caller."""
    value = w.operand(operand)
    if isinstance(operand, Variable) and isinstance(value, View) and value.whole and value.kind == kind:
        assert value.buffer is not None
        if w.uses[operand] == 1 and value.buffer.users == 1:
            w.hold(value)
            return value
    copy = w.allocate(shape, kind)
    w.hold(copy)
    converted_copy(w, value, copy)
    return copy


def _assigned(w: Writer, operation: Operation, value: Any, combine: Callable[[str, str], str] | None) -> None:
    """A value with others at known positions, one after the other."""
    (result,), index = operation.results, operation.params["index"]
    positions = np.asarray(np.arange(math.prod(result.shape)).reshape(result.shape)[index])
    kind = w.kind(result.dtype)
    new = number_of(w, value, kind)
    if new.kind == "number":
        raise AssertionError
    new = broadcast(_stripped(new, positions.ndim), positions.shape)
    target = _target(w, operation.operands[0], kind, result.shape)
    w.hold(new)  # it does not overlap the target, which is memory of its own where something else refers to that
    if positions.size:
        place = picked(target, positions)
        strides = [v.strides for v in (place, new) if isinstance(v, View)]
        if place is not None:
            with w.loops(positions.shape, strides) as at:
                source = entries.converted(w.read(new, at), new.kind, kind)
                w.assign(place, at, source if combine is None else combine(w.read(place, at), source))
        else:
            table = w.constant(positions.astype(np.int32))
            strides += [table.strides] if isinstance(table, View) else []
            with w.loops(positions.shape, [row_strides(positions.shape), *strides]) as at:
                p = w.variable(_position(positions, table, at))
                source = entries.converted(w.read(new, at), new.kind, kind)
                entry = replace(target, shape=(), strides=(), offset=target.offset + Affine(0, ((p, 1),)))
                w.assign(entry, (), source if combine is None else combine(w.read(entry, ()), source))
    _given(w, operation, new, target)


def _given(w: Writer, operation: Operation, new: Value, target: View) -> None:
    """End an assignment of `new` to entries of `target`."""
    w.release(new)
    w.give(operation.results[0], target)
    w.release(target)
    for operand in operation.operands:
        w.used(operand)


def _stripped(value: Value, rank: int) -> Value:
    """Without leading axes of length 1 beyond a rank."""
    extra = len(value.shape) - rank
    if extra <= 0:
        return value
    return (
        value.reshaped(value.shape[extra:])
        if isinstance(value, Uniform)
        else replace(value, shape=value.shape[extra:], strides=value.strides[extra:])
    )


@rule("setitem")
def _setitem(w: Writer, operation: Operation) -> None:
    _assigned(w, operation, operation.operands[1], None)


@rule("index_add")
def _index_add(w: Writer, operation: Operation) -> None:
    _assigned(w, operation, operation.operands[1], lambda old, new: f"{old} + {new}")


# positions that differ from tile to tile


@rule("take")
def _take(w: Writer, operation: Operation) -> None:
    (result,), (x, places) = operation.results, operation.operands
    source, where = w.operand(x), w.operand(places)
    if isinstance(source, Uniform):
        w.give(result, source.reshaped(result.shape))
    else:
        memory = _in_scratch(w, source)
        w.hold(memory)
        taken = w.allocate(result.shape, memory.kind)
        kept = "i" if memory.kind == "b" else memory.kind
        with w.loops(result.shape, [v.strides for v in (taken, where) if isinstance(v, View)]) as index:
            at = w.variable(w.read(where, index))
            entry = w.variable(w.gathered(lanes_at(w, f"p_{kept}" if memory.array == "s" else f"c_{kept}", memory.offset, at)))
            w.assign(taken, index, f"({entry} != 0)" if memory.kind == "b" else entry)
        w.give(result, taken)
        w.release(memory)
    w.used(x)
    w.used(places)


@rule("put", "add_at")
def _put(w: Writer, operation: Operation) -> None:
    (result,), (x, places, values) = operation.results, operation.operands
    kind = w.kind(result.dtype)
    where, new = w.operand(places), number_of(w, values, kind)
    target = _target(w, x, kind, result.shape)
    new = broadcast(new, places.shape)
    w.hold(new)
    kept = "i" if kind == "b" else kind
    adds = operation.primitive.name == "add_at"
    with w.loops(places.shape) as index:
        at = w.variable(w.read(where, index))
        source = entries.converted(w.read(new, index), new.kind, kind)
        value = w.variable(f"ti.select({source}, V_i(F_i(1)), V_i(F_i(0)))" if kind == "b" else source)
        for lane, place in enumerate(lanes_at(w, f"p_{kept}", target.offset, at)):
            one = value if w.lanes == 1 else f"{value}[{lane}]"
            w.text(f"{place} = {f'{place} + {one}' if adds else one}")
    _given(w, operation, new, target)


@rule("stays")
def _stays(w: Writer, operation: Operation) -> None:
    (result,), (places,) = operation.results, operation.operands
    where, kind = w.in_memory(w.operand(places)), w.kind(operation.results[0].dtype)
    w.hold(where)
    last_state = w.allocate(result.shape, kind)
    kept, count = where.kind, math.prod(result.shape)
    with w.text.block(f"for i in range({count})"):
        w.text(f"own = s_{kept}[s0_{kept} + {where.offset} + i]")
        w.text(f"last = {w.number(1, kind)}")
        with w.text.block(f"for j in range(i + 1, {count})"):
            w.text(f"last = ti.select(s_{kept}[s0_{kept} + {where.offset} + j] == own, {w.number(0, kind)}, last)")
        w.text(f"s_{kind}[s0_{kind} + {last_state.offset} + i] = last")
    w.give(result, last_state)
    w.release(where)
    w.used(places)
