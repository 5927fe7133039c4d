"""Values of boundary rules that are inputs: numbers, values along a side, and series of both, given by name."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, ShapeError, TraceError
from diffsim.expr import diff, laplacian
from tests.cases import Sided
from tests.sampled import sampled
from tests.stepping.trace.test_sides import rules

Symbol = ds.expr.Symbol
STEPS = 4


def axis_rules(rng: np.random.Generator) -> Any:
    """Rules at random, among which those with a value are frequent."""
    return "periodic" if rng.uniform() < 0.15 else tuple(rules(rng)[rng.integers(10)] for _ in range(2))


class Named(Sided):
    """The same step with every number of a rule given by name: at even places as a parameter, at odd ones as a series."""

    def __init__(self, grid: ds.Grid, boundary: Any) -> None:
        self.found: dict[str, float] = {}
        super().__init__(grid, [tuple(self._axis(rules) for rules in field) for field in boundary])
        number = ds.Variable(axes=())
        self.parameters |= dict.fromkeys(list(self.found)[::2], number)
        self.series = dict.fromkeys(list(self.found)[1::2], number)

    def _axis(self, rules: Any) -> Any:
        return rules if isinstance(rules, str) else tuple(self._named(rule) for rule in rules)

    def _named(self, rule: Any) -> Any:
        for part in ("value", "flux"):
            if hasattr(rule, part):
                name = f"g{len(self.found)}"
                self.found[name] = getattr(rule, part)
                return dataclasses.replace(rule, **{part: name})
        return rule

    def step(self, a: Symbol, u: Symbol, v: Symbol, k: Symbol, **values: Symbol) -> dict[str, Symbol]:
        following = super().step(a, u, v, k)
        corners = {
            name: sum(f.shifted(0, i).shifted(-1, k) for i in (-1, 2) for k in (-2, 1)) for name, f in (("a", a), ("u", u), ("v", v))
        }
        return {name: f + 0.02 * corners[name] for name, f in following.items()}

    def values(self) -> dict[str, Any]:
        return {name: np.full((STEPS,) if name in self.series else (), value) for name, value in self.found.items()}


class Numbers(Named):
    """The same step with numbers."""

    def _named(self, rule: Any) -> Any:
        return rule


@pytest.mark.parametrize("seed", sampled(range(4)))
def test_a_name_is_its_number(seed: int) -> None:
    """Any rules at all sides: a run is that with numbers, and gradients for the values are those of differences."""
    rng = np.random.default_rng(seed)
    ndim = (1, 2, 1, 2)[seed]
    shape = tuple(int(n) for n in rng.integers(5, (30, 18, 9)[ndim - 1], ndim))
    boundary = [tuple(axis_rules(rng) for _ in range(ndim)) for _ in range(3)]
    grid = ds.Grid(shape, rng.uniform(0.5, 1.5, ndim))
    named, plain = Named(grid, boundary), Numbers(grid, boundary)
    fields = {name: rng.normal(size=shape) for name in "auv"} | {"k": rng.uniform(0.2, 0.8, shape)}
    inputs = fields | named.values()
    simulation = ds.Simulation(named, precision="f64")
    final, expected = simulation.run(inputs, STEPS).final, ds.Simulation(plain, precision="f64").run(fields, STEPS).final
    for name, value in expected.items():
        np.testing.assert_allclose(final[name], value, rtol=0, atol=1e-14 * np.abs(value).max(), err_msg=f"{name} {boundary}")
    weights = {name: rng.normal(size=shape) for name in "auv"}
    solution, pullback = simulation.vjp(inputs, STEPS, checkpoint=2)
    gradient = pullback(ds.Solution(weights))
    for name, value in inputs.items():
        direction, h = rng.normal(size=value.shape), 1e-6
        ends = [simulation.run(inputs | {name: value + s * h * direction}, STEPS).final for s in (1, -1)]
        slope = sum(np.vdot(weights[f], ends[0][f] - ends[1][f]) for f in weights) / (2 * h)
        scale = 1 + sum(np.abs(weights[f] * solution.final[f]).sum() for f in weights)
        assert np.vdot(gradient[name], direction) == pytest.approx(slope, rel=1e-6, abs=1e-8 * scale), f"{name} {boundary}"


EARLIER = ("antiperiodic", ("zero", "mirror"), (ds.Extrapolate(1), ds.Dirichlet(0.4)))
PLACES = ((1, 0), (1, 1))


class Corners(ds.Equation):
    """A state for each rule of the first axis and each place of the cell, whose step reads beyond both sides at once."""

    def __init__(self, value: float | str) -> None:
        self.grid, self.dt = ds.Grid((5, 6), (1.0, 0.8)), 0.1
        later = (ds.Neumann(value), ds.Robin(0.5, 0.2, value))
        self.states = {
            f"u{k}{i}": ds.Variable((rule, later), location=place) for k, rule in enumerate(EARLIER) for i, place in enumerate(PLACES)
        }
        self.parameters = {"value": ds.Variable(axes=())}

    def step(self, value: Symbol, **fields: Symbol) -> dict[str, Symbol]:
        return {name: u + 0.1 * u.shifted(0, 1).shifted(1, 1) * u.shifted(0, -1).shifted(1, -1) for name, u in fields.items()}


def test_a_name_is_its_number_beyond_two_sides_at_any_place_of_the_cell() -> None:
    rng = np.random.default_rng(0)
    named, plain = (ds.Simulation(Corners(value), wrt=[], precision="f64") for value in ("value", 0.3))
    inputs = {name: rng.normal(size=(5, 6)) for name in named.equation.states} | {"value": 0.3}
    final, expected = named.run(inputs, 2).final, plain.run(inputs, 2).final
    for name, value in expected.items():
        np.testing.assert_allclose(final[name], value, rtol=0, atol=1e-14 * np.abs(value).max(), err_msg=name)


@pytest.mark.parametrize("at", [0, 1])
def test_values_along_a_side_lie_where_the_field_lies(at: int) -> None:
    class Along(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid((5, 6), 1.0), 0.1
            self.states = {"u": ds.Variable(("mirror", (ds.Dirichlet("held"), "mirror")), location=(1 - at, 0))}
            self.parameters = {"held": ds.Variable(axes=(0,), location=(at, 0))}

        def step(self, u: Symbol) -> dict[str, Symbol]:
            return {"u": u}

    lie, expected = ("centres", "faces") if at == 0 else ("faces", "centres")
    with pytest.raises(ShapeError, match=rf"names held, whose values lie at the {lie} of axis 0, expected the {expected}, where"):
        ds.Simulation(Along())


class Plate(ds.Equation):
    """Heat with a given temperature along one side, a given flux along the next, both in time, and air at the third."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.grid, self.dt = ds.Grid(shape, (0.5, 0.8)), 0.02
        left_right = (ds.Dirichlet("held"), ds.Neumann("flux"))
        self.states = {"T": ds.Variable(((ds.Robin(2.0, 0.5, "air"), "mirror"), left_right))}
        self.parameters = {"air": ds.Variable(axes=(1,))}
        self.series = {"held": ds.Variable("mirror", axes=(0,)), "flux": ds.Variable("mirror", axes=(0,))}

    def step(self, T: Symbol) -> dict[str, Symbol]:
        return {"T": T + self.dt * laplacian(T)}


