"""How many ghost cells of states and cotangents are right between two exchanges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffsim.domains.reach import Level, Reads
from diffsim.typing import IntArray

UNCUT = 2**30
"""The width along an axis that is not cut: it has no ghost cells, and no step makes it narrower."""
NOT_RIGHT = -(2**30)
"""The width of values that have to be exchanged before any step, along each axis."""


class Widths:
    """The widths of the levels of some arrays: how many ghost cells of each, counted from the owned ones, are right along each axis.

    Args:
        levels: the arrays, each with its ages from 0 on.
        widest: the width where all ghost cells are right.
        enough: for each level the width beyond which there is no use of more. An exchange makes it so wide.
        computed: for each array the width to which a step computes it, shape (arrays, axes); None: all that can be right.

    Attributes:
        enough: the same.
        now: the present widths, shape (levels, axes). It is replaced, and never changed in place.
    """

    def __init__(self, levels: Sequence[Level], widest: IntArray, enough: IntArray, computed: IntArray | None = None) -> None:
        self.levels, self.enough = tuple(levels), enough
        self._newest = np.array([age == 0 for _, age in levels], bool)
        self._before = np.maximum(np.arange(len(levels)) - 1, 0)  # where the widths of a level a step later come from
        self._widest = np.broadcast_to(widest, enough.shape)
        self._uncut = self._widest == UNCUT
        self._computed = enough[self._newest] if computed is None else computed
        self._most = np.minimum(enough[self._newest], self._computed)
        self.now: IntArray = self._widest

    def start(self) -> None:
        """Note that all ghost cells are right."""
        self.now = self._widest

    def exchanged(self, numbers: IntArray) -> None:
        """Note that some levels were exchanged."""
        self.now = self.now.copy()
        self.now[numbers] = self.enough[numbers]

    def forget(self) -> None:
        """Note that nothing outside of the owned cells is known."""
        self.now = np.full_like(self.enough, NOT_RIGHT)

    def old(self) -> IntArray:
        """The numbers of the levels that would allow fewer steps than an exchange does."""
        return np.flatnonzero((~self._uncut & (self.now < self.enough)).any(axis=1))

    def unused(self, width: IntArray) -> int:
        """The rows at a cut along the first axis of which there is no use if new values have these widths.

        The level that lost most says how many steps can follow. Others that lost less are not needed farther than for these.
        """
        if width.shape[-1] == 1:  # the cells of a grid of one axis lie in rows of tiles, and no window gets narrower
            return 0
        after = self._after(width, 0)
        lost = (self.enough - after)[:, 0].max(initial=0)
        used = np.minimum(after, self.enough - lost)[self._newest]
        return max(0, int((self._computed - used)[:, 0].min(initial=UNCUT)))

    def advance(self, width: IntArray, unused: int = 0) -> None:
        """Note a step, after which new values have these widths, shape (arrays, axes), and which left out so many rows of windows."""
        after = self._after(width, unused)
        self.now = np.where(self._uncut & (after >= 0), UNCUT, after)

    def _after(self, width: IntArray, unused: int) -> IntArray:
        after, computed = self.now[self._before], self._most.copy()
        computed[:, 0] = np.minimum(computed[:, 0], np.maximum(self._computed[:, 0] - unused, 0))
        after[self._newest] = np.minimum(width, computed)
        return after


def covers(right: IntArray, reads: IntArray) -> bool:
    """True if levels that are read this far leave the owned cells right."""
    return bool((right >= reads).all())


def after(right: IntArray, reads: Reads) -> IntArray:
    """The widths of new values of a step that reads levels which are so far right, shape (arrays, axes)."""
    out: IntArray = (right[None] - reads.by_next).min(axis=1, initial=-NOT_RIGHT)
    return out


def lasts(levels: Sequence[Level], widest: IntArray, enough: IntArray, reads: Reads) -> bool:
    """True if a second step can follow an exchange, from widths that no exchange exceeds."""
    right = Widths(levels, widest, enough)
    right.advance(after(right.now, reads))
    return covers(right.now, reads.by_any)
