"""Quotients that a choice drops where they are infinite, while states are sums with them elsewhere, at other times, or of finite values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import Symbol, maximum, minimum, sqrt, tanh, where

SHAPE, AT = (7, 5), (3, 2)
NEIGHBOURS = {"low": (0, 1), "high": (0, -1), "left": (1, 1), "right": (1, -1)}
"""Side whose cells a read of the next cell inside, along an axis, leaves out."""


class Dropped(ds.Equation):
    """A quotient q that `u` takes where `keep` is 1. Other states, or neighbours, are sums with it.

    Args:
        kind: where q is infinite, or its divisor is, without an infinite or NaN final state.
    """

    def __init__(self, kind: str) -> None:
        self.grid, self.dt, self.kind = ds.Grid(SHAPE, 1.0), 0.1, kind
        self.states = {"u": ds.Variable("mirror")}
        self.parameters = {name: ds.Variable("mirror") for name in ("a", "b", "keep")}
        if kind == "region":
            region = np.arange(SHAPE[0] * SHAPE[1]).reshape(SHAPE) > SHAPE[1] * (AT[0] + 1)
            self.states["r"] = ds.Variable(region=region)
        elif kind == "at the start":
            self.states |= {"r": ds.Variable("mirror"), "clock": ds.Variable("mirror")}

    def step(self, a: Symbol, b: Symbol, keep: Symbol, u: Symbol, **others: Symbol) -> dict[str, Symbol]:
        def taken(value: Symbol) -> Symbol:
            return u + 0.1 * where(keep > 0.5, value, 0.0)

        if self.kind == "region":
            q = ds.stage(a / b, boundary="mirror")
            return {"u": taken(q), "r": others["r"] + q}
        if self.kind == "at the start":
            q = ds.stage(a / (b + others["clock"]), boundary="mirror")
            return {"u": taken(q), "r": q, "clock": others["clock"] + 0.5}
        if self.kind == "harmonic mean":
            q = ds.stage(1 / (1 / a + 1 / b), boundary="mirror")
            return {"u": taken(q.shifted(0, 1)) + keep * q}
        if self.kind == "bounded function":
            q = ds.stage(tanh(a / b), boundary="mirror")
            return {"u": taken(q.shifted(0, 1)) + keep * q}
        q = ds.stage(a / b, boundary="zero")
        return {"u": taken(q) + 0.1 * q.shifted(*NEIGHBOURS[self.kind])}

    def inputs(self) -> dict[str, Any]:
        rng = np.random.default_rng(3)
        values = {name: rng.uniform(0.5, 1.5, SHAPE) for name in ("a", "b", "u")} | {"keep": np.ones(SHAPE)}
        zero: Any = AT
        if self.kind in NEIGHBOURS:
            axis, cells = NEIGHBOURS[self.kind]
            zero = (*(slice(None),) * axis, 0 if cells > 0 else -1)
        values["b"][zero] = values["keep"][zero] = 0.0
        values["keep"][AT[0] - 1, AT[1]] = 0.0
        return values


@pytest.mark.parametrize("kind", ["region", "at the start", "harmonic mean", "bounded function", *NEIGHBOURS])
def test_a_dropped_quotient_has_no_derivative(kind: str) -> None:
    equation = Dropped(kind)
    simulation = ds.Simulation(equation, wrt=["a", "b"], precision="f64")
    inputs, rng = equation.inputs(), np.random.default_rng(5)
    inputs |= {name: np.zeros(simulation.input_shape(name, 2)) for name in equation.states if name != "u"}
    seed = rng.standard_normal(SHAPE)
    gradient = simulation.vjp(inputs, 2)[1](ds.Solution({"u": seed}))
    along = {name: rng.standard_normal(SHAPE) * (inputs["b"] != 0) for name in ("a", "b")}

    def loss(far: float) -> float:
        moved = {name: inputs[name] + far * direction for name, direction in along.items()}
        return float((seed * simulation.run(inputs | moved, 2).final["u"]).sum())

    expected = (loss(1e-6) - loss(-1e-6)) / 2e-6
    assert sum((gradient[name] * along[name]).sum() for name in along) == pytest.approx(expected, rel=1e-6)


class Waves(ds.Equation):
    """Water by an HLL flux, drawn by a number, which is dropped where a cell is dry. The velocity there may be so large that nothing of the
    speed of waves is left beside it."""

    def __init__(self, number: int) -> None:
        rng = np.random.default_rng(number)
        self.grid, self.dt, self.program = ds.Grid((20,) * int(rng.integers(1, 3)), 1.0), 1e-3, int(rng.integers(1 << 30))
        side: Any = ["mirror", "periodic", "zero", (ds.Extrapolate(0), ds.Dirichlet(0.0))][int(rng.integers(4))]
        self.rule = (side,) * self.grid.ndim
        self.states = {"h": ds.Variable(self.rule), "q": ds.Variable(self.rule)}

    def step(self, h: Symbol, q: Symbol) -> dict[str, Symbol]:
        rng = np.random.default_rng(self.program)
        film, least = 10 ** rng.uniform(-7, -4), 10 ** rng.uniform(-6, 0)
        ends = [float(each) if rng.random() < 0.5 else None for each in rng.choice([0.0, 0.0, 1.0, -1.0], 2)]
        velocity, out = q / maximum(h, film), {"h": h, "q": q}
        if rng.random() < 0.3:
            velocity = ds.stage(velocity, boundary=self.rule)
        for axis in range(self.grid.ndim):
            (h_l, h_r), (q_l, q_r), (u_l, u_r) = ((f.across(axis), f.shifted(axis, 1).across(axis)) for f in (h, q, velocity))
            c_l, c_r = (maximum(sqrt(9.81 * maximum(each, least**2)), least) for each in (h_l, h_r))
            slow, fast = minimum(u_l - c_l, u_r - c_r), maximum(u_l + c_l, u_r + c_r)
            slow, fast = slow if ends[0] is None else minimum(slow, ends[0]), fast if ends[1] is None else maximum(ends[1], fast)
            wet = (h_l > 1e-3) & (h_r > 1e-3)
            rates = {"h": (q_l, q_r, h_l, h_r), "q": (q_l * u_l + 4.9 * h_l * h_l, q_r * u_r + 4.9 * h_r * h_r, q_l, q_r)}
            for name, (of_l, of_r, left, right) in rates.items():
                flux = where(wet, (fast * of_l - slow * of_r + fast * slow * (right - left)) / (fast - slow), 0.0)
                out[name] = out[name] - self.dt * (flux - flux.shifted(axis, -1)).across(axis)
        return out


@pytest.mark.parametrize("number", range(12))
def test_a_flux_of_dry_cells_has_no_derivative_in_single_precision(number: int) -> None:
    equation, rng = Waves(number), np.random.default_rng(number)
    shape = equation.grid.shape
    dry = rng.random(shape) < 0.5
    h, q = np.where(dry, 0.0, rng.uniform(0.5, 1.5, shape)), rng.uniform(-1, 1, shape) * np.where(dry, 10.0, 1.0)

    def gradient(precision: Any) -> Any:
        simulation = ds.Simulation(equation, wrt=["h", "q"], precision=precision)
        return simulation.value_and_grad(lambda end: (end.final["h"] ** 2).sum() + end.final["q"].sum(), {"h": h, "q": q}, 2)[1]

    single, double = gradient("f32"), gradient("f64")
    for name, values in double.items():
        assert np.allclose(single[name], values, rtol=1e-3, atol=1e-3), name


class Factors(ds.Equation):
    """States that take products with a stored quotient where its divisor is positive, drawn by a number. Elsewhere it is infinite."""

    def __init__(self, number: int) -> None:
        rng = np.random.default_rng(number)
        self.grid, self.dt, self.program = ds.Grid((9,) * int(rng.integers(1, 3)), 1.0), 0.1, int(rng.integers(1 << 30))
        self.rule: Any = ("mirror", "periodic", ds.Extrapolate(0))[int(rng.integers(3))]
        self.states = {name: ds.Variable(self.rule) for name in "uv"}
        self.parameters = {name: ds.Variable(self.rule) for name in "ab"}

    def step(self, a: Symbol, b: Symbol, u: Symbol, v: Symbol) -> dict[str, Symbol]:
        rng = np.random.default_rng(self.program)
        q = ds.stage([u / b, v * sqrt(u * u + 0.1) / b, u / b + 1 / b, tanh(u / b + a / b)][int(rng.integers(4))], boundary=self.rule)
        if rng.random() < 0.4:
            q = ds.stage(q * v, boundary=self.rule)
        others, axis = (a, u, v, q, q.shifted(0, 1) * 0.1), int(rng.integers(self.grid.ndim))

        def flux() -> Symbol:
            above = q.shifted(axis, 1)
            products = (one * others[int(rng.integers(5))] for one in (q, above))
            value = where((b > 0.3) & (b.shifted(axis, 1) > 0.3) & (b.shifted(0, 1) > 0.3), sum(products, 0.0 * u), 0.0)
            return value - value.shifted(axis, -1) if rng.random() < 0.5 else value

        return {"u": u + 0.1 * flux(), "v": v + 0.1 * flux()}


@pytest.mark.parametrize("number", range(12))
def test_what_multiplies_a_dropped_stage_has_no_derivative(number: int) -> None:
    equation, rng = Factors(number), np.random.default_rng(number)
    inputs = {name: rng.uniform(0.5, 1.5, equation.grid.shape) for name in "abuv"}
    dry = rng.random(equation.grid.shape) < 0.3
    inputs["b"][dry] = 0.0
    inputs["u"][dry & (rng.random(dry.shape) < 0.5)] = 0.0
    simulation = ds.Simulation(equation, wrt=list("abuv"), precision="f64")

    def loss(end: Any) -> Any:
        return (end.final["u"] ** 2).sum() + end.final["v"].sum()

    def run(values: Any) -> Any:
        return loss(simulation.run(values, 2))

    along = {name: rng.standard_normal(dry.shape) * (name != "b" or ~dry) for name in inputs}
    gradient = simulation.value_and_grad(loss, inputs, 2)[1]
    moved = {sign: {name: inputs[name] + sign * 1e-6 * along[name] for name in inputs} for sign in (1, -1)}
    slope = sum((gradient[name] * along[name]).sum() for name in along)
    assert slope == pytest.approx((run(moved[1]) - run(moved[-1])) / 2e-6, rel=1e-6)
    assert ds.jvp(run, (inputs,), (along,))[1] == pytest.approx(slope)
    there, back = (simulation.value_and_grad(loss, moved[sign], 2)[1] for sign in (1, -1))
    for name, product in ds.hvp(run, inputs, along).items():
        assert np.allclose(product, (there[name] - back[name]) / 2e-6, rtol=1e-4, atol=1e-5), name