def plate(inputs: dict[str, Any], steps: int) -> Any:
    """The same without any of the library."""
    T, (h0, h1) = inputs["T"].copy(), (0.5, 0.8)
    for n in range(steps):
        below = ((0.5 / h0 - 1.0) * T[:1] + inputs["air"]) / (0.5 / h0 + 1.0)  # 2 (T + ghost) / 2 + 0.5 (ghost - T) / h = value
        left, right = 2 * inputs["held"][n][:, None] - T[:, :1], T[:, -1:] + h1 * inputs["flux"][n][:, None]
        rows, columns = np.vstack([below, T, T[-1:]]), np.hstack([left, T, right])
        rate = (rows[2:] - 2 * T + rows[:-2]) / h0**2 + (columns[:, 2:] - 2 * T + columns[:, :-2]) / h1**2
        T = T + 0.02 * rate
    return T


def test_values_along_sides_are_those_of_numpy() -> None:
    rng, shape, steps = np.random.default_rng(0), (7, 11), 6
    inputs = {"T": rng.normal(size=shape), "air": rng.normal(size=11)}
    inputs |= {name: rng.normal(size=(steps, 7)) for name in ("held", "flux")}
    simulation = ds.Simulation(Plate(shape), precision="f64")
    np.testing.assert_allclose(simulation.run(inputs, steps).final["T"], plate(inputs, steps), rtol=0, atol=1e-14)
    weights = rng.normal(size=shape)
    gradient = simulation.vjp(inputs, steps)[1](ds.Solution({"T": weights}))
    for name, value in inputs.items():
        direction = rng.normal(size=value.shape)
        slope = np.vdot(weights, plate(inputs | {name: value + direction}, steps) - plate(inputs, steps))  # it is linear
        assert np.vdot(gradient[name], direction) == pytest.approx(slope, rel=1e-11)


