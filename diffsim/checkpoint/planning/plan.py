"""Choose how to keep what a reverse sweep needs, by the memory it may take and by what it costs, and say so beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike

from diffsim.checkpoint.planning.costs import Costs, Sizes, forward_steps
from diffsim.checkpoint.planning.everything import keeps_all, simplified
from diffsim.checkpoint.planning.memory import AUTO_FRACTION as AUTO_FRACTION
from diffsim.checkpoint.planning.memory import grouped, least_text, memory_text, parse_memory
from diffsim.checkpoint.planning.options import Request, build
from diffsim.checkpoint.policy import Checkpoint, Policy
from diffsim.checkpoint.schedule import OnlineSchedule, Schedule, require_count, tiers_of
from diffsim.checkpoint.schedules.mixed import Mixed
from diffsim.errors import PlanError, ScheduleError
from diffsim.system import available_memory

MEMORY_MARGIN, TIME_MARGIN = 0.05, 0.25
"""By how much, relative to the prediction, what happens may differ from it."""


@dataclass(frozen=True)
class Option:
    """One way to run a gradient.

    Attributes:
        schedule: of checkpoints.
        peak: bytes of memory it takes at most.
        disk: bytes on disk.
        forward: steps run forward, those that are recorded included.
        extra: of them, those beyond a single run.
        seconds: it takes, kernels compiled and memory in place; None: not measured.
        fits: whether the memory allows it.
    """

    schedule: Schedule | OnlineSchedule
    peak: int
    disk: int
    forward: int
    extra: int
    seconds: float | None
    fits: bool = True

    @classmethod
    def of(cls, schedule: Schedule | OnlineSchedule, request: Request, fits: bool = True) -> Option:
        """What a schedule takes."""
        forward = forward_steps(schedule, request.steps)
        peak = request.sizes.peak(schedule, request.compressed)
        disk = sum(request.sizes.on_disk(tier.slots) for tier in tiers_of(schedule)[1:] if tier.name == "disk")
        seconds = None if request.costs is None else request.costs.seconds(schedule, request.steps)
        return cls(schedule, peak, disk, forward, forward - request.steps, seconds, fits)

    @property
    def rank(self) -> tuple[float, float, int, int]:
        """The least is the best: the fastest, or while nothing is measured the one with the fewest steps, transfers counted in steps."""
        steps = max(float(getattr(self.schedule, "cost", self.forward)), float(self.forward))
        unused = int(getattr(self.schedule, "advances", self.forward))  # steps that are run merely to get past them
        return (steps if self.seconds is None else self.seconds, steps, unused, self.peak)


@dataclass(frozen=True)
class Measured:
    """What a gradient really took.

    Attributes:
        seconds: of a gradient; with kernels compiled.
        peak: bytes of memory beyond what there was before.
        first: seconds of the first gradient, which compiles, if there was one.
    """

    seconds: float
    peak: int
    first: float | None = None


@dataclass(frozen=True)
class Comparison:
    """A prediction beside what was measured."""

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
        """Whether the prediction was right within the margins, 5 % for memory and 25 % for time."""
        time = self.time_ratio
        return abs(self.memory_ratio - 1) <= MEMORY_MARGIN and (time is None or abs(time - 1) <= TIME_MARGIN)

    def __str__(self) -> str:
        from diffsim.checkpoint.planning.table import comparison_text  # late: rich is needed for this alone

        return comparison_text(self)


@dataclass(frozen=True)
class Plan:
    """How the gradient of a run will be taken, and what it will take. It may be given wherever `checkpoint=` is.

    Attributes:
        policy: what was asked for.
        steps: of the run, or the most there may be.
        sizes: bytes.
        costs: seconds, or None if they were not measured.
        budget: bytes of memory that were allowed, or None for no limit.
        chosen: the way that is taken.
        others: ways that are not: slower ones, and some that would take more memory.
    """

    policy: Policy
    steps: int
    sizes: Sizes
    costs: Costs | None
    budget: int | None
    chosen: Option
    others: tuple[Option, ...] = ()

    @property
    def schedule(self) -> Schedule | OnlineSchedule:
        """The schedule that is taken."""
        return self.chosen.schedule

    def as_policy(self) -> Policy:
        """The policy that carries the plan out."""
        return replace(self.policy, schedule=self.schedule, slots=None)

    def compare(self, measured: Measured) -> Comparison:
        """The prediction beside what was measured."""
        return Comparison(self.chosen, measured)

    def draw(self, path: str | PathLike[str]) -> None:
        """Write a picture of the schedule: which step is worked on, and which states are kept, as the work goes on."""
        from diffsim.checkpoint.planning.draw import draw  # late: Matplotlib takes a third of a second to import

        draw(self.schedule, self.steps, path, self.costs, self.chosen.peak, self.chosen.disk)

    def __str__(self) -> str:
        from diffsim.checkpoint.planning.table import plan_text  # late: rich is needed for this alone

        return plan_text(self)


def choose(policy: Policy, steps: int, sizes: Sizes, costs: Costs | None = None, online: bool = False) -> Plan:
    """Choose the fastest way to a gradient that a policy allows.

    Args:
        policy: memory or slots, and what kinds of schedule and storage may be used.
        steps: number of primal steps, or the most there may be.
        sizes: bytes of what a gradient takes.
        costs: seconds of its parts; None: the fewest steps are taken for the fastest, and records for no better than states.
        online: whether the run may end before.

    Returns:
        The plan. With costs it has alternatives beside the choice.

    Raises:
        PlanError: the memory is too little, and the message names the smallest that works.
        ScheduleError: the schedule is for another number of steps, or not for a run that may end early.
    """
    steps = require_count("steps", steps)
    request = Request(policy, steps, sizes, costs, None if policy.slots is not None else _budget(policy), online)
    if not isinstance(policy.schedule, str):
        _require_fitting(policy.schedule, steps, online)
        schedule = policy.schedule if online else simplified(policy.schedule, steps, sizes)
        chosen = Option.of(schedule, replace(request, budget=None))
        request = replace(request, policy=replace(policy, schedule="auto"))
        return Plan(policy, steps, sizes, costs, None, chosen, _others(request, chosen, online))
    if online and policy.schedule not in ("auto", "online"):
        raise ScheduleError(
            f"expected an online schedule for a run that may end early, got schedule = {policy.schedule!r}; use 'auto' or 'online'"
        )
    chosen = _best(request, _kinds(request, online) if policy.schedule == "auto" else (policy.schedule,))
    return Plan(policy, steps, sizes, costs, request.budget, chosen, _others(request, chosen, online))


def _kinds(request: Request, online: bool) -> tuple[str, ...]:
    """The kinds among which "auto" chooses."""
    if online:
        return ("online",)
    slower = ("multi_tier", "spilling") if request.tiers else ()
    if request.policy.slots is not None:
        return ("store_all",) if keeps_all(request.policy.slots, request.steps, request.sizes) else ("binomial", *slower)
    return ("store_all", "binomial", *(() if request.costs is None else ("mixed",)), *slower)


def _best(request: Request, kinds: Sequence[str]) -> Option:
    found = [build(kind, request) for kind in kinds]
    schedules = [schedule for schedule in found if not isinstance(schedule, int)]
    options = [Option.of(schedule, request) for schedule in schedules if len(schedules) == 1 or not _stores_all(schedule)]
    if options:
        return min(options, key=lambda option: option.rank)
    smallest = min(need for need in found if isinstance(need, int))
    state, fixed = memory_text(request.sizes.state), memory_text(request.sizes.fixed)
    raise PlanError(
        f"expected a memory of at least {least_text(smallest)} for {grouped(request.steps)} steps, a state of {state} and {fixed} that "
        f"are needed whatever is kept, got {_given(request)}; raise the memory, or make states smaller by a coarser grid or lower precision"
    )


def _given(request: Request) -> str:
    """The memory as the user gave it."""
    memory = request.policy.memory
    if memory is None:
        assert request.budget is not None
        return f"{memory_text(request.budget)}, {AUTO_FRACTION:.0%} of what is available"
    return memory.strip() if isinstance(memory, str) else f"{grouped(parse_memory(memory))} bytes"


def _others(request: Request, chosen: Option, online: bool) -> tuple[Option, ...]:
    """What else there is: other kinds within the memory, more of it, and all that it takes to run no step twice."""
    if request.costs is None or online:
        return ()
    schedules: list[tuple[Schedule | OnlineSchedule, bool]] = []
    for kind in _kinds(request, online):
        found = build(kind, request)
        if not isinstance(found, int) and not _stores_all(found):
            schedules.append((found, True))
    if request.budget is not None:
        for factor in (2, 4):
            more = build("binomial", replace(request, budget=factor * request.budget))
            if not isinstance(more, int) and more.slots < request.steps:
                schedules.append((more, False))
    everything = build("store_all", replace(request, policy=replace(request.policy, slots=None), budget=None))
    assert not isinstance(everything, int)
    schedules.append((everything, request.budget is None))
    seen = {chosen.schedule}
    options = []
    for schedule, fits in schedules:
        if schedule not in seen:
            seen.add(schedule)
            option = Option.of(schedule, request, fits)
            if option.rank < chosen.rank or (fits and option.peak <= chosen.peak):  # more memory that gains nothing is of no interest
                options.append(option)
    return tuple(options)


def _stores_all(schedule: Schedule | OnlineSchedule) -> bool:
    """Whether it is `StoreAll` in other words."""
    return isinstance(schedule, Mixed) and schedule.recorded == schedule.steps


def _require_fitting(schedule: Schedule | OnlineSchedule, steps: int, online: bool) -> None:
    if isinstance(schedule, OnlineSchedule):
        return
    if online:
        raise ScheduleError(
            f"expected an online schedule for a run that may end early, got {schedule!r}; use Online({max(schedule.slots, 1)})"
        )
    if schedule.steps != steps:
        raise ScheduleError(f"expected a schedule of {steps} steps, got {schedule!r} of {schedule.steps}; make one of {steps} steps")


def resolve(checkpoint: Checkpoint, steps: int, sizes: Sizes, online: bool = False) -> Schedule | OnlineSchedule:
    """Return the schedule that a user's `checkpoint=` argument asks for, chosen by memory and numbers of steps alone.

    Args:
        checkpoint: "auto" for half of the available memory, a size of memory such as "4 GB", a number of slots, a schedule, a policy, or
            a plan.
        steps: number of primal steps, or the most there may be.
        sizes: bytes of what a gradient takes.
        online: whether the run may end before.

    Raises:
        PlanError: the memory cannot work.
        ParameterError: `checkpoint` is none of these.
        ScheduleError: the schedule is for another number of steps, or a count is below one.
    """
    policy = Policy.of(checkpoint)
    if not isinstance(policy.schedule, str):
        _require_fitting(policy.schedule, steps, online)
        return policy.schedule if online else simplified(policy.schedule, steps, sizes)
    return choose(policy, steps, sizes, online=online).schedule


def _budget(policy: Policy) -> int:
    return int(AUTO_FRACTION * available_memory()) if policy.memory is None else parse_memory(policy.memory)


def peak_states(schedule: Schedule) -> int:
    """Return how many states a schedule keeps at most, in slots and record together, the working state not counted.

    A bound that holds for every schedule which keeps no state twice; `simulate` counts the exact number.
    """
    return min(schedule.slots + schedule.recorded, schedule.steps)
