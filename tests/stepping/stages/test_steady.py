"""Steady problems against closed forms, with their gradients, and how many systems they solve."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ConvergenceError, ParameterError, TraceError
from diffsim.expr import div, grad, interpolate
from diffsim.linear import system
from diffsim.simulation.steady import SteadySimulation
from diffsim.solvers import Heat

BOTH = ((ds.Dirichlet(2.0), ds.Dirichlet("cold")),)


class Conduction(ds.Steady):
    """∇·(k (1 + b T) ∇T) + s = 0; with `linear` without b."""

    def __init__(self, grid: ds.Grid, boundary: Any, linear: bool, iterations: int = 20) -> None:
        self.grid, self.linear, self.iterations = grid, linear, iterations
        self.states = {"T": ds.Variable(boundary, unit="K")}
        self.coefficient_boundaries = {"half": "mirror"}
        self.parameters = {"k": ds.Variable("mirror"), "s": ds.Variable("mirror"), "cold": ds.Variable(axes=())}
        if not linear:
            self.parameters["b"] = ds.Variable(axes=())

    def coefficients(self, k: Any, s: Any, **others: Any) -> dict[str, Any]:
        return {"half": 0.5 * k, "s": s, **others}

    def residual(self, T: Any, half: Any, s: Any, **others: Any) -> Any:
        def conductivity(axis: int) -> Any:
            return 2 * interpolate(half if self.linear else half * (1 + others["b"] * T), axis)

        return div([conductivity(axis) * slope for axis, slope in enumerate(grad(T))]) + s


@functools.cache
def plate(linear: bool) -> tuple[SteadySimulation, dict[str, Any]]:
    grid = ds.Grid((7, 9), 0.3)
    simulation = ds.steady(
        Conduction(grid, (BOTH[0], "mirror"), linear), receivers={"T": [[0.9, 0.6]]}, wrt=["k", "s", "cold", "T"], precision="f64"
    )
    rng = np.random.default_rng(0)
    return simulation, {name: rng.uniform(0.5, 1.0, simulation.input_shape(name, 1)) for name in simulation.inputs}


def test_poisson_is_of_second_order() -> None:
    """∇·(k ∇T) + s = 0 for T = sin(πx) sin(2πy) and k = 1 + x y, between edges at 0."""
    errors = []
    for n in (16, 32):
        grid = ds.Grid((n, n), 1 / n, 0.5 / n)
        y, x = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
        T = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
        slopes = y * np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y) + x * 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
        inputs = {"k": 1 + x * y, "s": 5 * np.pi**2 * (1 + x * y) * T - slopes, "cold": 0.0}
        T_end = ds.steady(Conduction(grid, ds.Dirichlet(0.0), True), wrt=[], precision="f64").run(inputs).final["T"]
        errors.append(np.abs(T_end - T).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1) and errors[1] < 5e-3


def test_conduction_that_depends_on_the_temperature() -> None:
    """T + b T²/2 is linear between the sides (Kirchhoff). The scheme has an error of second order."""
    errors = []
    for n in (20, 40):
        grid = ds.Grid((n,), 1 / n, 0.5 / n)
        wall = ds.steady(Conduction(grid, BOTH, False), wrt=[], precision="f64")
        T_end = wall.run({"k": np.full(n, 3.0), "s": np.zeros(n), "cold": 0.5, "b": 1.5}).final["T"]
        ends = [T + 0.75 * T**2 for T in (2.0, 0.5)]
        line = ends[0] + (ends[1] - ends[0]) * grid.coordinates(0)
        errors.append(np.abs(T_end - (np.sqrt(1 + 3 * line) - 1) / 1.5).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1) and errors[1] < 2e-3


def test_a_wall_of_two_layers_by_the_solver() -> None:
    grid = ds.Grid((20,), 0.05, 0.025)
    x = grid.coordinates(0)
    sides = ((ds.Robin(4.0, 1.0, 8.0), ds.Dirichlet(0.0)),)  # 1 K m²/W of resistance: 1/4 to the air of 2 K, and the layers
    wall = ds.steady(Heat(grid, 1.0, sides, method="steady", mean="harmonic"), precision="f64")
    T = wall.run({"kappa": np.where(x < 0.5, 1.0, 0.1), "T": np.ones(20)}).final["T"]
    flux = 2.0 / (1 / 4 + 0.5 / 1.0 + 0.5 / 0.1)
    np.testing.assert_allclose(T, np.where(x < 0.5, 2 - flux * (0.25 + x), flux * (1 - x) / 0.1), atol=1e-12)
    with pytest.raises(ParameterError, match=r"sources.*q"):
        ds.Simulation(wall.equation, sources={"q": [[0.5]]})


@pytest.mark.parametrize("linear", [True, False])
def test_the_gradient_by_differences_and_products(linear: bool) -> None:
    simulation, inputs = plate(linear)
    rng = np.random.default_rng(1)
    weights = rng.normal(size=simulation.grid.shape)

    def loss(found: ds.Solution) -> Any:
        return (weights * found.final["T"] ** 2).sum() + found.traces["T"][-1, 0] ** 3

    value, gradient = simulation.value_and_grad(loss, inputs)
    assert not gradient["T"].any()  # the guess
    for name in gradient:
        way, step = rng.normal(size=np.shape(inputs[name])), 1e-5
        low, high = (float(loss(simulation.run(inputs | {name: inputs[name] + sign * step * way}))) for sign in (-1, 1))
        assert float((gradient[name] * way).sum()) == pytest.approx((high - low) / (2 * step), rel=1e-6, abs=1e-10), name
    direction = {name: rng.normal(size=np.shape(inputs[name])) for name in gradient}
    _, tangent = simulation.jvp(inputs, direction)
    owed = simulation.vjp(inputs)[1](ds.Solution(final={"T": weights}))
    along = sum(float((owed[name] * direction[name]).sum()) for name in owed)
    assert along == pytest.approx(float((weights * tangent.final["T"]).sum()), rel=1e-11)
    by_tape = ds.grad(lambda k: loss(simulation.run(inputs | {"k": k})))(inputs["k"])
    np.testing.assert_array_equal(by_tape, gradient["k"])
    again = pickle.loads(pickle.dumps(simulation)).value_and_grad(loss, inputs)
    assert again[0] == value and np.array_equal(again[1]["k"], gradient["k"])
    assert ds.certify(simulation, loss, {name: inputs[name] for name in inputs if name != "T"}, steps=1, directions=1).verdict != "fail"


def test_a_linear_problem_takes_one_solve_and_its_gradient_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation, inputs = plate(True)
    solves: list[bool] = []
    solve = system.System.solve

    def counted(self: Any, weights: Any, right_side: Any, transposed: bool = False, *options: Any) -> Any:
        solves.append(transposed)
        return solve(self, weights, right_side, transposed, *options)

    monkeypatch.setattr(system.System, "solve", counted)
    simulation.value_and_grad(lambda found: (found.final["T"] ** 2).sum(), inputs)
    assert solves == [False, True]


def test_what_is_no_steady_problem_is_refused() -> None:
    grid = ds.Grid((9,), 0.5)
    with pytest.raises(ParameterError, match=r"equation = Heat, which advances in time, expected a steady problem"):
        ds.steady(Heat(grid, 0.1))
    with pytest.raises(ParameterError, match=r"expected a diffsim.Steady"):
        ds.steady(3)  # type: ignore[arg-type]

    class Both(Conduction):
        def step(self, **fields: Any) -> Any:
            return {}

    with pytest.raises(ParameterError, match=r"equation = Both with a method step beside residual, expected residual alone"):
        ds.steady(Both(grid, "zero", True))

    class Two(Conduction):
        def __init__(self) -> None:
            super().__init__(grid, "zero", True)
            self.states = {"T": ds.Variable(), "u": ds.Variable()}

    with pytest.raises(TraceError, match=r"Two.residual gave 1 expression, expected 2, one for each unknown field: T, u; return a dict"):
        ds.steady(Two())

    class Fixed(Conduction):
        def residual(self, T: Any, half: Any, s: Any, **others: Any) -> Any:
            return s

    with pytest.raises(TraceError, match="does not depend on"):
        ds.steady(Fixed(grid, "zero", True))
    slow = ds.steady(Conduction(grid, BOTH, False, iterations=1), wrt=[], precision="f64")
    with pytest.raises(ConvergenceError, match=r"newton for T: expected a residual .* after 1 iteration;"):
        slow.run({"k": np.ones(9), "s": np.full(9, 3.0), "cold": 0.0, "b": 2.0})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("method", "thomas", r"Conduction.method = 'thomas' is unknown; choose one of .*lu"),
        ("tolerance", -1.0, r"Conduction.tolerance = -1.0, expected a number between 0 and 1"),
        ("iterations", "many", r"Conduction.iterations = 'many', expected a whole number of at least 1"),
        ("iterations", 0, r"Conduction.iterations = 0, expected a whole number of at least 1"),
    ],
)
@pytest.mark.parametrize("linear", [True, False], ids=["linear", "nonlinear"])
def test_attributes_are_checked(linear: bool, name: str, value: Any, message: str) -> None:
    case = Conduction(ds.Grid((9,), 0.5), BOTH, linear)
    setattr(case, name, value)
    with pytest.raises(ParameterError, match=message):
        ds.steady(case, wrt=[])
