"""Interpolation along one axis: the cells around a place, with their weights in the value there and in the slope there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from diffsim.boundary import Sides, ghosts
from diffsim.typing import Array, IntArray

SNAP = 1e-9
"""A place closer than this to a cell's location, in cells, is that location."""
RADIUS = 4
"""Half of the width of the windowed sinc, cells."""
KAISER = 6.31
"""Its Kaiser parameter: Hicks's for a radius of 4 cells and waves of at least 4 cells; for waves of 3 cells and more he has 4.14."""
NEGLIGIBLE = 1e-15
"""A weight below this is round-off: sin(π n) of an integer n."""


@dataclass(frozen=True)
class Along:
    """Cells along an axis and their weights.

    Attributes:
        cells: increasing; they may lie outside the grid.
        values: weights of the cells in the value at the place.
        slopes: weights in the derivative there, by the position in cells.
    """

    cells: IntArray
    values: Array
    slopes: Array

    def cut(self, keep: Array) -> Along:
        """The cells of a mask."""
        return Along(self.cells[keep], self.values[keep], self.slopes[keep])


def linear(position: float) -> Along:
    """The line between the two cells around a position. On a cell, where two lines meet, the slope is the mean of theirs."""
    lower = math.floor(position + SNAP)
    part = position - lower
    if abs(part) <= SNAP:
        return Along(np.arange(lower - 1, lower + 2), np.array([0.0, 1.0, 0.0]), np.array([-0.5, 0.0, 0.5]))
    return Along(np.array([lower, lower + 1]), np.array([1 - part, part]), np.array([-1.0, 1.0]))


def sinc(position: float) -> Along:
    """The sinc function about a position, times a Kaiser window, and its derivative.

        w(x) = sinc(x) I₀(b sqrt(1 - x²/r²)) / I₀(b),   r = 4, b = 6.31

    The value at a is Σ w(j - a) uⱼ. Waves of six cells and more have it to 7e-4 of their amplitude, those of four cells to 1.4e-3.

    Reference: Hicks (2002), Arbitrary source and receiver positioning in finite-difference schemes using Kaiser windowed sinc functions,
        Geophysics 67, 156-165, doi:10.1190/1.1451454. The slope is the derivative of w; he fits a window of its own to it (b = 6.42).
    """
    from scipy.special import hyp0f1  # takes long to import

    nearest = round(position)
    if abs(position - nearest) <= SNAP:
        position = nearest
    cells = np.arange(math.ceil(position - RADIUS), math.floor(position + RADIUS) + 1)
    x = cells - position
    fourth = KAISER**2 / 4
    inside = fourth * (1 - (x / RADIUS) ** 2)  # I₀(z) = ₀F₁(1, z²/4), whose derivative by z²/4 is ₀F₁(2, z²/4)
    window = hyp0f1(1, inside) / hyp0f1(1, fourth)
    window_slope = -2 * fourth * x / RADIUS**2 * hyp0f1(2, inside) / hyp0f1(1, fourth)
    wave = np.sinc(x)
    wave_slope = np.where(x == 0, 0.0, (np.cos(np.pi * x) - wave) / np.where(x == 0, 1.0, x))
    values, slopes = window * wave, -(window * wave_slope + window_slope * wave)
    return Along(cells, np.where(np.abs(values) < NEGLIGIBLE, 0.0, values), slopes)


def folded(along: Along, sides: Sides | None, n: int) -> Along | None:
    """The same weights on cells of the grid alone: each cell outside counts for the cells inside of which its rule makes it.

    Args:
        along: cells and weights.
        sides: the rules at both ends of the axis; None: they are not known.
        n: cells along the axis.

    Returns:
        None: a cell outside is not made of cells inside.
    """
    outside = (along.cells < 0) | (along.cells >= n)
    if not outside.any():
        return along
    if sides is None:
        return None
    reach = int(max(-along.cells[0], along.cells[-1] - n + 1))
    beyond = {ghost.position: ghost for ghost in ghosts(sides, n, reach)}
    pairs = [(int(cell), 1.0, k) for k, cell in enumerate(along.cells) if not outside[k]]
    for k in np.flatnonzero(outside):
        ghost = beyond.get(int(along.cells[k]))
        if ghost is None or ghost.constant or sides[int(along.cells[k] >= 0)].named:
            return None
        pairs += [(cell, weight, int(k)) for cell, weight in ghost.cells]
    cells, which = np.unique([cell for cell, _, _ in pairs], return_inverse=True)
    shares, members = np.array([share for _, share, _ in pairs]), [k for _, _, k in pairs]

    def gathered(weights: Array) -> Array:
        return np.bincount(which, shares * weights[members], len(cells)).astype(float)

    return Along(cells, gathered(along.values), gathered(along.slopes))
