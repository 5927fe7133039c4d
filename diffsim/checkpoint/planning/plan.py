"""Choose how a reverse sweep stores its states, by memory and time, and predict the costs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from html import escape
from os import PathLike

from diffsim.base.arguments import plural
from diffsim.base.messages import shown
from diffsim.checkpoint.planning.costs import Costs, Sizes, slow_tiers
from diffsim.checkpoint.planning.memory import AUTO_FRACTION as AUTO_FRACTION
from diffsim.checkpoint.planning.memory import auto_memory, grouped, least_text, memory_text, parse_memory
from diffsim.checkpoint.planning.option import Measured, Option
from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.policy import Checkpoint, Policy
from diffsim.checkpoint.schedule import AUTO, KINDS, AnySchedule, Schedule, require_count
from diffsim.checkpoint.schedules.binomial import Binomial
from diffsim.checkpoint.schedules.mixed import Mixed
from diffsim.checkpoint.schedules.multi_tier import MultiTier
from diffsim.checkpoint.schedules.online import Online
from diffsim.checkpoint.schedules.partly_recorded import PartlyRecorded
from diffsim.checkpoint.schedules.spilling import Spilling
from diffsim.checkpoint.schedules.store_all import StoreAll
from diffsim.errors import PlanError, ScheduleError

MEMORY_MARGIN, TIME_MARGIN = 0.05, 0.25
"""Allowed relative differences between measurement and prediction."""


@dataclass(frozen=True)
class Comparison:
    """A prediction and a measurement."""

    predicted: Option
    measured: Measured

    @property
    def memory_ratio(self) -> float:
        """Measured peak over the predicted one."""
        return self.measured.peak / self.predicted.peak

    @property
    def time_ratio(self) -> float | None:
        """Measured seconds over the predicted ones, or None if there were none."""
        return None if not self.predicted.seconds else self.measured.seconds / self.predicted.seconds

    @property
    def held(self) -> bool:
        """True if the prediction was right within the margins: 5 % for memory and 25 % for time."""
        time = self.time_ratio
        return abs(self.memory_ratio - 1) <= MEMORY_MARGIN and (time is None or abs(time - 1) <= TIME_MARGIN)

    def __str__(self) -> str:
        from diffsim.checkpoint.planning.table import comparison_text  # late: rich is needed for this alone

        return comparison_text(self.predicted, self.measured, self.memory_ratio, self.time_ratio)


@dataclass(frozen=True)
class Plan:
    """A plan for the gradient of a run, with its predicted costs. Pass it as `checkpoint=`.

    Attributes:
        policy: the requested policy.
        steps: time steps, or their maximum.
        sizes: bytes of the parts of a gradient.
        costs: seconds of the parts, or None if they were not measured.
        budget: allowed bytes of memory, or None for no limit.
        chosen: the chosen option.
        others: other options: slower ones, and some that need more memory.
        notes: lines about the run that is planned.
    """

    policy: Policy
    steps: int
    sizes: Sizes
    costs: Costs | None
    budget: int | None
    chosen: Option
    others: tuple[Option, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def schedule(self) -> AnySchedule:
        """The chosen schedule."""
        return self.chosen.schedule

    def as_policy(self) -> Policy:
        """The policy that runs the plan."""
        return replace(self.policy, schedule=self.schedule, slots=None)

    def compare(self, measured: Measured) -> Comparison:
        """Compare the prediction with a measurement."""
        return Comparison(self.chosen, measured)

    def draw(self, path: str | PathLike[str]) -> None:
        """Write a picture of the schedule: the step in progress and the stored states, over the work done."""
        from diffsim.checkpoint.planning.draw import draw  # late: Matplotlib takes a third of a second to import

        draw(self.schedule, self.steps, path, self.costs, self.chosen.peak, self.chosen.disk)

    def __str__(self) -> str:
        from diffsim.checkpoint.planning.table import plan_text  # late: rich is needed for this alone

        options = (self.chosen, *sorted(self.others, key=lambda option: (not option.fits, option.rank)))
        return "\n".join([plan_text(self.steps, self._limit, options, self.sizes, self.costs), *self.notes])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    @property
    def _limit(self) -> str:
        """The requested limit, as text."""
        if self.budget is not None:
            return f"at most {memory_text(self.budget)} of memory"
        slots = self.policy.slots
        return "by the given schedule" if slots is None else f"at most {plural(slots, 'state')} in memory"


def choose(policy: Policy, steps: int, sizes: Sizes, costs: Costs | None = None, online: bool = False) -> Plan:
    """Choose the fastest schedule that a policy allows.

    Args:
        policy: memory or slots, and the allowed kinds of schedule and storage.
        steps: number of primal steps, or its maximum.
        sizes: bytes of the parts of a gradient.
        costs: seconds of the parts. None: the schedule with the fewest steps counts as the fastest, and residuals as no better than
            states.
        online: whether the run may end early.

    Returns:
        The plan. If `costs` are given, it also has the alternatives.

    Raises:
        PlanError: the memory is too little, and the message names the smallest that works.
        ScheduleError: the schedule is for another number of steps, or cannot reverse a run that ends early.

    Example:
        from diffsim.checkpoint import Comparison, Costs, Measured, Option, Plan, Planned, Policy, Sizes, choose

        # 10 000 steps of a state of 4 MB in 100 MB, with seconds that were measured on a few steps.
        sizes = Sizes(state=4_000_000, recorded=6_000_000, working=12_000_000)
        costs = Costs(advance=2e-3, record=2.2e-3, reverse=6e-3, reverse_recorded=5e-3)
        plan: Planned = choose(Policy(memory="100 MB"), 10_000, sizes, costs)
        assert isinstance(plan, Plan) and isinstance(plan.chosen, Option)
        assert plan.chosen.peak <= 100_000_000 and plan.chosen.extra > 0  # some steps are run again
        comparison: Comparison = plan.compare(Measured(seconds=plan.chosen.seconds * 1.05, peak=plan.chosen.peak))
        assert comparison.held
    """
    steps = require_count("steps", steps)
    request = _request(policy, steps, sizes, costs, online)
    if not isinstance(policy.schedule, str):
        chosen = Option.of(_requested(policy, request), replace(request, budget=None))
        return Plan(policy, steps, sizes, costs, None, chosen, _others(request, chosen))
    kinds = _considered(request) if policy.schedule == AUTO else (KINDS[policy.schedule],)
    if online and not all(kind.online for kind in kinds):
        raise ScheduleError(
            f"expected an online schedule for a run that may end early, got schedule = {shown(policy.schedule)}; use 'auto' or 'online'"
        )
    fitted = [_simplified(kind.fitted(request), request) for kind in kinds]
    schedules = [schedule for schedule in fitted if not isinstance(schedule, int)]
    if not schedules:
        raise _too_little(min(need for need in fitted if isinstance(need, int)), policy, request)
    options = [Option.of(schedule, request) for schedule in schedules if len(schedules) == 1 or not _stores_all(schedule)]
    chosen = min(options, key=lambda option: option.rank)
    return Plan(policy, steps, sizes, costs, request.budget, chosen, _others(request, chosen))


def _request(policy: Policy, steps: int, sizes: Sizes, costs: Costs | None, online: bool) -> Request:
    disk, host = (None if size is None else parse_memory(size) for size in (policy.disk, policy.host))
    tiers = tuple(replace(tier, slots=min(tier.slots, steps)) for tier in slow_tiers(sizes, costs, disk, host))
    outside = f"disk = {policy.disk!r} and host = {policy.host!r}"
    budget = None
    if policy.slots is None and (isinstance(policy.schedule, str) or costs is not None):
        small = costs is None and disk is None and host is None  # a plan with its costs shows the budget, and slower tiers have buffers
        enough = sizes.enough(steps) if small else sys.maxsize
        budget = auto_memory(enough) if policy.memory is None else parse_memory(policy.memory)
    return Request(steps, sizes, costs, budget, policy.slots, tiers, policy.compression is not None, online, outside)


def _considered(request: Request) -> tuple[type[AnySchedule], ...]:
    """The kinds that "auto" chooses from."""
    if request.online:
        return (Online,)
    slower: tuple[type[AnySchedule], ...] = (MultiTier, Spilling) if request.tiers else ()
    if request.slots is not None:
        return (StoreAll,) if _keeps_all(request.slots, request.steps, request.sizes) else (Binomial, *slower)
    return (StoreAll, Binomial, *(() if request.costs is None else (Mixed, PartlyRecorded)), *slower)


def _simplified(fitted: AnySchedule | int, request: Request) -> AnySchedule | int:
    """The result of `fitted`, with `StoreAll` in place of a schedule that keeps each state, if it fits and the end of the run is known.

    With a budget and measured times nothing is replaced: then the faster of the two is chosen.
    """
    if isinstance(fitted, int) or request.online or (request.budget is not None and request.costs is not None):
        return fitted
    stored = _stored_if_small(fitted, request.steps, request.sizes)
    return stored if request.fits(request.sizes.peak(stored)) else fitted


def _keeps_all(slots: int, steps: int, sizes: Sizes) -> bool:
    """True if a request for `slots` states is met by recording each step: the residuals take no more memory than the states.

    A request for a state of each step is a request to keep all steps: then residuals may take up to half of the available memory.
    """
    residuals = sizes.peak(StoreAll(steps))
    if residuals <= sizes.peak(Binomial(steps, min(slots, steps))):
        return True
    return slots >= steps and residuals <= auto_memory(residuals)


def _stored_if_small(schedule: AnySchedule, steps: int, sizes: Sizes) -> AnySchedule:
    """`StoreAll` in place of a schedule that has a slot for each step, if the residuals of all steps fit; any other unchanged."""
    if schedule.states_only and schedule.slots >= steps and _keeps_all(schedule.slots, steps, sizes):
        return StoreAll(steps)
    return schedule


def _too_little(smallest: int, policy: Policy, request: Request) -> PlanError:
    """The error for a memory in which no schedule fits."""
    state, fixed = memory_text(request.sizes.state), memory_text(request.sizes.fixed)
    return PlanError(
        f"expected a memory of at least {least_text(smallest)} for {grouped(request.steps)} steps, a state of {state} and {fixed} that "
        f"every schedule needs, got {_limit_text(policy, request)}; raise the memory, or make states smaller by a coarser grid or "
        "lower precision"
    )


def _limit_text(policy: Policy, request: Request) -> str:
    """The memory that the user allows."""
    memory = policy.memory
    if memory is None:
        assert request.budget is not None
        return f"{memory_text(request.budget)}, {AUTO_FRACTION:.0%} of the available memory"
    return memory.strip() if isinstance(memory, str) else f"{grouped(parse_memory(memory))} bytes"


def _others(request: Request, chosen: Option) -> tuple[Option, ...]:
    """The alternatives: other kinds within the memory, more memory, and the memory with which no step runs twice."""
    if request.costs is None or request.online:
        return ()
    schedules: list[tuple[AnySchedule, bool]] = []
    for kind in _considered(request):
        fitted = _simplified(kind.fitted(request), request)
        if not isinstance(fitted, int) and not _stores_all(fitted):
            schedules.append((fitted, True))
    if request.budget is not None:
        for factor in (2, 4):
            more = Binomial.fitted(replace(request, budget=factor * request.budget))
            if not isinstance(more, int) and more.slots < request.steps:
                schedules.append((more, False))
    schedules.append((StoreAll(request.steps), request.budget is None))
    seen = {chosen.schedule}
    options = []
    for schedule, fits in schedules:
        if schedule not in seen:
            seen.add(schedule)
            option = Option.of(schedule, request, fits)
            if option.rank < chosen.rank or (fits and option.peak <= chosen.peak):  # more memory without a gain is not listed
                options.append(option)
    return tuple(options)


def _stores_all(schedule: AnySchedule) -> bool:
    """True if the schedule equals `StoreAll`."""
    return isinstance(schedule, Mixed) and schedule.recorded == schedule.steps


def _requested(policy: Policy, request: Request) -> AnySchedule:
    """The schedule that a policy gives as an object, or `StoreAll` if it keeps every state.

    Raises:
        ScheduleError: it is for another number of steps, or cannot reverse a run that ends early.
        PlanError: it runs backwards, and the inputs damp more cells than those that it was planned with.
    """
    schedule, steps = policy.schedule, request.steps
    assert not isinstance(schedule, str)
    if request.online and not schedule.online:
        raise ScheduleError(
            f"expected an online schedule for a run that may end early, got {shown(schedule)}; use Online({max(schedule.slots, 1)})"
        )
    if isinstance(schedule, Schedule) and schedule.steps != steps:
        raise ScheduleError(f"expected a schedule of {steps} steps, got {shown(schedule)} of {schedule.steps}; make one of {steps} steps")
    if schedule.runs_backwards and policy.memory is not None and request.sizes.peak(schedule) > parse_memory(policy.memory):
        raise PlanError(
            f"expected a memory of at least {least_text(request.sizes.peak(schedule))} for {shown(schedule)} with the cells "
            "that these inputs "
            f"damp, got {policy.memory}; plan with these inputs, or raise the memory"
        )
    stored = schedule if request.online else _stored_if_small(schedule, steps, request.sizes)
    return stored if policy.memory is None or request.sizes.peak(stored) <= parse_memory(policy.memory) else schedule


def resolve(checkpoint: Checkpoint, steps: int, sizes: Sizes, online: bool = False) -> AnySchedule:
    """Return the schedule that a user's `checkpoint=` argument asks for, chosen by memory and numbers of steps alone.

    Args:
        checkpoint: "auto" for half of the available memory, a size of memory such as "4 GB", a number of slots, a schedule, a policy, or
            a plan.
        steps: number of primal steps, or its maximum.
        sizes: bytes of the parts of a gradient.
        online: whether the run may end early.

    Raises:
        PlanError: the memory is too small.
        ParameterError: `checkpoint` is none of these.
        ScheduleError: the schedule is for another number of steps, or a count is below one.

    Returns:
        The schedule.

    Example:
        from diffsim.checkpoint import Binomial, Policy, Sizes, StoreAll, resolve

        sizes = Sizes(state=1_000_000)
        assert isinstance(resolve("1 GB", 100, sizes), StoreAll)  # everything fits
        assert resolve(Policy(slots=10, schedule="binomial"), 100, sizes) == Binomial(100, 10)
    """
    return choose(Policy.of(checkpoint), steps, sizes, online=online).schedule


def peak_states(schedule: Schedule) -> int:
    """Return the most states that a schedule keeps in slots and recorded steps together, without the working state.

    It is an upper bound for every schedule that keeps no state twice. `simulate` counts the exact number.

    Args:
        schedule: of a known number of steps.

    Returns:
        States; the residuals of a step count as one.

    Example:
        from diffsim.checkpoint import Binomial, StoreAll, peak_states, simulate

        assert peak_states(StoreAll(1000)) == 1000
        assert peak_states(Binomial(1000, 20)) >= simulate(Binomial(1000, 20)).peak_states
    """
    return min(schedule.slots + schedule.recorded, schedule.steps)
