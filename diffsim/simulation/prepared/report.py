"""The cost of a reverse sweep, and the errors of its states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from diffsim.checkpoint import Growth


@dataclass(frozen=True)
class SweepReport:
    """Time and steps of a gradient, and the errors of its states.

    Attributes:
        seconds: time of the forward and the reverse run together, without the time between them.
        steps: run of each kind: "advance", "record", "undo", "reverse".
        guard_seconds: time to compare states.
        compression_error: largest relative error of `Lossy` compression; None: there was no such compression.
        drift: relative error of the gradient from states computed backwards, as a second run with other rounding errors shows it; None: no
            step was undone.
        growth: how the cotangent grew, if exponentially.
        exchanges: exchanges of ghost cells between domains.
        exchange_seconds: their time, with the wait for other ranks.
        ghost_share: ghost cells over all cells of this process, computed in addition to its own.
    """

    seconds: float
    steps: Mapping[str, int]
    guard_seconds: float = 0.0
    compression_error: float | None = None
    drift: float | None = None
    growth: Growth | None = None
    exchanges: int = 0
    exchange_seconds: float = 0.0
    ghost_share: float = 0.0
