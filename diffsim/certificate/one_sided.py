"""One-sided slopes of a loss by differences, as exact as differences can be. They tell a kink from a wrong gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffsim.certificate.path import Path

LONGEST = 0.1
"""The longest step, as a share of the path's."""
FACTOR = 4.0
"""Between one step and the next."""
LEVELS = 11
ORDERS = 4
"""Terms of the expansion that are taken out."""
ROUNDINGS = 4.0
"""A slope by differences is not known better than so many round-offs of the loss over the step."""


@dataclass(frozen=True)
class Side:
    """The slope of a loss on one side of a point.

    Attributes:
        slope: the limit of the difference quotients; NaN if there is none.
        error: how far it may be off, as two extrapolations of unlike order differ, with round-off; infinite if nothing was found.
        jump: by how much the loss changes however short the step; 0 if it is continuous.
    """

    slope: float
    error: float
    jump: float


def side(path: Path) -> Side:
    """The slope for steps above 0.

    Difference quotients D(h) = s + c h + ... of steps that fall by `FACTOR` are extrapolated to h = 0, and the entry of the table is
    taken whose error looks least.

    Reference: Ridders (1982), Accurate computation of F'(x) and F'(x) F''(x), Adv. Eng. Softw. 4, 75-76,
        doi:10.1016/S0141-1195(82)80057-0. Here for one side, so every power of h is taken out, not every second one.
    """
    best, error = np.nan, np.inf
    above: list[float] = []
    for level in range(LEVELS):
        h = LONGEST * path.largest * FACTOR**-level
        quotient = path.change(h) / h
        if not np.isfinite(quotient):
            above = []
            continue
        row = [quotient]
        rounding = ROUNDINGS * path.floor(h) / h
        for order, other in enumerate(above[:ORDERS], start=1):
            row.append(row[-1] + (row[-1] - other) / (FACTOR**order - 1))
            apart = max(abs(row[-1] - row[-2]), abs(row[-1] - other)) + rounding
            if apart < error:
                best, error = row[-1], apart
        above = row
    return Side(best, error, _jump(path))


def _jump(path: Path) -> float:
    """The change that is left over steps of which one is 64 times the other, if it is the same and no round-off."""
    ends = [LONGEST * path.largest * FACTOR**-level for level in (LEVELS - 4, LEVELS - 1)]
    far, near = (path.change(h) for h in ends)
    if not (np.isfinite(far) and np.isfinite(near)):
        return 0.0
    return near if abs(near - far) < 0.1 * abs(near) and abs(near) > 100 * path.floor(ends[1]) else 0.0
