"""The actions of a checkpointing schedule, which run the primal and its adjoint.

*State n* is the state of the primal before step n. So step n takes state n to state n + 1, and a run of `steps` steps ends in
state `steps`. The *working state* is the state that the primal runs on. A *slot* stores a copy of one state. Slots are counted from 0 in
each *tier* of storage, and tier 0 is the memory that the primal runs in. The *residuals* of a step are the values that its adjoint
needs. They have memory of their own, and a step is *recorded* if they are kept. A *kept run* consists of the states of consecutive
steps, in free slots of tier 0. Recorded steps and kept runs form one stack: the newest is reversed first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Advance:
    """Run the primal from step `start` to `stop`: the working state is state `start` before and state `stop` after.

    In an `OnlineSchedule` the primal may end before `stop`. Then the working state is the final state.
    """

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Record:
    """Run the primal as `Advance` does, and record steps start..stop-1 until they are reversed."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Keep:
    """Run the primal as `Advance` does, and keep states start..stop-1, each in a free slot of tier 0, until their steps are reversed.

    It is allowed only for steps whose adjoint needs no values but the step's input.

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
    """Copy the working state, which is state `step`, into the empty `slot` of a tier. A slow tier may continue to write afterwards."""

    step: int
    slot: int
    tier: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """Copy state `step` from `slot` of a tier to the working state. The slot keeps its state."""

    step: int
    slot: int
    tier: int = 0


@dataclass(frozen=True, slots=True)
class Fetch:
    """Start to read state `step` from a slow tier, for the next `Load` of that slot. The primal need not wait for it."""

    step: int
    slot: int
    tier: int


@dataclass(frozen=True, slots=True)
class Free:
    """Empty `slot` of a tier."""

    slot: int
    tier: int = 0


@dataclass(frozen=True, slots=True)
class EndForward:
    """The working state is the final one, state `step`. The loss and the first cotangent are evaluated here."""

    step: int


@dataclass(frozen=True, slots=True)
class Reverse:
    """Run the adjoint of steps stop-1 down to `start`.

    There are three cases. They are the steps that were recorded or kept last. Or all of them but the last were kept, and the working state
    is the state of that last step. In both cases the residuals or states are freed, and the working state is undefined afterwards: load
    a state before the next use. Or stop == start + 1 and the working state is state `start`, which does not change.
    """

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Undo:
    """Run the primal backwards: the working state is state `stop` before and, except for round-off, state `start` after."""

    start: int
    stop: int


Action: TypeAlias = Advance | Record | Keep | Save | Load | Fetch | Free | EndForward | Reverse | Undo
"""An action of a schedule: one of the classes of this page that name a range of steps, or a step and a slot.

Example:
    from diffsim.checkpoint import Action, Binomial, Load, Save

    actions: list[Action] = list(Binomial(steps=30, slots=3).actions())
    kept = [action.step for action in actions if isinstance(action, Save)]
    loaded = {action.step for action in actions if isinstance(action, Load)}
    assert loaded <= set(kept)
"""
