"""Loops in a kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from diffsim.errors import ParameterError
from diffsim.tile.source import entries
from diffsim.tile.source.rules import number_of, rule, write
from diffsim.tile.source.values import Affine, Uniform, Value, View
from diffsim.tile.source.writer import Writer
from diffsim.tile.trace.program import Operation, Variable


@rule("repeat")
def _repeat(w: Writer, operation: Operation) -> None:
    params = operation.params
    body, states, rows, most = params["body"], params["states"], params["rows"], params["most"]
    count, *operands = operation.operands
    w.close_all()
    values = [number_of(w, o, "d") for o in operands]
    turns = w.operand(count) if isinstance(count, Variable) else None
    if turns is not None:
        w.hold(turns)  # each turn reads it
    state = [w.allocate(v.shape, v.kind) for v in values[:states]]
    for target, value in zip(state, values, strict=False):
        w.hold(target)
        w.copied(value, target)
    constants = [_kept(w, v) for v in values[states : len(values) - rows]]
    stacked = [_kept(w, v) for v in values[len(values) - rows :]]
    outs = [w.allocate((most, *r.shape), w.kind(r.dtype)) for r in body.results[states:]]
    for target in outs:
        w.hold(target)
        if turns is not None:
            w.copied(Uniform(w.number(0, target.kind), target.kind, target.shape), target)
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
        with some:
            lines = [row.reshaped(row.shape[1:]) if isinstance(row, Uniform) else row.row(turn) for row in stacked]
            results = w.run(body, [number, *state, *constants, *lines], write)
            w.close_all()
            results = _apart(w, results, state)
            for target, value in zip(state, results, strict=False):
                _turned(w, target, value, runs)
            for target, value in zip(outs, results[states:], strict=True):
                _turned(w, target.row(turn), value, runs)
            for value in results:
                w.release(value)
    if turns is not None:
        w.check(
            f"({entries.converted(w.read(turns, ()), turns.kind, 'n')} > {w.number(most, 'n')})",
            ParameterError,
            f"{operation.place}: a fori_loop of a tile program whose bound differs from tile to tile takes more than {most} turns; give it "
            "a known bound, and keep the state with where(k < n, new, old), or use a while_loop with max_steps",
        )
    if params["going"]:
        w.check(
            w.read(state[0], ()),
            ParameterError,
            f"{operation.place}: a while_loop of a tile program takes more than {most} turns; give a larger max_steps, or check "
            "the condition",
        )
    for value in (*constants, *stacked, *([] if turns is None else [turns])):
        w.release(value)
    for variable, target in zip(operation.results, (*state, *outs), strict=True):
        w.give(variable, target)
        w.release(target)


def _kept(w: Writer, value: Value) -> Value:
    """A value that a loop reads again and again: not in an argument, whose entries are gathered. Held by the caller."""
    kept = w.in_memory(value) if isinstance(value, View) and value.array not in "sc" else value
    w.hold(kept)
    return kept


def _apart(w: Writer, results: Sequence[Value], state: Sequence[View]) -> list[Value]:
    """Results of a turn that do not lie in the memory of another state, which is about to be written."""
    out: list[Value] = []
    buffers = {id(s.buffer): k for k, s in enumerate(state)}
    for k, value in enumerate(results):
        owner = buffers.get(id(value.buffer), k) if isinstance(value, View) else k
        same = isinstance(value, View) and k < len(state) and value == state[k]
        if isinstance(value, View) and value.buffer is not None and id(value.buffer) in buffers and not (owner == k and same):
            copy = w.allocate(value.shape, value.kind)
            w.hold(copy)
            w.copied(value, copy)
            w.release(value)
            value = copy
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
