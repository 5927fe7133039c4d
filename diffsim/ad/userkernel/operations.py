"""Taichi's own functions under reverse mode. Each entry was probed against differences; see the tests."""

from __future__ import annotations

from typing import Any

from diffsim import engine

REFUSED = {
    "tan": ("Taichi has no derivative of tan, and raises", "write ti.sin(a) / ti.cos(a)"),
    "random": ("Taichi cannot repeat random numbers in reverse, and raises", "draw them outside and pass them as an array"),
    "randn": ("Taichi cannot repeat random numbers in reverse, and raises", "draw them outside and pass them as an array"),
    "round": ("Taichi has no derivative of round, and raises", "write ti.floor(a + 0.5)"),
    "bit_cast": ("Taichi has no derivative of bit_cast, and raises", "use arithmetic"),
    "isnan": ("Taichi raises on isnan in reverse", "check the arrays outside of the kernel"),
    "isinf": ("Taichi raises on isinf in reverse", "check the arrays outside of the kernel"),
    "popcnt": ("Taichi raises on popcnt in reverse", "count bits outside of the kernel and pass them as an array"),
    "atomic_max": ("Taichi differentiates atomic_max as if it added, silently", "compute the values into an array and reduce it outside"),
    "atomic_min": ("Taichi differentiates atomic_min as if it added, silently", "compute the values into an array and reduce it outside"),
    "atomic_mul": ("Taichi differentiates atomic_mul as if it added, silently", "add logarithms, or multiply in a ti.static loop"),
}
"""Functions that are wrong or unsupported everywhere: the fault, and the way round."""

ANYWHERE = frozenset(
    {
        *("sin", "cos", "asin", "acos", "atan2", "sqrt", "log", "log2", "pow", "abs", "floor", "ceil", "fract", "sign", "raw_div"),
        *("select", "cast", "degrees", "radians", "mix", "dot", "cross", "atomic_add", "atomic_sub", "zero", "one"),
        *("Vector", "Matrix", "vec2", "vec3", "vec4", "mat2", "mat3", "mat4"),
    }
)
"""Differentiated rightly, inner loops that carry values included."""

CELL_ONLY = frozenset(
    {
        *("exp", "tanh", "rsqrt", "max", "min", "clamp", "smoothstep", "length", "distance", "normalize", "inverse", "determinant"),
        *("Struct", "solve"),
    }
)
"""Right outside inner loops that carry values. There Taichi uses the value of the last iteration for all of them."""

SMALL_ONLY = {"svd": 2, "polar_decompose": 2, "sym_eig": 2}
"""Right for 2 x 2 matrices outside inner loops; larger ones contain a `while`."""

NO_DERIVATIVE = frozenset({"loop_config", "static_print", "static_assert", "static", "ndrange", "grouped", "min_value", "max_value"})

METHODS_ANYWHERE = frozenset(
    {"norm_sqr", "dot", "cross", "outer_product", "transpose", "trace", "sum", "cast", "norm", "normalized", "determinant"}
)
METHODS_CELL_ONLY = frozenset({"inverse", "max", "min"})

INFINITE_SLOPE = frozenset({"sqrt", "log", "pow", "rsqrt", "asin", "acos", "norm", "normalized", "length", "normalize"})
"""Functions with an infinite derivative somewhere: behind `ti.select` that is 0 times infinity, NaN."""


def name_in_language(thing: Any) -> str | None:
    """The name of one of the engine's own functions or types, or None for anything else."""
    module = str(getattr(thing, "__module__", None) or type(thing).__module__ or "")
    if not engine.present().is_own(module):
        return None
    name = getattr(thing, "__name__", None)
    if name is not None:
        return str(name)
    return "Matrix" if hasattr(thing, "n") and hasattr(thing, "m") else "cast"
