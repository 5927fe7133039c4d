"""Steps of which a function has a reverse rule only: without tangents a right gradient still passes, and a wrong one fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.expr import laplacian, maximum, sqrt

STEPS = 4
FAULTS = ("scaled", "to the other side", "dropped", "one sign", "an earlier state")


def supply(fault: str, rng: np.random.Generator, weak: float) -> Any:
    """A function of a state and a parameter with its cotangents by hand; with `weak`, the parameter hardly counts."""
    a, b, c = rng.uniform(0.3, 1.0, 3)
    earlier: list[np.ndarray] = []

    @ds.custom_vjp
    def function(u: Any, k: Any) -> Any:
        return a * dnp.sin(b * u) * (1 + weak * k) + c * dnp.roll(u, 1, -1)

    def backward(kept: tuple[Any, Any], bar: Any) -> tuple[Any, Any]:
        u, k = kept
        if fault == "an earlier state":
            earlier.append(u.copy())
            u = earlier[0]
        rolled = 0.0 if fault == "dropped" else c * dnp.roll(bar, 1 if fault == "to the other side" else -1, -1)
        u_bar = bar * a * b * dnp.cos(b * u) * (1 + weak * k) + rolled
        k_bar = weak * bar * a * dnp.sin(b * u)
        return u_bar * (1.01 if fault == "scaled" else 1.0), k_bar * (-1.0 if fault == "one sign" else 1.0)

    function.defvjp(lambda u, k: (function.f(u, k), (u, k)), backward)
    return function


def drawn(seed: int, fault: str = "", weak: float = 1.0) -> tuple[ds.Simulation, Any, dict[str, np.ndarray]]:
    """A simulation in drawn units, a loss, and inputs."""
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(1, 3))
    shape, rules = tuple(rng.integers(5, 8, ndim)), tuple(str(rng.choice(["mirror", "periodic", "zero"])) for _ in range(ndim))
    function, form, (unit, other, of_loss) = supply(fault, rng, weak), int(rng.integers(3)), 10.0 ** rng.integers(-5, 6, 3)

    class Drawn(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid(shape, 1.0), 0.1
            self.states, self.parameters = {"u": ds.Variable(rules)}, {"k": ds.Variable(rules)}

        def step(self, u: Any, k: Any) -> dict[str, Any]:
            u = u / unit
            s = ds.host_stage(function, (u, k / other), rules, outputs=1)
            rate = [0.3 * laplacian(u) + s, maximum(u, 0.3) - s, s * s - sqrt(u * u + 1)][form]
            return {"u": unit * (u + self.dt * rate)}

    def loss(solution: ds.Solution) -> Any:
        u = solution.final["u"] / unit
        return of_loss * ((u - 0.2) ** 2 + 0.1 * u**3).sum()

    inputs = {"u": unit * rng.uniform(0.1, 1, shape), "k": other * rng.uniform(0.2, 1, shape)}
    return ds.Simulation(Drawn(), precision="f64"), loss, inputs


@pytest.mark.parametrize("seed", range(4))
def test_a_right_gradient_passes_by_directions_of_each_input(seed: int) -> None:
    simulation, loss, inputs = drawn(seed)
    certificate = ds.certify(simulation, loss, inputs, STEPS)
    assert certificate.passed, str(certificate)
    without = [line for line in certificate if line.passed is None and not line.name.endswith("edge")]
    assert len(without) == 4 and all("reverse rule only" in line.note and "alone judges" in line.note for line in without)
    assert {"u alone", "k alone"} <= {line.name.partition(", ")[2] for line in certificate if line.passed}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_rule_fails(fault: str) -> None:
    simulation, loss, inputs = drawn(5 + FAULTS.index(fault), fault)
    assert ds.certify(simulation, loss, inputs, STEPS).verdict == "fail"


@pytest.mark.parametrize("seed", range(2))
def test_a_wrong_cotangent_of_an_input_that_hardly_counts_fails(seed: int) -> None:
    """By the line of this input alone, whatever directions that change all inputs see of it."""
    simulation, loss, inputs = drawn(seed, "one sign", weak=1e-6)
    failed = [line.name for line in ds.certify(simulation, loss, inputs, STEPS) if line.passed is False]
    assert "Taylor with gradient, k alone" in failed
