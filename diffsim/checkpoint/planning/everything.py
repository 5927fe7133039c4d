"""Requests for so many states that every step's record can be kept: no step need be run twice then."""

from __future__ import annotations

from diffsim.checkpoint.planning.costs import Sizes
from diffsim.checkpoint.planning.memory import AUTO_FRACTION
from diffsim.checkpoint.schedule import AnySchedule
from diffsim.checkpoint.schedules.binomial import Binomial
from diffsim.checkpoint.schedules.store_all import StoreAll
from diffsim.system import available_memory


def keeps_all(slots: int, steps: int, sizes: Sizes) -> bool:
    """Whether so many states are as good as a record of each step.

    They are if the records take no more memory than the states would. A state for each step means that all is to be kept: then records
    may take more, up to half of the memory that is available.
    """
    records = sizes.peak(StoreAll(steps))
    if records <= sizes.peak(Binomial(steps, min(slots, steps))):
        return True
    return slots >= steps and records <= AUTO_FRACTION * available_memory()


def simplified(schedule: AnySchedule, steps: int, sizes: Sizes) -> AnySchedule:
    """`StoreAll` in place of a schedule that has a slot for each step of a run whose end is known; any other schedule as it is."""
    if schedule.states_only and schedule.slots >= steps and keeps_all(schedule.slots, steps, sizes):
        return StoreAll(steps)
    return schedule
