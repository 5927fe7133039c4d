"""Scans, reductions, histograms, scatter and map against plain loops, and their derivatives to second order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import ParameterError, ShapeError

RNG = numpy.random.default_rng(3)
SAME = 1e-13
"""Relative; sums and products in another order."""


def matrices(a: Any, b: Any) -> Any:
    """Product of two 2 x 2 matrices given by their entries; it does not commute."""
    return (a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3])


def recurrence(a: Any, b: Any) -> Any:
    """Composition of y -> m y + c; it does not commute."""
    return (a[0] * b[0], b[0] * a[1] + b[1])


def first_largest(a: Any, b: Any) -> Any:
    """(value, payload) of the larger value, by a branch."""
    return a if a[0] >= b[0] else b


def log_add(a: Any, b: Any) -> Any:
    return np.maximum(a, b) + np.log(1 + np.exp(-abs(a - b)))


@dataclass(frozen=True)
class Case:
    """An operator, how many arrays it works on, its neutral element (or None, and the one it is known to have)."""

    op: Any
    arity: int
    neutral: Any
    plain: Callable[[Any, Any], Any]
    first: Any = None


CASES = {
    "+": Case("+", 1, None, lambda a, b: a + b, 0.0),
    "*": Case(np.multiply, 1, None, lambda a, b: a * b, 1.0),
    "max": Case(numpy.maximum, 1, None, max, -numpy.inf),
    "min": Case(min, 1, None, min, numpy.inf),
    "plus by a function": Case(lambda a, b: a + b, 1, 0.0, lambda a, b: a + b),
    "1 - (1-a)(1-b)": Case(lambda a, b: a + b - a * b, 1, 0.0, lambda a, b: a + b - a * b),
    "matrices": Case(matrices, 4, (1.0, 0.0, 0.0, 1.0), matrices),
    "recurrence": Case(recurrence, 2, (1.0, 0.0), recurrence),
    "branch": Case(first_largest, 2, (-numpy.inf, 0.0), first_largest),
    "log-add": Case(log_add, 1, -1e300, lambda a, b: numpy.logaddexp(a, b)),
}


def elements(case: Case, shape: tuple[int, ...]) -> Any:
    arrays = tuple(RNG.standard_normal(shape) for _ in range(case.arity))
    return arrays if case.arity > 1 else arrays[0]


def along(case: Case, xs: Any, axis: int) -> list[Any]:
    """Elements along an axis, as numbers or tuples of numbers an index of the other axes."""
    arrays = [numpy.moveaxis(x, axis, 0).reshape(x.shape[axis], -1) for x in (xs if case.arity > 1 else (xs,))]
    return [
        [[tuple(a[i, c] for a in arrays) if case.arity > 1 else arrays[0][i, c] for i in range(arrays[0].shape[0])]][0]
        for c in range(arrays[0].shape[1])
    ]


def running(case: Case, lane: list[Any], reverse: bool, exclusive: bool) -> list[Any]:
    lane = lane[::-1] if reverse else lane
    out = [lane[0]]
    for x in lane[1:]:
        out.append(case.plain(out[-1], x))
    if exclusive:
        out = [case.first if case.neutral is None else case.neutral, *out[:-1]]
    return out[::-1] if reverse else out


def stacked(case: Case, found: Any) -> numpy.ndarray:
    return numpy.stack([numpy.asarray(f) for f in (found if case.arity > 1 else (found,))])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_scan_is_the_loop(name: str, reverse: bool, exclusive: bool) -> None:
    case = CASES[name]
    xs = elements(case, (3, 7, 2))
    result = stacked(case, ds.scan(case.op, xs, case.neutral, axis=1, reverse=reverse, exclusive=exclusive))
    expected = numpy.array([running(case, lane, reverse, exclusive) for lane in along(case, xs, 1)])  # lane, i (, component)
    expected = expected.reshape(3, 2, 7, case.arity).transpose(3, 0, 2, 1)
    assert numpy.allclose(result, expected, rtol=SAME, atol=SAME)


@pytest.mark.parametrize("name", CASES)
def test_reduce_is_the_loop(name: str) -> None:
    case = CASES[name]
    xs = elements(case, (5, 2))
    result = stacked(case, ds.reduce(case.op, xs, case.neutral))
    expected = numpy.array([running(case, lane, False, False)[-1] for lane in along(case, xs, 0)]).reshape(2, case.arity).T
    assert numpy.allclose(result, expected, rtol=SAME, atol=SAME)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_scans(name: str, reverse: bool) -> None:
    case = CASES[name]
    ds.check_grads(lambda xs: ds.scan(case.op, xs, axis=1, reverse=reverse), (elements(case, (2, 5)),), directions=1)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_reductions(name: str) -> None:
    case = CASES[name]
    ds.check_grads(lambda xs: ds.reduce(case.op, xs, case.neutral), (elements(case, (6,)),), directions=1)


INDEX = numpy.array([0, 2, 2, 5, 0, 1, -1, 2])
"""Bin 3 stays empty, two entries are outside."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("columns", [(), (3,)])
def test_histograms_are_the_loop_and_differentiate(name: str, columns: tuple[int, ...]) -> None:
    case = CASES[name]
    dst, values = elements(case, (4, *columns)), elements(case, (8, *columns))
    result = stacked(case, ds.reduce_by_index(case.op, dst, INDEX, values, case.neutral))
    bins = along(case, tuple(x.reshape(4, -1).T for x in dst) if case.arity > 1 else dst.reshape(4, -1).T, 0)
    lanes = along(case, tuple(x.reshape(8, -1).T for x in values) if case.arity > 1 else values.reshape(8, -1).T, 0)
    width = len(bins[0])
    expected = numpy.zeros((4, width, case.arity))
    for c in range(width):
        column = [b[c] for b in bins]
        for i, k in enumerate(INDEX):
            if 0 <= k < 4:
                column[k] = case.plain(column[k], lanes[i][c])
        expected[:, c] = numpy.array(column).reshape(4, case.arity)
    assert numpy.allclose(result.reshape(case.arity, 4, width), expected.transpose(2, 0, 1), rtol=SAME, atol=SAME)
    ds.check_grads(lambda d, v: ds.reduce_by_index(case.op, d, INDEX, v), (dst, values), directions=1)


