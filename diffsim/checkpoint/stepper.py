"""The interface of a model for a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt


class Stepper(Protocol):
    """A working state, slots in the same memory, residuals of recorded steps, and a cotangent that `reverse` propagates.

    The cotangent and the gradients of parameters belong to the stepper, and only `reverse` changes them. A copy in a slot must hold
    all values that `advance` reads: every field, and every earlier time level of a multistep scheme.

    Example:
        See `Sweep`.
    """

    def advance(self, start: int, stop: int) -> int | None:
        """Run the primal from state `start` to state `stop`.

        Returns:
            None. If the run itself decides its end: the number of the final state when that is reached.
        """

    def record(self, start: int, stop: int) -> None:
        """Do the same as `advance`, bit for bit, and keep the values that the adjoints of these steps need."""

    def save(self, step: int, slot: int) -> None:
        """Copy the working state into `slot`."""

    def load(self, step: int, slot: int) -> None:
        """Copy the state in `slot` into the working state."""

    def free(self, slot: int) -> None:
        """Free `slot`."""

    def reverse(self, start: int, stop: int) -> None:
        """Run the adjoint of steps stop-1 down to `start`.

        If they were recorded last, free their residuals. Otherwise there is a single step, whose input is the working state, which is
        kept.
        """


class Keeping(Stepper, Protocol):
    """A stepper that keeps and reverses the states of many steps at once. With any other, `Sweep` saves them one by one."""

    def keep(self, start: int, stop: int) -> None:
        """Do the same as `advance`, bit for bit, and keep states start..stop-1, each in the memory of a free slot."""

    def reverse(self, start: int, stop: int) -> None:
        """Run the adjoint of steps stop-1 down to `start`, like any `Stepper`.

        If they are the newest kept run, or that run and the next step, whose input is the working state, free the run.
        """


class Portable(Stepper, Protocol):
    """A stepper whose state can be stored in slower tiers, and in the file of an interrupted run.

    Example:
        from diffsim.checkpoint import Keeping, Portable, Stepper, Undoable

        # The calls that a model must have for slow tiers (Portable), for kept runs (Keeping), and for steps backwards (Undoable).
        def calls(kind):
            return {name for part in kind.__mro__ for name in vars(part) if not name.startswith("_")}

        assert calls(Portable) - calls(Stepper) == {"state_arrays", "set_state", "cotangent_arrays", "set_cotangent"}
        assert calls(Keeping) - calls(Stepper) == {"keep"}
        assert calls(Undoable) - calls(Stepper) == {"undo", "compare", "drift"}
    """

    def state_arrays(self) -> Sequence[npt.NDArray[Any]]:
        """The working state: always the same number of arrays, with the same shapes and types. Views are valid until the stepper runs
        on."""

    def set_state(self, arrays: Sequence[npt.NDArray[Any]]) -> None:
        """Copy such arrays to the working state."""

    def cotangent_arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Copies of all values that `reverse` propagates: cotangents of the state, and sums for parameters."""

    def set_cotangent(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Continue the reverse sweep from such arrays."""


class Undoable(Stepper, Protocol):
    """A stepper whose steps can be undone."""

    def undo(self, start: int, stop: int) -> None:
        """Run the primal backwards from state `stop` to state `start`, exactly except for round-off."""

    def compare(self, step: int, slot: int) -> None:
        """Note the difference between the working state and the true state `step` in `slot`."""

    def drift(self) -> float:
        """Estimated relative error of the gradient by undone steps so far; NaN if a value is NaN."""