class Implicit(ds.Equation):
    """Heat and a velocity on faces by systems, with rules of which the second half may be named."""

    def __init__(self, named: bool, method: str) -> None:
        self.grid, self.dt, self.method = ds.Grid((6, 7), (0.5, 0.8)), 0.3, method
        a, b, c = ("a", "b", "c") if named else (0.4, -0.3, 0.9)
        self.walls = ((ds.Dirichlet(a), ds.Robin(1.0, 0.5, b)), (ds.Neumann(c), ds.Dirichlet(b)))
        self.across = ((ds.Dirichlet(c), ds.Dirichlet(a)), "mirror")
        self.states = {"T": ds.Variable(self.walls), "u": ds.Variable(self.across, location=(1, 0))}
        self.parameters = {"k": ds.Variable("mirror")}
        if named:
            self.series = dict.fromkeys("abc", ds.Variable())

    def step(self, T: Symbol, u: Symbol, k: Symbol) -> dict[str, Symbol]:
        heat = ds.solve(lambda x: x - self.dt * k * laplacian(x), T + 0.1 * T * diff(u, 0), boundary=T, method=self.method)
        moved = ds.solve(lambda x: x - self.dt * laplacian(x), u + 0.1 * laplacian(u), boundary=u, method="lu")
        return {"T": heat + 0.1 * laplacian(heat), "u": moved}


@pytest.mark.parametrize("method", ["lu", "bicgstab"])
def test_systems_take_named_values(method: str) -> None:
    rng, steps = np.random.default_rng(0), 3
    fields = {name: rng.normal(size=(6, 7)) for name in ("T", "u")} | {"k": rng.uniform(0.5, 1.5, (6, 7))}
    inputs = fields | {name: np.full(steps, value) for name, value in (("a", 0.4), ("b", -0.3), ("c", 0.9))}
    simulation = ds.Simulation(Implicit(True, method), precision="f64")
    final = simulation.run(inputs, steps).final
    for name, value in ds.Simulation(Implicit(False, method), precision="f64").run(fields, steps).final.items():
        np.testing.assert_allclose(final[name], value, rtol=0, atol=1e-11)
    weights = {name: rng.normal(size=(6, 7)) for name in ("T", "u")}
    gradient = simulation.vjp(inputs, steps)[1](ds.Solution(weights))
    for name, value in inputs.items():
        direction, h = rng.normal(size=value.shape), 1e-5
        ends = [simulation.run(inputs | {name: value + s * h * direction}, steps).final for s in (1, -1)]
        slope = sum(np.vdot(weights[f], ends[0][f] - ends[1][f]) for f in weights) / (2 * h)
        assert np.vdot(gradient[name], direction) == pytest.approx(slope, rel=1e-6, abs=1e-7)
        moved = simulation.jvp(inputs, {name: direction}, steps)[1].final
        along = sum(np.vdot(weights[f], moved[f]) for f in weights)
        assert along == pytest.approx(np.vdot(gradient[name], direction), rel=1e-9, abs=1e-10)