def test_products_with_several_zeros_are_exact_to_second_order() -> None:
    values = numpy.array([0.0, 2.0, 0.0, 3.0, 0.0])
    index = numpy.array([0, 0, 0, 1, 1])
    hessian = ds.hessian(lambda v: np.sum(ds.reduce_by_index("*", np.ones(2), index, v)))(values)
    expected = numpy.zeros((5, 5))
    expected[0, 2] = expected[2, 0] = 2.0  # d2(v0 v1 v2): the rest is v1
    expected[3, 4] = expected[4, 3] = 1.0
    assert numpy.array_equal(hessian, expected)


@pytest.mark.parametrize("op", ["max", "min", lambda a, b: np.maximum(a, b)])
def test_ties_go_to_the_one_that_was_there_first(op: Any) -> None:
    x = numpy.ones(4)
    assert numpy.array_equal(ds.grad(lambda x: ds.reduce(op, x))(x), [1, 0, 0, 0])
    assert numpy.array_equal(ds.grad(lambda x: np.sum(ds.scan(op, x)))(x), [4, 0, 0, 0])
    assert numpy.array_equal(ds.grad(lambda x: np.sum(ds.scan(op, x, reverse=True)))(x), [0, 0, 0, 4])
    in_dst, in_values = ds.grad(lambda d, v: np.sum(ds.reduce_by_index(op, d, numpy.array([1, 1, 0, 9]), v)), (0, 1))(numpy.ones(2), x)
    assert numpy.array_equal(in_dst, [1, 1]) and numpy.array_equal(in_values, [0, 0, 0, 0])
    below = numpy.full(2, -numpy.inf if op != "min" else numpy.inf)
    _, in_values = ds.grad(lambda d, v: np.sum(ds.reduce_by_index(op, d, numpy.array([1, 1, 0, 9]), v)), (0, 1))(below, x)
    assert numpy.array_equal(in_values, [1, 0, 1, 0])


def test_elements_that_are_arrays_reach_the_operator_whole() -> None:
    xs = RNG.standard_normal((5, 2, 2))
    products = ds.scan(lambda a, b: a @ b, xs)
    assert numpy.allclose(products[3], xs[0] @ xs[1] @ xs[2] @ xs[3], rtol=SAME)
    ds.check_grads(lambda xs: ds.scan(lambda a, b: a @ b, xs), (xs,), directions=1)


def test_an_operator_may_use_differentiated_values_around_it() -> None:
    ds.check_grads(lambda k, x: ds.reduce(lambda a, b: a + b + k * a * b, x), (0.3, RNG.standard_normal(5)))


