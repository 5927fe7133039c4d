"""One way to run a gradient, its predicted cost, and the measured cost of a gradient."""

from __future__ import annotations

from dataclasses import dataclass

from diffsim.checkpoint.planning.request import Request
from diffsim.checkpoint.schedule import AnySchedule


@dataclass(frozen=True)
class Option:
    """One way to run a gradient.

    Attributes:
        schedule: which states are kept, and when.
        peak: peak bytes of memory.
        disk: bytes on disk.
        forward: steps run forward, including recorded ones.
        extra: forward steps in addition to a single run.
        seconds: time with compiled kernels and allocated memory; None: not measured.
        fits: whether the memory is large enough.
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
        """Compute the costs of a schedule."""
        forward = schedule.forward_of(request.steps)
        peak = request.sizes.peak(schedule, request.compressed)
        disk = sum(request.sizes.on_disk(tier.slots) for tier in schedule.slow_tiers if tier.name == "disk")
        seconds = None if request.costs is None else request.costs.seconds(schedule, request.steps)
        return cls(schedule, peak, disk, forward, forward - request.steps, seconds, fits)

    @property
    def rank(self) -> tuple[float, float, int, int]:
        """A sort key, smallest for the best: the fastest, or, if times were not measured, the fewest steps with transfers counted in
        steps."""
        steps = self.forward - self.extra
        cost = self.schedule.cost_of(steps)
        return (cost if self.seconds is None else self.seconds, cost, self.schedule.advances_of(steps), self.peak)


@dataclass(frozen=True)
class Measured:
    """The measured cost of a gradient.

    Attributes:
        seconds: time of a gradient with compiled kernels.
        peak: bytes of memory in addition to those in use before.
        first: seconds of the first gradient, which compiles; None: not measured.
    """

    seconds: float
    peak: int
    first: float | None = None
