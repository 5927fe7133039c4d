"""Derivatives of a loss of a run by diffsim itself, which those of torch and JAX are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from tests.bridges.tube import STEPS, inputs_of, rod, tube

MADE: dict[str, tuple[Callable[[], ds.Simulation], str]] = {"one after another": (tube, "c"), "together": (rod, "kappa")}
"""A flag for batches in one call -> a simulation and one of its inputs."""
ROUNDOFF = 1e-12
"""Relative, f64."""


def energy(solution: Any) -> Any:
    """A loss that is not quadratic in the solution."""
    (traces,), final = solution.traces.values(), next(iter(solution.final.values()))
    return (traces**2).sum() + (final**3).sum()


@dataclass
class Problem:
    """A loss of one input, with its derivatives at a place.

    Attributes:
        simulation: computes the run.
        name: of the input.
    """

    simulation: ds.Simulation
    name: str

    def __post_init__(self) -> None:
        self.inputs = inputs_of(self.simulation)
        self.x = self.inputs[self.name]
        self.v = 0.1 * self.x * np.random.default_rng(2).standard_normal(self.x.shape)
        self.rows = np.stack([self.x, self.x + self.v, self.x - 0.5 * self.v])

    def loss(self, x: Any) -> Any:
        return energy(self.simulation.run({**self.inputs, self.name: x}, STEPS))

    def loss_by(self, bridge: Any) -> Callable[[Any], Any]:
        """The loss as another package computes it."""
        return lambda x: energy(bridge.run(self.simulation, {**self.inputs, self.name: x}, STEPS))

    def require_same_tangent(self, bridge: Any, tangent_of: Callable[[Any, Any, Any], Any]) -> None:
        """Compare the tangent of a run by every input at once, bit for bit.

        Args:
            bridge: of the other package.
            tangent_of: (function of inputs, inputs, their tangents) -> the tangent of its value.
        """
        rng = np.random.default_rng(3)
        tangents = {name: values * rng.standard_normal(values.shape) for name, values in self.inputs.items()}

        def values(given: Any) -> Any:
            solution = bridge.run(self.simulation, given, STEPS)
            return dict(solution.final), dict(solution.traces)

        for solution, parts in zip(
            self.simulation.jvp(self.inputs, tangents, STEPS), tangent_of(values, self.inputs, tangents), strict=True
        ):
            for part, name in (("final", 0), ("traces", 1)):
                assert all(np.array_equal(parts[name][key], value) for key, value in getattr(solution, part).items())

    def wanted(self, what: str) -> Any:
        """A derivative by name."""
        return {
            "slope": lambda: ds.jvp(self.loss, (self.x,), (self.v,))[1],
            "gradient": lambda: ds.grad(self.loss)(self.x),
            "product": lambda: ds.hvp(self.loss, self.x, self.v),
            "hessian": lambda: np.stack([ds.hvp(self.loss, self.x, unit) for unit in np.eye(len(self.x))]),
            "values": lambda: np.array([self.loss(row) for row in self.rows]),
            "gradients": lambda: np.stack([ds.grad(self.loss)(row) for row in self.rows]),
            "slopes": lambda: np.stack([ds.jvp(self.loss, (row,), (self.v,))[1] for row in self.rows]),
            "products": lambda: np.stack([ds.hvp(self.loss, row, self.v) for row in self.rows]),
        }[what]()


def close(found: Any, wanted: Any) -> bool:
    return bool(np.abs(np.asarray(found) - wanted).max() <= ROUNDOFF * np.abs(wanted).max())


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of runs of the batches that are computed from now on."""
    runs: list[int] = []
    run = ds.Batch.run
    monkeypatch.setattr(ds.Batch, "run", lambda self, *args, **options: (runs.append(self.runs), run(self, *args, **options))[1])
    return runs
