"""What a user may ask of a run beside its inputs and its number of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from diffsim.arguments import function, whole
from diffsim.checkpoint import Action, Checkpoint, OnProgress, Policy
from diffsim.simulation.turns import Turn
from diffsim.typing import Array

Until: TypeAlias = Callable[[int, dict[str, Array]], bool]
"""(steps done, states) -> whether the run is over."""
Watcher: TypeAlias = Callable[[Action], None]


@dataclass(frozen=True)
class RunOptions:
    """How a run ends, what its reverse sweep keeps, and which functions of the user's it calls.

    Attributes:
        policy: which states are kept for the reverse sweep.
        until: where the run ends before all of its steps.
        every: ask `until` after each so many steps.
        on_action: called after each action of the schedule.
        on_progress: called with the share of the work that is done and the seconds left.
    """

    policy: Policy = field(default_factory=Policy)
    until: Until | None = None
    every: int = 1
    on_action: Watcher | None = None
    on_progress: OnProgress | None = None

    @classmethod
    def of(
        cls,
        checkpoint: Checkpoint = "auto",
        until: Until | None = None,
        every: int = 1,
        on_action: Watcher | None = None,
        on_progress: OnProgress | None = None,
    ) -> RunOptions:
        """The options that keyword arguments stand for.

        Raises:
            ParameterError: one is not what it should be.
        """
        policy = Policy.of(checkpoint)
        function("until", until, "lambda done, states: bool(states['p'].max() > 1)")
        function("on_action", on_action, "lambda action: ...")
        function("on_progress", on_progress, "lambda share, seconds_left: ...")
        return cls(policy, until, whole("every", every, 1), on_action, policy.progress if on_progress is None else on_progress)

    @property
    def online(self) -> bool:
        """Whether the run may end before all of its steps."""
        return self.until is not None

    def called_within(self, turn: Turn) -> RunOptions:
        """The same, with functions that cannot use the simulation whose run calls them."""
        functions: dict[str, Any] = {name: turn.outside(getattr(self, name)) for name in ("until", "on_action", "on_progress")}
        return replace(self, **functions)

    def ending_at(self, steps: int) -> RunOptions:
        """The same, for a run that a condition ended after so many steps: it need not say the same again."""
        return replace(self, until=lambda done, states: done >= steps) if self.online else self
