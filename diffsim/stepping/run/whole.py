"""A run of all its steps in one launch that keeps what their adjoints need, and its reverse sweep in another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import TypeAlias

from diffsim.stepping.ir.levels import Ring, RingState
from diffsim.stepping.ir.program import Program
from diffsim.stepping.run.launcher import Launcher
from diffsim.stepping.run.storage import Storage
from diffsim.typing import IntArray

Levels: TypeAlias = Mapping[str, IntArray]
States: TypeAlias = Sequence[tuple[Ring, RingState]]


@dataclass(frozen=True)
class Whole:
    """The levels of a recorded run from state 0 and of its reverse sweep.

    They are the same in each run of as many steps. For a small system they take longer to compute than the steps.

    Attributes:
        steps: time steps of the run.
        program: the program that records them.
        forward: its levels.
        kept: what the rings of states hold after it.
        adjoint: the program of the reverse sweep.
        back: its levels.
        swept: what the rings hold after it.
    """

    steps: int
    program: Program
    forward: Levels
    kept: States
    adjoint: Program
    back: Levels
    swept: States

    @cached_property
    def _rings(self) -> list[Ring]:
        return [ring for ring, _ in self.swept]

    def fits(self, storage: Storage) -> bool:
        """True unless rings were made anew."""
        rings = [*storage.bars.values(), *storage.rings.values()]
        return len(rings) == len(self.swept) and all(map(is_, rings, self._rings))

    def record(self, launcher: Launcher) -> bool:
        """Run forward from state 0, if that is one launch; else return False."""
        return launcher.at_once(self.program, 0, self.steps, self.forward) and _restored(self.kept)

    def reverse(self, launcher: Launcher) -> bool:
        """Run the adjoints of all steps, after `record` and seeds for the cotangents, if that is one launch; else return False."""
        return launcher.at_once(self.adjoint, self.steps - 1, self.steps, self.back) and _restored(self.swept)


def _restored(states: States) -> bool:
    for ring, state in states:
        ring.restore(state)
    return True
