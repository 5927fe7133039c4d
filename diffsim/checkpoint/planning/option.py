"""One way to run a gradient, what it is predicted to take, and what a gradient took."""

from __future__ import annotations

from dataclasses import dataclass

from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import AnySchedule


@dataclass(frozen=True)
class Option:
    """One way to run a gradient.

    Attributes:
        schedule: which states are kept, and when.
        peak: bytes of memory it takes at most.
        disk: bytes on disk.
        forward: steps run forward, those that are recorded included.
        extra: those beyond a single run.
        seconds: it takes, kernels compiled and memory in place; None: not measured.
        fits: whether the memory allows it.

    Example:
        See `choose`.
    """

    schedule: AnySchedule
    peak: int
    disk: int
    forward: int
    extra: int
    seconds: float | None
    fits: bool = True

    @classmethod
    def of(cls, schedule: AnySchedule, request: Request, fits: bool = True) -> Option:
        """What a schedule takes."""
        forward = schedule.forward_of(request.steps)
        peak = request.sizes.peak(schedule, request.compressed)
        disk = sum(request.sizes.on_disk(tier.slots) for tier in schedule.slow_tiers if tier.name == "disk")
        seconds = None if request.costs is None else request.costs.seconds(schedule, request.steps)
        return cls(schedule, peak, disk, forward, forward - request.steps, seconds, fits)

    @property
    def rank(self) -> tuple[float, float, int, int]:
        """The least is the best: the fastest, or while nothing is measured the one with the fewest steps, transfers counted in steps."""
        steps = self.forward - self.extra
        cost = self.schedule.cost_of(steps)
        return (cost if self.seconds is None else self.seconds, cost, self.schedule.advances_of(steps), self.peak)


@dataclass(frozen=True)
class Measured:
    """What a gradient really took.

    Attributes:
        seconds: that a gradient took, with kernels compiled.
        peak: bytes of memory beyond what there was before.
        first: seconds of the first gradient, which compiles, if there was one.

    Example:
        See `choose`.
    """

    seconds: float
    peak: int
    first: float | None = None
