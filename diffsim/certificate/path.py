"""The loss along a straight line through a point, and the slope by the gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from diffsim.errors import DiffsimError
from diffsim.typing import Array

EPS = float(np.finfo(float).eps)
MANY = 64
"""Units of round-off by which the shortest step moves a point."""
NEAR = 1e-9
"""Steps that show round-off alone, as a share of the largest: curvature adds a billionth of a billionth."""
FIRST = 1e-2
"""The first step that is tried, as a share of the largest."""
HUNDREDTHS = 5
"""How often the largest step is divided by a hundred if the loss cannot be computed."""
SMALLEST = 1e-300
"""Changes of the loss below this are beyond the range in which f64 has all of its digits."""


@dataclass(eq=False)
class Path:
    """The loss as a function of the step h along a direction.

    Attributes:
        loss: h -> loss. Where the line has left the domain of the simulation, it may raise an error of diffsim's or give NaN.
        value: the loss at h = 0.
        slope: its derivative there, by the gradient that is checked.
        size: > 0, the scale of an error of the slope: |slope|, or the sum with random signs of the products that add up to it.
        largest: the longest step.
        back: whether steps below 0 are admissible too.
        rounding: effect of the round-off of the point itself on the loss, absolute.
        noise: round-off of the loss, absolute; None: not measured yet.
        elsewhere: h -> the derivative of the loss there, by the gradient at that point; None: not known.
        finest: the shortest step that moves the point by more than its own round-off.
        refused: why the loss could not be computed, where it last could not.
    """

    loss: Callable[[float], float]
    value: float
    slope: float
    size: float
    largest: float = 1.0
    back: bool = True
    rounding: float = 0.0
    noise: float | None = None
    elsewhere: Callable[[float], float] | None = None
    finest: float = 0.0
    refused: str = "the loss is not finite"
    _known: dict[float, float] = field(default_factory=dict)

    def change(self, h: float) -> float:
        """The loss at h less the loss at 0; NaN where there is none."""
        if h not in self._known:
            self._known[h] = self._computed(h) - self.value
        return self._known[h]

    def remainder(self, h: float) -> float:
        """The change of the loss minus the prediction of the gradient."""
        return self.change(h) - h * self.slope

    def floor(self, h: float) -> float:
        """Round-off of the change at h."""
        return max(self.noise or 0.0, self.rounding, 2 * EPS * abs(self.value), 16 * EPS * abs(self.change(h)), SMALLEST * EPS)

    def turned(self) -> Path:
        """The same line, walked the other way."""
        there = self.elsewhere
        turned = None if there is None else lambda h: -there(-h)
        return replace(self, loss=lambda h: self.loss(-h), slope=-self.slope, back=True, elsewhere=turned, _known={})

    def _computed(self, h: float) -> float:
        if h < 0 and not self.back:
            return np.nan
        try:
            with np.errstate(all="ignore"):
                loss = float(self.loss(h))
        except (DiffsimError, ArithmeticError) as error:
            self.refused = str(error)
            return np.nan
        return loss if np.isfinite(loss) else np.nan


def finest_step(point: Array, move: Array) -> float:
    """The shortest step along a move that changes half of the numbers of a point by many units of their round-off."""
    moved = np.abs(move) > 0
    return MANY * EPS * float(np.median(np.abs(point[moved]) / np.abs(move[moved]))) if moved.any() else 0.0


def round_off(path: Path) -> float:
    """The round-off of the loss: how far it is from a straight line over steps so short that it should be one.

    Reference: Moré and Wild (2011), Estimating computational noise, SIAM J. Sci. Comput. 33, 1292-1314, doi:10.1137/100786125. Here
        second differences alone are taken.
    """
    changes = np.array([path.change(k * NEAR * path.largest) for k in range(1, 5)])  # not 0: there may be a kink or a jump
    seconds = np.abs(np.diff(changes, 2))
    return float(np.max(seconds[np.isfinite(seconds)], initial=0.0))


def walkable(path: Path) -> Path | None:
    """The path with a largest step for which the loss can be computed, in the opposite direction if necessary; None if there is none."""
    ways = [path, path.turned()] if path.back else [path]
    longest = path.largest
    for shorter in range(HUNDREDTHS):
        for way in ways:
            way.largest = longest * 0.01**shorter
            if np.isfinite(way.change(FIRST * way.largest)):
                return way
    return None
