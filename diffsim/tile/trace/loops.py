"""Loops as operations of a tile program, with derivatives of every order.

`repeat` runs the program of its body a number of times on a state. It can also give the state before each turn, stacked, which
the reverse sweep of a loop reads: that is again a `repeat`, whose turns run backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays.guard import caller
from diffsim.ad.core import Primitive, Tracer, aval, bind, is_inexact, local
from diffsim.ad.ops.elementwise import subtract
from diffsim.ad.ops.structure import astype, reshape, zeros_like
from diffsim.errors import ShapeError, TileError
from diffsim.tile.trace.program import Program, Variable
from diffsim.tile.trace.trace import Loops, cotangents, derived, interpret, tangents, traced

Cores = tuple[Any, ...]


def _evaluate(count: Any, *values: Any, **params: Any) -> tuple[Any, ...]:
    """On plain arrays; see `repeat`."""
    body, states, rows, most = (params[name] for name in ("body", "states", "rows", "most"))
    state, constants, stacked = values[:states], values[states : len(values) - rows], values[len(values) - rows :]
    outs = [np.zeros((most, *r.shape), r.dtype) for r in body.results[states:]]
    numbers = range(most)[::-1] if params["reverse"] else range(most)
    for k in numbers:
        if k < int(count) and (not params["going"] or state[0]):
            number = np.asarray(k + params["first"])
            results = interpret(body, (number, *state, *constants, *(s[k] for s in stacked)))
            state = tuple(results[:states])
            for out, value in zip(outs, results[states:], strict=True):
                out[k] = value
    return (*state, *outs)


def _jvp(args: Sequence[Any], dots: Sequence[Any], out: Any, params: dict[str, Any]) -> list[Any]:
    """The same loop over states and their tangents."""
    body, states, rows = (params[name] for name in ("body", "states", "rows"))
    values, moved = list(args[1:]), list(dots[1:])
    for k in range(states):
        if moved[k] is None and is_inexact(values[k]):
            moved[k] = zeros_like(aval(values[k]))
    derivative, has, _ = tangents(body, (False, *(m is not None for m in moved)))
    groups = [range(states), range(states, len(values) - rows), range(len(values) - rows, len(values))]
    carried = [k for k in groups[0] if moved[k] is not None]
    order = [[*(("v", k) for k in group), *(("t", k) for k in group if moved[k] is not None)] for group in groups]
    places = {("v", k): k + 1 for k in range(len(values))}
    places |= {("t", k): len(values) + 1 + n for n, k in enumerate(k for k in range(len(values)) if moved[k] is not None)}
    outputs = len(body.results)

    def both(cores: Cores) -> Cores:
        number, *rest = cores
        inputs: list[Any] = [None] * (1 + len(rest))
        inputs[0] = number
        for value, key in zip(rest, [key for group in order for key in group], strict=True):
            inputs[places[key]] = value
        primals = interpret(body, inputs[: len(values) + 1])
        results = iter(interpret(derivative, inputs))
        movement = [next(results) if h else None for h in has]
        new = [movement[k] if movement[k] is not None else zeros_like(primals[k]) for k in carried]
        stacked = [m for m in movement[states:] if m is not None]
        return (*primals[:states], *new, *primals[states:], *stacked)

    inputs = [np.zeros((), np.intp), *(_element(values, moved, key, groups[2]) for group in order for key in group)]
    program = derived(both, inputs)
    inner = [values[k] if kind == "v" else moved[k] for group in order for kind, k in group]
    changed = {"body": program, "states": states + len(carried), "rows": len(order[2])}
    result = bind(repeat, (args[0], *inner), params | changed)
    dots_out = dict(zip(carried, result[states : states + len(carried)], strict=True))
    tail = iter(result[len(result) - sum(has[states:]) :]) if any(has[states:]) else iter(())
    return [dots_out.get(k) for k in range(states)] + [next(tail) if has[k] else None for k in range(states, outputs)]


def _element(values: Sequence[Any], moved: Sequence[Any], key: tuple[str, int], rows: range) -> Any:
    kind, k = key
    value = values[k] if kind == "v" else moved[k]
    abstract = aval(value)
    return np.zeros(abstract.shape[1:] if k in rows else abstract.shape, abstract.dtype)


def _vjp(ct: Sequence[Any], args: Sequence[Any], out: Any, params: dict[str, Any], wanted: Sequence[bool]) -> list[Any]:
    """The turns backwards, on the states before each of them."""
    body, states, rows, most = (params[name] for name in ("body", "states", "rows", "most"))
    if most > params["kept"]:
        raise TileError(
            f"{params['place']}: the derivative of a loop of a tile program that may take {most} turns keeps {most} states for each "
            f"tile, expected at most {params['kept']}; give while_loop a smaller max_steps, or run the loop outside of the tile program"
        )
    values = list(args[1:])
    with_states = Program(body.arguments, body.operations, (*body.results, *body.arguments[1 : 1 + states]))
    saved = bind(repeat, args, params | {"body": with_states})
    before = saved[len(body.results) :]
    kinds = [is_inexact(v) for v in values]
    floating = [k for k in range(len(values)) if kinds[k]]
    in_state = [k for k in floating if k < states]
    in_constants = [k for k in floating if states <= k < len(values) - rows]
    in_rows = [k for k in floating if k >= len(values) - rows]
    outs = [k for k, r in enumerate(body.results) if is_inexact(r)]
    pulled, has = cotangents(body, (False, *kinds), local.zero_wins)
    found_at = [k for k, h in zip(floating, has, strict=True) if h]

    def turn(cores: Cores) -> Cores:
        number, *rest = cores
        parts = iter(rest)
        bars = {k: next(parts) for k in in_state}
        sums = {k: next(parts) for k in in_constants}
        constants = [next(parts) for _ in range(states, len(values) - rows)]
        state = [next(parts) for _ in range(states)]
        row = [next(parts) for _ in range(rows)]
        row_cts = {k: next(parts) for k in outs if k >= states}
        cts = [bars[k] if k < states else row_cts[k] for k in outs]
        pulled_back = dict(zip(found_at, interpret(pulled, (number, *state, *constants, *row, *cts)), strict=True))
        new = [pulled_back.get(k, zeros_like(values[k])) for k in in_state]
        totals = [sums[k] + pulled_back[k] if k in pulled_back else sums[k] for k in in_constants]
        return (*new, *totals, *(pulled_back.get(k, np.zeros(values[k].shape[1:], values[k].dtype)) for k in in_rows))

    first = [*(ct[k] for k in in_state), *(zeros_like(aval(values[k])) for k in in_constants)]
    constants = values[states : len(values) - rows]
    stacked = [*before, *values[len(values) - rows :], *(ct[k] for k in outs if k >= states)]
    examples = [np.zeros((), np.intp), *(_blank(v) for v in (*first, *constants)), *(_blank(s, rows=True) for s in stacked)]
    program = derived(turn, examples)
    inner = {"body": program, "states": len(first), "rows": len(stacked), "reverse": not params["reverse"], "going": False}
    result = bind(repeat, (saved[1] if params["going"] else args[0], *first, *constants, *stacked), params | inner)
    bars = dict(zip([*in_state, *in_constants, *in_rows], result, strict=True))
    return [None, *(bars.get(k) for k in range(len(values)))]


def _blank(value: Any, rows: bool = False) -> Any:
    abstract = aval(value)
    return np.zeros(abstract.shape[1:] if rows else abstract.shape, abstract.dtype)


repeat: Primitive = Primitive("repeat", _evaluate, jvp=_jvp, vjp=_vjp, multiple=True)
"""`(count, *state, *constants, *stacked)` -> (*state, *stacked results).

