"""The source of each operation of a tile program: the table of rules, and operations entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from diffsim.ad.ops import elementwise as ew
from diffsim.errors import ArrayIndexError, SingularError, TileError
from diffsim.tile.source import entries
from diffsim.tile.source.values import Affine, Uniform, Value, View
from diffsim.tile.source.writer import Writer
from diffsim.tile.trace.program import Operation, Program, Variable

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
    rule = RULES.get(name)
    if rule is None and (name in ew.TABLE or name == "scale"):
        rule = _elementwise
    if rule is None:
        raise TileError(f"{operation.place}: {name} has no rule in tile programs; write it with other operations, or call it outside")
    rule(w, operation)


def _inlined(w: Writer, operation: Operation, inner: Program) -> None:
    """The operations of a function with a rule of its own."""
    values = [w.operand(o) for o in operation.operands if isinstance(o, Variable)]
    for value in values:
        w.hold(value)
    inlined = w.run(inner, values, write)
    for variable, value in zip(operation.results, inlined, strict=True):
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
        power = _power(w, operation, kinds)
        if power is not None:
            w.join(*power)
            return
    kind = w.kind(result.dtype)
    if name in entries.COMPARED:
        kinds = _compared(kinds, operation.operands)
    template, computed = entries.template(name, kinds, kind, operation.place)
    numbers = entries.numbers(computed, w.number) if computed != "b" else {"k": "b"}
    final = "b" if name in entries.COMPARED or computed == "b" else computed
    _join(w, operation, [computed] * len(kinds), lambda *s: entries.converted(template.format(*s, **numbers), final, kind))


def _compared(kinds: Sequence[str], operands: Sequence[Any]) -> list[str]:
    """Types of operands that are compared: a Python number has a type of its own where that of the others does not hold it."""
    if "f" in kinds or "d" in kinds:
        return list(kinds)
    return [
        k if k != "number" else "d" if isinstance(o, float) else "n" if abs(o) >= 2**31 else k for k, o in zip(kinds, operands, strict=True)
    ]


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
        n, base, power = int(abs(exponent)), w.variable(entries.converted(s, before, kind)), ""
        while n:
            if n & 1:
                power = w.variable(f"{power} * {base}") if power else base
            n >>= 1
            base = w.variable(f"{base} * {base}") if n else base
        power = power or w.number(1, kind)
        return power if exponent >= 0 else f"({w.number(1, kind)} / {power})"

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


@rule("checked")
def _checked(w: Writer, operation: Operation) -> None:
    kind = w.kind(operation.results[0].dtype)
    message = (
        f"{operation.place}: {operation.params['what']} of a matrix that is singular within rounding in a tile program; add a small "
        "multiple of the unit matrix"
    )

    def entry(bad: str) -> str:
        w.check(bad, SingularError, message)
        return w.number(0, kind)

    _join(w, operation, ["b"], entry)


@rule("within")
def _within(w: Writer, operation: Operation) -> None:
    (places,), length = operation.operands, operation.params["length"]
    kind = w.kind(places.dtype)
    n, zero = w.number(length, kind), w.number(0, kind)
    message = (
        f"{operation.place}: an index is out of bounds for an axis of length {length}; use positions from {-length} to {length - 1}, or "
        'take with mode="clip"'
    )

    def entry(place: str) -> str:
        bad = w.variable(f"ti.select(({place} < {zero} - {n}) | ({place} >= {n}), V_i(F_i(1)), V_i(F_i(0)))")
        w.check(f"({bad} != 0)", ArrayIndexError, message)
        inside = w.variable(f"ti.select({place} < {zero}, {place} + {n}, {place})")
        return f"ti.select({bad} != 0, {zero}, {inside})"

    _join(w, operation, [kind], entry)


# shared by rules


def converted_copy(w: Writer, value: Value, target: View) -> None:
    if target.size:
        w.entries(target.shape, target, (value,), lambda x: entries.converted(x, value.kind, target.kind))


def number_of(w: Writer, operand: Any, kind: str) -> Value:
    """The value of an operand; a Python number in this type."""
    if w.dtype(operand) is None:
        return Uniform(w.number(operand, kind), kind)
    return w.operand(operand)


def lanes_at(w: Writer, array: str, offset: Affine, places: str) -> list[str]:
    """Sources of the entries at a position for each tile, in memory of single numbers."""
    one = w.lanes == 1
    at = [f"{offset} + ti.cast({places}{'' if one else f'[{lane}]'}, ti.i32)" for lane in range(w.lanes)]
    if array.startswith("c"):
        return [f"{array}[{a}]" for a in at]
    kept = array[-1]
    if one:
        return [f"s_{kept}[s0_{kept} + {a}]" for a in at]
    return [f"{array}[(s0_{kept} + {a}) * {w.lanes} + {lane}]" for lane, a in enumerate(at)]
