"""Elementwise operations on entries, as source of a kernel.

A kernel works on registers of several lanes. Arithmetic, comparisons and choices work on registers as they are. Conversions and elementary
functions are applied to each lane, by functions of the kernel (`library`).

In a kernel `!=` is false for NaN, unlike in NumPy. So "not equal" is written as "equal" compared with 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.elementwise import source as functions
from diffsim.elementwise.source import ENGINE, Dialect
from diffsim.elementwise.table import FUNCTIONS
from diffsim.errors import TileError
from diffsim.tile.source.values import TYPES

_DIALECTS = {k: Dialect(f"{{name}}_{k}", f"{{name}}_{k}", f"V_{k}(F_{k}({{value}}))") for k in "fd"}
REGISTER: Mapping[str, tuple[str, ...]] = {
    "nan": ("return (x - x) / (x - x)",),
    "inf": ("return x / (x - x)",),
    "minus_inf": ("return ({0} - x) / (x - x)",),
    "trunc": ("return ti.select(x < {0}, {0} - ti.floor({0} - x), ti.floor(x))",),
    "rint": (
        "r = ti.floor(x)",
        "even = r == ti.floor(r * {0.5}) * {2}",
        "return ti.select((x - r > {0.5}) | ((x - r == {0.5}) & (even == 0)), r + {1}, r)",
    ),
    "hypot": (
        "a = {abs}(x)",
        "b = {abs}(y)",
        "m = ti.max(a, b)",
        "n = ti.min(a, b) / ti.select(m == {0}, {1}, m)",
        "found = ti.select((m == {0}) | ((m - m == {0}) == 0), m, m * ti.sqrt({1} + n * n))",
        "return ti.select((a + b == a + b) | ((m - m == {0}) == 0), found, a + b)",
    ),
    "logaddexp": (
        "m = ti.select(x > y, x, y)",
        "d = {0} - {abs}(x - y)",
        f"return ti.select(x == y, m + {{{float(np.log(2.0))!r}}}, m + {{log1p}}({{exp}}(d)))",
    ),
}
"""Functions of registers beside those of `diffsim.elementwise`, in the same language."""
_ONE_LANE = {"minus_inf": ("return {0} - x / (x - x)",)}


def library(body: str, lanes: int) -> str:
    """Source of the functions that a kernel calls."""
    own = {**REGISTER, **(_ONE_LANE if lanes == 1 else {})}
    texts = "\n".join(functions.library(body, dialect, own, ("hypot", "logaddexp")) for dialect in _DIALECTS.values())
    lane = [
        _in_lanes(dialect.call(name), f"ti.{name}({', '.join(('{0}', '{1}')[:count])})", count, lanes)
        for dialect in _DIALECTS.values()
        for name, count in ENGINE.items()
        if f"{dialect.call(name)}(" in body + texts
    ]
    casts = [
        _in_lanes(f"cast_{a}_{b}", f"ti.cast({{0}}, {TYPES[b]})", 1, lanes)
        for a in TYPES
        for b in TYPES
        if f"cast_{a}_{b}(" in body + texts
    ]
    return "\n".join([*(f"@ti.func\n{text}" for text in (*lane, *casts)), texts])


def _in_lanes(name: str, template: str, count: int, lanes: int) -> str:
    names = "xy"[:count]
    entries = [template.format(*(f"{n}[{lane}]" for n in names)) for lane in range(lanes)]
    source = f"ti.Vector([{', '.join(entries)}])" if lanes > 1 else template.format(*names)
    return f"def {name}({', '.join(names)}):\n    return {source}\n"


_IN_PLACE = Dialect("{name}_{{k}}", "{name}_{{k}}", "V_{{k}}(F_{{k}}({value}))")

# templates: {0}, {1}, {2} are operands in the type of the computation, {k} its letter, {zero} and {one} its numbers

ARITHMETIC: Mapping[str, str] = {
    "add": "({0} + {1})",
    "subtract": "({0} - {1})",
    "multiply": "({0} * {1})",
    "negative": "({0} * ({zero} - {one}))",
    "positive": "{0}",
    "square": "({0} * {0})",
    "maximum": "ti.select(({0} >= {1}) | (({0} == {0}) == 0), {0}, {1})",
    "minimum": "ti.select(({0} <= {1}) | (({0} == {0}) == 0), {0}, {1})",
    "fmax": "ti.select(({0} >= {1}) | (({1} == {1}) == 0), {0}, {1})",
    "fmin": "ti.select(({0} <= {1}) | (({1} == {1}) == 0), {0}, {1})",
    "absolute": "ti.select({0} < {zero}, {zero} - {0}, {0} + {zero})",
    "sign": "ti.select({0} > {zero}, {one}, ti.select({0} < {zero}, {zero} - {one}, {0}))",
}
"""On all numbers, in the type of the result."""
FLOATING: Mapping[str, str] = {
    "divide": "({0} / {1})",
    "remainder": "({0} - ti.floor({0} / {1}) * {1})",
    "fmod": "({0} - trunc_{k}({0} / {1}) * {1})",
    "floor_divide": "ti.floor({0} / {1})",
    "reciprocal": "({one} / {0})",
    "hypot": "hypot_{k}({0}, {1})",
    "logaddexp": "logaddexp_{k}({0}, {1})",
    "logaddexp2": "(logaddexp_{k}({0} * {log2}, {1} * {log2}) * {per_log2})",
    "heaviside": "ti.select({0} == {zero}, {1}, ti.select({0} > {zero}, {one}, ti.select({0} < {zero}, {zero}, {0})))",
    "copysign": "(abs_{k}({0}) * ti.select(({1} < {zero}) | (({1} == {zero}) & ({one} / {1} < {zero})), {zero} - {one}, {one}))",
    "power": "pow_{k}({0}, {1})",
    "a norm or a standard deviation": "pow_{k}({0}, {1})",
    "a kink": "({0} * {zero})",
    "floor": "ti.floor({0})",
    "ceil": "({zero} - ti.floor({zero} - {0}))",
    "trunc": "trunc_{k}({0})",
    "rint": "rint_{k}({0})",
    "scale": "ti.select(({0} == {zero}) & (({1} - {1} == {zero}) == 0), {zero}, {0} * {1})",
} | {
    name: _IN_PLACE.expression(name, each.source, dict(zip("xy"[: each.count], ("{0}", "{1}"), strict=False)))
    for name, each in FUNCTIONS.items()
}
"""On floating-point numbers, in the type of the result."""
WHOLE: Mapping[str, str] = {
    "remainder": "({0} % ti.select({1} == {zero}, {one}, {1}))",
    "floor_divide": "({0} // ti.select({1} == {zero}, {one}, {1}))",
    "fmod": "ti.raw_mod({0}, ti.select({1} == {zero}, {one}, {1}))",
    "bitwise_and": "({0} & {1})",
    "bitwise_or": "({0} | {1})",
    "bitwise_xor": "({0} ^ {1})",
    "left_shift": "({0} << {1})",
    "right_shift": "({0} >> {1})",
    "invert": "({zero} - {0} - {one})",
    "floor": "{0}",
    "ceil": "{0}",
    "trunc": "{0}",
    "rint": "{0}",
    "scale": "({0} * {1})",
}
"""On whole numbers, in the type of the result."""
COMPARED: Mapping[str, str] = {
    "equal": "({0} == {1})",
    "not_equal": "(({0} == {1}) == 0)",
    "less": "({0} < {1})",
    "less_equal": "({0} <= {1})",
    "greater": "({0} > {1})",
    "greater_equal": "({0} >= {1})",
    "isnan": "(({0} == {0}) == 0)",
    "isfinite": "({0} - {0} == {zero})",
    "isinf": "(({0} == {0}) & (({0} - {0} == {zero}) == 0))",
    "signbit": "(({0} < {zero}) | (({0} == {zero}) & ({one} / {0} < {zero})))",
}
"""Truth values of numbers, in their common type."""
LOGIC: Mapping[str, str] = {
    "logical_and": "({0} & {1})",
    "logical_or": "({0} | {1})",
    "logical_xor": "(({0} & ({1} == 0)) | (({0} == 0) & {1}))",
    "logical_not": "({0} == 0)",
    "bitwise_and": "({0} & {1})",
    "bitwise_or": "({0} | {1})",
    "bitwise_xor": "(({0} & ({1} == 0)) | (({0} == 0) & {1}))",
    "invert": "({0} == 0)",
    "multiply": "({0} & {1})",
    "add": "({0} | {1})",
    "maximum": "({0} | {1})",
    "minimum": "({0} & {1})",
    "not_equal": "(({0} & ({1} == 0)) | (({0} == 0) & {1}))",
    "equal": "((({0} & ({1} == 0)) | (({0} == 0) & {1})) == 0)",
    "positive": "{0}",
}
"""On truth values."""
MOST_FACTORS = 16
"""A whole power up to this one is written as products."""


def converted(source: str, before: str, after: str) -> str:
    """Source of an entry in another type."""
    if before == after:
        return source
    if before == "b":
        return f"ti.select({source}, V_{after}(F_{after}({_literal(1, after)})), V_{after}(F_{after}({_literal(0, after)})))"
    if after == "b":
        return f"(({source} == V_{before}(F_{before}({_literal(0, before)}))) == 0)"
    if before in "in" and after in "in":
        return f"ti.cast({source}, {TYPES[after]})"
    return f"cast_{before}_{after}({source})"


def _literal(value: int, kind: str) -> str:
    return f"{value}.0" if kind in "fd" else str(value)


def template(name: str, kinds: Sequence[str], result: str, place: str) -> tuple[str, str]:
    """The template of an operation on operands of these types, and the type in which it computes.

    Raises:
        TileError: no kernel can do it.
    """
    if name in LOGIC and all(k == "b" for k in kinds):
        return LOGIC[name], "b"
    if name in ("logical_and", "logical_or", "logical_xor", "logical_not"):
        return LOGIC[name], "b"
    if name in COMPARED:
        return COMPARED[name], common(kinds)
    if name in WHOLE and result in "in":
        return WHOLE[name], result
    if name in ARITHMETIC and result != "b":
        return ARITHMETIC[name], result
    if name in FLOATING and result in "fd":
        return FLOATING[name], result
    raise TileError(f"{place}: {name} of whole numbers has no rule in tile programs; convert its arguments to floating point")


def common(kinds: Sequence[str]) -> str:
    """The type in which numbers of these types are compared."""
    floating = [k for k in kinds if k != "number"]
    if not floating:
        return "d"
    if "d" in floating or ("f" in floating and "n" in floating) or ("f" in floating and "i" in floating):
        return "d"
    return "f" if "f" in floating else "n" if "n" in floating else "i"


def numbers(kind: str, number: Callable[[Any, str], str]) -> dict[str, str]:
    """Names in a template besides its operands."""
    names = {"k": kind, "zero": number(0, kind), "one": number(1, kind)}
    if kind in "fd":
        log2 = float(np.log(2.0))
        names |= {
            "log2": number(log2, kind),
            "per_log2": number(1 / log2, kind),
        }
    return names
