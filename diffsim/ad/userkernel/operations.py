"""Functions of Taichi whose reverse mode is right. Each entry was probed against differences; see the tests."""

from __future__ import annotations

from typing import Any

from diffsim import engine

KNOWN = frozenset(
    {
        *("sin", "cos", "asin", "acos", "atan2", "sqrt", "log", "log2", "pow", "abs", "floor", "ceil", "fract", "sign", "raw_div"),
        *("exp", "tanh", "rsqrt", "max", "min", "clamp", "smoothstep", "select", "degrees", "radians", "mix", "zero", "one"),
        *("int", "float", "bool", "cast", "range", "len", "print", "ndrange", "grouped", "mod", "step"),
        *("identity", "unit", "diag", "rows"),
        *("Vector", "Matrix", "Struct", "vec2", "vec3", "vec4", "mat2", "mat3", "mat4"),
        *("dot", "cross", "length", "distance", "normalize", "inverse", "determinant", "solve", "svd", "polar_decompose", "sym_eig"),
    }
)

METHODS = frozenset(
    {
        *("norm_sqr", "dot", "cross", "outer_product", "transpose", "trace", "sum", "cast", "norm", "normalized", "determinant"),
        *("inverse", "max", "min", "any", "all", "fill"),
    }
)
"""Methods of vectors and matrices."""

STATEMENTS = frozenset({"loop_config", "static_print", "static_assert"})
"""Calls that have no derivative, and may stand beside a top-level loop."""

ADDING = frozenset({"atomic_add", "atomic_sub"})
"""Right as statements; Taichi raises where their result is used. It differentiates the other atomics as if they added."""


def name_in_language(thing: Any) -> str | None:
    """The name of one of the engine's own functions or types, or None for anything else."""
    module = str(getattr(thing, "__module__", None) or type(thing).__module__ or "")
    if not engine.present().is_own(module):
        return None
    name = getattr(thing, "__name__", None)
    if name is not None:
        return str(name)
    return "Matrix" if hasattr(thing, "n") and hasattr(thing, "m") else "cast"
