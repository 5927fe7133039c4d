"""Scans and reductions against loops, and their adjoints against differences, by NumPy and compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from diffsim import kernels
from diffsim.errors import ParameterError, ShapeError
from tests.kernels.operators import CASES, Case, close, dot, fold

ROUND_OFF = 1e-12
"""Rounding of a thousand operations associated differently."""
DIFFERENCE = 2e-6
"""Truncation and cancellation of central differences with a step of 1e-5."""
SHAPES = [(1, 1200, 1), (1, 7, 1), (3, 40, 5), (2, 600, 1), (1, 1, 1), (40, 3, 1), (1, 0, 2), (0, 4, 1), (1, 2, 1)]
by_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
both_ways = pytest.mark.parametrize("reverse", [False, True])


def perturbed(xs: Sequence[np.ndarray], directions: Sequence[np.ndarray], step: float) -> tuple[np.ndarray, ...]:
    return tuple(x + step * d if x.dtype.kind == "f" else x for x, d in zip(xs, directions, strict=True))


def noise(arrays: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(a.shape) * (a != 0) for a in arrays]


def cotangents(arrays: Sequence[np.ndarray], seed: int) -> list[np.ndarray | None]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(a.shape).astype(a.dtype) if a.dtype.kind == "f" else None for a in arrays]


def distinct(case: Case, shape: tuple[int, ...], seed: int) -> tuple[np.ndarray, ...]:
    """Operands without ties, where differences make sense."""
    rng = np.random.default_rng(seed)
    xs = case.operands(shape, seed)
    return tuple(x + (rng.uniform(0, 0.05, shape) if x.dtype.kind == "f" else 0).astype(x.dtype) if x.dtype.kind == "f" else x for x in xs)


@both_ways
@by_case
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scan_and_reduce(implementation: str, case: Case, shape: tuple[int, ...], reverse: bool) -> None:
    xs = case.operands(shape, 1)
    wanted = fold(case, xs, reverse)
    tolerance = 0.0 if case.exact else ROUND_OFF
    assert close(kernels.scan(case.operator, xs, reverse), wanted, tolerance)
    if shape[1] and not reverse:
        assert close(kernels.reduce(case.operator, xs), [w[:, -1] for w in wanted], tolerance)


@both_ways
@by_case
@pytest.mark.parametrize("shape", [(1, 1200, 1), (3, 40, 5), (2, 3, 30), (1, 1, 1), (1, 0, 2)], ids=str)
def test_adjoints_along_random_directions(implementation: str, case: Case, shape: tuple[int, ...], reverse: bool) -> None:
    op, xs = case.operator, distinct(case, shape, 2)
    ys = kernels.scan(op, xs, reverse)
    bars = cotangents(ys, 3)
    x_bars = kernels.scan_vjp(op, xs, ys, bars, reverse)
    assert [b is None for b in x_bars] == [x.dtype.kind != "f" for x in xs]
    for seed in (4, 5):
        directions, step = noise(xs, seed), 1e-5
        high, low = (fold(case, perturbed(xs, directions, s * step), reverse) for s in (1, -1))
        expected = (dot(bars, high) - dot(bars, low)) / (2 * step)
        scale = sum(float(np.abs(b * d).sum()) for b, d in zip(x_bars, directions, strict=True) if b is not None)
        assert abs(dot(x_bars, directions) - expected) <= DIFFERENCE * max(scale, 1e-30)


@by_case
@pytest.mark.parametrize("shape", [(1, 900, 1), (2, 30, 3)], ids=str)
def test_reduce_vjp(implementation: str, case: Case, shape: tuple[int, ...]) -> None:
    op, xs = case.operator, distinct(case, shape, 6)
    ys = kernels.scan(op, xs)
    bars = cotangents([y[:, -1] for y in ys], 7)
    last = [None if b is None else np.zeros_like(x) for b, x in zip(bars, xs, strict=True)]
    for bar, whole in zip(bars, last, strict=True):
        if bar is not None and whole is not None:
            whole[:, -1] = bar
    wanted = kernels.scan_vjp(op, xs, ys, last)
    assert close(kernels.reduce_vjp(op, xs, bars), wanted, ROUND_OFF)


@both_ways
def test_tuples_of_the_same_node_and_of_swapped_ones(implementation: str, reverse: bool) -> None:
    """Left projection twice: all of the cotangent goes to the first element."""
    case = Case("first", lambda g, a, b: [a[0], a[0]], lambda a, b: (a[0], a[0]), ("f8", "f8"))
    xs = case.operands((1, 800, 1), 8)
    ys = kernels.scan(case.operator, xs, reverse)
    assert close(ys, fold(case, xs, reverse), 0.0)
    bars = cotangents(ys, 9)
    x_bars = kernels.scan_vjp(case.operator, xs, ys, bars, reverse)
    first = -1 if reverse else 0
    assert x_bars[0] is not None and bars[0] is not None and bars[1] is not None and x_bars[1] is not None
    rest = bars[1].sum() - bars[1][0, first, 0]
    assert x_bars[0][0, first, 0] == pytest.approx(bars[0].sum() + rest, rel=ROUND_OFF, abs=1e-11)
    assert x_bars[1][0, first, 0] == bars[1][0, first, 0]


@both_ways
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_running_sums_products_and_recurrences(implementation: str, shape: tuple[int, ...], reverse: bool) -> None:
    rng = np.random.default_rng(10)
    x = rng.uniform(-1.3, 1.3, shape) * (rng.random(shape) > 0.02)
    turn = slice(None, None, -1 if reverse else 1)
    for function, ufunc in ((kernels.cumsum, np.add), (kernels.cumprod, np.multiply)):
        assert close([function(x, reverse)], [ufunc.accumulate(x[:, turn], axis=1)[:, turn]], ROUND_OFF)
    a, c = rng.uniform(-1.2, 1.2, shape), rng.standard_normal(shape)
    if shape[1]:
        a[:, -1 if reverse else 0] = np.inf  # is not used
    wanted = np.zeros(shape)
    previous = np.zeros(shape[::2])
    for i in range(shape[1])[turn]:
        previous = c[:, i] + (a[:, i] * previous if np.isfinite(a[:, i]).all() else 0)
        wanted[:, i] = previous
    assert close([kernels.linear_recurrence(a, c, reverse)], [wanted], ROUND_OFF)


@both_ways
@pytest.mark.parametrize("zeros", [0, 1, 2, 30])
def test_products_with_zeros(implementation: str, zeros: int, reverse: bool) -> None:
    """By complex step, which is exact to round-off, for each element."""
    rng = np.random.default_rng(11)
    n = 700
    x = rng.uniform(0.9, 1.1, (1, n, 2)) * rng.choice([-1, 1], (1, n, 2))
    x[:, rng.choice(n, zeros, replace=False)] = 0
    bar = rng.standard_normal(x.shape)
    turn = slice(None, None, -1 if reverse else 1)
    x_bar = kernels.cumprod_vjp(x, kernels.cumprod(x, reverse), bar, reverse)
    for column in range(2):
        moved = x[0, turn, column] + 1e-200j * np.eye(n)
        wanted = (np.cumprod(moved, axis=1).imag * 1e200) @ bar[0, turn, column]
        assert np.abs(x_bar[0, turn, column] - wanted).max() <= ROUND_OFF * np.abs(wanted).max()


def test_results_in_range_of_totals_that_are_not(implementation: str) -> None:
    """Powers of two, all exact: products of some neighbours overflow or underflow, those from the start do not."""
    op = CASES[0].operator
    x = np.ones((1, 2000, 1))
    x[:, 100:102], x[:, 1000:1003], x[:, 1500], x[:, 1600:1603] = 2.0**-500, 2.0**600, 2.0**100, 2.0**-600
    wanted = np.multiply.accumulate(x, axis=1)
    assert np.isfinite(wanted).all() and wanted.all()
    assert (kernels.cumprod(x) == wanted).all() and (kernels.scan(op, (x,))[0] == wanted).all()
    assert (kernels.reduce(op, (x,))[0] == wanted[:, -1]).all()
    bar = np.zeros_like(x)
    bar[:, 1550], bar[:, 1700] = 2.0**-1000, 2.0**900
    r, expected = 0.0, np.zeros_like(x)
    for i in range(1999, -1, -1):
        r = bar[0, i, 0] + (x[0, i + 1, 0] * r if i < 1999 else 0)
        expected[0, i, 0] = r * (wanted[0, i - 1, 0] if i else 1)
    assert np.isfinite(expected).all()
    assert (kernels.cumprod_vjp(x, wanted, bar) == expected).all()
    assert close(kernels.scan_vjp(op, (x,), (wanted,), (bar,)), [expected], 0.0)


def test_totals_that_underflow_but_start_large(implementation: str) -> None:
    x = np.ones((1, 1000, 1))
    x[:, 3:5], x[:, 700:703] = 2.0**500, 2.0**-600
    wanted = np.multiply.accumulate(x, axis=1)
    assert (kernels.scan(CASES[0].operator, (x,))[0] == wanted).all() and wanted.all()
    assert kernels.reduce(CASES[0].operator, (x,))[0] == wanted[0, -1, 0]


def test_totals_that_overflow_but_meet_a_zero(implementation: str) -> None:
    big, zero = np.full((1, 2000, 1), 2.0**40), np.zeros((1, 2000, 1))
    assert (kernels.linear_recurrence(big, zero) == 0).all()
    case = next(c for c in CASES if c.name == "affine")
    slope = big.copy()
    slope[:, 0] = 0
    assert all((y == 0).all() for y in kernels.scan(case.operator, (slope, zero)))
    assert all((y == 0).all() for y in kernels.reduce(case.operator, (slope, zero)))
    bars = kernels.scan_vjp(case.operator, (slope, zero), (zero, zero), (zero, zero))
    assert all(b is not None and (b == 0).all() for b in bars)


@both_ways
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i8"])
def test_running_extrema(implementation: str, dtype: str, reverse: bool) -> None:
    rng = np.random.default_rng(12)
    for shape in SHAPES:
        x = rng.integers(-50, 50, shape).astype(dtype)
        for function, better in ((kernels.cummax, np.greater), (kernels.cummin, np.less)):
            values, winners = function(x, reverse)
            best, place = x.copy(), np.zeros(shape, np.int64)
            order = range(shape[1])[:: -1 if reverse else 1]
            for previous, i in zip([None, *order], order, strict=False):
                place[:, i] = i
                if previous is not None:
                    new = better(x[:, i], best[:, previous])
                    best[:, i] = np.where(new, x[:, i], best[:, previous])
                    place[:, i] = np.where(new, i, place[:, previous])
            assert (values == best).all() and (winners == place).all() and values.dtype == x.dtype and winners.dtype == np.int64


def test_the_first_nan_stays(implementation: str) -> None:
    x = np.zeros((1, 1300, 1))
    x[0, 600], x[0, 700], x[0, 1000] = np.nan, 5.0, np.nan
    for function in (kernels.cummax, kernels.cummin):
        values, winners = function(x)
        assert (winners[0, :600] == 0).all() and (winners[0, 600:] == 600).all()
        assert np.isnan(values[0, 600:]).all() and not np.isnan(values[0, :600]).any()


def test_single_precision(implementation: str) -> None:
    case = next(c for c in CASES if c.name == "matrix")
    xs = case.operands((1, 600, 1), 13, single=True)
    ys = kernels.scan(case.operator, xs)
    assert close([y.astype("f8") for y in ys], fold(case, [x.astype("f8") for x in xs]), 1e-4)
    assert all(y.dtype == np.float32 for y in ys)
    bars = cotangents(ys, 14)
    x_bars = kernels.scan_vjp(case.operator, xs, ys, bars)
    double = [x.astype("f8") for x in xs]
    wanted = kernels.scan_vjp(case.operator, double, kernels.scan(case.operator, double), [b.astype("f8") for b in bars if b is not None])
    assert all(a is not None and a.dtype == np.float32 for a in x_bars)
    assert close([a.astype("f8") for a in x_bars if a is not None], wanted, 1e-4)


def test_arguments_that_do_not_fit_are_refused() -> None:
    op = CASES[0].operator
    with pytest.raises(ShapeError, match="1 components got 2 arrays"):
        kernels.scan(op, (np.ones((1, 2, 1)), np.ones((1, 2, 1))))
    with pytest.raises(ShapeError, match=r"expected \(rows, n, cols\)"):
        kernels.cumsum(np.ones(3))
    with pytest.raises(ParameterError, match="float16"):
        kernels.cumsum(np.ones((1, 3, 1), np.float16))
    with pytest.raises(ShapeError, match="no elements"):
        kernels.reduce(op, (np.ones((1, 0, 1)),))
    with pytest.raises(ParameterError, match="reads 'a1'"):
        kernels.scan(kernels.Operator(op.graph, (op.graph.read("a1", ()),)), (np.ones((1, 3, 1)),))
