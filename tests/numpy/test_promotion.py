"""Types of results inside a derivative are those that NumPy's promotion gives, and gradients have the types of their arguments."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.numpy.ufunc import ufunc
from tests.sampled import together

from .measures import leaves
from .table import ENTRIES, OF_EACH

OPERANDS: dict[str, Any] = {
    "f32 array": np.array([1.5, 2.5], np.float32),
    "f64 array": np.array([1.25, 0.75]),
    "f32 number": np.float32(1.5),
    "f64 number": np.float64(0.5),
    "int64 array": np.array([3, 2]),
    "int32 array": np.array([3, 2], np.int32),
    "int8 number": np.int8(2),
    "bool array": np.array([True, True]),
    "Python float": 1.5,
    "Python int": 2,
    "Python bool": True,
}
# NumPy's operator makes int8 of booleans to the power 2 alone; its function gives int64, and so does ours.
UNLIKE = {("pow", "bool array", "Python int")}
PAIRS = [pair for pair in itertools.product(OPERANDS, repeat=2) if any(isinstance(OPERANDS[p], (np.ndarray, np.generic)) for p in pair)]
OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.mod, operator.floordiv, operator.lt)
FUNCTIONS = sorted({getattr(dn, n) for n in dn.__all__ if isinstance(getattr(dn, n), ufunc) and getattr(dn, n).nin == 2}, key=repr)


def forms(x: Any) -> tuple[Any, Any]:
    return np.shape(x), np.asarray(x).dtype


def check(ours: Callable[..., Any], theirs: Callable[..., Any], a: Any, b: Any) -> None:
    """The type of the result, and of the gradients with respect to arrays and numbers of NumPy's."""
    try:
        with np.errstate(all="ignore"):
            expected = theirs(a, b)
    except TypeError:
        return  # NumPy does not do it either
    floating = [k for k, x in enumerate((a, b)) if isinstance(x, (np.ndarray, np.generic))]

    def f(*chosen: Any) -> Any:
        full = [a, b]
        for k, x in zip(floating, chosen, strict=True):
            full[k] = x
        return ours(*full)

    with np.errstate(all="ignore"):
        value, pullback = ds.vjp(f, *(((a, b)[k]) for k in floating))
        assert forms(value) == forms(expected)
        np.testing.assert_array_equal(value, expected)
        if np.asarray(value).dtype.kind != "f":
            return
        for k, bar in zip(floating, pullback(np.ones_like(value)), strict=True):
            x = (a, b)[k]
            assert forms(bar) == forms(x) if x.dtype.kind == "f" else bar is None
        floats = [k for k in floating if (a, b)[k].dtype.kind == "f"]
        if floats:
            dots = tuple(np.ones_like((a, b)[k]) if k in floats else None for k in floating)
            assert forms(ds.jvp(f, tuple((a, b)[k] for k in floating), dots)[1]) == forms(expected)


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
def test_operators(function: Callable[..., Any]) -> None:
    for first, second in PAIRS:
        if (function.__name__, first, second) not in UNLIKE:
            check(function, function, OPERANDS[first], OPERANDS[second])


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_of_two_arguments(function: ufunc) -> None:
    theirs = getattr(np, function.__name__)
    for first, second in PAIRS:
        check(function, theirs, OPERANDS[first], OPERANDS[second])


def test_where_and_joining() -> None:
    for first, second in PAIRS:
        a, b = OPERANDS[first], OPERANDS[second]
        check(lambda x, y: dn.where(np.array([True, False]), x, y), lambda x, y: np.where(np.array([True, False]), x, y), a, b)
        if np.ndim(a) == np.ndim(b):
            check(lambda x, y: dn.stack([x, y]), lambda x, y: np.stack([x, y]), a, b)
            check(lambda x, y: dn.array([x, y]), lambda x, y: np.array([x, y]), a, b)


def test_in_place_keeps_the_type_of_the_array() -> None:
    x, y = np.ones(2, np.float32), np.array([2.0, 3.0])

    def f(a: Any, b: Any) -> Any:
        copy = dn.copy(a)
        copy += b
        copy[0] = b[1]
        dn.add.at(copy, [1, 1], b)
        return copy

    value, pullback = ds.vjp(f, x, y)
    assert value.dtype == np.float32
    assert [bar.dtype for bar in pullback(np.ones(2, np.float32))] == [np.float32, np.float64]


def test_a_python_float_among_the_arguments_is_double_precision() -> None:
    """Outside it would leave the array in single precision; held in a closure it does so inside as well."""
    x = np.ones(2, np.float32)
    assert ds.vjp(lambda a, s: a * s, x, 2.0)[0].dtype == np.float64
    assert ds.vjp(lambda a: a * 2.0, x)[0].dtype == np.float32


WHOLE = [
    e
    for e in ENTRIES
    if e.arguments and not e.reference and not any(np.iscomplexobj(v) for v in e.values()) and e.name != "quantile"  # q = 1, an integer
]


@together(WHOLE, lambda e: e.name, gate=OF_EACH)
def test_integers_inside_a_derivative(entry: Any) -> None:
    """Arrays without derivative pass through with NumPy's value and type."""
    values = tuple(np.asarray(np.round(3 * x)).astype(int)[()] for x in entry.values())
    try:
        expected = entry.of_numpy(*values)
    except (TypeError, ValueError, ArithmeticError, RuntimeWarning, np.linalg.LinAlgError):
        return  # NumPy does not do it with these integers
    results, _ = ds.vjp(lambda *x: entry.function(dn, *x), *values)
    assert [forms(p) for p in leaves(results)] == [forms(m) for m in leaves(expected)]
    for p, m in zip(leaves(results), leaves(expected), strict=True):
        np.testing.assert_allclose(p, m, rtol=1e-12, atol=1e-12)
