"""Compute a gradient: a forward run that stores states as its schedule says, then the reverse sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from diffsim.checkpoint import AnySchedule, Binomial, OnlineSchedule, Policy, choose, parse_memory
from diffsim.checkpoint.planning.memory import least_text
from diffsim.checkpoint.schedules.continued import Continued
from diffsim.checkpoint.stores import found_states, open_stores
from diffsim.errors import ParameterError, PlanError, StorageError
from diffsim.simulation.compiled import Compiled
from diffsim.simulation.options import RunOptions
from diffsim.simulation.reversal import Reversal
from diffsim.simulation.sizes import made_up, sizes_of
from diffsim.simulation.solution import Solution
from diffsim.simulation.suspended import Found, Suspension, copied, require_same_traces, run_key, same
from diffsim.stepping.points import PointTable
from diffsim.stepping.undo import why_not
from diffsim.typing import Array

Back: TypeAlias = Callable[[Solution], dict[str, Array]]
"""A reverse sweep from the storage after the forward run. It can run once, before another run uses the storage."""


@dataclass(frozen=True)
class Call:
    """Everything that decides a forward run and its reverse sweep.

    Attributes:
        fields: inputs by name, in memory that nobody else writes to.
        steps: time steps, or the most there may be.
        points: places of sources and receivers.
        options: all other settings.
    """

    fields: dict[str, Array]
    steps: int
    points: Mapping[str, PointTable]
    options: RunOptions


def forward(compiled: Compiled, call: Call) -> tuple[Solution, Back]:
    """Run forward in the existing storage, and prepare the reverse sweep."""
    fields, steps, options, policy = call.fields, call.steps, call.options, call.options.policy
    if policy.resume > 0 and options.online:  # a condition cannot be identified in another process
        raise ParameterError(
            "expected no until= with Policy(resume=...), got both: a sweep whose run ended by a condition is not resumed; give "
            "the number of steps, or leave resume out"
        )
    schedule = schedule_of(compiled, policy, steps, options.online, fields)
    compiled.reserve(schedule, policy)
    coefficients = compiled.start(fields, steps, undone=schedule.runs_backwards)
    suspension = None
    if policy.resume > 0:
        suspension = Suspension(policy, run_key(compiled, fields, steps, schedule, policy))
        found = suspension.found()
        if found is not None:
            return _resumed(compiled, call, coefficients, suspension, found)
    reversal = Reversal(compiled.stepper, schedule, options, steps, "" if suspension is None else suspension.key)
    compiled.wait(reversal)
    solution = compiled.solution()
    kept = None if suspension is None else copied(solution)  # a user may edit what is returned

    def back(cotangents: Solution) -> dict[str, Array]:
        stepper, keeper = compiled.stepper, None
        if suspension is not None and kept is not None:
            keeper = suspension.keeper(kept, cotangents, stepper.cotangent_arrays)
        compiled.last_sweep = reversal.reverse(lambda: stepper.seed(cotangents.final, cotangents.traces), keeper)
        if suspension is not None:
            suspension.remove()
        return compiled.gradient(fields, coefficients, steps)

    return solution, back


def _resumed(compiled: Compiled, call: Call, coefficients: dict[str, Array], suspension: Suspension, found: Found) -> tuple[Solution, Back]:
    """The result of `forward` for a run whose reverse sweep was interrupted."""
    fields, steps, stepper, remaining = call.fields, call.steps, compiled.stepper, found.remaining
    policy = call.options.policy
    whole = schedule_of(compiled, policy, steps, fields=fields)
    schedule = _schedule_of_rest(compiled, call, whole, remaining)
    stores, first = None, 0
    if whole.slow_tiers:
        stores = open_stores(whole, stepper.state_arrays, policy, suspension.key, again=True)
        schedule = Continued(remaining, whole.all_tiers, found_states(stores))
        first = schedule.first
    compiled.reserve(schedule, policy)
    compiled.start(fields, steps, undone=schedule.runs_backwards)
    reversal = Reversal(stepper, schedule, call.options, remaining, suspension.key, stores)
    compiled.wait(reversal)
    try:
        require_same_traces(stepper.traces(), found.solution.traces, range(first + 1, remaining + 1))
    except StorageError:
        reversal.close()
        raise

    def back(cotangents: Solution) -> dict[str, Array]:
        if not same(cotangents, found.seeds):  # another loss: the sweep that was kept is of no use
            reversal.close()
            suspension.remove()
            return forward(compiled, call)[1](cotangents)

        def seed() -> None:
            stepper.seed(found.seeds.final, found.seeds.traces)
            stepper.set_cotangent(found.moving)

        keeper = suspension.keeper(found.solution, found.seeds, stepper.cotangent_arrays)
        compiled.last_sweep = reversal.reverse(seed, keeper)
        suspension.remove()
        return compiled.gradient(fields, coefficients, steps)

    return copied(found.solution), back


def _schedule_of_rest(compiled: Compiled, call: Call, whole: AnySchedule, remaining: int) -> AnySchedule:
    """The schedule for the steps that are still to be reversed. The number of steps is known now."""
    policy = call.options.policy
    same_period = replace(policy, schedule=whole, memory=None, slots=None) if whole.runs_backwards else policy
    found = schedule_of(compiled, same_period.for_rest(remaining), remaining, fields=call.fields)
    return Binomial(remaining, min(found.slots, remaining)) if isinstance(found, OnlineSchedule) else found


def schedule_of(
    compiled: Compiled, policy: Policy, steps: int, online: bool = False, fields: Mapping[str, Array] | None = None
) -> AnySchedule:
    """The schedule of a policy, chosen by memory and numbers of steps alone.

    Args:
        compiled: the simulation to differentiate.
        policy: the user's policy.
        steps: time steps, or their maximum.
        online: whether the run may end early.
        fields: inputs; None: damped cells are counted as if parameters were 1.

    Raises:
        PlanError: the memory is too little, or steps cannot be undone.
        ScheduleError: a schedule is for another number of steps.
    """
    if not policy.runs_backwards:
        return choose(policy, steps, sizes_of(compiled, steps), online=online).schedule
    require_undoable(compiled)
    sizes = sizes_of(compiled, steps, made_up(compiled, steps) if fields is None else fields)
    found = choose(policy, steps, sizes, online=online).schedule
    if policy.memory is not None and sizes.peak(found) > parse_memory(policy.memory):
        raise PlanError(
            f"expected a memory of at least {least_text(sizes.peak(found))} for {found!r} with the cells that these inputs damp, got "
            f"{policy.memory}; plan with these inputs, or raise the memory"
        )
    return found


def require_undoable(compiled: Compiled) -> None:
    """Raise PlanError unless steps can be run backwards."""
    if compiled.stepper.backwards is None:
        raise PlanError(
            f'expected a step that can be undone for schedule = "reversible", got one that cannot: {why_not(compiled.step)}; '
            "choose another schedule"
        )
