"""The gradients beside a point. Over any interval their mean must be the slope of the loss there, whether or not kinks lie close by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffsim.certificate.path import Path
from diffsim.errors import DiffsimError
from diffsim.typing import Array

INTERVALS = (4, 16)
"""On each side of the point: at first, and if these leave it open."""
WIDTH = 1e-4
"""Width of an interval, as a share of the longest step. Curvature bends the slope little over it."""
WIDEST = 1e-2
"""The width where the loss is so rough that shorter intervals drown in round-off."""
SURE = 10.0
"""A difference is more than round-off and bends explain if it is more than this many times as large."""
ALLOWED = 5e-4
"""Largest difference of two slopes that agree, as a share of the size of the slope: a gradient that is wrong by a thousandth does not."""
MOST = 2 / 3
"""The share of intervals that must show that a gradient is wrong. The others may hold a kink or a jump each."""
CLOSE = 1e-12
"""A step that is right beside the point, as a share of the longest: above the round-off of the point, and short of kinks close by."""
CLOSE_AT_MOST = 1e-6
"""Such a step, where a longer one is needed to move the point at all, is no longer than this."""
SAME = 1e-6
"""Relative difference of the gradients at the point and right beside it, below which no kink lies at the point."""


@dataclass(frozen=True)
class Beside:
    """How the gradients at the ends of some short intervals beside the point fit to the losses there.

    Attributes:
        right: whether they give the slope of the loss, by the median over the intervals with its uncertainty.
        wrong: whether they do not, over most intervals and by more than kinks in these intervals could explain.
        mismatch: the median, relative to the size of the slope.
        uncertainty: of the mismatch, by the spread over the intervals and by round-off.
        smooth: whether the gradients right beside the point are the one at the point, so that no kink lies there; None: no step is so short
            that this could be seen, and long enough to move the point.
        between: whether the gradient at the point lies between those right beside it on both sides, as it may at a kink; None: as above.
    """

    right: bool
    wrong: bool
    mismatch: float
    uncertainty: float
    smooth: bool | None
    between: bool | None


def gradients_beside(path: Path) -> Beside | None:
    """Compare gradients with losses beside the point; None if gradients are not known elsewhere, or nothing can be seen for round-off.

    Over an interval of width δ the slope of the loss is [L(h + δ) - L(h)] / δ, and the mean of the gradients at both ends differs from it
    by O(δ²). A kink in the interval adds at most half of the jump of the slope there, with either sign. So if kinks are few, most intervals
    are free of them; if they are many and small, each interval has a small error, and the median a smaller one. One-sided differences at
    the point have no such way out, for they see every kink on the way to it.

    Args:
        path: the loss, and its gradient elsewhere.
    """
    if path.elsewhere is None or not path.size > 0:
        return None
    width = max(WIDTH * path.largest, SURE * path.floor(0.0) / (0.1 * ALLOWED * path.size))
    if width > WIDEST * path.largest:
        return None
    signs = (1.0, -1.0) if path.back else (1.0,)
    try:
        with np.errstate(all="ignore"):
            close = _close(path, signs)
            for count in INTERVALS:
                comparison = _compared(path, [_side(path, sign * width, count) for sign in signs], path.floor(count * width) / width, close)
                if comparison is None or comparison.right or comparison.wrong:
                    break
    except (DiffsimError, ArithmeticError):
        return None
    return comparison


def _close(path: Path, signs: Sequence[float]) -> tuple[bool | None, bool | None]:
    """True if the gradients right beside the point are the one at it; the second: that one lies between them."""
    assert path.elsewhere is not None
    step, room = max(CLOSE * path.largest, path.finest), SAME * path.size
    if step > CLOSE_AT_MOST * path.largest:
        return None, None
    slopes = [path.elsewhere(sign * step) for sign in signs]
    same = all(abs(one - path.slope) <= room for one in slopes)
    return bool(same), bool(min(slopes) - room <= path.slope <= max(slopes) + room)


def _compared(path: Path, sides: list[_Side], rounding: float, close: tuple[bool | None, bool | None]) -> Beside | None:
    apart = np.concatenate([side.apart for side in sides])
    if not np.all(np.isfinite(apart)):
        return None
    middle = abs(float(np.median(apart)))
    spread = 2 * float(np.median(np.abs(apart - np.median(apart)))) / np.sqrt(len(apart)) + rounding
    worst = max(sides, key=lambda side: abs(float(np.median(side.apart))))
    unexplained = np.abs(worst.apart) > np.maximum(ALLOWED * path.size, SURE * (worst.bends + rounding))
    if float(np.mean(unexplained)) >= MOST:
        return Beside(False, True, abs(float(np.median(worst.apart))) / path.size, spread / path.size, *close)
    return Beside(bool(middle + spread <= ALLOWED * path.size), False, middle / path.size, spread / path.size, *close)


@dataclass(frozen=True)
class _Side:
    """The intervals on one side of the point.

    Attributes:
        apart: the slope of the loss less the mean gradient; with the sign of the gradient, so that an error by a factor has one sign on
            both sides of a kink.
        bends: half of the change of the gradient over the interval, the most that a kink in it adds to `apart`.
    """

    apart: Array
    bends: Array


def _side(path: Path, width: float, count: int) -> _Side:
    """The intervals from one width away from the point, which may lie on a kink."""
    assert path.elsewhere is not None
    ends = width * np.arange(1, count + 2)
    changes = np.array([path.change(float(h)) for h in ends])
    slopes = np.array([path.elsewhere(float(h)) for h in ends])
    means = 0.5 * (slopes[1:] + slopes[:-1])
    sign = -1.0 if np.median(means) < 0 else 1.0
    return _Side(sign * (np.diff(changes) / width - means), 0.5 * np.abs(np.diff(slopes)))
