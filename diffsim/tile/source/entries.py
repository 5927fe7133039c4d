"""What elementwise operations do to entries, as source of a kernel.

A kernel works on registers of several lanes. Arithmetic, comparisons and choices work on registers as they are. Conversions and elementary
functions are applied to each lane, by functions of the kernel (`library`).

In a kernel `!=` is false for NaN, unlike in NumPy. So "not equal" is written as "equal" compared with 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from diffsim.errors import TileError
from diffsim.tile.source.values import TYPES

LANE: Mapping[str, str] = {
    "exp": "ti.exp({0})",
    "log": "ti.log({0})",
    "sin": "ti.sin({0})",
    "cos": "ti.cos({0})",
    "tan": "ti.tan({0})",
    "tanh": "ti.tanh({0})",
    "asin": "ti.asin({0})",
    "acos": "ti.acos({0})",
    "atan2": "ti.atan2({0}, {1})",
    "pow": "ti.pow({0}, {1})",
}
"""Functions of a lane: their names in a kernel end with the letter of the type."""
REGISTER: Mapping[str, tuple[str, ...]] = {
    "nan": ("return (x - x) / (x - x)",),
    "inf": ("return x / (x - x)",),
    "minus_inf": ("return -1.0 * x / (x - x)",),
    "abs": ("return ti.max(x, {0} - x)",),
    "trunc": ("return ti.select(x < {0}, {0} - ti.floor({0} - x), ti.floor(x))",),
    "rint": (
        "r = ti.floor(x)",
        "even = r == ti.floor(r * {half}) * {two}",
        "return ti.select((x - r > {half}) | ((x - r == {half}) & (even == 0)), r + {1}, r)",
    ),
    "sign": ("return ti.select(x > {0}, {1}, ti.select(x < {0}, {0} - {1}, x))",),
    "log1p": ("u = {1} + x", "return ti.select(u == {1}, x, ti.select(u - u == {0}, x * log_{k}(u) / (u - {1}), log_{k}(u)))"),
    "expm1": (
        "u = exp_{k}(x)",
        "v = ti.select(u == {1}, {two}, u)",
        "found = ti.select(u - {1} == {0} - {1}, {0} - {1}, (u - {1}) * x / log_{k}(v))",
        "return ti.select(u == {1}, x, ti.select(u - u == {0}, found, u))",
    ),
    "sinh": ("m = expm1_{k}(abs_{k}(x))", "s = {half} * (m + m / (m + {1}))", "return ti.select(m - m == {0}, sign_{k}(x) * s, x * m)"),
    "cosh": ("e = exp_{k}(abs_{k}(x))", "return {half} * (e + {1} / e)"),
    "asinh": (
        "a = abs_{k}(x)",
        "b = ti.select(a > {big}, {1}, a)",
        "found = log1p_{k}(b + b * b / ({1} + ti.sqrt({1} + b * b)))",
        "return sign_{k}(x) * ti.select(a > {big}, log_{k}(a) + {log2}, found)",
    ),
    "acosh": ("return log_{k}(x + ti.sqrt(x - {1}) * ti.sqrt(x + {1}))",),
    "atanh": ("return {half} * log1p_{k}({two} * x / ({1} - x))",),
    "cbrt": (
        "a = abs_{k}(x)",
        "r = exp_{k}(log_{k}(ti.select(a == {0}, {1}, a)) / {three})",
        "r = r - (r * r * r - a) / ({three} * r * r)",
        "return ti.select((a == {0}) | ((a - a == {0}) == 0), x, sign_{k}(x) * r)",
    ),
    "hypot": (
        "a = abs_{k}(x)",
        "b = abs_{k}(y)",
        "m = ti.max(a, b)",
        "n = ti.min(a, b) / ti.select(m == {0}, {1}, m)",
        "found = ti.select((m == {0}) | ((m - m == {0}) == 0), m, m * ti.sqrt({1} + n * n))",
        "return ti.select((a + b == a + b) | ((m - m == {0}) == 0), found, a + b)",
    ),
    "logaddexp": (
        "m = ti.select(x > y, x, y)",
        "d = {0} - abs_{k}(x - y)",
        "return ti.select(x == y, m + {log2}, m + log1p_{k}(exp_{k}(d)))",
    ),
}
"""Functions of registers: lines with numbers of the type in braces and `{{k}}`, the letter of the type. They call one another."""
_NUMBERS = {"0": 0.0, "1": 1.0, "two": 2.0, "three": 3.0, "half": 0.5, "big": 1e9, "log2": float(np.log(2.0))}
_TWO = ("atan2", "pow", "hypot", "logaddexp")


def library(body: str, lanes: int) -> str:
    """Source of the functions that a kernel calls."""
    written: dict[str, str] = {}

    def need(source: str) -> None:
        for name in (*LANE, *REGISTER):
            for k in "fd":
                if f"{name}_{k}(" in source and f"{name}_{k}" not in written:
                    written[f"{name}_{k}"] = ""
                    text = _function(name, k, lanes)
                    need(text.partition("\n")[2])
                    del written[f"{name}_{k}"]
                    written[f"{name}_{k}"] = text
        for a in TYPES:
            for b in TYPES:
                if f"cast_{a}_{b}(" in source:
                    written[f"cast_{a}_{b}"] = _in_lanes(f"cast_{a}_{b}", f"ti.cast({{0}}, {TYPES[b]})", 1, lanes)

    need(body)
    return "\n".join(f"@ti.func\n{text}" for text in written.values())


def _in_lanes(name: str, template: str, count: int, lanes: int) -> str:
    names = "xy"[:count]
    entries = [template.format(*(f"{n}[{lane}]" for n in names)) for lane in range(lanes)]
    found = f"ti.Vector([{', '.join(entries)}])" if lanes > 1 else template.format(*names)
    return f"def {name}({', '.join(names)}):\n    return {found}\n"


def _function(name: str, k: str, lanes: int) -> str:
    if name in LANE:
        return _in_lanes(f"{name}_{k}", LANE[name], 2 if name in _TWO else 1, lanes)
    numbers = {key: f"V_{k}(F_{k}({value!r}))" for key, value in _NUMBERS.items()}
    lines = [line.replace("{k}", k) for line in REGISTER[name]]
    for key, value in numbers.items():
        lines = [line.replace("{" + key + "}", value) for line in lines]
    if lanes == 1 and name == "minus_inf":
        lines = [f"return {numbers['0']} - x / (x - x)"]
    lines = [line.replace("-1.0 * x", f"({numbers['0']} - x)") for line in lines]
    return f"def {name}_{k}({'x, y' if name in _TWO else 'x'}):\n" + "\n".join(f"    {line}" for line in lines) + "\n"


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
    "sqrt": "ti.sqrt({0})",
    "cbrt": "cbrt_{k}({0})",
    "hypot": "hypot_{k}({0}, {1})",
    "exp": "exp_{k}({0})",
    "exp2": "pow_{k}({two}, {0})",
    "expm1": "expm1_{k}({0})",
    "log": "log_{k}({0})",
    "log2": "(log_{k}({0}) * {per_log2})",
    "log10": "(log_{k}({0}) * {per_log10})",
    "log1p": "log1p_{k}({0})",
    "logaddexp": "logaddexp_{k}({0}, {1})",
    "logaddexp2": "(logaddexp_{k}({0} * {log2}, {1} * {log2}) * {per_log2})",
    "sin": "sin_{k}({0})",
    "cos": "cos_{k}({0})",
    "tan": "tan_{k}({0})",
    "arcsin": "asin_{k}({0})",
    "arccos": "acos_{k}({0})",
    "arctan": "atan2_{k}({0}, {one})",
    "arctan2": "atan2_{k}({0}, {1})",
    "sinh": "sinh_{k}({0})",
    "cosh": "cosh_{k}({0})",
    "tanh": "tanh_{k}({0})",
    "arcsinh": "asinh_{k}({0})",
    "arccosh": "acosh_{k}({0})",
    "arctanh": "atanh_{k}({0})",
    "deg2rad": "({0} * {degree})",
    "rad2deg": "({0} * {per_degree})",
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
    found = [k for k in kinds if k != "number"]
    if not found:
        return "d"
    if "d" in found or ("f" in found and "n" in found) or ("f" in found and "i" in found):
        return "d"
    return "f" if "f" in found else "n" if "n" in found else "i"


def numbers(kind: str, number: Callable[[Any, str], str]) -> dict[str, str]:
    """What a template may name besides its operands."""
    found = {"k": kind, "zero": number(0, kind), "one": number(1, kind)}
    if kind in "fd":
        log2 = float(np.log(2.0))
        found |= {
            "two": number(2.0, kind),
            "log2": number(log2, kind),
            "per_log2": number(1 / log2, kind),
            "per_log10": number(1 / float(np.log(10.0)), kind),
            "degree": number(float(np.pi / 180), kind),
            "per_degree": number(float(180 / np.pi), kind),
        }
    return found
