"""Operations that a tile program cannot do are refused with the line of the program, and with a replacement."""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import (
    ArrayIndexError,
    ArrayTypeError,
    ArrayValueError,
    DerivativeError,
    ParameterError,
    ShapeError,
    SingularError,
    TileError,
)

GENERATOR = numpy.random.default_rng(0)
TILES = 5
X = GENERATOR.normal(size=(TILES, 4))
M = GENERATOR.normal(size=(TILES, 4, 4))
K = numpy.arange(4) + 10 * (numpy.arange(TILES) == 3)[:, None]
"""Positions that are out of range in tile 3."""


def gather(x, k):
    return x[k]  # here


def scatter(x, k):
    a = x.copy()
    a[k] = 1.0  # here
    return a


def singular(m, x):
    return np.linalg.solve(m * (x[0] < 1e9) * 0, x)  # here


def singular_inverse(m):
    return np.linalg.inv(m * 0)  # here


def indefinite(m):
    return np.linalg.cholesky(m - 10 * np.eye(4))  # here


def branch(x):
    if x[0] > 0:  # here
        return x
    return -x


def turns_of_a_python_loop(x):
    for _ in range(x[0] > 0):  # here
        x = x * 2
    return x


def shape_that_differs(x, k):
    return np.zeros(k[0]) + x[0]  # here


def slice_that_differs(x, k):
    return x[: k[0]]  # here


def positions_of_a_condition(x):
    return np.nonzero(x > 0)[0]  # here


def without_a_rule(k):
    return np.gcd(k, k + 1)  # here


def function_that_looks_at_values(x):
    return np.median(x)  # here


def array_of_numpy(x):
    a = numpy.zeros(4)
    a[1] = x[0]  # here
    return a


def slice_of_an_array_of_numpy(x):
    a = numpy.zeros(4)
    a[1:] = x[1:]  # here
    return a


def list_of_numbers(x, k):
    return [1.0, 2.0, 3.0, 4.0][k[0]] * x  # here


def index_out_of_range(x):
    return x[8]  # here


def shapes_that_do_not_fit(x):
    return x + np.ones(3)  # here


def loop_over_a_number(x):
    return sum(v for v in x[0])  # here


def without_a_derivative(m):
    return np.linalg.eig(m)[1]  # here


def single_byte(x):
    return x.astype(np.int8) + 1  # here


def too_large(x):
    return np.cumsum(np.cumsum(np.outer(x, x), 0), 1)  # here


def too_many_operations(x):
    for _ in range(3000):
        x = x * 0.9 + np.sin(x)  # here
    return x


def mean_of_masked(x):
    return np.mean(x[x > 0])  # here


def length_of_masked(x):
    return len(x[x > 0]) * x  # here


def masked_by_two(x):
    a = x.copy()
    a[x > 0] = x[x < 0]  # here
    return a


def many_turns(x, k):
    return ds.fori_loop(0, 500 * k[0], lambda _, s: 0.5 * s, x)  # here


def endless(x):
    return ds.while_loop(lambda y: y[0] < 1e9, lambda y: 0.5 * y, x)  # here


