"""Errors for operations that a symbolic field does not support, with a remedy: NumPy's functions, conversions to numbers, loops over
cells."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from diffsim.base.messages import shown
from diffsim.elementwise.table import FUNCTIONS
from diffsim.errors import TraceAttributeError, TraceError

ELEMENTARY = {name: "f" if each.count == 1 else "a, b" for name, each in FUNCTIONS.items()} | {
    "floor": "f", "sign": "f", "clip": "f, low, high", "minimum": "a, b", "maximum": "a, b", "where": "condition, a, b",
}  # fmt: skip
"""Functions of `diffsim.expr` that NumPy or SciPy has too, by the same name, and their arguments."""
INSTEAD = {
    "fmin": "diffsim.expr.minimum(a, b)",
    "fmax": "diffsim.expr.maximum(a, b)",
    "logical_and": "a & b",
    "logical_or": "a | b",
    "logical_not": "~a",
    "fabs": "abs(f)",
    "square": "f**2",
    "reciprocal": "1 / f",
    "float_power": "f**exponent",
    "hypot": "diffsim.expr.sqrt(a**2 + b**2)",
    "ceil": "-diffsim.expr.floor(-f)",
    "rint": "diffsim.expr.floor(f + 0.5)",
    "floor_divide": "diffsim.expr.floor(a / b)",
    "roll": "f.shifted(axis, -cells)",
    "diff": "diffsim.expr.diff(f, axis)",
    "gradient": "diffsim.expr.diff_centred(f, axis)",
    "zeros_like": "the number 0.0",
    "ones_like": "the number 1.0",
    "full_like": "the number itself",
} | {name: f"diffsim.expr.{name}({arguments})" for name, arguments in ELEMENTARY.items()}
OPERATORS = {
    "//": "write diffsim.expr.floor(a / b)",
    "round()": "write diffsim.expr.floor(f + 0.5)",
    "@": "write sums of products",
    "divmod()": "write diffsim.expr.floor(a / b) and a % b",
    "pow() with a modulus": "write a**b % c",
    "^": "write a**b for a power, and (a & ~b) | (b & ~a) for conditions",
    "<<": "write f * 2.0**bits",
    ">>": "write diffsim.expr.floor(f / 2.0**bits)",
}
"""Operators of Python that fields do not have, and what to write."""
REDUCTIONS = ("sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "dot", "vdot", "trapezoid", "norm")
"""Functions that combine the values of many cells."""


def of_numpy(function: Callable[..., object], how: str = "__call__") -> TraceError:
    """The error for a NumPy function that was called on a field.

    Args:
        function: the function, or ufunc.
        how: the method of a ufunc, such as "reduce".
    """
    name = getattr(function, "__name__", repr(function))
    known = "numpy" if hasattr(np, name) else "scipy.special"  # where universal functions are from, which do not say so
    module = (getattr(function, "__module__", None) or known).partition("._")[0]
    called = f"{module}.{name}" + ("" if how == "__call__" else f".{how}")
    if name in REDUCTIONS or how in ("reduce", "accumulate", "reduceat"):
        remedy = "a step works cell by cell, so join the values of cells in the loss"
    elif name in INSTEAD and how == "__call__":
        remedy = f"write {INSTEAD[name]}"
    else:
        remedy = f"write it with + - * / % **, abs and the functions {', '.join(ELEMENTARY)} of diffsim.expr"
    return TraceError(f"a step calls {called} on a field, expected a function of symbolic fields, got one of numbers; {remedy}")


def of_kind(what: str, condition: bool, value: object = None) -> TraceError:
    """The error for a number in place of a condition, or a condition in place of a number.

    Args:
        what: the operation.
        condition: whether a condition is expected.
        value: the given value, if it is no field.
    """
    if condition:
        got = "numbers" if value is None else type(value).__name__
        return TraceError(
            f"{what} expected a condition, such as f > 0, got {got}; compare first, and put each comparison in parentheses: "
            "(a > 0) & (b < 1)"
        )
    return TraceError(f"{what} expected numbers, got a condition; write where(condition, 1.0, 0.0), and join conditions with & | ~")


def of_numbers(what: str) -> TraceError:
    """The error for a field that is used as one number, or as numbers.

    Args:
        what: the operation that needs numbers.
    """
    return TraceError(
        f"{what} of a field of a step, expected numbers, got an expression that stands for every cell; write functions of "
        "diffsim.expr, such as diffsim.expr.sin(f) for math.sin(f), and keep numbers of the step as attributes of the equation"
    )


def of_operand(value: object) -> TraceError:
    """The error for an operand that is neither a field nor a real number."""
    single = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value  # also of an array of objects
    if isinstance(single, (complex, np.complexfloating)) or (isinstance(single, np.ndarray) and single.dtype.kind == "c"):
        remedy = "write the real and the imaginary part as two fields"
        return TraceError(f"a step expected a field or a real number, got {type(value).__name__} {shown(value)}; {remedy}")
    return TraceError(f"a step expected a field or a number, got {type(value).__name__}; declare arrays as parameters or profiles")


def of_cells(what: str) -> TraceError:
    """The error for access to single cells of a field.

    Args:
        what: the operation that needs its entries.
    """
    return TraceError(
        f"{what} of a field of a step, expected one expression for every cell, got a use of single cells; f.shifted(axis, cells) is a "
        "neighbour, and a value that differs from place to place is a parameter or a profile of the equation"
    )


def of_attribute(name: str) -> TraceAttributeError:
    """An attribute or a method was asked for that arrays of NumPy's may have, and fields have not.

    Args:
        name: of the attribute.
    """
    if name in ("sum", "mean", "max", "min"):
        remedy = f"write diffsim.expr.{name}(f), one number for all cells"
    elif name in REDUCTIONS:
        remedy = "a step works cell by cell, so join the values of cells in the loss"
    else:
        remedy = f"write {INSTEAD[name]}" if name in INSTEAD else "write it with operators and the functions of diffsim.expr"
    return TraceAttributeError(f"f.{name} of a field f of a step, expected an operation on symbolic fields, got one of arrays; {remedy}")


def of_operator(sign: str) -> TraceError:
    """An operator was used that fields do not have."""
    remedy = OPERATORS[sign]
    return TraceError(f"{sign} of a field of a step, expected one of + - * / % ** < <= > >= & | ~, got {sign}; {remedy}")
