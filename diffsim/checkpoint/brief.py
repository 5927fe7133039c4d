"""A sweep of few steps that are all recorded, and that nothing follows: two calls of the stepper."""

from __future__ import annotations

from types import TracebackType

from diffsim.checkpoint.stepper import Stepper
from diffsim.engine import clock
from diffsim.errors import StaleValueError


class BriefSweep:
    """The `Sweep` of `StoreAll` without its actions, pieces, guard and clock, which for few steps of a small system take longer than the
    steps do.

    Args:
        stepper: the model. Its working state is state 0.
        steps: time steps.

    Attributes:
        seconds, drift, exact, resumable: see `Sweep`.
    """

    drift, exact = 0.0, True

    def __init__(self, stepper: Stepper, steps: int) -> None:
        self._stepper, self._steps, self.remaining = stepper, steps, steps
        self.seconds, self.resumable, self._at_end = 0.0, False, False

    @property
    def done(self) -> dict[str, int]:
        """Steps of each kind so far."""
        return {"advance": 0, "record": self._steps, "reverse": self._steps - self.remaining, "undo": 0}

    def forward(self) -> None:
        """Run the primal to the final state."""
        began = clock()
        self._stepper.record(0, self._steps)
        self.seconds, self._at_end = clock() - began, True

    def reverse(self) -> None:
        """Run the adjoint from the final state back to the initial one.

        Raises:
            StaleValueError: `forward` has not been run to its end, or `reverse` or `close` was called before.
        """
        if not self._at_end:
            raise StaleValueError("expected forward() once and then reverse() once, got reverse() at another time; make a new sweep")
        self._at_end, began = False, clock()
        self._stepper.reverse(0, self._steps)
        self.remaining, self.seconds = 0, self.seconds + clock() - began

    def close(self) -> None:
        """End the sweep. No slot is in use."""
        self._at_end = False

    def __enter__(self) -> BriefSweep:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
