"""The vocabulary of a checkpointing schedule: what may be done next to a primal run and to its adjoint.

*State n* is what the primal holds before step n, so step n takes state n to state n + 1 and a run of `steps` steps ends in
state `steps`. The *working state* is the one the primal runs on. A *slot* keeps a copy of one state. A *record* keeps what the
adjoints of a row of steps need, which for a step whose adjoint reads only its input is that row's states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Advance:
    """Run the primal from step `start` to `stop`: the working state is state `start` before and state `stop` after."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Record:
    """Run the primal as `Advance` does, and keep states start..stop-1 until their steps are reversed."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Save:
    """Copy the working state, which is state `step`, into the empty `slot`."""

    step: int
    slot: int


@dataclass(frozen=True, slots=True)
class Load:
    """Make the working state a copy of state `step`, which `slot` keeps and goes on keeping."""

    step: int
    slot: int


@dataclass(frozen=True, slots=True)
class Free:
    """Empty `slot`."""

    slot: int


@dataclass(frozen=True, slots=True)
class EndForward:
    """The working state is the final one, state `step`: the loss and the cotangent it starts from are evaluated here."""

    step: int


@dataclass(frozen=True, slots=True)
class Reverse:
    """Run the adjoint of steps stop-1 down to `start`.

    It needs a record that covers them, which it drops, or else stop == start + 1 and the working state at `start`. The working
    state is undefined afterwards: load one before the next use.
    """

    start: int
    stop: int


Action: TypeAlias = Advance | Record | Save | Load | Free | EndForward | Reverse
