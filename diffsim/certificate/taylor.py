"""Slopes of the remainders of a Taylor expansion, which show whether a gradient is right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffsim.certificate.path import FIRST, SMALLEST, Path
from diffsim.typing import Array

SLOPE_MARGIN = 0.1
"""A slope may miss 1 or 2 by this much."""
HALVINGS = 3
CLEAR = 100.0
"""The least remainder of the test is this many times the round-off: as small as can be, and still clear of it.

A gradient that is wrong by a relative e adds e h ∇J·d to the second remainder, beside a curvature term that falls as h²: the smaller
h, the smaller the errors that show. Small steps also keep the third derivative out."""
SENSITIVE = 1e-3
"""The least second remainder is at most this share of the gradient's own term, so that an error of a thousandth bends the slope."""
ALIKE = 4.0
"""Remainders on both sides of a point differ by less than this factor where there is no kink."""
ATTEMPTS = 12
STRAIGHT = 1e-4
"""A loss is called linear if its remainder at the largest step is at most this share of the gradient's own term."""


@dataclass(frozen=True)
class Taylor:
    """Slopes of log remainder against log h.

    Attributes:
        without: slope of |J(θ + h d) - J(θ)|; 1 is right.
        with_gradient: slope of |J(θ + h d) - J(θ) - h ∇J·d|; 2 is right, for an exactly quadratic loss too.
        exact: the remainders are round-off at every h, so they have no slope: the loss is linear along d.
        effect: False if the loss does not change along d, and the gradient says so.
        sensitive: whether an error of a thousandth would be seen.
        mirrored: whether the remainder is the same for a step back, as it is where there is no kink; also where no step back can be taken.
        note: further facts.
    """

    without: float
    with_gradient: float
    exact: bool
    effect: bool
    sensitive: bool
    mirrored: bool
    note: str

    @property
    def right(self) -> bool:
        """True if the slopes show that the gradient is right."""
        if self.exact:
            return self.effect and self.sensitive and self.mirrored
        return self.sensitive and self.mirrored and abs(self.without - 1) <= SLOPE_MARGIN and abs(self.with_gradient - 2) <= SLOPE_MARGIN


def taylor(path: Path) -> Taylor:
    """Measure both slopes along a direction.

    Args:
        path: the loss along it; steps above 0 are taken.
    """
    h = _step(path)
    if h is None:
        return _without_slopes(path)
    sizes = h * 0.5 ** np.arange(HALVINGS + 1)
    changes = np.array([path.change(size) for size in sizes])
    first, second = np.abs(changes), np.abs(changes - sizes * path.slope)
    sensitive = bool(second[-1] <= SENSITIVE * sizes[-1] * path.size)
    note = f"h from {h:.1e}, second remainder from {second[0]:.1e}"
    return Taylor(_slope(sizes, first), _slope(sizes, second), False, True, sensitive, _mirrored(path, float(sizes[-1])), note)


def _without_slopes(path: Path) -> Taylor:
    """The result if no remainder is above round-off."""
    h = path.largest
    term, clear = h * path.size, CLEAR * path.floor(h)
    effect = term > SMALLEST or abs(path.change(h)) > max(clear, SMALLEST)
    note = "no remainder above round-off: the loss is linear along this direction"
    return Taylor(np.nan, np.nan, True, effect, clear <= STRAIGHT * term, _mirrored(path, h), note)


def _mirrored(path: Path, h: float) -> bool:
    """True if the remainder at -h is about that at h, or there is no remainder there."""
    other = abs(path.remainder(-h))
    return not np.isfinite(other) or other <= ALIKE * max(abs(path.remainder(h)), CLEAR * path.floor(h))


def _step(path: Path) -> float | None:
    """The largest h of the test; None if no remainder is above round-off.

    A remainder that does not fall as h² ends the search where it is: there the slopes show it.
    """
    h, largest = FIRST * path.largest, path.largest
    before: tuple[float, float] | None = None
    for _ in range(ATTEMPTS):
        remainder, floor = abs(path.remainder(h)), path.floor(h)
        if not np.isfinite(remainder):
            largest = h = 0.1 * h
            continue
        if remainder <= CLEAR * floor:
            if h >= largest:
                return None
            h = min(10 * h, largest)
            continue
        if before is not None and remainder > before[1] * (h / before[0]) ** 1.5 and h < 0.1 * before[0]:
            return h
        wanted = h * 2**HALVINGS * float(np.sqrt(CLEAR * floor / remainder))  # if the remainder falls as h²
        if wanted >= 0.5 * h:
            return min(wanted, largest)
        before, h = (h, remainder), wanted
    return h


def _slope(sizes: Array, remainders: Array) -> float:
    """Slope of the line through the logarithms; 0 if a remainder is exactly zero, or is not finite."""
    if not np.all(np.isfinite(remainders) & (remainders > 0)):
        return 0.0
    return float(np.polyfit(np.log(sizes), np.log(remainders), 1)[0])
