"""Costs of a gradient: bytes, which are counted, and seconds, which are measured."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields
from math import isfinite

import numpy as np

from diffsim.base.messages import shown
from diffsim.checkpoint.schedule import AnySchedule, Tier
from diffsim.checkpoint.storage.compression import SCRATCH
from diffsim.checkpoint.storage.disk_format import planned_file_bytes
from diffsim.checkpoint.storage.store import StateLayout
from diffsim.errors import ParameterError

DISK_BUFFERS = 2
"""Rows in memory that buffer writes and reads of a file of states."""


@dataclass(frozen=True)
class Sizes:
    """Bytes of the parts of a gradient.

    Attributes:
        state: a state in a slot of the memory that the primal runs in.
        recorded: the residuals of a step; None: as many as `state`.
        working: memory of every schedule: working state, cotangents, coefficients and their gradients.
        around: peak memory of arrays before and after the sweep: the solution, the gradient, and copies of them.
        streams: memory that grows with the steps under every schedule: traces and amplitudes, their cotangents, and copies of them.
        row: a state in a slower tier; None: as many as `state`.
        strips: damped cells of all steps, stored if steps are undone.
        second: a second run backwards, which measures the effect of rounding errors, if steps are undone.
        single: what a step keeps that is the only recorded one; None: as many as `recorded`.

    Raises:
        ParameterError: a size is not valid.
    """

    state: int
    recorded: int | None = None
    working: int = 0
    around: int = 0
    streams: int = 0
    row: int | None = None
    strips: int = 0
    second: int = 0
    single: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                value = self.record if field.name == "single" else self.state
            least = 1 if field.name in ("state", "row") else 0
            object.__setattr__(self, field.name, require_bytes(field.name, value, least))

    @property
    def record(self) -> int:
        """Bytes of the residuals of a step."""
        assert self.recorded is not None
        return self.recorded

    @property
    def last(self) -> int:
        """Bytes that the last step keeps where it is the only recorded one."""
        assert self.single is not None
        return self.single

    @property
    def fixed(self) -> int:
        """Bytes that do not depend on the schedule."""
        return self.working + self.around + self.streams

    @property
    def backwards(self) -> int:
        """Additional bytes if steps are run backwards."""
        return self.strips + self.second

    def buffers(self, tier: Tier, compressed: bool = False) -> int:
        """Bytes of memory that a slower tier needs."""
        assert self.row is not None
        return DISK_BUFFERS * self.row + (SCRATCH if compressed else 0) if tier.name == "disk" else tier.slots * self.row

    def peak(self, schedule: AnySchedule, compressed: bool = False) -> int:
        """Peak bytes of memory of a gradient. Slots and residuals have separate memory, and both are counted in full."""
        slow = sum(self.buffers(tier, compressed) for tier in schedule.slow_tiers)
        backwards = self.backwards if schedule.runs_backwards else 0
        recorded = self.last if schedule.recorded == 1 else schedule.recorded * self.record
        return self.fixed + schedule.slots * self.state + recorded + slow + backwards

    def enough(self, steps: int) -> int:
        """Bytes of memory that are enough for any schedule of `steps` steps without slower tiers."""
        return self.fixed + steps * (self.state + self.record) + self.backwards

    def on_disk(self, slots: int) -> int:
        """Bytes of a file with `slots` states."""
        assert self.row is not None
        return planned_file_bytes(StateLayout(((self.row,),), (np.dtype(np.uint8),)), slots)

    def disk_slots(self, size: int) -> int:
        """The largest number of states whose file has at most `size` bytes."""
        assert self.row is not None
        least, most = 0, size // self.row + 1  # `most` does not fit
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if self.on_disk(middle) <= size else (least, middle)
        return least


@dataclass(frozen=True)
class Costs:
    """Seconds of the parts of a gradient.

    Attributes:
        advance: a step forward.
        record: a step forward that is recorded.
        reverse: the adjoint of a step, computed from the step's state, in a run of such steps.
        reverse_recorded: the adjoint of a step that was recorded with others.
        undo: a step backwards; None: it cannot be undone.
        call: each start, in addition to its steps: a launch, and the schedule's own work.
        disk_write: writing a state to disk.
        disk_read: reading a state from disk.
        host_write: a copy of a state to the host's memory.
        host_read: a copy of a state back from there.
        once: start and end of a gradient: coefficients, copies of the solution, the gradients of the inputs.

    Raises:
        ParameterError: one is negative or not finite, or a step takes no time.
    """

    advance: float
    record: float
    reverse: float
    reverse_recorded: float
    undo: float | None = None
    call: float = 0.0
    disk_write: float = 0.0
    disk_read: float = 0.0
    host_write: float = 0.0
    host_read: float = 0.0
    once: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not (isfinite(value) and value >= 0):
                raise ParameterError(f"expected {field.name} to be seconds from 0 up, got {shown(value)}; measure it again")
        if not self.advance > 0:
            raise ParameterError(f"expected a step to take more than 0 seconds, got advance = {shown(self.advance)}; measure it again")

    def seconds(self, schedule: AnySchedule, steps: int) -> float:
        """Seconds of a gradient by a schedule, with compiled kernels and allocated memory.

        A schedule may record the last step only to reach the final state. If it records more than that, adjoints start from residuals.
        """
        from_residuals = schedule.all_recorded if schedule.all_recorded > 1 else 0
        forward = schedule.advances_of(steps) * self.advance + schedule.all_recorded * self.record
        backward = schedule.undone * (self.advance if self.undo is None else self.undo)
        adjoint = (steps - from_residuals) * self.reverse + from_residuals * self.reverse_recorded
        return self.once + forward + backward + adjoint + schedule.starts_of(steps) * self.call + schedule.waits * self.advance


def slow_tiers(sizes: Sizes, costs: Costs | None, disk: int | None, host: int | None) -> list[Tier]:
    """The slow tiers within the given bytes on disk and on the host, the host first. A tier without room for a state is left out.

    A transfer costs its measured time in steps of the primal, or five steps if it was not measured.
    """
    assert sizes.row is not None
    tiers = []
    for name, slots in (("host", (host or 0) // sizes.row), ("disk", sizes.disk_slots(disk or 0))):
        if slots:
            write, read = (5.0, 5.0) if costs is None else (getattr(costs, f"{name}_{way}") / costs.advance for way in ("write", "read"))
            tiers.append(Tier(name, slots, write, read))
    return tiers


def require_bytes(name: str, value: int, least: int) -> int:
    """Return a number of bytes as a plain int.

    Raises:
        ParameterError: it is no integer, a bool, or below `least`.
    """
    try:
        size = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        size = -1
    if size < least:
        raise ParameterError(f"expected {name} to be an integer of at least {least}, got {shown(value)}; give whole bytes")
    return size
