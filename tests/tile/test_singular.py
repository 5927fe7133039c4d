"""Matrices of tiles that are singular but for rounding: derivatives are refused by the bounds of array programs, values are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.ad.ops import rounding
from diffsim.errors import SingularError
from tests.numpy.test_rounding import with_condition

N = 5
UNITS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 3000)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "inv": dn.linalg.inv,
    "solve": lambda a: dn.linalg.solve(a, np.arange(1.0, N + 1).astype(a.dtype)),
    "slogdet": lambda a: dn.linalg.slogdet(a)[1],
    "cholesky": lambda a: dn.linalg.cholesky(a @ dn.matrix_transpose(a)),
}
MAPPED = {name: ds.tile.map(f) for name, f in FUNCTIONS.items()}
REFUSED = r"derivative of (inv|solve|slogdet|cholesky) of a matrix that is singular within rounding in a tile program; add .* \(tile 1\)"


def tiles(name: str, seed: int, units: float, dtype: Any) -> np.ndarray:
    """A unit matrix, and one whose smallest singular value is so many units; of cholesky its square."""
    unit = rounding.unit(dtype)
    wanted = np.sqrt(units * unit) / unit if name == "cholesky" else units
    return np.stack([np.eye(N, dtype=dtype), with_condition(seed, N, wanted, dtype)])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_refused_where_those_of_array_programs_are(name: str, dtype: str) -> None:
    met = {"refused": 0, "right": 0}
    for seed in range(6):
        for units in UNITS:
            a = tiles(name, seed, units, dtype)
            try:
                value, pullback = ds.vjp(MAPPED[name], a)
                bar = np.ones_like(np.asarray(value))
                gradient = pullback(bar)[0]
            except SingularError:
                assert units < 100
                met["refused"] += 1
                continue
            if name == "cholesky" and units < 50:
                continue  # rounding of the product, and probes, decide
            assert units > 5
            wanted = ds.vjp(FUNCTIONS[name], a[1].astype(float))[1](bar[1].astype(float))[0]
            assert np.abs(gradient[1] - wanted).max() <= 50 * N / units * np.abs(wanted).max()
            met["right"] += 1
    assert min(met.values()) > 12


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_error_names_the_tile_and_only_derivatives_that_are_asked_for_count(name: str) -> None:
    a = tiles(name, 2, 3, "f8")
    mapped, x = MAPPED[name], np.random.default_rng(0).standard_normal((2, N, N))
    value, pullback = ds.vjp(mapped, a)
    bar = np.ones_like(np.asarray(value))
    assert np.isfinite(np.asarray(value)).all()
    with pytest.raises(SingularError, match=REFUSED):
        pullback(bar)
    with pytest.raises(SingularError, match=REFUSED):
        ds.jvp(mapped, (a,), (x,))
    if name == "slogdet":  # an array program has it of a matrix that is regular but for rounding, where its cotangent is 0
        bar[1] = 0.0
        assert np.isfinite(pullback(bar)[0]).all()
        return
    bar[1], x[1] = 0.0, 0.0
    gradient = pullback(bar)[0]
    assert np.isfinite(gradient).all() and not gradient[1].any() and gradient[0].any()
    assert np.isfinite(ds.jvp(mapped, (a,), (x,))[1]).all()


def test_units_do_not_make_a_matrix_of_a_tile_singular() -> None:
    rng = np.random.default_rng(1)
    for dtype in ("f4", "f8"):
        a = np.stack([np.eye(N), rng.standard_normal((N, N)) + 4 * np.eye(N)])
        a = (a * 10.0 ** rng.integers(-7, 8, (N, 1)) * 10.0 ** rng.integers(-7, 8, N)).astype(dtype)
        for name in ("inv", "solve", "slogdet"):
            value, pullback = ds.vjp(MAPPED[name], a)
            assert np.isfinite(pullback(np.ones_like(np.asarray(value)))[0]).all()


@pytest.mark.parametrize("name", ["solve", *(pytest.param(n, marks=pytest.mark.slow) for n in ("inv", "slogdet", "cholesky"))])
def test_second_derivatives_of_matrices_of_tiles_agree_with_those_of_array_programs(name: str) -> None:
    f, mapped = FUNCTIONS[name], MAPPED[name]
    a, x = np.random.default_rng(2).standard_normal((2, 3, N, N)) * 0.3 + 2 * np.eye(N)
    product = ds.hvp(lambda a: dn.sum(mapped(a) ** 2), a, x)
    wanted = [ds.hvp(lambda a: dn.sum(f(a) ** 2), one, along) for one, along in zip(a, x, strict=True)]
    np.testing.assert_allclose(product, wanted, rtol=1e-9, atol=1e-9)
