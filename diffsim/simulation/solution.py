"""The result of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from diffsim.typing import Array


@dataclass(frozen=True)
class Solution:
    """The result of a simulation, or its tangents or cotangents.

    Attributes:
        final: each state after the last step, over the cells.
        traces: each recorded state at its receivers, shape (steps + 1, receivers); row 0 is the initial state.
    """

    final: Mapping[str, Array] = field(default_factory=dict)
    traces: Mapping[str, Array] = field(default_factory=dict)


Pullback = Callable[[Solution], dict[str, Array]]
