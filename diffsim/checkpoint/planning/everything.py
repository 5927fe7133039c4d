"""Requests for so many states that the residuals of every step fit. Then no step is run twice."""

from __future__ import annotations

from diffsim.checkpoint.planning.costs import Sizes
from diffsim.checkpoint.planning.memory import auto_memory
from diffsim.checkpoint.schedule import AnySchedule
from diffsim.checkpoint.schedules.binomial import Binomial
from diffsim.checkpoint.schedules.store_all import StoreAll


def keeps_all(slots: int, steps: int, sizes: Sizes) -> bool:
    """True if a request for `slots` states is met by recording each step: the residuals take no more memory than the states.

    A request for a state of each step is a request to keep all steps: then residuals may take up to half of the available memory.
    """
    residuals = sizes.peak(StoreAll(steps))
    if residuals <= sizes.peak(Binomial(steps, min(slots, steps))):
        return True
    return slots >= steps and residuals <= auto_memory(residuals)


def simplified(schedule: AnySchedule, steps: int, sizes: Sizes) -> AnySchedule:
    """Replace a schedule that has a slot for each step, if the end of the run is known, by `StoreAll`. Return any other unchanged."""
    if schedule.states_only and schedule.slots >= steps and keeps_all(schedule.slots, steps, sizes):
        return StoreAll(steps)
    return schedule