CASES: dict[Callable[..., Any], tuple[type[Exception], str, tuple[Any, ...]]] = {
    gather: (ArrayIndexError, r"axis of length 4; use positions from -4 to 3.*\(tile 3\)", (X, K)),
    scatter: (ArrayIndexError, r"axis of length 4; use positions from -4 to 3.*\(tile 3\)", (X, K)),
    singular: (SingularError, r"solve of a singular matrix.*multiple of the unit matrix", (M, X)),
    singular_inverse: (SingularError, "inv, or the derivative of det, of a singular matrix.*multiple of the unit matrix", (M,)),
    indefinite: (SingularError, "not positive definite.*multiple of the unit matrix", (M,)),
    branch: (TileError, r"truth value.*write np.where\(.*, a, b\) or ds.cond", (X,)),
    turns_of_a_python_loop: (TileError, "an index or a length.*ds.fori_loop", (X,)),
    shape_that_differs: (TileError, "an index or a length.*shapes are known numbers", (X, K)),
    slice_that_differs: (TileError, "an index or a length.*gather by positions", (X, K)),
    positions_of_a_condition: (TileError, r"numpy.nonzero.*write where", (X,)),
    without_a_rule: (TileError, "gcd of whole numbers has no rule.*convert", (K,)),
    function_that_looks_at_values: (TileError, r"truth value.*in place of `np.median\(x\)`.*np.where and np.sort", (X,)),
    array_of_numpy: (TileError, "a is an array of NumPy.*make it by diffsim.numpy", (X,)),
    slice_of_an_array_of_numpy: (TileError, "a is an array of NumPy.*make it by diffsim.numpy", (X,)),
    list_of_numbers: (TileError, r"make an array of it, np.array\(values\)\[k\]", (X, K)),
    index_out_of_range: (ArrayIndexError, "index 8 is out of bounds for axis 0 with size 4", (X,)),
    shapes_that_do_not_fit: (ArrayValueError, r"could not be broadcast together with shapes \(4,\) \(3,\)", (X,)),
    loop_over_a_number: (ArrayTypeError, "a loop over one, expected an array", (X,)),
    without_a_derivative: (DerivativeError, "eig has no derivative", (M,)),
    single_byte: (TileError, "an array of int8.*expected float32.*convert it with astype", (X,)),
    too_large: (TileError, "bytes of scratch memory.*expected at most 8388608; use smaller tiles", (GENERATOR.normal(size=(2, 1200)),)),
    too_many_operations: (TileError, "9000 operations, expected at most 4000.*ds.fori_loop", (X,)),
    mean_of_masked: (TileError, "whose number of entries differs.*where", (X,)),
    length_of_masked: (TileError, r"len\(x\[mask\]\).*where", (X,)),
    masked_by_two: (TileError, "expected one mask.*where", (X,)),
    many_turns: (ParameterError, r"more than 1000 turns; give it a known bound.*\(tile 3\)", (X, K)),
    endless: (ParameterError, "more than 1000 turns; give a larger max_steps", (X,)),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_the_error_names_the_line_and_a_replacement(function: Callable[..., Any]) -> None:
    kind, message, args = CASES[function]
    lines, first = inspect.getsourcelines(function)
    (line,) = [first + k for k, text in enumerate(lines) if text.rstrip().endswith(("# here", "# here\n"))]
    with pytest.raises(kind, match=message) as raised:
        ds.tile.map(function)(*args)
    assert re.match(rf".*test_errors\.py:{line}: ", str(raised.value)), str(raised.value)


@pytest.mark.parametrize(
    ("args", "axes", "kind", "message"),
    [
        ((X, M[:3]), 0, ShapeError, "3, 5 tiles, expected one number"),
        ((X, M), (0, 5), ShapeError, "argument 1 has the shape .* no axis 5"),
        ((X, 2.0), 0, ShapeError, "argument 1 is a number, expected arrays with an axis.*None"),
        ((X, [1.0, 2.0]), 0, ShapeError, "argument 1 holds numbers in a pytree, expected arrays.*None.*numpy.array"),
        ((X, M), (None, None), ParameterError, "axes has no axis, expected one"),
        ((X, M), (0,), ParameterError, r"axes = \(0,\) for 2 arguments, expected"),
        ((X, numpy.zeros((TILES, 1, 1, 1, 1, 1))), 0, TileError, "5 axes in each tile, expected 4 at most"),
        ((X, numpy.zeros((TILES, 2), numpy.int8)), 0, TileError, "an argument: an array of int8.*convert it with astype"),
    ],
)
def test_arguments(args: tuple[Any, ...], axes: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        ds.tile.map(lambda x, m: x * 1.0, axes=axes)(*args)


def test_a_result_is_made_of_arrays() -> None:
    with pytest.raises(TileError, match="returned str, expected arrays"):
        ds.tile.map(lambda x: "text")(X)
    with pytest.raises(TileError, match="number of entries differs"):
        ds.tile.map(lambda x: x[x > 0])(X)


def test_a_value_stays_in_its_program() -> None:
    kept = []
    ds.tile.map(lambda x: kept.append(x * 2) or x)(X)
    with pytest.raises(TileError, match="used outside of it"):
        ds.tile.map(lambda x: x + kept[0])(X)


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (float, r"float\(\) of a value.*functions of diffsim.numpy"),
        (math.sin, r"float\(\) of a value.*np.sin"),
        (int, r"int\(\) of a value.*astype\(int\)"),
        (complex, r"complex\(\) of a value.*astype\(complex\)"),
        (math.floor, r"math.floor\(\) of a value.*np.floor"),
        (lambda v: v.item(), r"item\(\) or round\(\) of a value"),
        (round, r"item\(\) or round\(\) of a value.*np.round"),
        (lambda v: range(v), r"an index or a length.*ds.fori_loop"),
    ],
)
def test_conversions_are_refused(convert: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TileError, match=rf"test_errors\.py:\d+: {message}"):
        ds.tile.map(lambda x: (convert(x[0]), x)[1])(X)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python does not know where in a line it is")
