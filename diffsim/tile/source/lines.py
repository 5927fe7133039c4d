"""Operations along axes: sums, products, running results, extrema, orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from diffsim.tile.source import entries
from diffsim.tile.source.rules import converted_copy, lanes_at, rule
from diffsim.tile.source.values import Affine, Uniform, Value, View, row_strides
from diffsim.tile.source.writer import Writer, broadcast
from diffsim.tile.trace.program import Operation

OPERATORS = {"sum": (0, "+"), "cumsum": (0, "+"), "prod": (1, "*"), "cumprod": (1, "*")}
"""By primitive, the value from which it begins, and its operator."""


@rule("sum", "prod")
def _folded(w: Writer, operation: Operation) -> None:
    """Entries along axes, those of a product along the last one, combined in their order."""
    (result,), (x,) = operation.results, operation.operands
    value, kind = w.operand(x), w.kind(result.dtype)
    number, sign = OPERATORS[operation.primitive.name]
    start = w.number(number, kind)
    rank, axis = len(value.shape), operation.params["axis"] if operation.primitive.name == "sum" else (-1,)
    axes = tuple(range(rank)) if axis is None else tuple(a % rank for a in axis)
    rest = [k for k in range(rank) if k not in axes]
    inner = tuple(value.shape[k] for k in axes)
    part = _axes(value, axes)
    if math.prod(result.shape) == 1:
        total = w.variable(start)
        with w.loops(inner, [part.strides] if isinstance(part, View) else []) as index:
            w.text(f"{total} = {total} {sign} {entries.converted(w.read(part, index), value.kind, kind)}")
        w.give(result, Uniform(total, kind, result.shape))
        w.used(x)
        return
    folded = w.allocate(tuple(value.shape[k] for k in rest), kind)
    with w.loops(folded.shape) as outer:
        at = part if isinstance(part, Uniform) else replace(part, offset=_axes(value, rest).at(outer))  # type: ignore[union-attr]
        total = w.variable(start)
        with w.loops(inner, [part.strides] if isinstance(part, View) else []) as index:
            w.text(f"{total} = {total} {sign} {entries.converted(w.read(at, index), value.kind, kind)}")
        w.assign(folded, outer, total)
    w.give(result, replace(folded, shape=result.shape, strides=row_strides(result.shape)))
    w.used(x)


def _axes(value: Value, axes: Sequence[int]) -> Value:
    """The part of a value along some axes, at index 0 of the others."""
    shape = tuple(value.shape[k] for k in axes)
    if isinstance(value, Uniform):
        return value.reshaped(shape)
    return replace(value, shape=shape, strides=tuple(value.strides[k] for k in axes))


def _rows(w: Writer, value: Value) -> View:
    """A value in memory in which a loop can run along the last axis."""
    return value if isinstance(value, View) and value.array in "sc" else w.in_memory(value)


def _numbers(w: Writer, value: Value) -> View:
    """`_rows`, of truth values as whole numbers."""
    if value.kind == "b":
        source = w.allocate(value.shape, "i")
        converted_copy(w, value, source)
        value = source
    return _rows(w, value)


def _along(view: View, outer: Sequence[Affine], k: str, reverse: bool) -> View:
    """The entry `k` of a row, from the end if `reverse`."""
    n, stride = view.shape[-1], view.strides[-1]
    row = replace(view, shape=view.shape[:-1], strides=view.strides[:-1]).at(outer)
    step = Affine(stride * (n - 1), ((k, -stride),)) if reverse else Affine(0, ((k, stride),))
    return replace(view, shape=(), strides=(), offset=row + step)


def _running(w: Writer, operation: Operation, values: Sequence[Value], turn: Callable[[str, list[str]], str], start: str) -> None:
    """A running result along the last axis."""
    (result,), reverse = operation.results, operation.params.get("reverse", False)
    kind = w.kind(result.dtype)
    views = [_rows(w, v) for v in values]
    for view in views:
        w.hold(view)
    running = w.allocate(result.shape, kind)
    with w.loops(result.shape[:-1]) as outer:
        total = w.variable(start)
        k = w.name("k")
        with w.text.block(f"for {k} in range({result.shape[-1]})"):
            now = [entries.converted(w.read(_along(v, outer, k, reverse), ()), v.kind, kind) for v in views]
            w.text(f"{total} = {turn(total, now)}")
            w.assign(_along(running, outer, k, reverse), (), total)
    w.give(result, running)
    for view in views:
        w.release(view)
    for operand in operation.operands:
        w.used(operand)


@rule("cumsum", "cumprod")
def _cumulative(w: Writer, operation: Operation) -> None:
    start, sign = OPERATORS[operation.primitive.name]
    values = [w.operand(operation.operands[0])]
    _running(w, operation, values, lambda t, v: f"{t} {sign} {v[0]}", w.number(start, w.kind(operation.results[0].dtype)))


@rule("linear_recurrence")
def _linear_recurrence(w: Writer, operation: Operation) -> None:
    (result,) = operation.results
    values = [broadcast(w.operand(o), result.shape) for o in operation.operands]
    zero = w.number(0, w.kind(result.dtype))
    _running(w, operation, values, lambda t, v: f"ti.select({t} == {zero}, {zero}, {v[0]} * {t}) + {v[1]}", zero)


def _better(largest: bool, new: str, best: str) -> str:
    return f"(({new} {'>' if largest else '<'} {best}) | ((({new} == {new}) == 0) & ({best} == {best})))"


@rule("winners", "running_winners")
def _winners(w: Writer, operation: Operation) -> None:
    (result,), (x,) = operation.results, operation.operands
    view = _numbers(w, w.operand(x))
    w.hold(view)
    reverse, running = operation.params.get("reverse", False), operation.primitive.name == "running_winners"
    places, n = w.allocate(result.shape, "n"), view.shape[-1]
    with w.loops(view.shape[:-1]) as outer:
        k = w.name("k")
        first = n - 1 if reverse else 0
        best = w.variable(w.read(_along(view, outer, "0", reverse), ()))
        place = w.variable(w.number(first, "n"))
        if running:
            w.assign(_along(places, outer, "0", reverse), (), place)
        with w.text.block(f"for {k} in range(1, {n})"):
            new = w.variable(w.read(_along(view, outer, k, reverse), ()))
            wins = w.variable(f"ti.select({_better(operation.params['largest'], new, best)}, V_i(F_i(1)), V_i(F_i(0)))")
            w.text(f"{best} = ti.select({wins} != 0, {new}, {best})")
            here = f"{n - 1} - {k}" if reverse else k
            w.text(f"{place} = ti.select({wins} != 0, V_n(ti.cast({here}, ti.i64)), {place})")
            if running:
                w.assign(_along(places, outer, k, reverse), (), place)
        if not running:
            w.assign(_along(places, outer, "0", False), (), place)
    w.give(result, places)
    w.release(view)
    w.used(x)


@rule("argsort")
def _argsort(w: Writer, operation: Operation) -> None:
    (result,), (x,) = operation.results, operation.operands
    view = _numbers(w, w.operand(x))
    w.hold(view)
    order, n = w.allocate(result.shape, "n"), view.shape[-1]
    with w.loops(view.shape[:-1]) as outer, w.text.block(f"for i in range({n})"):
        own = w.variable(w.read(_along(view, outer, "i", False), ()))
        rank = w.variable(w.number(0, "n"))
        for bounds, less in (("i", "<="), (f"i + 1, {n}", "<")):
            with w.text.block(f"for j in range({bounds})"):
                other = w.variable(w.read(_along(view, outer, "j", False), ()))
                lost = f"(({own} == {own}) == 0)" if less == "<=" else f"((({own} == {own}) == 0) & ({other} == {other}))"
                before = f"(({other} {less} {own}) | {lost})"
                w.text(f"{rank} = ti.select({before}, {rank} + {w.number(1, 'n')}, {rank})")
        row = replace(order, shape=order.shape[:-1], strides=order.strides[:-1]).at(outer)
        for place in lanes_at(w, "p_n", row, rank):
            w.text(f"{place} = ti.cast(i, ti.i64)")
    w.give(result, order)
    w.release(view)
    w.used(x)
