"""Operators of more components than a kernel takes arrays for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.kernels import large, large_bins, launch, plain, plain_bins

SIZE, ROWS, BINS = 4, 60, 3
INDEX = np.arange(ROWS) % BINS
STARTS = tuple(np.full(BINS, float(k % (SIZE + 1) == 0)) for k in range(SIZE**2))


def product(a: Any, b: Any) -> Any:
    """Product of two matrices, entry by entry."""
    return tuple(sum(a[i * SIZE + k] * b[k * SIZE + j] for k in range(SIZE)) for i in range(SIZE) for j in range(SIZE))


def near_one(seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return tuple(0.1 * rng.standard_normal(ROWS) + (k % (SIZE + 1) == 0) for k in range(SIZE**2))


def running(matrices: np.ndarray) -> np.ndarray:
    out = [matrices[0]]
    for matrix in matrices[1:]:
        out.append(out[-1] @ matrix)
    return np.stack(out)


def by_bin(matrices: np.ndarray) -> np.ndarray:
    return np.stack([running(matrices[b == INDEX])[-1] for b in range(BINS)])


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "scan": (lambda v: ds.scan(product, v), running),
    "histogram": (lambda v: ds.reduce_by_index(product, STARTS, INDEX, v), by_bin),
}


@pytest.mark.parametrize("name", CASES)
def test_products_of_matrices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are those of NumPy. The gradient, which takes more arrays, is the transpose of the tangent."""
    monkeypatch.setattr(launch, "SMALLEST", 1)
    used: list[str] = []
    for module, function in ((large, "scan"), (large_bins, "with_totals"), (plain, "scan_vjp"), (plain_bins, "generic_vjp")):
        right = getattr(module, function)
        monkeypatch.setattr(module, function, lambda *a, right=right, name=function: used.append(name) or right(*a))
    f, expected = CASES[name]
    xs, dots = near_one(1), near_one(2)
    ys, pullback = ds.vjp(f, xs)
    matrices = np.moveaxis(np.array(xs), 0, -1).reshape(ROWS, SIZE, SIZE)
    products = np.moveaxis(np.array([np.asarray(y) for y in ys]), 0, -1)
    np.testing.assert_allclose(products.reshape(-1, SIZE, SIZE), expected(matrices), rtol=1e-11, atol=1e-13)
    rng = np.random.default_rng(3)
    bars = tuple(rng.standard_normal(np.shape(y)) for y in ys)
    (pulled,) = pullback(bars)
    _, moved = ds.jvp(f, (xs,), (dots,))
    left = sum(float(np.sum(np.asarray(m) * b)) for m, b in zip(moved, bars, strict=True))
    right = sum(float(np.sum(np.asarray(p) * d)) for p, d in zip(pulled, dots, strict=True))
    assert left == pytest.approx(right, rel=1e-11)
    assert set(used) >= ({"scan", "scan_vjp"} if name == "scan" else {"with_totals", "generic_vjp"})
