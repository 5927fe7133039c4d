"""Recorded steps hold the states that their adjoints read, and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial, PartlyRecorded, StoreAll
from diffsim.expr import laplacian

STEPS = 9


class Relaxing(ds.Equation):
    """A wave whose stress relaxes by some mechanisms: derivatives go through the values of `u` and of the first `read` memories alone."""

    def __init__(self, mechanisms: int, read: int, shape: tuple[int, ...] = (9, 11)) -> None:
        self.grid, self.dt = ds.Grid(shape, 1.0), 0.1
        self.memories, self.read = tuple(f"r{k}" for k in range(mechanisms)), read
        self.states = {"u": ds.Variable("zero"), "v": ds.Variable("zero")} | {name: ds.Variable("zero") for name in self.memories}
        self.parameters = {"c": ds.Variable("mirror")}

    def step(self, u: Any, v: Any, c: Any, **memories: Any) -> dict[str, Any]:
        force = c * laplacian(u, 2)
        for k, name in enumerate(self.memories):
            r = memories[name]
            force = force + (c * r * laplacian(r, 2) if k < self.read else 0.3 * r)
        later = v + self.dt * force
        decayed = {name: (1 - 0.2 * (k + 1) * self.dt) * memories[name] + 0.1 * u for k, name in enumerate(self.memories)}
        return {"u": u + self.dt * later, "v": later, **decayed}


def values(equation: Relaxing) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {name: 1.0 + 0.3 * rng.random(equation.grid.shape) for name in ("c", *equation.states)}


def loss(solution: Any) -> Any:
    return sum((field**2).sum() for field in solution.final.values()) + (solution.traces["u"] ** 3).sum()


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize(("mechanisms", "read"), [(1, 0), (3, 0), (3, 1), (3, 3)])
def test_states_that_no_adjoint_reads_are_not_held(mechanisms: int, read: int, precision: str) -> None:
    equation = Relaxing(mechanisms, read)
    simulation = ds.Simulation(equation, receivers={"u": [[3.0, 4.5]]}, precision=precision)
    sizes, inputs = simulation.sizes(STEPS), values(equation)
    states = 2 + mechanisms
    assert sizes.recorded == sizes.state * (1 + read) // states
    value, gradient = simulation.value_and_grad(loss, inputs, STEPS, StoreAll(STEPS))
    for schedule in (
        1,
        2,
        Binomial(STEPS, 4),
        Binomial(STEPS, 2),
        PartlyRecorded(STEPS, 3),
        "auto",
        StoreAll(STEPS),
    ):  # the last one with the levels of the others
        same, others = simulation.value_and_grad(loss, inputs, STEPS, schedule)
        assert same == value
        for name, bars in gradient.items():
            np.testing.assert_array_equal(others[name], bars, err_msg=f"{name}, {schedule}")
    if precision == "f64":
        rng = np.random.default_rng(5)
        way = {name: rng.standard_normal(np.shape(bars)) for name, bars in gradient.items()}
        ends = [loss(simulation.run({name: inputs[name] + h * way[name] for name in inputs}, STEPS)) for h in (1e-5, -1e-5)]
        slope = sum(np.vdot(bars, way[name]) for name, bars in gradient.items())
        assert abs((ends[0] - ends[1]) / 2e-5 - slope) < 1e-7 * abs(slope)
