"""Resume after a crash with the states that are on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from diffsim.checkpoint.actions import Action, Free, Load, Save
from diffsim.checkpoint.schedule import Tier, Tiered
from diffsim.checkpoint.schedules.gaps import gaps_advances, reverse_gaps
from diffsim.checkpoint.schedules.splits import Kept


@dataclass(frozen=True)
class Continued(Tiered):
    """Reverse the first steps of a run when slow tiers hold some of its states already. The primal continues from the last of these states.

    The working state is the initial state. The schedule does not start with empty slots, so `simulate` cannot check it.

    Args:
        steps: number of steps still to be reversed.
        tiers: storage for states, the memory that the primal runs in first.
        stored: states that the slow tiers hold.
    """

    steps: int
    tiers: tuple[Tier, ...]
    stored: tuple[Kept, ...]

    @property
    def advances(self) -> int:
        return gaps_advances(self._kept, self.steps, self.slots)

    @property
    def first(self) -> int:
        """The step of the state from which the primal continues."""
        return self._kept[-1].step

    @property
    def _kept(self) -> list[Kept]:
        """The initial state and the useful stored states, in ascending order."""
        useful = {state.step: state for state in self.stored if 0 < state.step < self.steps}
        return [Kept(0, 0, 0), *(useful[step] for step in sorted(useful))]

    def actions(self) -> Iterator[Action]:
        """Return the actions: free useless states, load the last state, and reverse gap after gap."""
        kept = self._kept
        for state in self.stored:
            if state not in kept:
                yield Free(state.slot, state.tier)
        yield Save(0, 0)
        if len(kept) > 1:
            last = kept[-1]
            yield Load(last.step, last.slot, last.tier)
        yield from reverse_gaps(kept, self.steps, self.slots, end=True, ahead=True)
