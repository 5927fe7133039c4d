"""What every checkpointing schedule offers, independent of any model."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, runtime_checkable

from diffsim.arguments import shown
from diffsim.checkpoint.actions import Action
from diffsim.errors import ParameterError, ScheduleError, ShapeError


@dataclass(frozen=True)
class Tier:
    """A kind of storage: the memory that the primal runs in, the host's, a disk.

    Attributes:
        name: "device", "host" or "disk".
        slots: states it may keep at a time.
        write_cost: what a `Save` takes, in steps of the primal.
        read_cost: what a `Load` takes, in steps of the primal.
    """

    name: str
    slots: int
    write_cost: float = 0.0
    read_cost: float = 0.0


@dataclass(frozen=True)
class Shared:
    """One memory for slots of the first tier and for records, of which each may have the whole.

    Attributes:
        total: what there is, in any unit.
        state: what a slot takes.
        record: what a recorded step takes.
    """

    total: int
    state: int
    record: int


@runtime_checkable
class Schedule(Protocol):
    """A plan to reverse `steps` steps with `slots` kept states.

    The counts are known before the first action, so that a plan can say what it will cost and a driver how far it is. A schedule that
    keeps states in slower tiers too has `tiers`, a tuple of `Tier` of which the first has `slots`; one whose slots and records share their
    memory has `shared`, a `Shared`; one that runs steps backwards has `undone`, their number.
    """

    @property
    def steps(self) -> int:
        """Number of primal steps, each reversed exactly once."""

    @property
    def slots(self) -> int:
        """Most states kept in slots of the first tier at a time; the working state and records do not count."""

    @property
    def advances(self) -> int:
        """Primal steps run by `Advance` over the whole schedule; those run by `Record` do not count."""

    @property
    def recorded(self) -> int:
        """Most steps held in records at a time."""

    def actions(self) -> Iterator[Action]:
        """Return a fresh iterator over the actions, which holds no list of all steps."""


@runtime_checkable
class OnlineSchedule(Protocol):
    """A plan for a run whose number of steps is not known before it ends."""

    @property
    def slots(self) -> int:
        """Most states kept in slots at a time."""

    @property
    def recorded(self) -> int:
        """Most steps held in records at a time."""

    def advances_of(self, steps: int) -> int:
        """Primal steps run by `Advance` over the whole schedule, if the run takes `steps` steps."""

    def online_actions(self, ended: Callable[[], int | None]) -> Iterator[Action]:
        """Return a fresh iterator over the actions.

        Args:
            ended: asked after each `Advance` of the forward run: the step at which the primal has ended, or None if it goes on. An
                `Advance` that the end cuts short leaves the primal in its final state.
        """


def tiers_of(schedule: Schedule | OnlineSchedule) -> tuple[Tier, ...]:
    """Where a schedule keeps states: what it says, or all in the first tier."""
    return getattr(schedule, "tiers", (Tier("device", schedule.slots),))


def undone_of(schedule: Schedule | OnlineSchedule) -> int:
    """How many steps a schedule runs backwards."""
    return getattr(schedule, "undone", 0)


def require_count(name: str, value: int) -> int:
    """Return `value` as a plain int of at least one.

    Args:
        name: what the value is, for the error.
        value: an int, or something that is one by `__index__` such as a NumPy integer.

    Raises:
        ScheduleError: it is no integer, a bool, or below one.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if isinstance(value, bool) or count < 1:
        raise ScheduleError(f"expected {name} to be an integer of at least 1, got {value!r}; give a whole number of {name}")
    return count


def require_truth(name: str, value: Any) -> bool:
    """Return a condition's answer as a plain bool.

    Args:
        name: what the condition is called, for the error.
        value: a truth value of Python or NumPy, or an array of one.

    Raises:
        ShapeError: an array of another number of elements.
        ParameterError: anything else that Python takes for true or false, such as a text: "no" would be true.
    """
    shape = tuple(getattr(value, "shape", ()))
    if prod(shape) != 1:
        raise ShapeError(
            f"expected {name} to give one truth value, got an array of shape {shape}; make one of it, by .any() or .all() for example"
        )
    if not isinstance(value, bool) and getattr(getattr(value, "dtype", None), "kind", "") != "b":
        raise ParameterError(f"expected {name} to give True or False, got {shown(value)}; compare with something, such as value > 0")
    return bool(value)
