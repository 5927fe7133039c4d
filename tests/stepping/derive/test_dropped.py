"""Quotients that a choice drops where they are infinite, while states are sums with them elsewhere, at other times, or of finite values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import Symbol, tanh, where

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
