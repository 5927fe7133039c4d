"""Offline checkpointing in several tiers of memory. The slower tiers take time to write and to read.

Symbols of this file, with tiers counted from 0, the memory that the primal runs in:
    c_k, w_k, r_k: slots of tier k, and the costs of a save to it and a load from it, in steps. w_0 = r_0 = 0.
    F_k(l): the least cost of reversing l steps with tiers 0..k, all empty, the working state being the first state.
    O_m(l): the same with m slots left in tier k. O_0 = F_{k-1}, and F_k = O_{c_k}.
    P_m(l): the same if tier k keeps the first state already, in one of the m slots.

    F_0(l) = t(l, c_0)
    O_m(l) = min{F_{k-1}(l), w_k + P_m(l)}
    P_m(l) = min{F_{k-1}(l), min over 1 <= j < l of j + O_{m-1}(l - j) + r_k + P_m(j)}

So states of a slower tier split the run into segments, and faster tiers serve one segment at a time. The costs count advances, saves
and loads, but not the one recorded step. A load counts in full, although it starts while the later segment is being reversed: a
stepper that overlaps both is faster than the predicted cost.

Reference: J. Herrmann and G. Pallez (Aupy), 2020, H-Revolve, ACM TOMS 46(2), 14, doi:10.1145/3378672, section 4.
    Departures: any number of tiers by the same recursion; states of slower tiers on a grid for long runs; and for these also the
    periodic placement of G. Aupy and J. Herrmann, 2017, Periodicity in optimal hierarchical checkpointing schemes for adjoint
    computations, Optim. Methods Softw. 32(3), 594-624, doi:10.1080/10556788.2016.1230612.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, pairwise

from diffsim.base.messages import shown
from diffsim.checkpoint.actions import Action, Advance, Fetch, Load
from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import Tier, Tiered, require_count
from diffsim.checkpoint.schedules.splits import Pool, reverse_segment, starts
from diffsim.checkpoint.schedules.tier_plan import Leaf, Plan, best_plan
from diffsim.errors import PlanError


@dataclass(frozen=True)
class MultiTier(Tiered, kind="multi_tier"):
    """The cheapest schedule of the hierarchical model, in which faster tiers serve one segment of a slower one at a time.

    It is optimal up to 1024 steps. For longer runs, slower tiers keep only states at multiples of ceil(steps / 1024) steps, or evenly
    spaced ones, whichever is cheaper. Compared with the optimum for up to 4000 steps, that loses 0.4 % on average, at most 4 % with 5 slots
    or more in the first tier, and at most 13 % with a single slot. Planning takes up to half a second, and memory that does not depend on
    the number of steps.

    Args:
        steps: number of primal steps, at least 1.
        tiers: at least one `Tier` or tuple (name, slots, write_cost, read_cost), fastest first, with costs in steps of the primal. The
            costs of the first must be 0. A transfer that overlaps with steps costs less: see `Spilling`.

    Raises:
        ScheduleError: a count is not a positive integer.
        PlanError: the tiers are invalid.

    Example:
        from diffsim.checkpoint import Binomial, MultiTier, Tier

        disk = Tier("disk", slots=100, write_cost=2.0, read_cost=2.0)  # a transfer takes as long as two steps
        schedule = MultiTier(steps=1000, tiers=(Tier("device", 5), disk))
        assert schedule.cost < Binomial(1000, 5).cost  # the disk pays
    """

    steps: int
    tiers: tuple[Tier, ...]
    states_only = True
    needs_slow_tiers = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", require_count("steps", self.steps))
        object.__setattr__(self, "tiers", require_tiers(self.tiers))

    @property
    def advances(self) -> int:
        """Primal steps run by `Advance`."""
        return self._plan.advances

    @cached_property
    def starts(self) -> int:
        """How many runs over consecutive steps start, without the one or two that the recorded last step adds."""
        leaf = lru_cache(maxsize=None)(starts)
        return sum(
            leaf(move.stop - move.start, self.slots) if isinstance(move, Leaf) else isinstance(move, Advance) for move in self._plan.moves()
        )

    @property
    def waits(self) -> float:
        """The costs of all transfers, as if the run waited for each."""
        return self._plan.cost - self._plan.advances

    @classmethod
    def fitted(cls, request: Request) -> MultiTier | int:
        """The schedule with as many slots as fit into the memory, or the least memory that it needs."""
        tiers = request.require_tiers()
        beside = request.beside_tiers(tiers)
        slots = request.slots_beside(beside)
        enough = slots >= 1 or request.slots is not None
        return cls(request.steps, (Tier("device", slots), *tiers)) if enough else request.least(beside)

    @cached_property
    def _plan(self) -> Plan:
        return best_plan(self.steps, self.tiers)

    def actions(self) -> Iterator[Action]:
        """Return the actions: planned ones in slower tiers, and binomial ones in the first tier between them."""
        pool = Pool(self.slots)
        for move, following in pairwise(chain(self._plan.moves(), [None])):
            if isinstance(move, Leaf):
                if isinstance(following, Load):
                    yield Fetch(following.step, following.slot, following.tier)
                yield from reverse_segment(move.start, move.stop, pool, end=move.stop == self.steps)
            elif move is not None:
                yield move


def require_tiers(tiers: Sequence[Tier | tuple[str, int, float, float]]) -> tuple[Tier, ...]:
    """Return the tiers as a tuple of `Tier` with plain numbers.

    Raises:
        ScheduleError: a number of slots is not a positive integer.
        PlanError: `tiers` is empty, the first has costs, or a cost is negative or not finite.
    """
    checked = []
    for entry in tiers:
        tier = entry if isinstance(entry, Tier) else Tier(*entry)
        write, read = float(tier.write_cost), float(tier.read_cost)
        if not (0 <= write < math.inf and 0 <= read < math.inf):
            raise PlanError(
                f"expected costs of tier {shown(tier.name)} from 0 steps up, got write_cost = {tier.write_cost}, "
                f"read_cost = {tier.read_cost}; give the cost of a transfer in steps of the primal"
            )
        checked.append(Tier(tier.name, require_count(f"slots of tier {tier.name!r}", tier.slots), write, read))
    if not checked:
        raise PlanError("expected at least one tier, got none; give the memory that the primal runs in first")
    if checked[0].write_cost or checked[0].read_cost:
        raise PlanError(
            f"expected a first tier that costs nothing, got {checked[0]}; splits within it are counted in steps alone: "
            "put the memory that the primal runs in first, or add the cost of its copies to that of a step"
        )
    return tuple(checked)
