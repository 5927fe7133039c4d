"""Notice a cotangent that grows exponentially along the reverse sweep: the gradient of a chaotic run."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diffsim.checkpoint.actions import Action, Reverse

SAMPLES = 200
ALARM = 1e6  # growth over the run that is worth a warning
STEADY = 0.9  # correlation of the logarithm with the step beyond which growth counts as exponential


class ChaosWarning(UserWarning):
    """The adjoint grows exponentially: the gradient is right, but of little use beyond its horizon."""


@dataclass(frozen=True)
class Growth:
    """Exponential growth of a cotangent backwards in time.

    Attributes:
        rate: of its logarithm, a step.
        factor: by which it grew over the steps seen.
        horizon: steps after which rounding errors of the state have grown to its own size.
    """

    rate: float
    factor: float
    horizon: int


class GrowthMonitor:
    """Called with each action of a sweep, it samples the size of the cotangent as steps are reversed.

    Args:
        size: the cotangent's size now.
        steps: of the whole run.
        precision: relative rounding error of the state.
    """

    def __init__(self, size: Callable[[], float], steps: int, precision: float) -> None:
        self._size, self._precision = size, precision
        self._interval = max(steps // SAMPLES, 1)
        self._next = steps
        self._seen: list[tuple[int, float]] = []

    def __call__(self, action: Action) -> None:
        if isinstance(action, Reverse) and action.start <= self._next:
            self._next = action.start - self._interval
            size = self._size()
            if 0.0 < size < math.inf:
                self._seen.append((action.start, math.log(size)))

    def found(self) -> Growth | None:
        """The growth, if it was exponential and large."""
        if len(self._seen) < 20:
            return None
        steps, logs = np.array(self._seen).T
        half = len(logs) // 2
        factor = logs[-1] - logs[0]
        if factor < math.log(ALARM) or logs[-1] - logs[half] < 0.25 * factor:
            return None
        if -np.corrcoef(steps, logs)[0, 1] < STEADY:
            return None
        rate = -float(np.polyfit(steps, logs, 1)[0])
        return Growth(rate, math.exp(min(factor, 700.0)), int(-math.log(self._precision) / rate))

    def warn(self, stacklevel: int = 3) -> None:
        """Warn if the growth was exponential."""
        growth = self.found()
        if growth is not None:
            warnings.warn(
                f"the adjoint grew by a factor {growth.factor:.1e}, by exp({growth.rate:.2e}) a step: the run is chaotic. Its gradient is "
                f"exact, but says little about changes that are not tiny, and beyond about {growth.horizon} steps even rounding errors "
                "decide the state. Shorten the run, or average over many short ones",
                ChaosWarning,
                stacklevel=stacklevel,
            )
