"""A model as a schedule sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy.typing as npt


class Stepper(Protocol):
    """A working state, slots in the memory it runs in, records, and a cotangent that `reverse` carries back.

    The cotangent and the gradients of parameters belong to the stepper and are touched by `reverse` alone. A copy in a slot must hold
    all that `advance` reads: every field, and every earlier time level of a multistep scheme.

    Example:
        See `Sweep`.
    """

    def advance(self, start: int, stop: int) -> int | None:
        """Run the primal from state `start` to state `stop`.

        Returns:
            None; or, where the run decides itself when it is over, the final state's number once that is reached.
        """

    def record(self, start: int, stop: int) -> None:
        """Do what `advance` does, bit for bit, and keep what the adjoints of these steps need."""

    def save(self, step: int, slot: int) -> None:
        """Copy the working state into `slot`."""

    def load(self, step: int, slot: int) -> None:
        """Copy the state in `slot` into the working state."""

    def free(self, slot: int) -> None:
        """Give up the state in `slot`."""

    def reverse(self, start: int, stop: int) -> None:
        """Run the adjoint of steps stop-1 down to `start`.

        If they are the newest record, drop that. Otherwise it is a single step whose input is the working state, which stays.
        """


class Keeping(Stepper, Protocol):
    """A stepper that keeps and reverses the states of many steps at once. With any other, `Sweep` saves them one by one.

    Example:
        See `Portable`.
    """

    def keep(self, start: int, stop: int) -> None:
        """Do what `advance` does, bit for bit, and keep states start..stop-1, each in the memory of a slot that is free."""

    def reverse(self, start: int, stop: int) -> None:
        """Run the adjoint of steps stop-1 down to `start`, as any `Stepper` does.

        If they are the newest kept run, or that and the step above it, whose input is the working state, drop the run.
        """


class Portable(Stepper, Protocol):
    """A stepper whose state can be kept elsewhere: in slower tiers, and in the file of an interrupted run.

    Example:
        from diffsim.checkpoint import Keeping, Portable, Stepper, Undoable

        # The calls that a model must have for slow tiers (Portable), for kept runs (Keeping), and for steps backwards (Undoable).
        def calls(kind):
            return {name for part in kind.__mro__ for name in vars(part) if not name.startswith("_")}

        assert calls(Portable) - calls(Stepper) == {"state_arrays", "set_state", "cotangent_arrays", "set_cotangent"}
        assert calls(Keeping) - calls(Stepper) == {"keep"}
        assert calls(Undoable) - calls(Stepper) == {"undo", "compare", "drift"}
    """

    def state_arrays(self) -> Sequence[npt.NDArray]:
        """The working state: always as many arrays of the same shapes and types. May be views, valid until the stepper goes on."""

    def set_state(self, arrays: Sequence[npt.NDArray]) -> None:
        """Make a copy of such arrays the working state."""

    def cotangent_arrays(self) -> Mapping[str, npt.NDArray]:
        """Copies of all that `reverse` carries on: cotangents of the state, and what was added up for parameters."""

    def set_cotangent(self, arrays: Mapping[str, npt.NDArray]) -> None:
        """Go on reversing from such arrays."""


class Undoable(Stepper, Protocol):
    """A stepper whose steps can be undone.

    Example:
        See `Portable`.
    """

    def undo(self, start: int, stop: int) -> None:
        """Run the primal backwards from state `stop` to state `start`, exact but for round-off."""

    def compare(self, step: int, slot: int) -> None:
        """Note how far the working state is from the true state `step`, in `slot`."""

    def drift(self) -> float:
        """Relative error that undone steps make in the gradient, as estimated so far; NaN if a number is not one."""