class Wall(ds.Equation):
    """A velocity on faces whose last value is a given series: it is what the next value is on that side."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((6, 5), 1.0), 0.1
        self.states = {"u": ds.Variable(((ds.Dirichlet(0.5), ds.Dirichlet("wall")), "periodic"), location=(1, 0))}
        self.series = {"wall": ds.Variable("periodic", axes=(1,))}

    def step(self, u: Symbol) -> dict[str, Symbol]:
        return {"u": u + self.dt * laplacian(u) + 0.1 * diff(diff(u, 0), 0)}


def test_the_last_face_is_given() -> None:
    rng, simulation = np.random.default_rng(0), ds.Simulation(Wall(), precision="f64")
    inputs = {"u": rng.normal(size=(6, 5)), "wall": rng.normal(size=(3, 5))}
    solution, pullback = simulation.vjp(inputs, 3)
    np.testing.assert_array_equal(solution.final["u"][-1], inputs["wall"][-1])
    weights = np.zeros((6, 5))
    weights[-1] = rng.normal(size=5)
    bars = pullback(ds.Solution({"u": weights}))
    np.testing.assert_array_equal(bars["wall"][-1], weights[-1])
    assert not bars["wall"][:-1].any() and not bars["u"].any()


def test_names_that_no_input_has() -> None:
    equation = Plate((7, 11))
    equation.series = {"held": ds.Variable(axes=(0,))}
    with pytest.raises(TraceError, match=r"Neumann\(flux='flux'\) along axis 1 names flux, expected one of air, held"):
        ds.Simulation(equation)
    equation = Plate((7, 11))
    equation.series |= {"flux": ds.Variable(axes=(1,))}
    with pytest.raises(TraceError, match="names flux, which varies along that axis, expected a value on the side"):
        ds.Simulation(equation)
    with pytest.raises(ParameterError, match="value of Dirichlet = 'not a name', expected a finite number, or the name of an input"):
        ds.Dirichlet("not a name")
    equation = Plate((7, 11))
    equation.series |= {"flux": ds.Variable(location=(1, 0), axes=(0,))}
    with pytest.raises(ShapeError, match="names flux, whose values lie at the faces of axis 0, expected the centres"):
        ds.Simulation(equation)


@pytest.mark.parametrize("where", ["coefficients", "initial", "series"])
def test_named_values_where_no_step_reads(where: str) -> None:
    """Coefficients, initial states and series are extended by numbers: a named value there is refused, not taken for 0."""

    class Elsewhere(ds.Equation):
        grid, dt = ds.Grid((5, 6), 1.0), 1.0
        states, parameters = {"x": ds.Variable()}, {"g": ds.Variable(axes=())}

        def coefficients(self, g: Symbol, c: Any = None) -> dict[str, Symbol]:
            return {"g": g} | ({} if c is None else {"c": c.shifted(0, -1)})

        def step(self, x: Symbol, **others: Symbol) -> dict[str, Symbol]:
            return {"x": x + others.get("c", 0.0)}

    variable = ds.Variable((ds.Dirichlet("g"), "zero"))
    if where == "coefficients":
        Elsewhere.parameters = {**Elsewhere.parameters, "c": variable}
    elif where == "series":
        Elsewhere.series = {"s": dataclasses.replace(variable, axes=(0,))}
    else:
        Elsewhere.initials = {"x0": variable}
        Elsewhere.initial = lambda self, x0, **others: {"x": x0.shifted(0, -1)}  # type: ignore[assignment]
    if where != "coefficients":
        Elsewhere.coefficients = lambda self, g: {"g": g}  # type: ignore[assignment]
    with pytest.raises(TraceError, match=r"whose value is an input, expected (a number|numbers) there"):
        ds.Simulation(Elsewhere())
