"""Choose a schedule by the memory it may take.

Memory is counted in whole states. A run takes `working_bytes` (working state, cotangent, gradients of parameters, buffers), a state
for each slot, and `recorded_bytes` for each step in the record.
"""

from __future__ import annotations

import operator

from diffsim.checkpoint.binomial import Binomial
from diffsim.checkpoint.memory import available_memory, parse_memory
from diffsim.checkpoint.online import Online
from diffsim.checkpoint.policy import Checkpoint, Policy
from diffsim.checkpoint.schedule import OnlineSchedule, Schedule, require_count
from diffsim.checkpoint.store_all import StoreAll
from diffsim.errors import ParameterError, PlanError, ScheduleError

AUTO_FRACTION = 0.5  # of the available memory: the rest is for what is allocated later, by this process and by others


def choose(steps: int, state_bytes: int, budget_bytes: int, recorded_bytes: int | None = None, working_bytes: int = 0) -> Schedule:
    """Return the schedule that repeats the fewest steps within a memory budget.

    Args:
        steps: number of primal steps.
        state_bytes: bytes of a state kept in a slot.
        budget_bytes: bytes that may be used.
        recorded_bytes: bytes that a recorded step takes; by default `state_bytes`.
        working_bytes: bytes in use whatever the schedule.

    Returns:
        `StoreAll` when all recorded steps fit, and otherwise `Binomial` with the most slots that fit beside one recorded step.

    Raises:
        PlanError: not even one slot fits; the message names the smallest budget that works.
        ParameterError: sizes that cannot be.
        ScheduleError: `steps` is not a positive integer.
    """
    steps = require_count("steps", steps)
    state_bytes = _require_bytes("state_bytes", state_bytes, 1)
    recorded_bytes = state_bytes if recorded_bytes is None else _require_bytes("recorded_bytes", recorded_bytes, 0)
    working_bytes = _require_bytes("working_bytes", working_bytes, 0)
    budget_bytes = _require_bytes("budget_bytes", budget_bytes, 0)

    if working_bytes + steps * recorded_bytes <= budget_bytes:
        return StoreAll(steps)
    slots = (budget_bytes - working_bytes - recorded_bytes) // state_bytes
    if slots < 1:
        smallest = working_bytes + recorded_bytes + min((steps - 1) * recorded_bytes, state_bytes)  # all recorded, or one slot
        raise PlanError(
            f"expected a budget of at least {smallest} bytes for {steps} steps with states of {state_bytes} bytes, "
            f"got {budget_bytes} bytes; raise the budget, or make the state smaller by a coarser grid or lower precision"
        )
    return Binomial(steps, min(slots, steps))


def resolve(
    checkpoint: Checkpoint, steps: int, state_bytes: int, working_bytes: int = 0, recorded_bytes: int | None = None, online: bool = False
) -> Schedule | OnlineSchedule:
    """Return the schedule that a user's `checkpoint=` argument asks for.

    Args:
        checkpoint: "auto" for half of the available memory, a size of memory such as "4 GB", a number of slots, a schedule, or a policy.
        steps: number of primal steps, or the most there may be.
        state_bytes: bytes of a state kept in a slot.
        working_bytes: bytes in use whatever the schedule.
        recorded_bytes: bytes that a recorded step takes; by default `state_bytes`.
        online: whether the run may end before.

    Raises:
        PlanError: the memory cannot work, or more slots than steps are asked for.
        ParameterError: `checkpoint` is none of these.
        ScheduleError: the schedule is for another number of steps, or a count is below one.
    """
    policy = Policy.of(checkpoint)
    schedule = policy.schedule
    if isinstance(schedule, OnlineSchedule):
        return schedule
    if isinstance(schedule, Schedule):
        if online:
            raise ScheduleError(f"expected an online schedule for a run that may end early, got {schedule!r}; use Online({schedule.slots})")
        if schedule.steps != steps:
            raise ScheduleError(f"expected a schedule of {steps} steps, got {schedule!r} of {schedule.steps}; make one of {steps} steps")
        return schedule
    if online:
        slots = policy.slots
        if slots is None:
            found = choose(steps, state_bytes, _budget(policy), state_bytes, working_bytes)
            slots = max(found.slots, min(found.recorded, steps))
        return Online(slots)
    if policy.slots is not None:
        return Binomial(steps, policy.slots)
    return choose(steps, state_bytes, _budget(policy), recorded_bytes, working_bytes)


def _budget(policy: Policy) -> int:
    return int(AUTO_FRACTION * available_memory()) if policy.memory is None else parse_memory(policy.memory)


def peak_states(schedule: Schedule) -> int:
    """Return how many states a schedule keeps at most, in slots and record together, the working state not counted.

    A bound that holds for every schedule which keeps no state twice; `simulate` counts the exact number.
    """
    return min(schedule.slots + schedule.recorded, schedule.steps)


def _require_bytes(name: str, value: int, least: int) -> int:
    try:
        size = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        size = -1
    if size < least:
        raise ParameterError(f"expected {name} to be an integer of at least {least}, got {value!r}; give whole bytes")
    return size
