"""The vocabulary of a checkpointing schedule: what may be done next to a primal run and to its adjoint.

*State n* is what the primal holds before step n, so step n takes state n to state n + 1 and a run of `steps` steps ends in
state `steps`. The *working state* is the one the primal runs on. A *slot* keeps a copy of one state; slots are counted from 0 in
each *tier* of storage, and tier 0 is the memory that the primal runs in. A *record* keeps what the adjoints of consecutive steps need, in
memory of its own; a *kept run* is the states of consecutive steps, in free slots of tier 0. Both form one stack: the newest is
reversed first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Advance:
    """Run the primal from step `start` to `stop`: the working state is state `start` before and state `stop` after.

    Of an `OnlineSchedule` the primal may end before `stop`, and the working state is then the final one.

    Example:
        See `simulate`.
    """

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Record:
    """Run the primal as `Advance` does, and keep states start..stop-1 until their steps are reversed.

    Example:
        See `simulate`.
    """

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Run the primal as `Advance` does, and keep states start..stop-1, each in a free slot of tier 0, until their steps are reversed.

    Only for steps whose adjoint needs no more than the step's input.

    Example:
        from diffsim.checkpoint import Binomial, Keep, Reverse

        actions = list(Binomial(steps=8, slots=8).actions())
        assert any(isinstance(action, Keep) for action in actions)  # all states fit into the slots: one run keeps them
        assert isinstance(actions[-1], Reverse)
    """

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Save:
    """Copy the working state, which is state `step`, into the empty `slot` of a tier. A slow tier may go on writing afterwards.

    Example:
        See `simulate`.
    """

    step: int
    slot: int
    tier: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """Make the working state a copy of state `step`, which `slot` of a tier keeps and goes on keeping.

    Example:
        See `simulate`.
    """

    step: int
    slot: int
    tier: int = 0


@dataclass(frozen=True, slots=True)
class Fetch:
    """Begin to bring state `step` from a slow tier, for the next `Load` of that slot; the primal need not wait for it.

    Example:
        See `Spilling`.
    """

    step: int
    slot: int
    tier: int


@dataclass(frozen=True, slots=True)
class Free:
    """Empty `slot` of a tier.

    Example:
        See `simulate`.
    """

    slot: int
    tier: int = 0


@dataclass(frozen=True, slots=True)
class EndForward:
    """The working state is the final one, state `step`: the loss and the cotangent it starts from are evaluated here.

    Example:
        See `simulate`.
    """

    step: int


@dataclass(frozen=True, slots=True)
class Reverse:
    """Run the adjoint of steps stop-1 down to `start`.

    It needs the newest record or kept run to be of these steps, which it drops; or a kept run of all but the last of them, with the
    working state at that last one. The working state is undefined afterwards: load one before the next use. Or else stop == start + 1
    and the working state is state `start`, and stays so.

    Example:
        See `simulate`.
    """

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Undo:
    """Run the primal backwards: the working state is state `stop` before and, but for round-off, state `start` after.

    Example:
        See `Reversible`.
    """

    start: int
    stop: int


Action: TypeAlias = Advance | Record | Keep | Save | Load | Fetch | Free | EndForward | Reverse | Undo
"""What a schedule yields: one of the classes of this page that name a range of steps, or a step and a slot.

Example:
    from diffsim.checkpoint import Action, Binomial, Load, Save

    actions: list[Action] = list(Binomial(steps=30, slots=3).actions())
    kept = [action.step for action in actions if isinstance(action, Save)]
    loaded = {action.step for action in actions if isinstance(action, Load)}
    assert loaded <= set(kept)
"""
