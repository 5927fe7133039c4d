"""The options of a run, in addition to its inputs and its number of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from diffsim.base.arguments import function, whole
from diffsim.checkpoint import Action, OnProgress, Policy
from diffsim.simulation.prepared.locks import Turn
from diffsim.typing import Array

Until: TypeAlias = Callable[[int, dict[str, Array]], bool]
"""(steps done, states) -> whether the run is over."""
WatchAdjoint: TypeAlias = Callable[[int, dict[str, Array]], object]
"""(step, cotangents of the states there) -> anything."""
Watcher: TypeAlias = Callable[[Action], None]


@dataclass(frozen=True)
class RunOptions:
    """The end of a run, the states that its reverse sweep needs, and the functions of the user that it calls.

    Attributes:
        policy: which states are kept for the reverse sweep.
        until: a condition that ends the run early.
        every: number of steps between calls of `until`; `watch` is called at multiples of it.
        on_action: called after each action of the schedule.
        on_progress: called with the share of the work that is done and the seconds left; None: that of the policy.
        watch: called in the reverse sweep with a step and the cotangents of the states there.

    Raises:
        ParameterError: an argument has the wrong type.
    """

    policy: Policy = field(default_factory=Policy)
    until: Until | None = None
    every: int = 1
    on_action: Watcher | None = None
    on_progress: OnProgress | None = None
    watch: WatchAdjoint | None = None

    @classmethod
    def of(
        cls,
        policy: Policy,
        until: Until | None = None,
        every: int = 1,
        on_action: Watcher | None = None,
        on_progress: OnProgress | None = None,
        watch: WatchAdjoint | None = None,
    ) -> RunOptions:
        """These options. Those of a policy alone are made once for each policy in turn."""
        global _plain
        called = until is not None or on_action is not None or on_progress is not None or watch is not None
        if called or type(every) is not int or every != 1:
            return cls(policy, until, every, on_action, on_progress, watch)
        plain = _plain
        if plain is None or plain.policy is not policy:
            plain = _plain = cls(policy)
        return plain

    def __post_init__(self) -> None:
        if self.watched:
            function("until", self.until, "lambda done, states: bool(states['p'].max() > 1)")
            function("on_action", self.on_action, "lambda action: ...")
            function("on_progress", self.on_progress, "lambda share, seconds_left: ...")
            function("watch", self.watch, "lambda step, cotangents: ...")
        if type(self.every) is not int or self.every < 1:
            object.__setattr__(self, "every", whole("every", self.every, 1))
        if self.on_progress is None and self.policy.progress is not None:
            object.__setattr__(self, "on_progress", self.policy.progress)

    @property
    def online(self) -> bool:
        """True if the run may end early."""
        return self.until is not None

    @property
    def watched(self) -> bool:
        """True if a function of the user, or a file, follows the run, so that it is not repeated."""
        called = self.until is not None or self.on_action is not None or self.on_progress is not None or self.watch is not None
        return called or self.policy.resume > 0

    def called_within(self, turn: Turn) -> RunOptions:
        """The same options, with user functions that are not allowed to use the running simulation."""
        if not self.watched:
            return self
        functions: dict[str, Any] = {
            name: turn.outside(function)
            for name in ("until", "on_action", "on_progress", "watch")
            if (function := getattr(self, name)) is not None
        }
        return replace(self, **functions) if functions else self

    def ending_at(self, steps: int) -> RunOptions:
        """The same options for a run that a condition ended after `steps` steps. The condition is not called again."""
        return replace(self, until=lambda done, states: done >= steps) if self.online else self


_plain: RunOptions | None = None
"""The options of the last policy that came alone."""
