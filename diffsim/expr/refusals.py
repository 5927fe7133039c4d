"""What a step cannot do with a symbolic field, and what to write instead: NumPy's functions, conversions to numbers, loops over cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from diffsim.errors import TraceError

ELEMENTARY = ("sqrt", "exp", "log", "sin", "cos", "tanh", "minimum", "maximum", "where")
"""Functions of `diffsim.expr` that NumPy has too, by the same name."""
INSTEAD = {
    "fmin": "diffsim.expr.minimum(a, b)",
    "fmax": "diffsim.expr.maximum(a, b)",
    "clip": "diffsim.expr.minimum(diffsim.expr.maximum(f, low), high)",
    "sign": "diffsim.expr.where(f > 0, 1, diffsim.expr.where(f < 0, -1, 0))",
    "logical_and": "diffsim.expr.where(a, diffsim.expr.where(b, x, y), y)",
    "logical_or": "diffsim.expr.where(a, x, diffsim.expr.where(b, x, y))",
    "logical_not": "diffsim.expr.where(a, y, x), the other way round",
    "fabs": "abs(f)",
    "square": "f**2",
    "cbrt": "f ** (1 / 3), for f > 0",
    "reciprocal": "1 / f",
    "float_power": "f**exponent",
    "hypot": "diffsim.expr.sqrt(a**2 + b**2)",
    "expm1": "diffsim.expr.exp(f) - 1",
    "exp2": "diffsim.expr.exp(math.log(2) * f)",
    "log1p": "diffsim.expr.log(1 + f)",
    "log2": "diffsim.expr.log(f) / math.log(2)",
    "log10": "diffsim.expr.log(f) / math.log(10)",
    "tan": "diffsim.expr.sin(f) / diffsim.expr.cos(f)",
    "sinh": "0.5 * (diffsim.expr.exp(f) - diffsim.expr.exp(-f))",
    "cosh": "0.5 * (diffsim.expr.exp(f) + diffsim.expr.exp(-f))",
    "roll": "f.shifted(axis, -cells)",
    "diff": "diffsim.expr.diff(f, axis)",
    "gradient": "diffsim.expr.diff_centred(f, axis)",
    "zeros_like": "the number 0.0",
    "ones_like": "the number 1.0",
    "full_like": "the number itself",
} | {name: f"diffsim.expr.{name}{'(a, b)' if name in ('minimum', 'maximum') else '(f)'}" for name in ELEMENTARY if name != "where"}
INSTEAD["where"] = "diffsim.expr.where(condition, a, b)"
REDUCTIONS = ("sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "dot", "vdot", "trapezoid", "norm")
"""What joins the values of many cells."""


def of_numpy(function: Callable[..., Any], how: str = "__call__") -> TraceError:
    """A function of NumPy's was called on a field.

    Args:
        function: the function, or ufunc.
        how: the method of a ufunc, such as "reduce".
    """
    name = getattr(function, "__name__", repr(function))
    module = (getattr(function, "__module__", None) or "numpy").partition("._")[0]
    called = f"{module}.{name}" + ("" if how == "__call__" else f".{how}")
    if name in REDUCTIONS or how in ("reduce", "accumulate", "reduceat"):
        remedy = "a step works cell by cell, so join the values of cells in the loss"
    elif name in INSTEAD and how == "__call__":
        remedy = f"write {INSTEAD[name]}"
    else:
        remedy = f"write it with + - * / **, abs and the functions {', '.join(ELEMENTARY)} of diffsim.expr"
    return TraceError(f"a step calls {called} on a field, expected a function of symbolic fields, got one of numbers; {remedy}")


def of_numbers(what: str) -> TraceError:
    """A field was used as one number, or as numbers.

    Args:
        what: what asked for them.
    """
    return TraceError(
        f"{what} of a field of a step, expected numbers, got an expression that stands for every cell; write functions of "
        "diffsim.expr, such as diffsim.expr.sin(f) for math.sin(f), and keep numbers of the step as attributes of the equation"
    )


def of_cells(what: str) -> TraceError:
    """A field was taken apart.

    Args:
        what: what asked for its entries.
    """
    return TraceError(
        f"{what} of a field of a step, expected one expression for every cell, got a use of single cells; f.shifted(axis, cells) is a "
        "neighbour, and a value that differs from place to place is a parameter or a profile of the equation"
    )
