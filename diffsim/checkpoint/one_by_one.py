"""Runs of states for a stepper that keeps one state at a time."""

from __future__ import annotations

from typing import Any

from diffsim.checkpoint.guard import ReplayGuard
from diffsim.checkpoint.stepper import Stepper


class OneByOne:
    """A stepper with `keep`, made of one without: each state of a run is saved in a slot that is free.

    Args:
        stepper: what is run. All that is not here is its own.
        slots: that it has.
        guard: compares the states of runs like others that are saved; None: nobody does.
    """

    def __init__(self, stepper: Stepper, slots: int, guard: ReplayGuard | None = None) -> None:
        self._stepper, self._guard = stepper, guard
        self._free = list(range(slots))[::-1]
        self._kept: dict[int, int] = {}  # step of a state in a run: its slot

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stepper, name)

    def save(self, step: int, slot: int) -> None:
        """Copy the working state into `slot`."""
        self._stepper.save(step, slot)
        self._free.remove(slot)

    def free(self, slot: int) -> None:
        """Give up the state in `slot`."""
        self._stepper.free(slot)
        self._free.append(slot)

    def keep(self, start: int, stop: int) -> None:
        """Advance, and save states start..stop-1."""
        for step in range(start, stop):
            slot = self._free[-1]
            self.save(step, slot)
            self._kept[step] = slot
            if self._guard is not None:
                self._guard.saved(step, slot, 0)
            self._stepper.advance(step, step + 1)

    def reverse(self, start: int, stop: int) -> None:
        """Run the adjoint of steps stop-1 down to `start`: of the newest record or kept run, or a single step."""
        if start not in self._kept:
            self._stepper.reverse(start, stop)
            return
        for step in reversed(range(start, stop)):
            if step in self._kept:
                slot = self._kept.pop(step)
                self._stepper.load(step, slot)
                if self._guard is not None:
                    self._guard.loaded(step, slot, 0)
                self.free(slot)
            self._stepper.reverse(step, step + 1)

    def close(self) -> None:
        """Give up the runs that are kept."""
        while self._kept:
            self.free(self._kept.popitem()[1])
