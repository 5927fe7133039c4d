"""Limiters against their definitions by ratios of slopes, and values at faces against NumPy and against exact ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from diffsim.errors import ParameterError, ShapeError
from diffsim.expr import Graph, Symbol, mc, minmod, muscl, superbee, van_leer, weno5
from diffsim.expr.derive import jvp, vjp
from diffsim.expr.evaluate import evaluate
from tests.steps.weno import at_face

RATIOS: dict[Callable[..., Symbol], Callable[[np.ndarray], np.ndarray]] = {
    minmod: lambda r: np.maximum(0, np.minimum(1, r)),
    superbee: lambda r: np.maximum(0, np.maximum(np.minimum(2 * r, 1), np.minimum(r, 2))),
    mc: lambda r: np.maximum(0, np.minimum(np.minimum((1 + r) / 2, 2), 2 * r)),
    van_leer: lambda r: (r + np.abs(r)) / (1 + np.abs(r)),
}
"""Limiters, and their φ(r) after Sweby: the limited slope is φ(a / b) b."""
HALO = 3
EACH = pytest.mark.parametrize("limiter", RATIOS, ids=lambda f: f.__name__)


def slopes(number: int = 60) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.random.default_rng(number).normal(size=(2, number))
    return a, b


def symbols() -> tuple[Symbol, Symbol]:
    graph = Graph()
    return tuple(Symbol(graph, graph.read(name, (0,)), (0,), (1.0,)) for name in "ab")  # type: ignore[return-value]


def value(found: Symbol, **fields: np.ndarray) -> np.ndarray:
    return evaluate([found.node], fields, next(iter(fields.values())).shape, (0,))[0]


@EACH
def test_limiters_are_those_of_the_books(limiter: Callable[..., Symbol]) -> None:
    a, b = slopes()
    assert value(limiter(*symbols()), a=a, b=b) == pytest.approx(RATIOS[limiter](a / b) * b, abs=1e-15)
    assert value(limiter(*symbols()), a=np.zeros(3), b=np.array([0.0, 2.0, -2.0])).tolist() == [0, 0, 0]


def test_minmod_of_several_slopes_is_the_smallest() -> None:
    a, b = slopes()
    x, y = symbols()
    three = np.array([a, b, a + 0.5])
    wanted = np.where((three > 0).all(0), three.min(0), np.where((three < 0).all(0), three.max(0), 0))
    assert (value(minmod(x, y, x + 0.5), a=a, b=b) == wanted).all()


@EACH
def test_derivatives_of_limiters(limiter: Callable[..., Symbol]) -> None:
    (a, b), (da, db) = slopes(), slopes(61)
    da, db = da[:60], db[:60]
    x, y = symbols()
    limited, graph, h = limiter(x, y), x.graph, 1e-7
    sides = [value(limited, a=a + s * h * da, b=b + s * h * db) for s in (1, -1)]
    (tangent,) = jvp(graph, [limited.node], lambda read: graph.read(f"d{read.data[0]}", read.data[1]))
    moved = evaluate([tangent], {"a": a, "b": b, "da": da, "db": db}, (60,), (0,))[0]
    assert moved == pytest.approx((sides[0] - sides[1]) / (2 * h), abs=1e-6)
    bars = vjp(graph, {limited.node: graph.const(1)}, lambda name: True)
    of_a, of_b = evaluate([bars["a"][0,], bars["b"][0,]], {"a": a, "b": b}, (60,), (0,))
    assert of_a * da + of_b * db == pytest.approx(moved, abs=1e-14)
    flat = evaluate([bars["a"][0,], bars["b"][0,]], {"a": np.zeros(1), "b": np.zeros(1)}, (1,), (0,))
    assert [part.item() for part in flat] == [0, 0]


def field(location: tuple[int, ...] = (0,)) -> Symbol:
    graph, zero = Graph(), (0,) * len(location)
    return Symbol(graph, graph.read("f", zero), location, (1.0,) * len(location))


def at_cells(found: Symbol, f: np.ndarray) -> np.ndarray:
    """Values on a torus."""
    return evaluate([found.node], {"f": np.pad(f, HALO, mode="wrap")}, f.shape, (HALO,) * f.ndim)[0]


@pytest.mark.parametrize("axis", [0, 1])
def test_weno_against_numpy(axis: int) -> None:
    f = np.random.default_rng(0).normal(size=(9, 11))
    left, right = weno5(field((0, 0)), axis)
    assert left.location == right.location == tuple(int(a == axis) for a in (0, 1))
    assert at_cells(left, f) == pytest.approx(at_face(f, axis, 1), rel=1e-12)
    assert at_cells(right, f) == pytest.approx(at_face(f, axis, -1), rel=1e-12)
    assert not np.allclose(at_cells(weno5(field((0, 0)), axis, 10.0)[0], f), at_face(f, axis, 1))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("limiter", RATIOS, ids=lambda f: f.__name__)
def test_muscl_against_numpy(axis: int, limiter: Callable[..., Symbol]) -> None:
    f = np.random.default_rng(0).normal(size=(9, 11))
    jump = f - np.roll(f, 1, axis)
    ahead = np.roll(jump, -1, axis)
    half = 0.5 * RATIOS[limiter](jump / ahead) * ahead
    below, above = muscl(field((0, 0)), axis, limiter)
    assert below.location == above.location == tuple(int(a == axis) for a in (0, 1))
    assert at_cells(below, f) == pytest.approx(f + half, abs=1e-14)
    assert at_cells(above, f) == pytest.approx(np.roll(f - half, -1, axis), abs=1e-14)


@pytest.mark.parametrize(("scheme", "order"), [(weno5, 5), (muscl, 2)], ids=["weno5", "muscl"])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("place", [0, 1], ids=["centres", "faces"])
def test_orders_from_cell_means(scheme: Callable[..., tuple[Symbol, Symbol]], order: int, side: int, place: int) -> None:
    """Mean absolute errors of values between cells of a wave, from its means; muscl clips extrema, which count little in the mean."""
    errors = []
    for cells in (40, 80):
        h = 2 * np.pi / cells
        middle = h * (np.arange(cells) + 0.5 * place)
        means = (np.cos(middle - h / 2) - np.cos(middle + h / 2)) / h  # of the sine
        face = scheme(field((place,)), 0)[side]
        assert face.location == (1 - place,)
        wanted = np.sin(h * (np.arange(cells) + 0.5 * (1 - place)))
        errors.append(np.abs(at_cells(face, means) - wanted).mean())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.3)


def test_wrong_arguments() -> None:
    with pytest.raises(ShapeError, match="axis = 1 of a 1-D grid"):
        weno5(field(), 1)
    for scheme in (weno5, muscl):
        with pytest.raises(ShapeError, match="along axis 0 of an expression that does not vary along it"):
            scheme(field().like(field().node, (None,)), 0)  # type: ignore[operator]
    with pytest.raises(ParameterError, match=r"eps = 0\.0"):
        weno5(field(), 0, 0.0)
