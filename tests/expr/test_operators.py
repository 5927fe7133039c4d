"""Finite differences: exact on polynomials, of the right order, at the right place."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from diffsim.errors import ParameterError, ShapeError
from diffsim.expr import Graph, Symbol, diff, diff_centred, div, grad, interpolate, laplacian
from diffsim.expr.evaluate import evaluate
from diffsim.expr.weights import ORDERS, centred, fornberg, staggered

H = (0.3, 0.7)
HALO = (6, 6)
SHAPE = (5, 4)


def field(location: tuple[int, int] = (0, 0)) -> Symbol:
    graph = Graph()
    return Symbol(graph, graph.read("f", (0, 0)), location, H)


def places(location: tuple[int, int], halo: int = 0) -> list[np.ndarray]:
    axes = [H[a] * (np.arange(-halo, SHAPE[a] + halo) + 0.5 * location[a]) for a in range(2)]
    return list(np.meshgrid(*axes, indexing="ij"))


def apply(s: Symbol, f: object, location: tuple[int, int]) -> np.ndarray:
    return evaluate([s.node], {"f": f(*places(location, 6))}, SHAPE, HALO)[0]  # type: ignore[operator]


@pytest.mark.parametrize("order", ORDERS)
def test_operators_are_exact_on_polynomials_of_their_order(order: int) -> None:
    def f(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return y**order + 2 * x**order - y * x

    y, x = places((0, 0))
    n = order
    scale = max(abs(f(*places((0, 0), 6))).max(), 1)
    expected = n * (n - 1) * (y ** (n - 2) + 2 * x ** (n - 2))
    assert np.abs(apply(laplacian(field(), order), f, (0, 0)) - expected).max() < 1e-11 * scale
    assert np.abs(apply(diff_centred(field(), 1, order), f, (0, 0)) - (2 * n * x ** (n - 1) - y)).max() < 1e-11 * scale
    y, x = places((0, 1))
    s = diff(field(), 1, order)
    assert s.location == (0, 1)
    assert np.abs(apply(s, f, (0, 0)) - (2 * n * x ** (n - 1) - y)).max() < 1e-11 * scale

    def g(y: np.ndarray, x: np.ndarray) -> np.ndarray:
        return y ** (order - 1) * x

    s = interpolate(field((1, 1)), 0, order)  # from faces back to the centre of axis 0
    assert s.location == (0, 1)
    y, x = places((0, 1))
    assert np.abs(apply(s, g, (1, 1)) - g(y, x)).max() < 1e-11 * scale


def test_div_grad_is_the_laplacian() -> None:
    f = field()
    assert div(grad(f)).location == (0, 0)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(17, 16))
    both = evaluate([div(grad(f)).node, laplacian(f).node], {"f": values}, SHAPE, HALO)
    assert np.abs(both[0] - both[1]).max() < 1e-12 * np.abs(both[1]).max()


def test_weights_against_known_ones() -> None:
    assert centred(2, 4) == pytest.approx([-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12], abs=1e-15)
    assert staggered(1, 4) == pytest.approx([1 / 24, -9 / 8, 9 / 8, -1 / 24], abs=1e-15)
    assert staggered(0, 4) == pytest.approx([-1 / 16, 9 / 16, 9 / 16, -1 / 16], abs=1e-15)
    assert fornberg([0, 1, 2], 1) == pytest.approx([-1.5, 2, -0.5])
    assert fornberg([Fraction(-1, 2), Fraction(1, 2)], 0) == [0.5, 0.5]
    for order in ORDERS:
        assert sum(centred(1, order)) == pytest.approx(0, abs=1e-14)


def test_bad_orders_and_axes() -> None:
    with pytest.raises(ParameterError, match="order = 3 is unknown"):
        laplacian(field(), 3)
    with pytest.raises(ShapeError, match="axis = 2 of a 2-D grid, expected -2 to 1"):
        diff(field(), 2)
    with pytest.raises(ParameterError, match="give at least 3"):
        fornberg([0, 1], 2)
