"""The variables of the search, in which the background has the covariance 1: the control transform."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from diffsim.optimize import Prior
from diffsim.typing import Array

F64 = npt.NDArray[np.float64]


class Control:
    """Variables z and the unknowns x = x_b + L z, with a root L of the covariance.

    A state that begins each window anew has the background's root in the first window, and the root of its jumps in the others, around a
    first guess.

    Args:
        background: values of the unknowns before the search. Of a state that begins each window anew, one for each window.
        background_error: input -> prior.
        model_error: state -> prior of its jumps; empty for one window.
    """

    def __init__(self, background: Mapping[str, F64], background_error: Mapping[str, Prior], model_error: Mapping[str, Prior]) -> None:
        self.background = {name: np.array(value, np.float64) for name, value in background.items()}
        self._parts: list[tuple[str, int | None, Prior]] = [
            (name, 0 if name in model_error else None, prior) for name, prior in background_error.items()
        ]
        self.priors = list(background_error.values())
        self.known = sum(prior.inner for prior in background_error.values())
        for name, prior in model_error.items():
            self._parts += [(name, k, prior) for k in range(1, len(self.background[name]))]
        self._ends = np.cumsum([prior.inner for _, _, prior in self._parts])
        self.size = int(self._ends[-1])

    def unknowns(self, z: Array) -> dict[str, F64]:
        """x_b + L z."""
        return {name: self.background[name] + value for name, value in self.root(z).items()}

    def root(self, z: Array) -> dict[str, F64]:
        """L z."""
        out = {name: np.zeros(value.shape) for name, value in self.background.items()}
        for (name, window, prior), part in zip(self._parts, np.split(np.asarray(z), self._ends[:-1]), strict=True):
            place = out[name] if window is None else out[name][window]
            place[...] = prior.root(part).reshape(place.shape)
        return out

    def root_transpose(self, bars: Mapping[str, Array]) -> F64:
        """Lᵀ of a cotangent of the unknowns."""
        places = ((bars[name] if window is None else bars[name][window], prior) for name, window, prior in self._parts)
        return np.concatenate([prior.root_transpose(np.ravel(place)) for place, prior in places])

    def background_part(self, z: Array) -> F64:
        """z without the variables that no background holds."""
        return np.concatenate([np.asarray(z)[: self.known], np.zeros(self.size - self.known)])
