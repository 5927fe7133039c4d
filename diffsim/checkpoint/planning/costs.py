"""What a gradient takes: bytes, known beforehand, and seconds, measured."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields
from math import isfinite

import numpy as np

from diffsim.checkpoint.schedule import AnySchedule, Tier
from diffsim.checkpoint.storage.compression import SCRATCH
from diffsim.checkpoint.storage.disk_format import planned_file_bytes
from diffsim.checkpoint.storage.store import StateLayout
from diffsim.errors import ParameterError

DISK_BUFFERS = 2
"""Rows in memory that a file of states is written and read through."""


@dataclass(frozen=True)
class Sizes:
    """Bytes that the parts of a gradient take.

    Attributes:
        state: a state in a slot of the memory that the primal runs in.
        recorded: a step in a record; None: as much as a state.
        working: what every schedule needs: working state, cotangents, coefficients and their gradients.
        around: arrays that come and go around the sweep, at their most: the solution, the gradient, and copies of them.
        streams: what grows with the steps under every schedule: traces and amplitudes, their cotangents, and copies of them.
        row: a state in a slower tier; None: as much as a state.
        strips: damped cells, kept over the whole run if its steps are undone.
        second: a second run backwards, which shows what rounding errors do, if steps are undone.

    Raises:
        ParameterError: a size that cannot be.

    Example:
        See `choose`.
    """

    state: int
    recorded: int | None = None
    working: int = 0
    around: int = 0
    streams: int = 0
    row: int | None = None
    strips: int = 0
    second: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            value = self.state if value is None else value
            least = 1 if field.name in ("state", "row") else 0
            object.__setattr__(self, field.name, require_bytes(field.name, value, least))

    @property
    def record(self) -> int:
        """A step in a record."""
        assert self.recorded is not None
        return self.recorded

    @property
    def fixed(self) -> int:
        """All that does not depend on the schedule."""
        return self.working + self.around + self.streams

    @property
    def backwards(self) -> int:
        """All that running steps backwards takes."""
        return self.strips + self.second

    def buffers(self, tier: Tier, compressed: bool = False) -> int:
        """Bytes of memory that a slower tier takes."""
        assert self.row is not None
        return DISK_BUFFERS * self.row + (SCRATCH if compressed else 0) if tier.name == "disk" else tier.slots * self.row

    def peak(self, schedule: AnySchedule, compressed: bool = False) -> int:
        """The most bytes of memory that a gradient takes; slots and records have memory of their own, and both are counted in full."""
        slow = sum(self.buffers(tier, compressed) for tier in schedule.slow_tiers)
        backwards = self.backwards if schedule.runs_backwards else 0
        return self.fixed + schedule.slots * self.state + schedule.recorded * self.record + slow + backwards

    def on_disk(self, slots: int) -> int:
        """Bytes of a file of so many states."""
        assert self.row is not None
        return planned_file_bytes(StateLayout(((self.row,),), (np.dtype(np.uint8),)), slots)

    def disk_slots(self, size: int) -> int:
        """The most states whose file takes no more than `size` bytes; 0 if not one does."""
        assert self.row is not None
        least, most = 0, size // self.row + 1  # the last one does not fit
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if self.on_disk(middle) <= size else (least, middle)
        return least


@dataclass(frozen=True)
class Costs:
    """Seconds that the parts of a gradient take.

    Attributes:
        advance: a step forward.
        record: a step forward that is recorded.
        reverse: the adjoint of a step, from the step's state, in a run of such steps.
        reverse_recorded: the adjoint of a step that is in a record of several.
        undo: a step backwards; None: it cannot be undone.
        call: what each start takes beside its steps: a launch, and the schedule's own work.
        disk_write: until a state is on disk.
        disk_read: until a state is back from disk.
        host_write: a copy of a state to the host's memory.
        host_read: a copy back.
        once: the beginning and the end of a gradient: coefficients, copies of the solution, the gradients of the inputs.

    Raises:
        ParameterError: one is negative or not finite, or a step takes no time.

    Example:
        See `choose`.
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
                raise ParameterError(f"expected {field.name} to be seconds from 0 up, got {value!r}; measure it again")
        if not self.advance > 0:
            raise ParameterError(f"expected a step to take more than 0 seconds, got advance = {self.advance!r}; measure it again")

    def seconds(self, schedule: AnySchedule, steps: int) -> float:
        """What a gradient takes by a schedule, kernels compiled and memory in place.

        The last step of a run may be recorded for the state after it. Adjoints start from records where there are more of them than that.
        """
        from_records = schedule.all_recorded if schedule.all_recorded > 1 else 0
        forward = schedule.advances_of(steps) * self.advance + schedule.all_recorded * self.record
        backward = schedule.undone * (self.advance if self.undo is None else self.undo)
        adjoint = (steps - from_records) * self.reverse + from_records * self.reverse_recorded
        return self.once + forward + backward + adjoint + schedule.starts_of(steps) * self.call + schedule.waits * self.advance


def slow_tiers(sizes: Sizes, costs: Costs | None, disk: int | None, host: int | None) -> list[Tier]:
    """The tiers that so many bytes on disk and of the host's memory make, the host first; a tier without room for a state is left out.

    Transfers count in steps of the primal: as measured, or as five steps each.
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
        raise ParameterError(f"expected {name} to be an integer of at least {least}, got {value!r}; give whole bytes")
    return size
