"""How fast the remainders of a Taylor expansion fall: the slopes that show whether a gradient is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diffsim.typing import Array

SLOPE_MARGIN = 0.1
"""A slope may miss 1 or 2 by this much."""
HALVINGS = 3
FLOOR = 3e-14
"""Changes of the loss below this fraction of it are round-off."""
CLEAR = 100.0
"""The least remainder of the test is this many times the round-off: as small as can be, and still clear of it.

A gradient that is wrong by a relative e adds e h ∇J·d to the second remainder, beside a curvature term that falls as h²: the smaller
h, the smaller the errors that show. Small steps also keep the third derivative out."""
LARGEST = 1.0
"""Of the steps, in theta: where that gives no remainder above round-off, there is none."""
ATTEMPTS = 12


@dataclass(frozen=True)
class Taylor:
    """Slopes of log remainder against log h.

    Attributes:
        without: of |J(θ + h d) - J(θ)|; 1 is right.
        with_gradient: of |J(θ + h d) - J(θ) - h ∇J·d|; 2 is right, for an exactly quadratic loss too.
        exact: the remainders are round-off at every h, so they have no slope: the loss is linear along d, or does not depend on it.
        note: what else to know.
    """

    without: float
    with_gradient: float
    exact: bool
    note: str


def taylor(loss: Callable[[Array], float], theta: Array, value: float, slope: float, direction: Array) -> Taylor:
    """Measure both slopes along a direction.

    Args:
        loss: of theta.
        theta: where.
        value: the loss there.
        slope: ∇J·d there, by the gradient that is checked.
        direction: d.
    """
    unit = LARGEST / float(np.max(np.abs(direction)))
    floor = FLOOR * max(abs(value), abs(loss(theta + unit * direction) - value))
    h = _step(loss, theta, value, slope, direction, floor)
    if h is None:
        return Taylor(
            np.nan, np.nan, True, "no remainder above round-off: the loss is linear along this direction or does not depend on it"
        )
    sizes = h * 0.5 ** np.arange(HALVINGS + 1)
    changes = np.array([loss(theta + size * direction) - value for size in sizes])
    first, second = np.abs(changes), np.abs(changes - sizes * slope)
    return Taylor(_slope(sizes, first), _slope(sizes, second), False, f"h from {h:.1e}, second remainder from {second[0]:.1e}")


def _step(loss: Callable[[Array], float], theta: Array, value: float, slope: float, direction: Array, floor: float) -> float | None:
    """The largest h of the test; None if the loss is linear along the direction."""
    largest = LARGEST / float(np.max(np.abs(direction)))
    h = 1e-2 * largest
    for _ in range(ATTEMPTS):
        remainder = abs(loss(theta + h * direction) - value - h * slope)
        if remainder <= CLEAR * floor:
            if h >= largest:
                return None
            h = min(10 * h, largest)
            continue
        wanted = h * 2**HALVINGS * float(np.sqrt(CLEAR * floor / remainder))  # if the remainder falls as h²
        if wanted >= 0.5 * h:
            return min(wanted, largest)
        h = wanted
    return h


def _slope(sizes: Array, remainders: Array) -> float:
    """Of the line through the logarithms; 0 where a remainder is exactly zero."""
    if not np.all(remainders > 0):
        return 0.0
    return float(np.polyfit(np.log(sizes), np.log(remainders), 1)[0])
