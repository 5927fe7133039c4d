"""Steady problems without one solution: singular matrices raise in f32 and f64, and those that leave the mean open are solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ConvergenceError, SingularError
from diffsim.expr import diff_centred, div, grad, interpolate, laplacian
from diffsim.expr.graph import Graph, Node
from diffsim.stepping.stages.solve import row_sums
from tests.sampled import sampled

ROUNDING = {"f64": 1e-10, "f32": 1e-4}
SHAPES = ((12,), (7, 9), (4, 3, 5))


class Balance(ds.Steady):
    """A residual of T, k and s that is given as a function."""

    def __init__(self, shape: tuple[int, ...], function: Callable[..., Any], boundary: Any, method: Any = "auto") -> None:
        self.grid, self.function, self.method = ds.Grid(shape, 0.3), function, method
        self.states = {"T": ds.Variable(boundary)}
        sides = "periodic" if boundary == "periodic" else "mirror"
        self.parameters = {"k": ds.Variable(sides), "s": ds.Variable(sides)}

    def residual(self, T: Any, k: Any, s: Any) -> Any:
        return self.function(T, k, s)


def conduction(T: Any, k: Any, s: Any) -> Any:
    return div([interpolate(k, axis) * slope for axis, slope in enumerate(grad(T))]) + s


def drift(T: Any, k: Any, s: Any) -> Any:
    return conduction(T, 1 + k * k, s) - k * diff_centred(T, 0)


def warmed(T: Any, k: Any, s: Any) -> Any:
    return conduction(T, k * (1 + 0.2 * T), s)


def inputs_of(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(len(shape))
    s = rng.normal(size=shape)
    return {"k": rng.uniform(1.0, 2.0, shape), "s": s - s.mean()}


def matrix(shape: tuple[int, ...], k: np.ndarray) -> np.ndarray:
    """∇·(k ∇T) between insulated sides."""
    out = np.zeros((k.size, k.size))
    numbers = np.arange(k.size).reshape(shape)
    for axis in range(len(shape)):
        low, high = (np.take(numbers, range(first, shape[axis] - 1 + first), axis).ravel() for first in (0, 1))
        weight = 0.5 * (k.ravel()[low] + k.ravel()[high]) / 0.3**2
        np.add.at(out, (low, high), weight)
        np.add.at(out, (high, low), weight)
        np.add.at(out, (low, low), -weight)
        np.add.at(out, (high, high), -weight)
    return out


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize(("shape", "method"), sampled([(s, m) for s in SHAPES for m in ("auto", "lu", "cg")], gate=((SHAPES[0], "auto"),)))
def test_an_open_mean_is_0_and_the_supplies_must_cancel(shape: tuple[int, ...], method: str, precision: str) -> None:
    simulation, inputs = ds.steady(Balance(shape, conduction, "mirror", method), precision=precision), inputs_of(shape)
    inverse = np.linalg.pinv(matrix(shape, inputs["k"]))
    T, weights = simulation.run(inputs).final["T"], np.random.default_rng(5).normal(size=shape) + 0.5
    expected = -(inverse @ inputs["s"].ravel()).reshape(shape)
    np.testing.assert_allclose(T, expected, atol=ROUNDING[precision])
    _, gradient = simulation.value_and_grad(lambda found: (weights * found.final["T"]).sum(), inputs)
    np.testing.assert_allclose(gradient["s"], -(inverse @ weights.ravel()).reshape(shape), atol=10 * ROUNDING[precision])
    with pytest.raises(SingularError, match="expected a right side without the part that the operator cannot give"):
        simulation.run(inputs | {"s": inputs["s"] + 0.1})


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize(
    ("shape", "function", "boundary", "method"),
    sampled(
        [
            (shape, function, boundary, method)
            for shape in SHAPES
            for method in ("auto", "lu", "bicgstab")
            for function, boundary in ((drift, "mirror"), (conduction, ds.Extrapolate(1)), (warmed, "mirror"), (warmed, "periodic"))
        ],
        gate=(
            (SHAPES[0], conduction, ds.Extrapolate(1), "auto"),
            (SHAPES[1], drift, "mirror", "auto"),
            (SHAPES[1], warmed, "mirror", "bicgstab"),
        ),
    ),
)
def test_any_other_singular_matrix_raises(shape: tuple[int, ...], function: Any, boundary: Any, method: str, precision: str) -> None:
    simulation, inputs = ds.steady(Balance(shape, function, boundary, method), precision=precision), inputs_of(shape)
    with pytest.raises(SingularError, match="expected a matrix with an inverse"):
        simulation.run({**inputs, "s": 0.1 * inputs["s"], "T": np.random.default_rng(6).uniform(0.1, 0.5, shape)})


@pytest.mark.parametrize("shape", [(7, 9), (4, 3, 5)])
@pytest.mark.parametrize("method", ["auto", "lu"])
def test_linear_functions_that_sides_leave_open_raise(shape: tuple[int, ...], method: str) -> None:
    """The rows of corners are 0 but for rounding; scaled to be of order 1 they would seem to fix the solution."""
    simulation = ds.steady(Balance(shape, lambda T, k, s: laplacian(T) + s + 0 * k, ds.Extrapolate(1), method), precision="f64")
    with pytest.raises(SingularError, match="expected a matrix with an inverse"):
        simulation.run(inputs_of(shape))


@pytest.mark.parametrize("power", [2, 3, 4])
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_a_root_that_is_not_simple_raises(power: int, precision: str) -> None:
    """T^n = s, where s is 0 in one cell: the other cells have solutions to all digits, that one has sqrt(tolerance)."""
    row = np.where(np.arange(8) == 3, 0.0, 1.0)
    simulation = ds.steady(Balance((8,), lambda T, k, s: T**power - s + 0 * k, "mirror"), precision=precision)
    inputs = {"k": np.ones(8), "s": row, "T": np.full(8, 1.5)}
    with pytest.raises((SingularError, ConvergenceError), match=r"residuals that fall by a factor of [34].* \(a double root\)"):
        simulation.run(inputs)
    simple = simulation.run(inputs | {"s": np.maximum(row, 0.1)}).final["T"]
    np.testing.assert_allclose(simple, np.maximum(row, 0.1) ** (1 / power), rtol=1e-6)


def test_f32_solves_a_fine_grid_as_f64_does() -> None:
    """Weights of 1e7 that cancel to 0 in f64 leave 1 in f32, as much as what fixes the solution."""
    n = 3000
    x = (np.arange(n) + 0.5) / n

    class Wall(Balance):
        def __init__(self) -> None:
            super().__init__((n,), conduction, "zero")
            self.grid = ds.Grid((n,), 1 / n)

    inputs = {"k": 1 + 0.5 * np.sin(20 * x), "s": np.ones(n)}
    T = {precision: ds.steady(Wall(), precision=precision).run(inputs).final["T"] for precision in ("f32", "f64")}
    np.testing.assert_allclose(T["f32"], T["f64"], rtol=1e-4)


class Spread(ds.Equation):
    """Implicit diffusion with a field as diffusivity, one step."""

    def __init__(self, shape: tuple[int, ...], spacing: float) -> None:
        self.grid, self.dt = ds.Grid(shape, spacing), 1.0
        self.states, self.parameters = {"c": ds.Variable("mirror")}, {"k": ds.Variable("mirror")}

    def step(self, c: Any, k: Any) -> dict[str, Any]:
        return {"c": ds.solve(lambda x: x - self.dt * div([interpolate(k, axis) * g for axis, g in enumerate(grad(x))]), c)}


@pytest.mark.parametrize("shape", [(32,), (12, 10)])
@pytest.mark.parametrize("spacing", [1e-7, 1.0, 1e6])
def test_units_do_not_change_what_f32_solves(shape: tuple[int, ...], spacing: float) -> None:
    """The numbers of a step in metres have sizes far from 1: 1 beside 1e14, of which a field of 1e-14 makes numbers of order 1 again."""
    c = np.random.default_rng(0).random(shape)
    results = [
        ds.Simulation(Spread(shape, spacing), precision=p).run({"c": c, "k": spacing**2 * (1 + 0.5 * c)}, 1).final["c"]
        for p in ("f64", "f32")
    ]
    np.testing.assert_allclose(results[1], results[0], rtol=2e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_sum_of_weights_is_known_where_all_but_constants_cancel(seed: int) -> None:
    """Weights made of drawn products of fields and numbers of many sizes, which cancel or not."""
    rng = np.random.default_rng(seed)
    for number in range(60):
        graph = Graph()
        fields = [graph.read(name, (0,)) for name in "abc"]
        size = 10.0 ** rng.integers(-14, 15)

        def product(share: float, graph: Graph = graph, fields: list[Node] = fields) -> Node:
            one, other = (fields[int(rng.integers(3))] for _ in range(2))
            return graph.mul(graph.const(share), graph.mul(one, graph.apply(str(rng.choice(["sqrt", "abs"])), other)))

        beside = [product(size), product(3 * size)]
        constant, kind = float(rng.choice([0.0, 1.0, -0.5])), number % 3
        rest = [graph.negative(each) for each in beside]
        if kind == 1:  # one is missing
            rest = rest[:1]
        elif kind == 2:  # a term that is far smaller than others where all fields are of order 1
            rest.append(graph.mul(graph.const(1e-15 * size), fields[0]))
        weights = {(0, 0, (0,)): graph.sum([graph.const(constant), *rest]), (0, 0, (-1,)): beside[0], (0, 0, (1,)): beside[1]}
        assert row_sums(graph, weights) == ({(0, 0): constant} if kind == 0 else {}), number