Where a count, which may differ from tile to tile, is less than `most`, later turns leave the state as it is, and their rows are 0.

Parameters:
    body: the program of a turn, (number, *state, *constants, *rows) -> (*state, *results).
    states: how many values the state has.
    rows: how many stacked arguments there are, whose row k belongs to turn k.
    most: the largest count.
    first: the number of turn 0.
    reverse: whether the last turn comes first.
    going: whether the first value of the state says if there is a further turn; the second one counts them.
    kept: the most states that a derivative may keep.
    place: file and line of the loop.
"""

KEPT = 100_000
"""The most states that the derivative of a loop keeps for a tile."""
TURNS = 1000
"""The most turns of a while loop without max_steps, and of a loop whose bound differs from tile to tile."""


def loop(
    body: Callable[[Any, Cores], Cores],
    init: Cores,
    first: Any,
    last: Any,
    go_on: Callable[[Any, Cores], Any] | None,
    most: int | None,
    going: bool = False,
) -> Cores:
    """A loop of the function of a tile: see `diffsim.ad.core.Tiling`."""
    if go_on is not None:
        return _while(body, init, go_on, most)
    if isinstance(first, Tracer):
        raise TileError(
            f"{caller()}: the first number of a loop differs from tile to tile, expected a whole number; count from 0, and add it"
        )
    if isinstance(last, Tracer) and most is None:
        most = TURNS
    count: Any = bind(subtract, (last, int(first)), {}) if isinstance(last, Tracer) else max(int(last) - int(first), 0)
    turns = int(count) if not isinstance(count, Tracer) else int(most or 0)
    if not turns:
        return init
    state = tuple(c if hasattr(c, "dtype") else np.asarray(c) for c in init)

    def turn(cores: Cores) -> Cores:
        cores[0].weak = True
        return tuple(c if hasattr(c, "dtype") else np.asarray(c) for c in body(cores[0], cores[1:]))

    program, captured = traced(turn, (np.zeros((), np.intp), *map(_blank, state)))
    _require_steady(program, state)
    params = {"body": program, "states": len(state), "rows": 0, "most": turns, "first": int(first), "reverse": False, "kept": KEPT}
    params["going"], params["place"] = going, caller()
    return tuple(bind(repeat, (np.asarray(turns) if not isinstance(count, Tracer) else count, *state, *captured), params))


Loops.loop = staticmethod(loop)


def in_turns(program: Program, args: Sequence[Any], mapped: Sequence[bool], count: int) -> Cores:
    """The results of a program for each entry of the first axis of its arguments, stacked: one turn of a loop for each.

    Args:
        program: of one entry.
        args: its arguments, with that axis where they are `mapped`.
        mapped: for each argument whether it has that axis; others are the same in all turns.
        count: entries of that axis.
    """
    order = [k for k, m in enumerate(mapped) if not m] + [k for k, m in enumerate(mapped) if m]
    number = Variable((), np.dtype(np.intp))
    body = Program((number, *(program.arguments[k] for k in order)), program.operations, program.results)
    params = {"body": body, "states": 0, "rows": sum(mapped), "most": count, "first": 0, "reverse": False, "kept": KEPT}
    params["going"], params["place"] = False, caller()
    return tuple(bind(repeat, (np.asarray(count), *(args[k] for k in order)), params))


def _require_steady(program: Program, state: Cores) -> None:
    """Raise if the results of the body have other types or shapes than the state."""
    for before, after in zip(state, program.results, strict=False):
        if before.shape != after.shape or before.dtype != after.dtype:
            raise ShapeError(
                f"the body of a loop returned {after.dtype} of shape {after.shape} for a state that began as {before.dtype} of shape "
                f"{before.shape}; begin with that shape and type"
            )


def _while(body: Callable[[Any, Cores], Cores], init: Cores, go_on: Callable[[Any, Cores], Any], most: int | None) -> Cores:
    """A loop whose state decides if it goes on, and its number of turns."""

    def turn(number: Any, state: Cores) -> Cores:
        new = body(number, state[2:])
        return (_truth(go_on(number, new)), astype(state[1] + 1, dtype=_COUNT), *new)

    start = (_truth(go_on(0, init)), np.zeros((), _COUNT), *init)
    return loop(turn, start, 0, TURNS if most is None else most, None, None, going=True)[2:]


def _truth(value: Any) -> Any:
    value = value if hasattr(value, "dtype") else np.asarray(value)
    if value.size != 1:
        raise ShapeError(f"cond gave an array of shape {value.shape}, expected one truth value; use np.any or np.all")
    return astype(reshape(value, shape=()), dtype=np.dtype(bool))


_COUNT = np.dtype(np.intp)
