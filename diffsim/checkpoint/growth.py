"""Detect a cotangent that grows exponentially in the reverse sweep: the gradient of a chaotic run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import warn_user
from diffsim.checkpoint.actions import Action, Advance, EndForward, Record, Reverse

FEW_STEPS = 100  # with fewer steps growth is not measured
LEAST_SAMPLES = 20  # with fewer samples it is not known whether growth is exponential
SAMPLES = 50  # samples of the cotangent's size: each takes as long as a step or two
STATES = 6  # at most this many samples of the state's size, at growing distances, so that they cost little
ALARM = 1e6  # growth over the run from which on a warning is given
STEADY = 0.9  # correlation of the logarithm with the step beyond which growth counts as exponential


class ChaosWarning(UserWarning):
    """The adjoint grows exponentially. The gradient is right, but useless beyond its horizon."""


@dataclass(frozen=True)
class Growth:
    """Exponential growth of a cotangent backwards in time.

    Attributes:
        rate: growth of its logarithm in a step, minus that of the state.
        factor: growth over the sampled steps, relative to that of the state.
        horizon: steps after which rounding errors of the state have grown to its own size.
    """

    rate: float
    factor: float
    horizon: int


class GrowthMonitor:
    """A callback for each piece of a sweep, which samples the size of the state (forward) and of its cotangent (in reverse).

    If the state itself grows, as in u' = a u with a > 1, the cotangent grows at the same rate. Only faster growth counts.

    Args:
        size: returns the present size of the cotangent.
        state_size: returns that of the state; None: the state is assumed not to grow.
        precision: relative rounding error of the state.

    Example:
        import warnings

        from diffsim.checkpoint import ChaosWarning, EndForward, Growth, GrowthMonitor, Reverse

        size = 1.0
        monitor = GrowthMonitor(lambda: size, precision=1e-7)
        monitor(EndForward(1000))
        for step in reversed(range(1000)):  # a cotangent that grows by 3 % a step
            size *= 1.03
            monitor(Reverse(step, step + 1))
        growth = monitor.found()
        assert isinstance(growth, Growth) and abs(growth.rate - 0.0296) < 1e-3
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            monitor.warn()
        assert caught[0].category is ChaosWarning
    """

    def __init__(self, size: Callable[[], float], precision: float, state_size: Callable[[], float] | None = None) -> None:
        self._size, self._precision, self._state_size = size, precision, state_size
        self._interval, self._next = 0, 0
        self._seen: list[tuple[int, float]] = []
        self._states: list[tuple[int, float]] = []
        self._state_interval = 1
        self._ended = self._began = False
        self._last = 0.0

    def __call__(self, action: Action) -> None:
        if isinstance(action, Reverse):
            if not self._interval:
                self._interval, self._next = max(action.stop // SAMPLES, 1), action.stop
            if action.start <= self._next:
                self._next = action.start - self._interval
                self._last = self._size()
                _note(self._seen, action.start, self._last)
        elif isinstance(action, EndForward):
            self._ended = True
        elif isinstance(action, (Advance, Record)) and not self._ended and self._state_size is not None:
            if action.stop >= self._state_interval * (1 + len(self._states)):
                _note(self._states, action.stop, self._state_size())
            if len(self._states) == STATES:  # the run is longer than expected
                self._states, self._state_interval = self._states[1::2], 2 * self._state_interval

    def begin(self, steps: int, size: Callable[[], float]) -> None:
        """Note the size of what a reverse sweep of `steps` steps starts from, for `suspected`: cotangents of final states and of traces."""
        if steps >= FEW_STEPS:
            self._began = True
            _note(self._seen, steps, size())

    @property
    def suspected(self) -> bool:
        """True if the cotangent grew much, and there are too few samples to know whether that was exponential."""
        if not self._began or not self._last or len(self._seen) >= LEAST_SAMPLES:
            return False
        return len(self._seen) < 2 or self._seen[-1][1] - self._seen[0][1] >= math.log(ALARM)

    def found(self) -> Growth | None:
        """The growth, if it was exponential and large."""
        if len(self._seen) < LEAST_SAMPLES:
            return None
        steps, logs = np.array(self._seen).T
        half = len(logs) // 2
        factor = logs[-1] - logs[0] - self._state_rate() * (steps[0] - steps[-1])
        if factor < math.log(ALARM) or logs[-1] - logs[half] < 0.25 * (logs[-1] - logs[0]):
            return None
        if -np.corrcoef(steps, logs)[0, 1] < STEADY:
            return None
        rate = -float(np.polyfit(steps, logs, 1)[0]) - self._state_rate()
        return Growth(rate, math.exp(min(factor, 700.0)), int(-math.log(self._precision) / rate))

    def _state_rate(self) -> float:
        """Growth of the logarithm of the state's size a step, 0 if it does not grow: the median slope, for starts from rest."""
        slopes = [(b - a) / (m - n) for k, (n, a) in enumerate(self._states) for m, b in self._states[k + 1 :]]
        return max(median(slopes), 0.0) if slopes else 0.0

    def warn(self) -> None:
        """Warn if the growth was exponential. The warning names the line outside of this package that requested the gradient."""
        growth = self.found()
        if growth is not None:
            warn_user(
                f"the adjoint grew by a factor {growth.factor:.1e}, by exp({growth.rate:.2e}) a step: the run is chaotic, or something "
                "small grows out of an unstable state, such as a front or an epidemic. Its gradient is exact, but says little about "
                f"changes that are not tiny. In a chaotic run, beyond about {growth.horizon} steps even rounding errors decide the "
                "state: shorten the run (diffsim.chaos.predictability says to which length), or take diffsim.chaos.shadowing for a "
                "long average, whose bias diffsim.chaos.linear_response shows. Where something small grows, let its logarithm be the "
                "unknown",
                ChaosWarning,
            )


def largest(arrays: Iterable[npt.NDArray[Any]]) -> float:
    """The largest magnitude in floating-point arrays, without a copy of them; NaN if an entry is NaN."""
    magnitudes = [_magnitude(a) for a in map(np.asarray, arrays) if a.dtype.kind == "f" and a.size]
    return math.nan if any(map(math.isnan, magnitudes)) else max(magnitudes, default=0.0)


def _magnitude(values: npt.NDArray[Any]) -> float:
    return abs(float(values.item())) if values.size == 1 else max(float(values.max()), -float(values.min()))


def _note(series: list[tuple[int, float]], step: int, size: float) -> None:
    if 0.0 < size < math.inf:
        series.append((step, math.log(size)))
