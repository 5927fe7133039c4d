"""Kept runs for a stepper that stores one state at a time."""

from __future__ import annotations

from typing import Any

from diffsim.checkpoint.guard import ReplayGuard
from diffsim.checkpoint.stepper import Stepper


class OneByOne:
    """Add `keep` to a stepper that lacks it: each state of a run is saved in a free slot.

    Args:
        stepper: the stepper to run. Other attributes are its own.
        slots: the number of its slots.
        guard: compares the states of runs like other saved states; None: they are not compared.
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
        """Free the state in `slot`."""
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
        """Run the adjoint of steps stop-1 down to `start`: of the newest recorded or kept run, or a single step."""
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
        """Free the kept runs."""
        while self._kept:
            self.free(self._kept.popitem()[1])
