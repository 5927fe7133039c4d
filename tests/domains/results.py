"""The results of a simulation as arrays by name: the same program computes them in one process and in many."""

from __future__ import annotations

from typing import Any

import numpy as np

import diffsim as ds
from diffsim.simulation.gradients.loss import Loss


def loss_of(solution: ds.Solution) -> Any:
    """A loss of all traces and final states."""
    return sum((value * value).sum() for part in (solution.traces, solution.final) for value in part.values())


def results(
    simulation: ds.Simulation,
    inputs: dict[str, Any],
    steps: int,
    checkpoints: tuple[Any, ...] = ("auto",),
    loss: Loss = loss_of,
    tangents: bool = False,
    curvature: bool = False,
) -> dict[str, np.ndarray]:
    """A run, gradients by several schedules, a tangent, and a product with the Hessian."""
    solution = simulation.run(inputs, steps)
    out = {f"final {name}": value for name, value in solution.final.items()}
    out |= {f"trace {name}": value for name, value in solution.traces.items()}
    for checkpoint in checkpoints:
        value, gradient = simulation.value_and_grad(loss, inputs, steps, checkpoint)
        out[f"loss, {checkpoint}"] = np.array(value)
        out |= {f"gradient {name}, {checkpoint}": bars for name, bars in gradient.items()}
    rng = np.random.default_rng(1)
    along = {name: 0.1 * rng.uniform(-1, 1, simulation.input_shape(name, steps)).astype(simulation.dtype) for name in inputs}
    along = {name: value for name, value in along.items() if name in simulation.wrt}
    if tangents:
        _, moved = simulation.jvp(inputs, along, steps)
        out |= {f"tangent of final {name}": value for name, value in moved.final.items()}
        out |= {f"tangent of trace {name}": value for name, value in moved.traces.items()}
    if curvature:
        tangent = simulation.tangent()
        both = {**inputs, **{f"{name} dot": value for name, value in along.items()}}
        _, gradient = tangent.value_and_grad(loss, both, steps)
        out |= {f"second derivative {name}": value for name, value in gradient.items()}
    return out
