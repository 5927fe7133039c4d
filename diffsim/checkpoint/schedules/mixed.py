"""Offline checkpointing in one memory that holds states to restart from and records of steps to reverse.

For steps whose adjoint needs more than the step's input, so that each is run once with its record. Where a record is affordable, the step
is recorded when it is passed and not run for it again. With W(n, m) the fewest steps run, recorded ones included, to reverse n steps from
the working state with m units of memory, a state taking a and a record b of them:

    W(1, m) = 1 if b <= m
    W(n, m) = min{ 1 + W(n-1, m - b), min over 1 <= i < n of i + W(n-i, m - a) + W(i, m) }

The first keeps the record of step 0 until all others are reversed; the second keeps the first state, and loads it when n-i steps are.

Reference: J. R. Maddison, 2024, Step-based checkpointing with high-level algorithmic differentiation, J. Comput. Sci. 82, 102405,
    doi:10.1016/j.jocs.2024.102405, section 3. Departure: unequal sizes, as in the persistent model of O. Beaumont et al., 2019, Optimal
    checkpointing for heterogeneous chains, arXiv:1911.13214.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, gcd

from diffsim.checkpoint.actions import Action, EndForward, Record, Reverse
from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import Schedule, Shared, require_count
from diffsim.checkpoint.schedules.mixed_plan import MixedPlan
from diffsim.checkpoint.schedules.splits import Pool
from diffsim.checkpoint.schedules.store_all import StoreAll
from diffsim.errors import PlanError

_RUNGS = 4
"""Sizes of memory that are tried, for each factor of two."""


@dataclass(frozen=True)
class Mixed(Schedule):
    """The fewest steps run, for steps that are reversed from records, in a memory that states and records share.

    Exact up to 1024 steps while the memory has at most 1024 different fillings, as it has for up to 1023 states of the size of a record,
    or some 40 states of another size. Otherwise sizes are rounded up to 1/1024 to 1/768 of the memory, which loses nothing as a rule
    and 16 % at the worst seen, and long runs are planned on two levels, blocks of ceil(steps / 1024) steps and the steps of a block,
    which loses 1 % on the mean and 4 % at the worst up to 3500 steps. Planning takes 0.05 s for 25 slots, a second or two for 1000, up to
    10^6 steps; beyond it grows with the square of the steps.

    Args:
        steps: number of primal steps, at least 1.
        memory: what states and records may take together, in any unit, the record that is being reversed included.
        state: what a kept state takes.
        record: what the record of a step takes.

    Raises:
        ScheduleError: an argument is not a positive integer.
        PlanError: the memory is too small for a state and a record.

    Example:
        from diffsim.checkpoint import Mixed, Shared, simulate

        schedule = Mixed(steps=500, memory=60, state=1, record=3)  # the record of a step is as large as three states
        assert isinstance(schedule.shared, Shared) and schedule.shared.total == 60
        assert simulate(schedule).recorded == schedule.all_recorded
    """

    steps: int
    memory: int
    state: int = 1
    record: int = 1

    def __post_init__(self) -> None:
        for name in ("steps", "memory", "state", "record"):
            object.__setattr__(self, name, require_count(name, getattr(self, name)))
        least = min(self.steps * self.record, self.state + self.record)
        if self.memory < least:
            raise PlanError(
                f"expected a memory of at least {least} for {self.steps} steps, states of {self.state} and records of {self.record}, "
                f"got {self.memory}; raise the memory, or make states and records smaller"
            )

    @property
    def shared(self) -> Shared:
        """The memory."""
        return Shared(self.memory, self.state, self.record)

    @property
    def slots(self) -> int:
        """Most states kept at a time."""
        return 0 if self._all_fits else self._plan.slots

    @property
    def recorded(self) -> int:
        """Most steps held in records at a time."""
        return self.steps if self._all_fits else self._plan.recorded

    @property
    def all_recorded(self) -> int:
        """Steps that are recorded at some time: all, each once."""
        return self.steps

    @property
    def advances(self) -> int:
        """Steps run without being recorded."""
        return 0 if self._all_fits else self._plan.forward - self.steps

    @property
    def starts(self) -> int:
        """About: between two kept states lies a row of records. Each takes three starts, where the adjoint of a step takes two."""
        rows = self.steps / max(1.0, self.recorded / (self.slots + 1))
        return ceil(1.5 * rows)

    @classmethod
    def fitted(cls, request: Request) -> Schedule | int:
        """The schedule with the most memory of a ladder of sizes that is enough for its states and its records at their most.

        Each has memory of its own, which may be needed at different times: together they take up to twice what the plan has at a time.
        The ladder does not depend on the budget, so more memory never gives a worse plan.
        """
        sizes, steps = request.sizes, request.steps
        if not sizes.record:
            return StoreAll.fitted(request)  # records of nothing take no room
        unit = gcd(sizes.state, sizes.record)
        state, record = sizes.state // unit, sizes.record // unit
        if request.slots is not None:
            return cls(steps, request.slots_beside(0) * state + record, state, record)
        assert request.budget is not None
        least = min(steps * record, state + record)
        room = (request.budget - sizes.fixed) // unit
        if room >= steps * record:
            return cls(steps, steps * record, state, record)
        rungs = [least]
        while rungs[-1] < room:
            rungs.append(max(rungs[-1] + 1, -(-rungs[-1] * (2**_RUNGS + 3) // 2**_RUNGS)))
        for memory in reversed([rung for rung in rungs if rung <= room]):
            found = _planned(steps, memory, state, record)
            if sizes.peak(found) <= request.budget:
                return found
        return min(sizes.peak(StoreAll(steps)), sizes.peak(_planned(steps, least, state, record)))

    @property
    def _all_fits(self) -> bool:
        return self.steps * self.record <= self.memory

    @cached_property
    def _plan(self) -> MixedPlan:
        return MixedPlan(self.steps, self.memory, self.state, self.record)

    def actions(self) -> Iterator[Action]:
        """Return the actions in O(1) time each; the plan takes memory that does not depend on the steps."""
        if self._all_fits:
            yield Record(0, self.steps)
            yield EndForward(self.steps)
            yield Reverse(0, self.steps)
            return
        yield from self._plan.moves(Pool(self.slots))


@lru_cache(maxsize=64)
def _planned(steps: int, memory: int, state: int, record: int) -> Mixed:
    found = Mixed(steps, memory, state, record)
    assert found.forward  # plans, which takes up to a second or two
    return found
