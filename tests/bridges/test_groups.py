"""Vectors by their own names in torch and JAX: the values and gradients of a simulation's own."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError, ShapeError
from diffsim.typing import Array

STEPS = 5
RNG = np.random.default_rng(3)


def spin(x: Any, *, push: Any) -> Any:
    """A body that turns about the axis (1, 2, 3) and is pushed."""
    turned = (2 * x[2] - 3 * x[1], 3 * x[0] - x[2], x[1] - 2 * x[0])
    return tuple(turned[k] - 0.1 * x[k] ** 3 + push for k in range(3))


@pytest.fixture(scope="module")
def simulation() -> ds.Simulation:
    return ds.Simulation(ds.ODE(spin, 0.05, states={"x": 3}), receivers={"x": [[0.0]]}, precision="f64")


@pytest.fixture(scope="module")
def inputs() -> dict[str, Any]:
    return {"x": RNG.normal(size=(3, 1)), "push": np.array(0.3)}


SEEDS = {"final": RNG.normal(size=(3, 1)), "traces": RNG.normal(size=(3, STEPS + 1, 1))}


def paired(solution: ds.Solution, seeds: dict[str, Any]) -> Any:
    return (solution.final["x"] ** 2 * seeds["final"]).sum() + (solution.traces["x"] ** 2 * seeds["traces"]).sum()


@pytest.fixture(scope="module")
def wanted(simulation: ds.Simulation, inputs: dict[str, Any]) -> tuple[float, dict[str, Array]]:
    return simulation.value_and_grad(lambda solution: paired(solution, SEEDS), inputs, STEPS)


def refuse_wrong_vectors(run: Any, inputs: dict[str, Any]) -> None:
    with pytest.raises(ShapeError, match=r"input x has 2 rows, expected 3, for its components x_0, x_1, x_2"):
        run({**inputs, "x": inputs["x"][:2]})
    with pytest.raises(ShapeError, match="input x stands beside its component x_1"):
        run({**inputs, "x_1": inputs["x"][1]})


def test_torch(simulation: ds.Simulation, inputs: dict[str, Any], wanted: tuple[float, dict[str, Array]]) -> None:
    torch = pytest.importorskip("torch")
    bridge = pytest.importorskip("diffsim.torch")
    value, gradient = wanted
    seeds = {part: torch.from_numpy(seed) for part, seed in SEEDS.items()}
    tensors = {name: torch.from_numpy(np.array(start)).requires_grad_() for name, start in inputs.items()}
    loss = paired(bridge.run(simulation, tensors, STEPS), seeds)
    loss.backward()
    assert np.isclose(loss.item(), value, rtol=1e-14)
    for name, tensor in tensors.items():
        assert np.allclose(tensor.grad.numpy(), gradient[name], rtol=1e-13)
    start = torch.from_numpy(inputs["x"])
    slope = torch.func.grad(lambda x: paired(bridge.run(simulation, {**inputs, "x": x}, STEPS), seeds))(start)
    assert np.allclose(slope.numpy(), gradient["x"], rtol=1e-13)
    layer = bridge.Module(simulation, STEPS, {"x": torch.nn.Parameter(start.clone())})
    paired(layer(push=0.3), seeds).backward()
    assert [name for name, _ in layer.named_parameters()] == ["input_x"]
    assert np.allclose(layer.input_x.grad.numpy(), gradient["x"], rtol=1e-13)
    constant = bridge.Module(simulation, STEPS, {"x": inputs["x"]})
    assert constant.input_x.shape == (3, 1) and np.isclose(paired(constant(push=0.3), seeds).item(), value, rtol=1e-14)
    solution = copy.deepcopy(bridge.run(simulation, inputs, STEPS))
    assert torch.equal(solution.final["x"][1], solution.final["x_1"])
    refuse_wrong_vectors(lambda inputs: bridge.run(simulation, inputs, STEPS), inputs)
    with pytest.raises(ParameterError, match="input x_0 has the type float32, expected float64"):
        bridge.run(simulation, {**inputs, "x": start.float()}, STEPS)


def test_jax(simulation: ds.Simulation, inputs: dict[str, Any], wanted: tuple[float, dict[str, Array]]) -> None:
    jax = pytest.importorskip("jax")
    bridge = pytest.importorskip("diffsim.jax")
    value, gradient = wanted
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        arrays = {name: jax.numpy.array(start) for name, start in inputs.items()}
        both = jax.jit(jax.value_and_grad(lambda given: paired(bridge.run(simulation, given, STEPS), SEEDS)))
        loss, slopes = both(arrays)
        assert np.isclose(loss, value, rtol=1e-14)
        for name in inputs:
            assert np.allclose(slopes[name], gradient[name], rtol=1e-13)
        solution = jax.jit(lambda given: bridge.run(simulation, given, STEPS).final)(arrays)  # a tree knows its vectors
        assert np.array_equal(solution["x"], np.stack([solution[f"x_{k}"] for k in range(3)])) and isinstance(solution["x"], jax.Array)
        rows = jax.numpy.stack([arrays["x"], 2 * arrays["x"]])
        ends = jax.vmap(lambda x: bridge.run(simulation, {**arrays, "x": x}, STEPS).final["x"])(rows)
        assert ends.shape == (2, 3, 1) and np.array_equal(ends[0], solution["x"])
        refuse_wrong_vectors(lambda inputs: bridge.run(simulation, inputs, STEPS), inputs)
    finally:
        jax.config.update("jax_enable_x64", before)
