"""A request to the planner, which each kind of schedule reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diffsim.checkpoint.planning.costs import Costs, Sizes
from diffsim.checkpoint.planning.memory import least_text
from diffsim.checkpoint.schedule import Tier
from diffsim.errors import PlanError


@dataclass(frozen=True)
class Request:
    """A request to the planner, from which `fitted` of each kind makes a schedule.

    Attributes:
        steps: time steps, or their maximum.
        sizes: bytes of the parts of a gradient.
        costs: seconds of the parts, or None if they were not measured.
        budget: allowed bytes of memory; None: only `slots` limits it.
        slots: requested states in the first tier; None: as many as the budget allows.
        tiers: the available slower tiers, the fastest first.
        compressed: whether slower tiers make states smaller.
        online: whether the run may end before `steps`.
        outside: the user's settings for slower tiers, for an error.
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
        """Slots in the first tier: the requested number, or as many as fit if `beside` bytes are used; no more than the schedule can
        use."""
        if self.slots is not None:
            return min(self.slots, self.steps)
        assert self.budget is not None
        return min((self.budget - self.sizes.fixed - beside) // self.sizes.state, most or self.steps)

    def least(self, beside: int) -> int:
        """The least memory for one slot and `beside` more bytes."""
        return self.sizes.fixed + beside + self.sizes.state

    def fits(self, need: int) -> bool:
        """True if `need` bytes are allowed."""
        return self.budget is None or need <= self.budget

    def beside_tiers(self, tiers: Sequence[Tier]) -> int:
        """Bytes of what the last step keeps and of buffers, without the slots of the first tier. Rows in the host's memory have a limit of
        their own."""
        buffers = (self.sizes.buffers(tier, self.compressed) for tier in tiers if tier.name == "disk")
        return self.sizes.last + sum(buffers)

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
