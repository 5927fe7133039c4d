"""What every checkpointing schedule offers, independent of any model."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from diffsim.checkpoint.actions import Action
from diffsim.errors import ScheduleError


@runtime_checkable
class Schedule(Protocol):
    """A plan to reverse `steps` steps with `slots` kept states.

    The counts are known before the first action, so that a plan can say what it will cost and a driver how far it is.
    """

    @property
    def steps(self) -> int:
        """Number of primal steps, each reversed exactly once."""

    @property
    def slots(self) -> int:
        """Most states kept in slots at a time, the initial state included; the working state and a record do not count."""

    @property
    def advances(self) -> int:
        """Primal steps run by `Advance` over the whole schedule; those run by `Record` do not count."""

    @property
    def recorded(self) -> int:
        """Most steps held in a record at a time."""

    def actions(self) -> Iterator[Action]:
        """Return a fresh iterator over the actions, which holds no list of all steps."""


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
