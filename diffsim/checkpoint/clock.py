"""Measure the time of each kind of work in a sweep, and predict the time of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

MEASURED_FIRST, MEASURED_THEN = 8, 16
"""Where a measurement waits for a GPU, the first 8 pieces of work of each kind are measured, then every 16th."""
REVERSE_WEIGHT = 3.0  # the adjoint step of an explicit stencil takes about as long as three primal ones


class Clock:
    """Work done and time taken, by kind: steps advanced, recorded, undone, reversed.

    Args:
        total: steps of each kind in the whole sweep.
        reverse_weight: cost of a reversed step in primal steps, until it is measured.
        known: seconds of a step of each kind in an earlier sweep, which count until this one has measured its own.
    """

    def __init__(
        self, total: dict[str, int], reverse_weight: float = REVERSE_WEIGHT, known: Mapping[str, float] = MappingProxyType({})
    ) -> None:
        self.total, self.reverse_weight, self._known = total, reverse_weight, known
        self.done = dict.fromkeys(total, 0)
        self._timed: dict[str, tuple[int, float]] = {}  # steps and seconds
        self._pieces = dict.fromkeys(total, 0)
        self._first: dict[str, tuple[int, float]] = {}  # the first of each kind compiles a kernel

    def measures_next(self, kind: str) -> bool:
        """True if the next piece of this kind is one of the few that are measured where a measurement has a cost."""
        return self._pieces[kind] < MEASURED_FIRST or self._pieces[kind] % MEASURED_THEN == 0

    def note(self, kind: str, start: int, stop: int, seconds: float | None) -> None:
        """Note that steps start..stop-1 took `seconds`; None: it was not measured."""
        steps = stop - start
        self.done[kind] += steps
        self._pieces[kind] += 1
        if seconds is None:
            return
        if kind not in self._first:
            self._first[kind] = steps, seconds
        else:
            count, sum_ = self._timed.get(kind, (0, 0.0))
            self._timed[kind] = count + steps, sum_ + seconds

    def step_seconds(self, kind: str) -> float | None:
        """Seconds of a step of this kind, or None before the first one."""
        own = self._own(kind)
        if own is not None:
            return own
        primal = self._own("advance") if self._own("advance") is not None else self._own("record")
        return self.reverse_weight * primal if kind == "reverse" and primal is not None else primal

    def _own(self, kind: str) -> float | None:
        """The same, not derived from steps of another kind."""
        if kind not in self._timed and kind in self._known:
            return self._known[kind]
        steps, seconds = self._timed.get(kind) or self._first.get(kind) or (0, 0.0)
        return seconds / steps if steps else None

    @property
    def measured(self) -> dict[str, float]:
        """Seconds of a step of each kind, as measured in this sweep or known before."""
        return {kind: seconds for kind in self.total if (seconds := self._own(kind)) is not None}

    @property
    def share(self) -> float:
        """Fraction of the work done, from 0 to 1, with a reversed step counted as `reverse_weight` primal ones."""
        weight = {kind: self.reverse_weight if kind == "reverse" else 1.0 for kind in self.total}
        done = sum(weight[kind] * self.done[kind] for kind in self.total)
        return min(done / max(sum(weight[kind] * self.total[kind] for kind in self.total), 1.0), 1.0)

    @property
    def seconds_left(self) -> float | None:
        """Predicted seconds of the rest of the sweep, at the pace measured so far; None before the first step."""
        left = 0.0
        for kind, total in self.total.items():
            steps = max(total - self.done[kind], 0)
            if steps:
                seconds = self.step_seconds(kind)
                if seconds is None:
                    return None
                left += steps * seconds
        return left
