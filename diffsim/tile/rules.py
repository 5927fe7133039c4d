"""What each operation of a tile program is in its kernel: operations entry by entry, and those that move, add up or sort entries."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diffsim.ad.ops import elementwise as ew
from diffsim.errors import TileError
from diffsim.tile import entries, matrices
from diffsim.tile.program import Operation, Program, Variable
from diffsim.tile.trace import RULE
from diffsim.tile.values import Affine, Uniform, Value, View, row_strides
from diffsim.tile.writer import Writer, broadcast, picked

Rule = Callable[[Writer, Operation], None]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return add


def write(w: Writer, operation: Operation) -> None:
    """Write an operation.

    Raises:
        TileError: there is no rule for it.
    """
    name = operation.primitive.name
    if operation.inner is not None:
        _inlined(w, operation, operation.inner)
        return
    found = RULES.get(name)
    if found is None and (name in ew.TABLE or name == "scale"):
        found = _elementwise
    if found is None:
        raise TileError(f"{operation.place}: {name} has no rule in tile programs; write it with other operations, or call it outside")
    found(w, operation)


def _inlined(w: Writer, operation: Operation, inner: Program) -> None:
    """What a function with a rule of its own does."""
    wanted = [operation.operands[k] for k in operation.params[RULE]]
    values = [w.operand(o) for o in wanted]
    for value in values:
        w.hold(value)
    found = w.run(inner, values, write)
    for variable, value in zip(operation.results, found, strict=True):
        w.give(variable, value)
        w.release(value)
    for value in values:
        w.release(value)
    for operand in operation.operands:
        w.used(operand)


# entry by entry


def _elementwise(w: Writer, operation: Operation) -> None:
    name, (result,) = operation.primitive.name, operation.results
    kinds = ["number" if w.dtype(o) is None else w.kind(o.dtype) for o in operation.operands]
    if name == "power":
        found = _power(w, operation, kinds)
        if found is not None:
            w.join(*found)
            return
    kind = w.kind(result.dtype)
    template, computed = entries.template(name, kinds, kind, operation.place)
    numbers = entries.numbers(computed, w.number) if computed != "b" else {"k": "b"}
    final = "b" if name in entries.COMPARED or computed == "b" else computed
    _join(w, operation, [computed] * len(kinds), lambda *s: entries.converted(template.format(*s, **numbers), final, kind))


def _join(w: Writer, operation: Operation, wanted: Sequence[str], entry: Callable[..., str]) -> None:
    """Let an operation wait, with operands in these types."""
    operands, before = [], []
    for operand, kind in zip(operation.operands, wanted, strict=True):
        if not isinstance(operand, Variable):
            operand = np.asarray(operand).astype(_NUMPY[kind])
        operands.append(operand)
        before.append(w.kind(operand.dtype))
    changed = replace(operation, operands=tuple(operands))
    w.join(changed, lambda *s: entry(*(entries.converted(x, b, k) for x, b, k in zip(s, before, wanted, strict=True))))


_NUMPY = {"f": np.float32, "d": np.float64, "i": np.int32, "n": np.int64, "b": np.bool_}


def _power(w: Writer, operation: Operation, kinds: Sequence[str]) -> Any:
    """A power with a known small exponent as products, or None."""
    x, y = operation.operands
    kind = w.kind(operation.results[0].dtype)
    if isinstance(y, Variable) or np.size(y) != 1:
        if kind in "fd":
            return None
        raise TileError(
            f"{operation.place}: a power of whole numbers with unknown exponents has no rule in tile programs; use floating point"
        )
    exponent = float(np.asarray(y).flat[0])
    shape = operation.results[0].shape
    if not isinstance(x, Variable) or x.shape != shape:
        return None
    before = w.kind(x.dtype)
    one = replace(operation, operands=(x,))
    if exponent == 0.5 and kind in "fd":
        return one, lambda s: f"ti.sqrt({entries.converted(s, before, kind)})"
    if not exponent.is_integer() or abs(exponent) > entries.MOST_FACTORS:
        return None

    def entry(s: str) -> str:
        n, base, found = int(abs(exponent)), w.variable(entries.converted(s, before, kind)), ""
        while n:
            if n & 1:
                found = w.variable(f"{found} * {base}") if found else base
            n >>= 1
            base = w.variable(f"{base} * {base}") if n else base
        found = found or w.number(1, kind)
        return found if exponent >= 0 else f"({w.number(1, kind)} / {found})"

    return one, entry


@rule("where")
def _where(w: Writer, operation: Operation) -> None:
    kind = w.kind(operation.results[0].dtype)
    if kind == "b":
        _join(w, operation, ["b", "b", "b"], lambda c, x, y: f"(({c} & {x}) | (({c} == 0) & {y}))")
    else:
        _join(w, operation, ["b", kind, kind], lambda c, x, y: f"ti.select({c}, {x}, {y})")


@rule("astype", "real", "conjugate")
def _astype(w: Writer, operation: Operation) -> None:
    kind = w.kind(operation.results[0].dtype)
    _join(w, operation, [kind], lambda x: x)


@rule("within")
def _within(w: Writer, operation: Operation) -> None:
    (places,), length = operation.operands, operation.params["length"]
    kind = w.kind(places.dtype)
    n, zero = w.number(length, kind), w.number(0, kind)
    message = (
        f"{operation.place}: an index is out of bounds for an axis of length {length}; use positions from {-length} to {length - 1}, or take "
        'with mode="clip"'
    )

    def entry(place: str) -> str:
        bad = w.variable(f"ti.select(({place} < {zero} - {n}) | ({place} >= {n}), V_i(F_i(1)), V_i(F_i(0)))")
        w.check(f"({bad} != 0)", message)
        inside = w.variable(f"ti.select({place} < {zero}, {place} + {n}, {place})")
        return f"ti.select({bad} != 0, {zero}, {inside})"

    _join(w, operation, [kind], entry)


# in another place


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
        found = _view(value, positions)
        if found is not None:
            return found
        made = w.allocate(positions.shape, value.kind)
        if positions.size:
            source = _in_scratch(w, value)
            table = w.constant(positions.astype(np.int32))
            with w.loops(positions.shape, [made.strides, *([table.strides] if isinstance(table, View) else [])]) as index:
                at = w.variable(_position(w, table, index))
                w.assign(made, index, _entry(source, at))
        return made

    _moved(w, operation, change)


def _in_scratch(w: Writer, value: View) -> View:
    """A value whose entries can be read at any position: in scratch memory or among the constants, in rows."""
    return value if value.array in "sc" and value.contiguous else w.in_memory(value)


def _position(w: Writer, table: Value, index: Sequence[Affine]) -> str:
    """A known position, the same for all tiles."""
    if isinstance(table, Uniform):
        return table.text.removeprefix("V_i(F_i(").removesuffix("))")
    return f"c_i[{table.at(index)}]"


def _entry(view: View, at: str) -> str:
    """Source of the entry at a position that is the same for all tiles."""
    kept = "i" if view.kind == "b" else view.kind
    found = f"s_{kept}[s0_{kept} + {view.offset} + {at}]" if view.array == "s" else f"V_{kept}(c_{kept}[{view.offset} + {at}])"
    return f"({found} != 0)" if view.kind == "b" else found


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
    made = w.allocate(result.shape, w.kind(result.dtype))
    w.hold(made)
    for operand, length in zip(operation.operands, operation.params["lengths"], strict=True):
        value = w.operand(operand)
        part = replace(made, shape=value.shape, offset=made.offset + start * made.strides[axis]) if value.kind != "number" else made
        _converted_copy(w, value, part)
        start += length
    w.give(result, made)
    w.release(made)
    for operand in operation.operands:
        w.used(operand)


def _converted_copy(w: Writer, value: Value, target: View) -> None:
    if target.size:
        w.entries(target.shape, target, (value,), lambda x: entries.converted(x, value.kind, target.kind))


# assignment


def _target(w: Writer, operand: Any, kind: str, shape: tuple[int, ...]) -> View:
    """The memory of a value that is about to be written to: its own where nothing else refers to it, else a copy. Held by the caller."""
    value = w.operand(operand)
    if isinstance(operand, Variable) and isinstance(value, View) and value.whole and value.kind == kind:
        assert value.buffer is not None
        if w.uses[operand] == 1 and value.buffer.users == 1:
            w.hold(value)
            return value
    made = w.allocate(shape, kind)
    w.hold(made)
    _converted_copy(w, value, made)
    return made


def _assigned(w: Writer, operation: Operation, value: Any, combine: Callable[[str, str], str] | None) -> None:
    """A value with others at known positions, one after the other."""
    (result,), index = operation.results, operation.params["index"]
    positions = np.asarray(np.arange(math.prod(result.shape)).reshape(result.shape)[index])
    kind = w.kind(result.dtype)
    new = _number(w, value, kind)
    if new.kind == "number":
        raise AssertionError
    new = broadcast(_stripped(new, positions.ndim), positions.shape)
    target = _target(w, operation.operands[0], kind, result.shape)
    if isinstance(new, View) and new.buffer is not None and new.buffer is target.buffer:
        held = new
        new = w.allocate(positions.shape, new.kind)
        w.hold(new)
        w.copied(held, new)
    else:
        w.hold(new)
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
                p = w.variable(_position(w, table, at))
                source = entries.converted(w.read(new, at), new.kind, kind)
                entry = replace(target, shape=(), strides=(), offset=target.offset + Affine(0, ((p, 1),)))
                w.assign(entry, (), source if combine is None else combine(w.read(entry, ()), source))
    w.release(new)
    w.give(result, target)
    w.release(target)
    for operand in operation.operands:
        w.used(operand)


def _number(w: Writer, operand: Any, kind: str) -> Value:
    """The value of an operand; a Python number in this type."""
    if w.dtype(operand) is None:
        return Uniform(w.number(operand, kind), kind)
    return w.operand(operand)


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


def _lanes(w: Writer, array: str, offset: Affine, places: str) -> list[str]:
    """Sources of the entries at a position for each tile, in memory of single numbers."""
    one = w.lanes == 1
    at = [f"{offset} + ti.cast({places}{'' if one else f'[{lane}]'}, ti.i32)" for lane in range(w.lanes)]
    if array.startswith("c"):
        return [f"{array}[{a}]" for a in at]
    kept = array[-1]
    if one:
        return [f"s_{kept}[s0_{kept} + {a}]" for a in at]
    return [f"{array}[(s0_{kept} + {a}) * {w.lanes} + {lane}]" for lane, a in enumerate(at)]


@rule("take")
def _take(w: Writer, operation: Operation) -> None:
    (result,), (x, places) = operation.results, operation.operands
    source, where = w.operand(x), w.operand(places)
    if isinstance(source, Uniform):
        w.give(result, source.reshaped(result.shape))
    else:
        memory = _in_scratch(w, source)
        w.hold(memory)
        made = w.allocate(result.shape, memory.kind)
        kept = "i" if memory.kind == "b" else memory.kind
        with w.loops(result.shape, [v.strides for v in (made, where) if isinstance(v, View)]) as index:
            at = w.variable(w.read(where, index))
            found = w.variable(w.gathered(_lanes(w, f"p_{kept}" if memory.array == "s" else f"c_{kept}", memory.offset, at)))
            w.assign(made, index, f"({found} != 0)" if memory.kind == "b" else found)
        w.give(result, made)
        w.release(memory)
    w.used(x)
    w.used(places)


@rule("put", "add_at")
def _put(w: Writer, operation: Operation) -> None:
    (result,), (x, places, values) = operation.results, operation.operands
    kind = w.kind(result.dtype)
    where, new = w.operand(places), _number(w, values, kind)
    target = _target(w, x, kind, result.shape)
    new = broadcast(new, places.shape)
    w.hold(new)
    kept = "i" if kind == "b" else kind
    adds = operation.primitive.name == "add_at"
    with w.loops(places.shape) as index:
        at = w.variable(w.read(where, index))
        source = entries.converted(w.read(new, index), new.kind, kind)
        value = w.variable(f"ti.select({source}, V_i(F_i(1)), V_i(F_i(0)))" if kind == "b" else source)
        for lane, place in enumerate(_lanes(w, f"p_{kept}", target.offset, at)):
            one = value if w.lanes == 1 else f"{value}[{lane}]"
            w.text(f"{place} = {f'{place} + {one}' if adds else one}")
    w.release(new)
    w.give(result, target)
    w.release(target)
    for operand in operation.operands:
        w.used(operand)


@rule("stays")
def _stays(w: Writer, operation: Operation) -> None:
    (result,), (places,) = operation.results, operation.operands
    where, kind = w.in_memory(w.operand(places)), w.kind(operation.results[0].dtype)
    w.hold(where)
    made = w.allocate(result.shape, kind)
    kept, count = where.kind, math.prod(result.shape)
    with w.text.block(f"for i in range({count})"):
        w.text(f"own = s_{kept}[s0_{kept} + {where.offset} + i]")
        w.text(f"last = {w.number(1, kind)}")
        with w.text.block(f"for j in range(i + 1, {count})"):
            w.text(f"last = ti.select(s_{kept}[s0_{kept} + {where.offset} + j] == own, {w.number(0, kind)}, last)")
        w.text(f"s_{kind}[s0_{kind} + {made.offset} + i] = last")
    w.give(result, made)
    w.release(where)
    w.used(places)


# along axes


@rule("sum")
def _sum(w: Writer, operation: Operation) -> None:
    (result,), (x,) = operation.results, operation.operands
    value, kind = w.operand(x), w.kind(result.dtype)
    rank, axis = len(value.shape), operation.params["axis"]
    axes = tuple(range(rank)) if axis is None else tuple(a % rank for a in axis)
    _folded(w, operation, value, axes, kind, w.number(0, kind), lambda a, b: f"{a} + {b}")
    w.used(x)


@rule("prod")
def _prod(w: Writer, operation: Operation) -> None:
    (result,), (x,) = operation.results, operation.operands
    value, kind = w.operand(x), w.kind(result.dtype)
    _folded(w, operation, value, (len(value.shape) - 1,), kind, w.number(1, kind), lambda a, b: f"{a} * {b}")
    w.used(x)


def _folded(
    w: Writer, operation: Operation, value: Value, axes: Sequence[int], kind: str, start: str, combine: Callable[[str, str], str]
) -> None:
    """Entries along axes combined in their order."""
    (result,) = operation.results
    rank = len(value.shape)
    rest = [k for k in range(rank) if k not in axes]
    inner = tuple(value.shape[k] for k in axes)
    part = _axes(value, axes)
    if math.prod(result.shape) == 1:
        total = w.variable(start)
        with w.loops(inner, [part.strides] if isinstance(part, View) else []) as index:
            w.text(f"{total} = {combine(total, entries.converted(w.read(part, index), value.kind, kind))}")
        w.give(result, Uniform(total, kind, result.shape))
        return
    made = w.allocate(tuple(value.shape[k] for k in rest), kind)
    with w.loops(made.shape) as outer:
        at = part if isinstance(part, Uniform) else replace(part, offset=_axes(value, rest).at(outer))  # type: ignore[union-attr]
        total = w.variable(start)
        with w.loops(inner, [part.strides] if isinstance(part, View) else []) as index:
            w.text(f"{total} = {combine(total, entries.converted(w.read(at, index), value.kind, kind))}")
        w.assign(made, outer, total)
    w.give(result, replace(made, shape=result.shape, strides=row_strides(result.shape)))


def _axes(value: Value, axes: Sequence[int]) -> Value:
    """The part of a value along some axes, at index 0 of the others."""
    shape = tuple(value.shape[k] for k in axes)
    if isinstance(value, Uniform):
        return value.reshaped(shape)
    return replace(value, shape=shape, strides=tuple(value.strides[k] for k in axes))


def _rows(w: Writer, value: Value) -> tuple[View, tuple[int, ...]]:
    """A value in scratch memory whose last axis is run along, and the shape of the others."""
    if isinstance(value, View) and value.array in "sc":
        return value, value.shape[:-1]
    return w.in_memory(value), value.shape[:-1]


def _along(view: View, outer: Sequence[Affine], k: str, reverse: bool) -> View:
    """The entry `k` of a row, from the end if `reverse`."""
    n, stride = view.shape[-1], view.strides[-1]
    row = replace(view, shape=view.shape[:-1], strides=view.strides[:-1]).at(outer)
    step = Affine(stride * (n - 1), ((k, -stride),)) if reverse else Affine(0, ((k, stride),))
    return replace(view, shape=(), strides=(), offset=row + step)


def _running(
    w: Writer, operation: Operation, values: Sequence[Value], reverse: bool, kind: str, turn: Callable[[str, list[str]], str], start: str
) -> None:
    """A running result along the last axis."""
    (result,) = operation.results
    views = [_rows(w, v)[0] for v in values]
    for view in views:
        w.hold(view)
    made = w.allocate(result.shape, kind)
    with w.loops(result.shape[:-1]) as outer:
        total = w.variable(start)
        k = w.name("k")
        with w.text.block(f"for {k} in range({result.shape[-1]})"):
            now = [entries.converted(w.read(_along(v, outer, k, reverse), ()), v.kind, kind) for v in views]
            w.text(f"{total} = {turn(total, now)}")
            w.assign(_along(made, outer, k, reverse), (), total)
    w.give(result, made)
    for view in views:
        w.release(view)
    for operand in operation.operands:
        w.used(operand)


@rule("cumsum")
def _cumsum(w: Writer, operation: Operation) -> None:
    kind = w.kind(operation.results[0].dtype)
    values = [w.operand(operation.operands[0])]
    _running(w, operation, values, operation.params.get("reverse", False), kind, lambda t, v: f"{t} + {v[0]}", w.number(0, kind))


@rule("cumprod")
def _cumprod(w: Writer, operation: Operation) -> None:
    kind = w.kind(operation.results[0].dtype)
    values = [w.operand(operation.operands[0])]
    _running(w, operation, values, operation.params.get("reverse", False), kind, lambda t, v: f"{t} * {v[0]}", w.number(1, kind))


@rule("linear_recurrence")
def _linear_recurrence(w: Writer, operation: Operation) -> None:
    shape = operation.results[0].shape
    kind = w.kind(operation.results[0].dtype)
    values = [broadcast(w.operand(o), shape) for o in operation.operands]
    zero = w.number(0, kind)
    _running(
        w,
        operation,
        values,
        operation.params.get("reverse", False),
        kind,
        lambda t, v: f"ti.select({t} == {zero}, {zero}, {v[0]} * {t}) + {v[1]}",
        zero,
    )


def _better(largest: bool, new: str, best: str) -> str:
    return f"(({new} {'>' if largest else '<'} {best}) | ((({new} == {new}) == 0) & ({best} == {best})))"


@rule("winners", "running_winners")
def _winners(w: Writer, operation: Operation) -> None:
    (result,), (x,) = operation.results, operation.operands
    value = w.operand(x)
    if value.kind == "b":
        source = w.allocate(value.shape, "i")
        _converted_copy(w, value, source)
        value = source
    view, rest = _rows(w, value)
    w.hold(view)
    reverse, running = operation.params.get("reverse", False), operation.primitive.name == "running_winners"
    made, n = w.allocate(result.shape, "n"), view.shape[-1]
    with w.loops(rest) as outer:
        k = w.name("k")
        first = n - 1 if reverse else 0
        best = w.variable(w.read(_along(view, outer, "0", reverse), ()))
        place = w.variable(w.number(first, "n"))
        if running:
            w.assign(_along(made, outer, "0", reverse), (), place)
        with w.text.block(f"for {k} in range(1, {n})"):
            new = w.variable(w.read(_along(view, outer, k, reverse), ()))
            wins = w.variable(f"ti.select({_better(operation.params['largest'], new, best)}, V_i(F_i(1)), V_i(F_i(0)))")
            w.text(f"{best} = ti.select({wins} != 0, {new}, {best})")
            here = f"{n - 1} - {k}" if reverse else k
            w.text(f"{place} = ti.select({wins} != 0, V_n(ti.cast({here}, ti.i64)), {place})")
            if running:
                w.assign(_along(made, outer, k, reverse), (), place)
        if not running:
            w.assign(_along(made, outer, "0", False), (), place)
    w.give(result, made)
    w.release(view)
    w.used(x)


@rule("argsort")
def _argsort(w: Writer, operation: Operation) -> None:
    (result,), (x,) = operation.results, operation.operands
    view, rest = _rows(w, w.operand(x))
    w.hold(view)
    made, n = w.allocate(result.shape, "n"), view.shape[-1]
    with w.loops(rest) as outer, w.text.block(f"for i in range({n})"):
        own = w.variable(w.read(_along(view, outer, "i", False), ()))
        rank = w.variable(w.number(0, "n"))
        for bounds, less in (("i", "<="), (f"i + 1, {n}", "<")):
            with w.text.block(f"for j in range({bounds})"):
                other = w.variable(w.read(_along(view, outer, "j", False), ()))
                lost = f"(({own} == {own}) == 0)" if less == "<=" else f"((({own} == {own}) == 0) & ({other} == {other}))"
                before = f"(({other} {less} {own}) | {lost})" if view.kind != "b" else "0"
                w.text(f"{rank} = ti.select({before}, {rank} + {w.number(1, 'n')}, {rank})")
        row = replace(made, shape=made.shape[:-1], strides=made.strides[:-1]).at(outer)
        for place in _lanes(w, "p_n", row, rank):
            w.text(f"{place} = ti.cast(i, ti.i64)")
    w.give(result, made)
    w.release(view)
    w.used(x)


# loops


@rule("repeat")
def _repeat(w: Writer, operation: Operation) -> None:
    params = operation.params
    body, states, rows, most = params["body"], params["states"], params["rows"], params["most"]
    count, *operands = operation.operands
    w.close_all()
    values = [_number(w, o, "d") for o in operands]
    turns = w.operand(count) if isinstance(count, Variable) else None
    state = [w.allocate(v.shape, v.kind) for v in values[:states]]
    for made, value in zip(state, values, strict=False):
        w.hold(made)
        w.copied(value, made)
    constants = [_kept(w, v) for v in values[states : len(values) - rows]]
    stacked = [_kept(w, v) for v in values[len(values) - rows :]]
    outs = [w.allocate((most, *r.shape), w.kind(r.dtype)) for r in body.results[states:]]
    for made in outs:
        w.hold(made)
        if turns is not None:
            w.copied(Uniform(w.number(0, made.kind), made.kind, made.shape), made)
    for operand in operation.operands:
        w.used(operand)
    k = w.name("k")
    with w.text.block(f"for {k} in range({most})"):
        turn = Affine(most - 1, ((k, -1),)) if params["reverse"] else Affine(0, ((k, 1),))
        number = Uniform(w.variable(f"V_n(ti.cast({turn + params['first']}, ti.i64))"), "n")
        runs = None
        if turns is not None:
            wanted = f"{entries.converted(w.read(turns, ()), turns.kind, 'n')} > V_n(ti.cast({turn}, ti.i64))"
            runs = w.variable(f"ti.select({wanted}, V_i(F_i(1)), V_i(F_i(0)))")
        elif params["going"]:
            runs = w.variable(f"ti.select({w.read(state[0], ())}, V_i(F_i(1)), V_i(F_i(0)))")
        some: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if runs is not None:
            some = w.text.block(f"if {runs}.sum() > 0" if w.lanes > 1 else f"if {runs} > 0")
        some.__enter__()
        lines = [row if isinstance(row, Uniform) else row.row(turn) for row in stacked]
        lines = [row.reshaped(row.shape[1:]) if isinstance(row, Uniform) else row for row in lines]
        found = w.run(body, [number, *state, *constants, *lines], write)
        w.close_all()
        found = _apart(w, found, state)
        for made, value in zip(state, found, strict=False):
            _turned(w, made, value, runs)
        for made, value in zip(outs, found[states:], strict=True):
            _turned(w, made.row(turn), value, runs)
        for value in found:
            w.release(value)
        some.__exit__(None, None, None)
    if turns is not None:
        w.check(
            f"({entries.converted(w.read(turns, ()), turns.kind, 'n')} > {w.number(most, 'n')})",
            f"{operation.place}: a fori_loop of a tile program whose bound differs from tile to tile takes more than {most} turns; give it a "
            "known bound, and keep the state with where(k < n, new, old), or use a while_loop with max_steps",
        )
    if params["going"]:
        w.check(
            w.read(state[0], ()),
            f"{operation.place}: a while_loop of a tile program takes more than {most} turns; give a larger max_steps, or check the condition",
        )
    for value in (*constants, *stacked):
        w.release(value)
    for variable, made in zip(operation.results, (*state, *outs), strict=True):
        w.give(variable, made)
        w.release(made)


def _kept(w: Writer, value: Value) -> Value:
    """A value that a loop reads again and again: not in an argument, whose entries are gathered. Held by the caller."""
    kept = w.in_memory(value) if isinstance(value, View) and value.array not in "sc" else value
    w.hold(kept)
    return kept


def _apart(w: Writer, found: Sequence[Value], state: Sequence[View]) -> list[Value]:
    """Results of a turn that do not lie in the memory of another state, which is about to be written."""
    out: list[Value] = []
    buffers = {id(s.buffer): k for k, s in enumerate(state)}
    for k, value in enumerate(found):
        owner = buffers.get(id(value.buffer), k) if isinstance(value, View) else k
        same = isinstance(value, View) and k < len(state) and value == state[k]
        if isinstance(value, View) and value.buffer is not None and id(value.buffer) in buffers and not (owner == k and same):
            made = w.allocate(value.shape, value.kind)
            w.hold(made)
            w.copied(value, made)
            w.release(value)
            value = made
        out.append(value)
    return out


def _turned(w: Writer, target: View, value: Value, runs: str | None) -> None:
    """The value after a turn, for those tiles that take it."""
    if isinstance(value, View) and (value.array, value.offset, value.strides) == (target.array, target.offset, target.strides):
        return
    if not target.size:
        return
    with w.loops(target.shape, [v.strides for v in (target, value) if isinstance(v, View)]) as index:
        new = entries.converted(w.read(value, index), value.kind, target.kind)
        if runs is None:
            w.assign(target, index, new)
        elif target.kind == "b":
            w.assign(target, index, f"((({runs} != 0) & {new}) | (({runs} == 0) & {w.read(target, index)}))")
        else:
            w.assign(target, index, f"ti.select({runs} != 0, {new}, {w.read(target, index)})")


matrices.install(rule, _along)