@pytest.mark.parametrize(
    ("function", "written"),
    [
        (lambda x: min(x[0], 0.5), "np.minimum(x[0], 0.5)"),
        (lambda x: sorted(x), "np.sort(x)"),
        (lambda x: any(x > 0), "np.any(x > 0)"),
        (lambda x: not x[0] > 0, "np.logical_not(x[0] > 0)"),
        (lambda x: x[0] > 0 and x[1] > 0 and not x[2] > 1, "(x[0] > 0) & (x[1] > 0) & np.logical_not(x[2] > 1)"),
        (lambda x: x[0] > 0 or 0 < x[1] < 1, "(x[0] > 0) | (0 < x[1]) & (x[1] < 1)"),
        (lambda x: 1.0 in x, "np.any(x == 1.0)"),
        (lambda x: x if 0 < x[0] < 1 else -x, "np.where((0 < x[0]) & (x[0] < 1), x, -x)"),
        (lambda x: max(x[0], x[1]) if max(x[0], x[1]) > 1 else 0, "np.maximum(x[0], x[1])"),
        (lambda x: [v for v in (1, 2) if x[0] > 0], "np.where(condition, a, b) or ds.cond(condition, f, g, *args)"),
    ],
)
def test_a_decision_is_written_entry_by_entry(function: Callable[..., Any], written: str) -> None:
    with pytest.raises(TileError, match=rf"test_errors\.py:\d+: a truth value.*write {re.escape(written)}$"):
        ds.tile.map(function)(X)


def first_solve(m, x):
    return np.linalg.solve(m, x)  # here


def second_solve(m, x):
    return np.linalg.solve(m, x)  # here


def test_programs_that_do_the_same_name_their_own_lines() -> None:
    for function in (first_solve, second_solve):
        line = inspect.getsourcelines(function)[1] + 1
        with pytest.raises(SingularError, match=rf"test_errors\.py:{line}: solve.*\(tile 4\)"):
            ds.tile.map(function)(M * (numpy.arange(TILES) != 4)[:, None, None], X)


def test_an_error_of_a_derivative_names_the_line() -> None:
    def squared(m):
        return ds.jvp(np.linalg.det, (m * 0,), (m,))[1]

    line = inspect.getsourcelines(squared)[1] + 1
    with pytest.raises(SingularError, match=rf"test_errors\.py:{line}: .*the derivative of det"):
        ds.tile.map(squared)(M)
    with pytest.raises(SingularError, match=r"test_errors\.py:\d+: .*the derivative of det"):
        ds.jvp(ds.tile.map(lambda m: np.linalg.det(m * 0)), (M,), (M,))


def test_a_value_is_printed_by_its_type(capsys: Any) -> None:
    ds.tile.map(lambda x: (print(x, f"{x[0]:.3f}", [x]), x)[1])(X)
    vector, number = "<one for each tile: float64[4]>", "<one for each tile: float64[]>"
    assert capsys.readouterr().out == f"{vector} {number} [{vector}]\n"


def with_a_rule(custom: Any, factor: Any, factor_of_rule: Any) -> Any:
    """A function y -> factor * y with a derivative rule of its own."""

    @custom
    def scaled(y):
        return factor * y

    if custom is ds.custom_vjp:
        scaled.defvjp(lambda y: (2.0 * y, None), lambda _, ct: (factor_of_rule * ct,))
    else:
        scaled.defjvp(lambda primals, tangents: (2.0 * primals[0], factor_of_rule * tangents[0]))
    return scaled


@pytest.mark.parametrize("custom", [ds.custom_vjp, ds.custom_jvp])
def test_a_function_with_a_rule_uses_arguments_only(custom: Any) -> None:
    def mapped(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, c: np.sum(ds.tile.map(f, axes=(0, None))(x, c))

    def around(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, c: np.sum(ds.tile.map(lambda y: f(y, c))(x))

    def body(x, c):
        return with_a_rule(custom, c, 2.0)(x)

    def body_of_a_loop(x, c):
        return ds.fori_loop(0, 3, lambda k, y: with_a_rule(custom, c, 2.0)(y), x)

    def loop_in_it(x, c):
        return with_a_rule(custom, ds.fori_loop(0, 3, lambda k, y: y * c, x), 2.0)(x)

    def rule(x, c):
        return with_a_rule(custom, 2.0, c)(x)

    refused = r"test_errors\.py:\d+: a .*pass it as an argument"
    for function in (body, body_of_a_loop, loop_in_it):
        with pytest.raises(TileError, match=refused):
            mapped(function)(X, numpy.ones(4))
        with pytest.raises(TileError, match=refused):
            ds.grad(around(function), argnums=(0, 1))(X, numpy.ones(4))
    with pytest.raises((TileError, DerivativeError), match=rf"{refused}|a value of a derivative that has ended is used"):
        ds.grad(around(rule), argnums=(0, 1))(X, numpy.ones(4))
    with pytest.raises(TileError, match=refused):
        ds.grad(mapped(rule), argnums=(0, 1))(X, numpy.ones(4))


def test_the_states_of_a_long_loop_do_not_fit() -> None:
    def long(x):
        return np.sum(ds.while_loop(lambda y: y[0] > 0.1, lambda y: 0.9 * y, x, max_steps=10**6))

    pullback = ds.vjp(ds.tile.map(long), X)[1]
    with pytest.raises(TileError, match=r"test_errors\.py:\d+: the derivative of a loop.*smaller max_steps"):
        pullback(numpy.ones(TILES))
