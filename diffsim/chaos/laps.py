"""A run in laps, after each of which its tangents are made orthogonal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from diffsim.base.arguments import whole
from diffsim.chaos.tangents import Tangents, Vectors
from diffsim.errors import DivergenceError
from diffsim.simulation import Simulation
from diffsim.typing import Array

RESOLVED = 1e3
"""How many times larger than rounding the tangent that grows least must be after a lap."""


class Laps:
    """A state with orthogonal tangents, which `go` takes through one lap.

    Args:
        simulation: the system.
        inputs: initial states, and parameters.
        steps: steps of a lap.
        count: number of tangents; None: as many as there are states.

    Attributes:
        state: the state now, shape (size,).
        basis: the tangents Q now, shape (size, count).
    """

    def __init__(self, simulation: Simulation, inputs: Mapping[str, Any], steps: int, count: int | None) -> None:
        self.steps, self.vectors = whole("steps", steps, 1, remedy="give the steps of a lap"), Vectors(simulation, inputs)
        size = self.vectors.size
        self.count = size if count is None else whole("count", count, 1, size, "give the number of exponents")
        self.tangents = Tangents(simulation, inputs, self.count)
        self.state = self.vectors.state
        self.basis: Array = np.linalg.qr(np.random.default_rng(0).standard_normal((self.count, size)).T)[0]
        self.time = self.steps * simulation.equation.dt

    def go(self, counts: bool = True) -> Array:
        """Run a lap. Returns R, shape (count, count), of M Q = Q' R, where M is the tangent map of the lap and Q' its new tangents.

        Args:
            counts: whether R must be right to its last row.
        """
        self.state, moved, _, _ = self.tangents.advance(self.state, self.basis, self.steps)
        self.basis, triangle = np.linalg.qr(moved)
        sizes = np.abs(np.diag(triangle))
        if counts and sizes.min() < RESOLVED * np.finfo(moved.dtype).eps * sizes.max():
            raise DivergenceError(
                f"in {self.steps} steps one tangent grows by {sizes.max():.2g} and another by {sizes.min():.2g}, expected a lap after "
                f"which the smaller is more than rounding of the larger; take fewer steps a lap, or a smaller count"
            )
        return np.asarray(triangle)
