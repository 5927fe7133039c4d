"""Powers of roots and of norms in a tile: first and second derivatives at 0, where those of the root are infinite or undefined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np

EXACT = 1e-11
"""Relative error of closed forms in f64."""
POWERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "norm squared": (lambda x: np.linalg.norm(x) ** 2, lambda x: x @ x),
    "norm to the fourth": (lambda x: np.linalg.norm(x) ** 4, lambda x: (x @ x) ** 2),
    "bell": (lambda x: np.exp(-(np.linalg.norm(x) ** 2)), lambda x: np.exp(-(x @ x))),
    "abs squared": (lambda x: np.sum(np.abs(x) ** 2), lambda x: x @ x),
    "hypot squared": (lambda x: np.hypot(x[0], 2.0 * x[1]) ** 2, lambda x: x[0] ** 2 + 4.0 * x[1] ** 2),
    "std squared": (lambda x: np.std(x) ** 2, lambda x: np.var(x)),
    "sqrt squared": (lambda x: np.sum(np.sqrt(x * x) ** 2), lambda x: x @ x),
    "exp of log": (lambda x: np.sum(np.exp(np.log(x * x))), lambda x: x @ x),
}
POINTS = numpy.array([[0.0, 0.0, 0.0], [0.3, 0.0, -1.2], [0.4, 0.4, 0.4], [0.6, -0.5, 0.2]])


def of_all(functions: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    return lambda x: sum((k + 1.0) * f(x) for k, f in enumerate(functions))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_of_roots_in_a_tile() -> None:
    in_tiles = ds.tile.map(of_all([f for f, _ in POWERS.values()]))
    loss = lambda x: np.sum(in_tiles(x) ** 2)  # noqa: E731
    wanted = lambda x: sum(of_all([f for _, f in POWERS.values()])(x[k]) ** 2 for k in range(len(POINTS)))  # noqa: E731
    v = numpy.random.default_rng(0).standard_normal(POINTS.shape)
    numpy.testing.assert_allclose(ds.grad(loss)(POINTS), ds.grad(wanted)(POINTS), rtol=EXACT, atol=EXACT)
    assert ds.jvp(loss, (POINTS,), (v,))[1] == pytest.approx(ds.jvp(wanted, (POINTS,), (v,))[1], rel=EXACT)
    numpy.testing.assert_allclose(ds.hvp(loss, POINTS, v), ds.hvp(wanted, POINTS, v), rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("name", ["norm", "cos of a norm", "abs"])
def test_a_second_derivative_at_a_kink_is_nan_in_a_tile(name: str) -> None:
    f = {"norm": np.linalg.norm, "cos of a norm": lambda x: np.cos(np.linalg.norm(x)), "abs": lambda x: np.sum(np.abs(x))}[name]
    in_tiles = ds.tile.map(f)
    product = ds.hvp(lambda x: np.sum(in_tiles(x)), POINTS[[0, 3]], numpy.ones((2, 3)))
    assert numpy.isnan(product[0]).all() and numpy.isfinite(product[1]).all()
    assert not ds.grad(lambda x: np.sum(in_tiles(x)))(POINTS[:1]).any()