def test_empty_inputs() -> None:
    empty = numpy.zeros(0)
    assert ds.scan("+", empty).shape == (0,)
    assert ds.reduce("max", empty) == -numpy.inf and ds.reduce("*", empty) == 1.0
    assert ds.reduce(matrices, (empty,) * 4, (1.0, 0.0, 0.0, 1.0)) == (1.0, 0.0, 0.0, 1.0)
    assert numpy.array_equal(ds.reduce_by_index("+", numpy.ones(2), numpy.zeros(0, int), empty), [1, 1])
    assert ds.grad(lambda x: ds.reduce("+", x))(empty).shape == (0,)
    with pytest.raises(ParameterError, match="neutral"):
        ds.reduce(matrices, (empty,) * 4)


def test_scatter_writes_the_last_and_drops_values_outside() -> None:
    dst, values = numpy.zeros(4), numpy.array([1.0, 2.0, 3.0, 4.0])
    index = numpy.array([1, 7, 1, -1])
    assert numpy.array_equal(ds.scatter(dst, index, values), [0, 3, 0, 0])
    in_dst, in_values = ds.grad(lambda d, v: np.sum(ds.scatter(d, index, v) * numpy.arange(4.0)), (0, 1))(dst, values)
    assert numpy.array_equal(in_dst, [0, 0, 2, 3]) and numpy.array_equal(in_values, [0, 0, 1, 0])
    assert numpy.array_equal(dst, numpy.zeros(4))
    grid = ds.scatter(numpy.zeros((2, 2)), (numpy.array([0, 1, 2]), numpy.array([1, 0, 0])), numpy.array([5.0, 6.0, 7.0]))
    assert numpy.array_equal(grid, [[0, 5], [6, 0]])


def test_map_of_arithmetic_is_one_operation_an_instruction() -> None:
    program = lambda x: ds.map(lambda a: a * a if a > 0 else np.sin(a), x)  # noqa: E731
    x = numpy.linspace(-1, 1, 200)  # even, so that none is near the kink at 0
    assert numpy.array_equal(program(x), numpy.where(x > 0, x * x, numpy.sin(x)))
    assert len(ds.show_tape(program, x).entries) < 10
    ds.check_grads(program, (x,), step=1e-3)


def test_map_over_records_and_rows() -> None:
    points = {"x": RNG.standard_normal((6, 3)), "m": RNG.standard_normal(6)}
    results = ds.map(lambda p: (p["m"] * p["x"], np.sum(p["x"])), points)
    assert numpy.allclose(results[0], points["m"][:, None] * points["x"]) and results[1].shape == (6,)
    ds.check_grads(lambda p: ds.map(lambda p: (p["m"] * p["x"], np.sum(p["x"] ** 2)), p), (points,), directions=1)


def test_large_arrays_run_in_compiled_kernels_with_the_same_values() -> None:
    n = 200_000
    xs = tuple(1 + 1e-6 * RNG.standard_normal(n) if k in (0, 3) else 1e-6 * RNG.standard_normal(n) for k in range(4))
    loss = lambda xs: ds.scan(matrices, xs)[1][-1] + np.sum(ds.scan(matrices, xs)[0]) / n  # noqa: E731
    gradient = ds.grad(loss)(xs)
    v = tuple(RNG.standard_normal(n) for _ in range(4))
    slope = sum(float(numpy.sum(g * d)) for g, d in zip(gradient, v, strict=True))
    assert slope == pytest.approx(float(ds.jvp(loss, (xs,), (v,))[1]), rel=1e-9)  # forward mode runs the tree of array operations


def test_errors_name_the_expected_form() -> None:
    x = numpy.ones(3)
    with pytest.raises(ParameterError, match="operator '-' is unknown; write one of"):
        ds.scan("-", x)
    with pytest.raises(ParameterError, match="exclusive scan needs the operator's neutral element"):
        ds.scan(recurrence, (x, x), exclusive=True)
    with pytest.raises(ShapeError, match="expected that of its operands"):
        ds.scan(lambda a, b: (a, b), x)
    with pytest.raises(ShapeError, match="expected one shape"):
        ds.scan(recurrence, (x, numpy.ones(4)))
    with pytest.raises(ShapeError, match="out of bounds"):
        ds.scan("+", x, axis=1)
    with pytest.raises(ShapeError, match="expected integers"):
        ds.reduce_by_index("+", x, numpy.ones(2), numpy.ones(2))
    with pytest.raises(ShapeError, match="values have the shape"):
        ds.reduce_by_index("+", x, numpy.array([0, 1]), numpy.ones(3))
    with pytest.raises(ShapeError, match="arrays of one length"):
        ds.map(lambda a, b: a + b, x, numpy.ones(4))
