"""The jumps between the windows of a scene: what each begins with, less what the one before ends with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from diffsim.simulation import Solution
from diffsim.typing import Array


@dataclass(frozen=True)
class Jumps:
    """½ w Σ |x_{k+1} - M(x_k)|² of each state x, where M is the run of a window; each window has the part of the jump at its end.

    Attributes:
        weights: state -> w.
    """

    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        return [f"jumps of {name}" for name in self.weights]

    def values(self, solution: Solution, fields: Mapping[str, Array], window: int) -> dict[str, float]:
        """The part of a window, for each state."""
        each = self._weighted(solution, fields, window)
        return {f"jumps of {name}": 0.5 * float(np.sum(each[name] ** 2)) / w for name, w in self.weights.items()}

    def seed(self, solution: Solution, fields: Mapping[str, Array], window: int) -> tuple[dict[str, Array], dict[str, Array]]:
        """The gradient of the part of a window: for its final states, and for what the windows begin with.

        It is linear, so of changes of both it is the product with the Hessian.
        """
        each = self._weighted(solution, fields, window)
        starts: dict[str, Array] = {name: np.zeros(fields[name].shape) for name in each}
        for name, jump in each.items():
            starts[name][window + 1 : window + 2] = jump
        return {name: -jump.reshape(solution.final[name].shape) for name, jump in each.items()}, starts

    def _weighted(self, solution: Solution, fields: Mapping[str, Array], window: int) -> dict[str, Array]:
        """The weight times the jump at the end of a window; 0 at the end of the last one."""
        jumps = {}
        for name, w in self.weights.items():
            end, starts = np.asarray(solution.final[name], np.float64).reshape(fields[name].shape[1:]), fields[name]
            jumps[name] = w * (starts[window + 1] - end) if window + 1 < len(starts) else np.zeros(end.shape)
        return jumps


def joined(traces: Array) -> Array:
    """The traces of windows, shape (windows, steps + 1, receivers), as those of one run. At a border they are those of the later window."""
    return np.concatenate([traces[:, :-1].reshape(1, -1, traces.shape[2]), traces[-1:, -1:]], axis=1)
