"""The ways there are to keep what a reverse sweep needs: for each kind, the best schedule that a request allows.

A builder returns the schedule, or an int where the memory is too little: the smallest that works.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd

from diffsim.checkpoint.planning.costs import Costs, Sizes, slow_tiers
from diffsim.checkpoint.planning.everything import simplified
from diffsim.checkpoint.planning.memory import least_text, parse_memory
from diffsim.checkpoint.policy import Policy
from diffsim.checkpoint.schedule import OnlineSchedule, Schedule, Tier
from diffsim.checkpoint.schedules.binomial import Binomial
from diffsim.checkpoint.schedules.mixed import Mixed
from diffsim.checkpoint.schedules.multi_tier import MultiTier
from diffsim.checkpoint.schedules.online import Online
from diffsim.checkpoint.schedules.reversible import DEFAULT_SLOTS, Reversible
from diffsim.checkpoint.schedules.spilling import Spilling
from diffsim.checkpoint.schedules.store_all import StoreAll
from diffsim.errors import PlanError

Found = Schedule | OnlineSchedule | int
_RUNGS = 4
"""Sizes of memory that are tried for `Mixed`, for each factor of two."""


@dataclass(frozen=True)
class Request:
    """What is to be planned.

    Attributes:
        policy: what the user asks for.
        steps: of the run, or the most there may be.
        sizes: bytes.
        costs: seconds, or None if they were not measured.
        budget: bytes of memory that may be used; None: no limit but the policy's slots.
        online: whether the run may end before `steps`.
    """

    policy: Policy
    steps: int
    sizes: Sizes
    costs: Costs | None = None
    budget: int | None = None
    online: bool = False

    @property
    def compressed(self) -> bool:
        """Whether slower tiers make states smaller."""
        return self.policy.compression is not None

    @cached_property
    def tiers(self) -> list[Tier]:
        """The slower tiers that the policy gives room for, the faster first."""
        disk, host = (None if size is None else parse_memory(size) for size in (self.policy.disk, self.policy.host))
        return [replace(tier, slots=min(tier.slots, self.steps)) for tier in slow_tiers(self.sizes, self.costs, disk, host)]

    def slots(self, beside: int, most: int | None = None) -> int:
        """Slots in the first tier: those asked for, or as many as fit beside so many bytes; no more than make a difference."""
        if self.policy.slots is not None:
            return min(self.policy.slots, self.steps)
        assert self.budget is not None
        return min((self.budget - self.sizes.fixed - beside) // self.sizes.state, most or self.steps)

    def fits(self, need: int) -> bool:
        """Whether so many bytes may be used."""
        return self.budget is None or need <= self.budget


def build(kind: str, request: Request) -> Found:
    """The best schedule of a kind, or the least memory that there is one for.

    A kind that would keep each step's state gives way to `StoreAll`, where that fits and the number of steps is known. Within a memory
    and with seconds measured it does not: the faster one is chosen there.

    Raises:
        PlanError: there is none with any memory.
    """
    found = _BUILDERS[kind](request)
    if isinstance(found, int) or request.online or (request.budget is not None and request.costs is not None):
        return found
    stored = simplified(found, request.steps, request.sizes)
    return stored if request.fits(request.sizes.peak(stored)) else found


def _store_all(request: Request) -> Found:
    schedule = StoreAll(request.steps)
    need = request.sizes.peak(schedule)
    return schedule if request.fits(need) else need


def _binomial(request: Request) -> Found:
    sizes = request.sizes
    slots = request.slots(sizes.record)
    return Binomial(request.steps, slots) if slots >= 1 or request.policy.slots is not None else sizes.fixed + sizes.record + sizes.state


def _online(request: Request) -> Found:
    slots = request.slots(0)
    return Online(slots) if slots >= 1 or request.policy.slots is not None else request.sizes.fixed + request.sizes.state


def _slow(request: Request) -> list[Tier]:
    if not request.tiers:
        row = request.sizes.row
        assert row is not None
        raise PlanError(
            f"expected room for a state outside of the memory that steps run in, {least_text(request.sizes.on_disk(1))} on disk or "
            f"{least_text(row)} in the host's memory, got disk = {request.policy.disk!r} and host = {request.policy.host!r}; give as much "
            "by disk= (with folder=) or host=, or choose a schedule that keeps states in memory alone"
        )
    return request.tiers


def _with_tiers(request: Request, tiers: list[Tier], make: Callable[[int], Schedule]) -> Found:
    sizes = request.sizes
    beside = sizes.record + sum(sizes.buffers(tier, request.compressed) for tier in tiers if tier.name == "disk")
    # rows in the host's memory have a limit of their own
    slots = request.slots(beside)
    return make(slots) if slots >= 1 or request.policy.slots is not None else sizes.fixed + beside + sizes.state


def _multi_tier(request: Request) -> Found:
    tiers = _slow(request)
    return _with_tiers(request, tiers, lambda slots: MultiTier(request.steps, (Tier("device", slots), *tiers)))


def _spilling(request: Request) -> Found:
    tier = _slow(request)[-1]  # the slowest has most room, and its transfers hide
    return _with_tiers(request, [tier], lambda slots: Spilling(request.steps, slots, tier))


def _reversible(request: Request) -> Found:
    if request.costs is not None and request.costs.undo is None:
        raise PlanError('expected a step that can be undone for schedule = "reversible", got one that cannot; choose another schedule')
    sizes = request.sizes
    slots = request.slots(sizes.backwards, DEFAULT_SLOTS)
    if slots < 1 and request.policy.slots is None:
        return sizes.fixed + sizes.backwards + sizes.state
    return Reversible(request.steps, -(-request.steps // max(slots, 1)))


def _mixed(request: Request) -> Found:
    """With the most memory of a ladder of sizes that is enough for its states and its records at their most.

    Each has memory of its own, which may be needed at different times: together they take up to twice what the plan has at a time.
    The ladder does not depend on the budget, so more memory never gives a worse plan.
    """
    sizes, steps = request.sizes, request.steps
    if not sizes.record:
        return _store_all(request)  # records of nothing take no room
    unit = gcd(sizes.state, sizes.record)
    state, record = sizes.state // unit, sizes.record // unit
    if request.policy.slots is not None:
        return Mixed(steps, request.slots(0) * state + record, state, record)
    assert request.budget is not None
    least = min(steps * record, state + record)
    room = (request.budget - sizes.fixed) // unit
    if room >= steps * record:
        return Mixed(steps, steps * record, state, record)
    rungs = [least]
    while rungs[-1] < room:
        rungs.append(max(rungs[-1] + 1, -(-rungs[-1] * (2**_RUNGS + 3) // 2**_RUNGS)))
    for memory in reversed([rung for rung in rungs if rung <= room]):
        found = _planned(steps, memory, state, record)
        if sizes.peak(found) <= request.budget:
            return found
    return min(sizes.peak(StoreAll(steps)), sizes.peak(_planned(steps, least, state, record)))


@lru_cache(maxsize=64)
def _planned(steps: int, memory: int, state: int, record: int) -> Mixed:
    found = Mixed(steps, memory, state, record)
    assert found.forward  # plans, which takes up to a second or two
    return found


_BUILDERS: dict[str, Callable[[Request], Found]] = {
    "store_all": _store_all,
    "binomial": _binomial,
    "online": _online,
    "multi_tier": _multi_tier,
    "spilling": _spilling,
    "mixed": _mixed,
    "reversible": _reversible,
}
