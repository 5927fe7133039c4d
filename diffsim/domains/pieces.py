"""Pieces of a run: the steps between two exchanges, planned once and done again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffsim.domains.reach import Reach
from diffsim.domains.widths import Widths, after, covers
from diffsim.typing import IntArray

MOST_PIECES = 256
"""The most pieces that are kept."""


@dataclass(frozen=True)
class Narrowing:
    """Rows by which the windows of nests are narrower in the steps between two exchanges.

    Attributes:
        first: in the first step.
        more: in each step more than in the one before.
    """

    first: int
    more: int

    @classmethod
    def of(cls, unused: Sequence[int]) -> Narrowing:
        """As many as there are unused rows in each step at most."""
        first = unused[0]
        more = min(((rows - first) // number for number, rows in enumerate(unused) if number), default=0)
        return cls(first, more) if more >= 0 else cls(min(unused), 0)

    def after(self, steps: int) -> IntArray:
        """The numbers for a launch after some steps."""
        return np.array([self.first + steps * self.more, self.more], np.int32)


@dataclass(frozen=True)
class Piece:
    """Steps without an exchange between them.

    Attributes:
        taken: the numbers of the levels whose ghost cells are taken before the first step; None: no exchange.
        widths: those of the levels before each step.
        narrowing: of the windows of nests.
        end: the widths after the last step.
        full: whether a further step needs an exchange.
    """

    taken: IntArray | None
    widths: tuple[IntArray, ...]
    narrowing: Narrowing
    end: IntArray
    full: bool


class Pieces:
    """The pieces of forward runs.

    Which levels are exchanged, and how far each step computes, follows from the widths before. These come back after a few exchanges, so a
    piece is planned once: a rank that looks at all widths in each step takes a third of a millisecond for it, since a step of a large grid
    leaves nothing of Python in the caches.

    Args:
        right: the widths of states. `coming` changes them.
        reach: of the step.
    """

    def __init__(self, right: Widths, reach: Reach) -> None:
        self._right, self._reach = right, reach
        self._known: dict[tuple[bytes, bool, int], Piece] = {}

    def coming(self, steps: int, kept: bool) -> Piece:
        """The next piece, of at most `steps` steps. The widths are those after it from now on.

        Args:
            steps: that are left.
            kept: whether the adjoints of these steps will read what they keep.
        """
        now = self._right.now.tobytes()
        piece = self._known.get((now, kept, 0))
        if piece is None or len(piece.widths) > steps:
            piece = self._known.get((now, kept, steps))
        if piece is None:
            if len(self._known) >= MOST_PIECES:
                self._known.clear()
            piece = self._planned(steps, kept)
            self._known[now, kept, 0 if piece.full else steps] = piece
        self._right.now = piece.end
        return piece

    def _planned(self, steps: int, kept: bool) -> Piece:
        right, forward = self._right, self._reach.forward
        reads, taken = self._reach.of_states if kept else forward.by_any, None
        if not covers(right.now, reads):
            taken = right.old()
            right.exchanged(taken)
        widths, unused = list[IntArray](), list[int]()
        while len(unused) < steps and covers(right.now, reads):
            widths.append(right.now)
            width = after(right.now, forward)
            unused.append(0 if kept else right.unused(width))  # residuals are read as far as the states on which they depend are right
            right.advance(width, unused[-1])
        return Piece(taken, tuple(widths), Narrowing.of(unused), right.now, not covers(right.now, reads))
