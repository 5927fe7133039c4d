"""Offline checkpointing in one memory that holds states to restart from and records of steps to reverse.

It is for steps whose adjoint needs more than the step's input, so that each step must be run once with its record. If the memory allows,
the step is recorded when the primal passes it, and is not run again. Let W(n, m) be the fewest steps run, recorded ones included, to
reverse n steps from the working state with m units of memory, where a state takes a units and a record b:

    W(1, m) = 1 if b <= m
    W(n, m) = min{ 1 + W(n-1, m - b), min over 1 <= i < n of i + W(n-i, m - a) + W(i, m) }

The first option keeps the record of step 0 until all other steps are reversed. The second keeps the first state, and loads it after n-i
steps are reversed.

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
"""Number of memory sizes that are tried within each factor of two."""


@dataclass(frozen=True)
class Mixed(Schedule, kind="mixed"):
    """The schedule with the fewest steps run, for steps that are reversed from records, in a memory that states and records share.

    It is optimal up to 1024 steps while the memory has at most 1024 different fillings. That holds for up to 1023 states of the size of a
    record, or some 40 states of another size. With more fillings, sizes are rounded up to 1/1024 to 1/768 of the memory, which usually
    loses nothing, and 16 % in the worst case seen. Longer runs are planned on two levels, blocks of ceil(steps / 1024) steps and the steps
    of a block, which loses 1 % on average, and 4 % in the worst case up to 3500 steps. Planning takes 0.05 s for 25 slots and a second or
    two for 1000, up to 10^6 steps. Beyond, it grows with the square of the steps.

    Args:
        steps: number of primal steps, at least 1.
        memory: size of the memory for states and records, in any unit, including the record that is being reversed.
        state: size of a kept state.
        record: size of the record of a step.

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
        """The shared memory."""
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
        """All of `steps`: each step is recorded once."""
        return self.steps

    @property
    def advances(self) -> int:
        """Steps run without being recorded."""
        return 0 if self._all_fits else self._plan.forward - self.steps

    @property
    def starts(self) -> int:
        """An estimate: a row of records lies between two kept states. Each takes three starts, where the adjoint of a step takes two."""
        rows = self.steps / max(1.0, self.recorded / (self.slots + 1))
        return ceil(1.5 * rows)

    @classmethod
    def fitted(cls, request: Request) -> Schedule | int:
        """The schedule with the largest memory, from a ladder of sizes, whose peak states and peak records fit together.

        States and records are allocated separately, and may have their peaks at different times. So together they need up to twice the
        memory of the plan. The ladder does not depend on the budget, so more memory never gives a worse plan.
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
            schedule = _planned(steps, memory, state, record)
            if sizes.peak(schedule) <= request.budget:
                return schedule
        return min(sizes.peak(StoreAll(steps)), sizes.peak(_planned(steps, least, state, record)))

    @property
    def _all_fits(self) -> bool:
        return self.steps * self.record <= self.memory

    @cached_property
    def _plan(self) -> MixedPlan:
        return MixedPlan(self.steps, self.memory, self.state, self.record)

    def actions(self) -> Iterator[Action]:
        """Return the actions in O(1) time each. The memory of the plan does not depend on the number of steps."""
        if self._all_fits:
            yield Record(0, self.steps)
            yield EndForward(self.steps)
            yield Reverse(0, self.steps)
            return
        yield from self._plan.moves(Pool(self.slots))


@lru_cache(maxsize=64)
def _planned(steps: int, memory: int, state: int, record: int) -> Mixed:
    schedule = Mixed(steps, memory, state, record)
    assert schedule.forward  # this makes the plan, which takes up to a second or two
    return schedule
