"""What is to be planned, as the kinds of schedule see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diffsim.checkpoint.planning.costs import Costs, Sizes
from diffsim.checkpoint.planning.memory import least_text
from diffsim.checkpoint.schedule import Tier
from diffsim.errors import PlanError


@dataclass(frozen=True)
class Request:
    """What is to be planned.

    Attributes:
        steps: time steps, or the most there may be.
        sizes: bytes.
        costs: seconds, or None if they were not measured.
        budget: bytes of memory that may be used; None: no limit but `slots`.
        slots: states in the first tier that were asked for; None: as many as the budget allows.
        tiers: the slower tiers that there is room for, the faster first.
        compressed: whether slower tiers make states smaller.
        online: whether the run may end before `steps`.
        outside: what was given for slower tiers, for an error.
    """

    steps: int
    sizes: Sizes
    costs: Costs | None = None
    budget: int | None = None
    slots: int | None = None
    tiers: tuple[Tier, ...] = ()
    compressed: bool = False
    online: bool = False
    outside: str = ""

    def slots_beside(self, beside: int, most: int | None = None) -> int:
        """Slots in the first tier: those asked for, or as many as fit beside so many bytes; no more than make a difference."""
        if self.slots is not None:
            return min(self.slots, self.steps)
        assert self.budget is not None
        return min((self.budget - self.sizes.fixed - beside) // self.sizes.state, most or self.steps)

    def least(self, beside: int) -> int:
        """The least memory with a slot beside so many bytes."""
        return self.sizes.fixed + beside + self.sizes.state

    def fits(self, need: int) -> bool:
        """Whether so many bytes may be used."""
        return self.budget is None or need <= self.budget

    def beside_tiers(self, tiers: Sequence[Tier]) -> int:
        """Bytes beside the slots of the first tier: a record, and buffers. Rows in the host's memory have a limit of their own."""
        buffers = (self.sizes.buffers(tier, self.compressed) for tier in tiers if tier.name == "disk")
        return self.sizes.record + sum(buffers)

    def require_tiers(self) -> tuple[Tier, ...]:
        """The slower tiers.

        Raises:
            PlanError: there is none.
        """
        if not self.tiers:
            row = self.sizes.row
            assert row is not None
            raise PlanError(
                f"expected room for a state outside of the memory that steps run in, {least_text(self.sizes.on_disk(1))} on disk or "
                f"{least_text(row)} in the host's memory, got {self.outside}; give as much by disk= (with folder=) or host=, or choose a "
                "schedule that keeps states in memory alone"
            )
        return self.tiers
