"""Histograms against loops over the values, and their adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from diffsim import kernels
from diffsim.errors import ParameterError, ShapeError
from diffsim.kernels.named import OPERATORS
from tests.kernels.operators import CASES, Case, close, dot

ROUND_OFF = 1e-12
DIFFERENCE = 2e-6
SIZES = [(900, 7, 1), (900, 400, 2), (60, 1, 3), (0, 4, 2), (5, 0, 1), (700, 1000, 1)]  # n, bins, cols
PLUS = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}
by_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
by_size = pytest.mark.parametrize("size", SIZES, ids=str)


def indices(n: int, bins: int, seed: int, dtype: str = "i8") -> np.ndarray:
    """Some are outside."""
    return np.random.default_rng(seed).integers(-2, bins + 2, n).astype(dtype)


def loop(case: Case, dsts: tuple[np.ndarray, ...], index: np.ndarray, values: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    out = tuple(d.copy() for d in dsts)
    for i, b in enumerate(index.tolist()):
        for col in range(dsts[0].shape[1]) if 0 <= b < len(dsts[0]) else ():
            total: tuple[Any, ...] = case.function(tuple(o[b, col] for o in out), tuple(v[i, col] for v in values))
            for o, t in zip(out, total, strict=True):
                o[b, col] = t
    return out


@by_size
@pytest.mark.parametrize("kind", PLUS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i8"])
def test_histograms(implementation: str, kind: str, size: tuple[int, int, int], dtype: str) -> None:
    n, bins, cols = size
    rng = np.random.default_rng(20)
    index = indices(n, bins, 21, "i4" if dtype == "i4" else "i8")
    draw = (lambda shape: rng.integers(-3, 4, shape)) if dtype.startswith("i") else (lambda shape: rng.uniform(-1.2, 1.2, shape))
    dst, values = draw((bins, cols)).astype(dtype), draw((n, cols)).astype(dtype)
    wanted = dst.copy()
    for i, b in enumerate(index.tolist()):
        if 0 <= b < bins:
            wanted[b] = PLUS[kind](wanted[b], values[i])
    result = kernels.histogram(kind, dst, index, values)
    assert close([result], [wanted], 2e-5 if dtype == "f4" else ROUND_OFF)
    assert not np.shares_memory(result, dst)


@by_size
@pytest.mark.parametrize("kind", ["min", "max"])
def test_winners(implementation: str, kind: str, size: tuple[int, int, int]) -> None:
    n, bins, cols = size
    rng = np.random.default_rng(22)
    index = indices(n, bins, 23)
    dst, values = rng.integers(-20, 21, (bins, cols)).astype("f8"), rng.integers(-20, 21, (n, cols)).astype("f8")
    out, winners = dst.copy(), np.full((bins, cols), -1)
    for i, b in enumerate(index.tolist()):
        for col in range(cols) if 0 <= b < bins else ():
            if (values[i, col] < out[b, col]) if kind == "min" else (values[i, col] > out[b, col]):
                out[b, col], winners[b, col] = values[i, col], i
    result, places = kernels.histogram_winners(kind, dst, index, values)
    assert (result == out).all() and (places == winners).all()


def test_nan_wins(implementation: str) -> None:
    dst, values = np.zeros((2, 1)), np.array([[1.0], [np.nan], [5.0], [np.nan]])
    for kind in ("min", "max"):
        out, winners = kernels.histogram_winners(kind, dst, np.array([1, 1, 1, 1]), values)
        assert out[0, 0] == 0 and np.isnan(out[1, 0]) and winners.tolist() == [[-1], [1]]


@by_size
@by_case
def test_any_operator(implementation: str, case: Case, size: tuple[int, int, int]) -> None:
    n, bins, cols = size
    index = indices(n, bins, 24)
    dsts, values = case.operands((bins, cols), 25), case.operands((n, cols), 26)
    result = kernels.histogram_generic(case.operator, dsts, index, values)
    assert close(result, loop(case, dsts, index, values), 0.0 if case.exact else ROUND_OFF)


@pytest.mark.parametrize("size", [(300, 7, 1), (100, 60, 2), (40, 5, 30), (0, 4, 2), (5, 0, 1)], ids=str)
@by_case
def test_adjoint_of_any_operator(implementation: str, case: Case, size: tuple[int, int, int]) -> None:
    n, bins, cols = size
    rng = np.random.default_rng(27)
    index = indices(n, bins, 28)
    dsts, values = case.operands((bins, cols), 29), case.operands((n, cols), 30)
    moving = [d.dtype.kind == "f" for d in dsts]
    values = tuple(v + rng.uniform(0, 0.05, v.shape) if m else v for v, m in zip(values, moving, strict=True))  # no ties
    bars = [rng.standard_normal(d.shape) if m else None for d, m in zip(dsts, moving, strict=True)]
    dst_bars, value_bars = kernels.histogram_generic_vjp(case.operator, dsts, index, values, bars)
    assert [b is not None for b in dst_bars] == [b is not None for b in value_bars] == moving
    outside = (index < 0) | (index >= bins)
    assert all(b is None or (b[outside] == 0).all() for b in value_bars)
    for _ in range(2):
        ways = [[rng.standard_normal(x.shape) if x.dtype.kind == "f" else np.zeros_like(x) for x in xs] for xs in (dsts, values)]

        def moved(step: float, ways: list[Any] = ways) -> tuple[np.ndarray, ...]:
            d, v = (
                tuple(x + step * w if x.dtype.kind == "f" else x for x, w in zip(xs, way, strict=True))
                for xs, way in zip((dsts, values), ways, strict=True)
            )
            return loop(case, d, index, v)

        expected = (dot(bars, moved(1e-5)) - dot(bars, moved(-1e-5))) / 2e-5
        slope = dot(dst_bars, ways[0]) + dot(value_bars, ways[1])
        scale = sum(float(np.abs(b * w).sum()) for b, w in zip([*dst_bars, *value_bars], ways[0] + ways[1], strict=True) if b is not None)
        assert abs(slope - expected) <= DIFFERENCE * max(scale, 1e-30)


@pytest.mark.parametrize("zeros", [0, 1, 2, 40])
def test_product_with_zeros(implementation: str, zeros: int) -> None:
    rng = np.random.default_rng(31)
    n, bins, cols = 600, 5, 2
    index = indices(n, bins, 32)
    dst, values = rng.uniform(0.9, 1.1, (bins, cols)), rng.uniform(0.9, 1.1, (n, cols))
    values[rng.choice(n, zeros, replace=False)] = 0
    if zeros == 40:
        dst[2] = 0
    bar = rng.standard_normal((bins, cols))
    (dst_bar,), (values_bar,) = kernels.histogram_generic_vjp(OPERATORS["*"], (dst,), index, (values,), (bar,))
    for b in range(bins):
        rows = np.flatnonzero(index == b)
        factors = np.concatenate([dst[b][None], values[rows]])
        for k in range(len(factors)):
            wanted = bar[b] * np.delete(factors, k, axis=0).prod(axis=0)
            value_bar = values_bar[rows[k - 1]] if k else dst_bar[b]
            assert np.abs(value_bar - wanted).max() <= ROUND_OFF * max(1.0, np.abs(wanted).max())
    assert (values_bar[(index < 0) | (index >= bins)] == 0).all()


def test_results_in_range_of_totals_that_are_not(implementation: str) -> None:
    """The product of some neighbours overflows, that from the start does not; powers of two, so all is exact."""
    n = 600
    index = np.arange(n) % 2
    values, dst = np.ones((n, 1)), np.array([[2.0**-1000], [2.0**3]])
    values[100:105:2] = 2.0**600
    bar = np.array([[2.0**-900], [1.0]])
    assert kernels.histogram("*", dst, index, values).tolist() == [[2.0**800], [2.0**3]]
    assert kernels.histogram_generic(CASES[0].operator, (dst,), index, (values,))[0].tolist() == [[2.0**800], [2.0**3]]
    (dst_bar,), (values_bar,) = kernels.histogram_generic_vjp(OPERATORS["*"], (dst,), index, (values,), (bar,))
    assert dst_bar.tolist() == [[2.0**900], [1.0]]
    assert (values_bar[1::2] == 2.0**3).all()
    wanted = np.full(n // 2, 2.0**-100)
    wanted[50:53] = 2.0**-700
    assert (values_bar[::2, 0] == wanted).all()


@by_size
@pytest.mark.parametrize("dtype", ["i4", "i8", "u4"])
def test_counting_sort(implementation: str, size: tuple[int, int, int], dtype: str) -> None:
    n, bins, _ = size
    index = np.abs(indices(n, bins, 33)).astype(dtype) if dtype == "u4" else indices(n, bins, 33, dtype)
    permutation, starts = kernels.order_by_index(index, bins)
    assert starts.shape == (bins + 1,) and starts[0] == 0 and starts[-1] == len(permutation)
    for b in range(bins):
        assert permutation[starts[b] : starts[b + 1]].tolist() == np.flatnonzero(index == b).tolist()


def test_arguments_that_do_not_fit_are_refused() -> None:
    dst, index, values = np.zeros((3, 1)), np.array([0, 1]), np.zeros((2, 1))
    with pytest.raises(ParameterError, match=r"kind = '-'"):
        kernels.histogram("-", dst, index, values)
    with pytest.raises(ParameterError, match="no winners"):
        kernels.histogram_winners("+", dst, index, values)
    with pytest.raises(ShapeError, match="and 3 indices"):
        kernels.histogram("+", dst, np.array([0, 1, 2]), values)
    with pytest.raises(ParameterError, match="float32"):
        kernels.histogram("+", dst, index, values.astype("f4"))
    with pytest.raises(ShapeError, match="expected integers"):
        kernels.histogram("+", dst, index.astype("f8"), values)
    with pytest.raises(ParameterError, match="bins = -1"):
        kernels.order_by_index(index, -1)


@by_size
@by_case
def test_the_records_of_the_histogram_for_its_adjoint_change_no_bits(implementation: str, case: Case, size: tuple[int, int, int]) -> None:
    n, bins, cols = size
    dsts, values, index = case.operands((bins, cols), 40), case.operands((n, cols), 41), indices(n, bins, 42)
    bars = [np.random.default_rng(43).standard_normal(d.shape) if d.dtype.kind == "f" else None for d in dsts]
    result, totals = kernels.histogram_with_totals(case.operator, dsts, index, values)
    for one, other in zip(result, kernels.histogram_generic(case.operator, dsts, index, values), strict=True):
        assert np.array_equal(one, other)
    again = kernels.histogram_generic_vjp(case.operator, dsts, index, values, bars, totals)
    for ones, others in zip(again, kernels.histogram_generic_vjp(case.operator, dsts, index, values, bars), strict=True):
        for one, other in zip(ones, others, strict=True):
            assert (one is None) == (other is None) and (one is None or np.array_equal(one, other))
