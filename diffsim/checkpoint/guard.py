"""Refuse a gradient if a repeated step gives another result than the first time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from diffsim.checkpoint.schedule import require_count
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.engine import backend, clock
from diffsim.errors import ReplayError

SHARE = 0.02  # share of the first run's time for the grid, for saved states, and for comparing, each: 2 to 4 % of a sweep
MOST_KNOWN = 1024  # fingerprints kept, each of 8 bytes
MEASURED = 16
"""Pieces of the first run that are measured where that waits for a GPU; the others count as if they had the same pace."""
COARSEST = 2**40

Arrays = Callable[[], Sequence[npt.NDArray[Any]]]


class ReplayGuard:
    """Fingerprints of states of the first run. Every repeated run must give the same fingerprints.

    Every `stride`-th state is compared, in advances and in recorded steps. States that the first run saves are compared when they are first
    loaded: the first of them always, and as many others as 2 % of the run's time allow.

    Args:
        state: returns the arrays of the working state.
        outputs: returns the other results of the run, such as traces, which replays must not change; or None.
        stride: steps between compared states; None: as few as 2 % of the first run's time allow, with at most 1024 states. If it is
            given, all saved states are compared.
        foreign: whether steps call functions of a user, which nothing else proves to be deterministic. Then several states of a run are
            compared however short it is.
        steps: the length of the run, where it is known. With `foreign`, states a fifth of it apart are compared.

    Attributes:
        seconds: time spent on fingerprints.
    """

    def __init__(
        self, state: Arrays, outputs: Arrays | None = None, stride: int | None = None, foreign: bool = False, steps: int | None = None
    ) -> None:
        self._state, self._outputs, self._foreign = state, outputs, foreign
        self._adapts = stride is None
        self.stride = 1 if stride is None else require_count("stride", stride)
        if self._adapts and foreign and steps is not None:
            self.stride = max(steps // 5, 1)
        self._known: dict[int, int] = {}
        self._saved: dict[tuple[int, int], int] = {}  # tier and slot: fingerprint of the state that the first run saved there
        self._reached = 0  # the farthest state of the first run
        self._outputs_before: int | None = None
        self._ended, self._on_host = False, backend().on_host
        self._steps = self._pieces = 0  # counted in the first run, after its first piece, which compiles kernels
        self._worked = 0.0  # seconds that they took
        self.seconds, self._least = 0.0, float("inf")  # seconds of all fingerprints, and of the quickest of a state
        self._kept = 0  # fingerprints of states that the first run saved, which are not on the grid
        self._began: tuple[int, float | None] | None = None  # a step, and when it began; None: not measured

    def next(self, start: int, stop: int) -> int:
        """The next state at which a run from `start` to `stop` pauses for `reached`: one that is compared, or `stop`."""
        if not self._ended:
            measured = self._on_host or self._pieces <= MEASURED  # a GPU has to be waited for
            self._began = start, clock() if measured else None
        return min(stop, (start // self.stride + 1) * self.stride)

    def reached(self, step: int, since: int) -> None:
        """Note that the working state is state `step`, computed from state `since`. Call `next` before."""
        if not self._ended and self._began is not None and step > self._reached:
            start, began = self._began
            if self._pieces:
                steps = step - start
                self._worked += steps * self._worked / self._steps if began is None else clock() - began
                self._steps += steps
            self._pieces += 1
        if step % self.stride:
            return
        if step > self._reached and not self._ended:
            self._reached = step
            if self._adapts:
                self._coarsen()
            if step % self.stride == 0 and not (self._adapts and not self._steps):  # without a pace yet, it might cost too much
                self._known[step] = self._fingerprint(self._state)
        elif step in self._known and self._fingerprint(self._state) != self._known[step]:
            raise ReplayError(
                f"state {step}, computed again from state {since}, differs from that of the first run: a step between them is not "
                "deterministic, or reads something that is not part of the state; let the state hold all that a step reads and "
                "changes, and draw random numbers by the step's number, or keep every state (StoreAll)"
            )

    def saved(self, step: int, slot: int, tier: int) -> None:
        """Note that the working state, state `step`, was saved."""
        self._saved.pop((tier, slot), None)
        if self._ended:
            return
        if step in self._known:
            self._saved[tier, slot] = self._known[step]
        elif not self._adapts or not self._kept or (self._kept + 1) * self._least <= SHARE * self._worked:
            self._saved[tier, slot] = self._fingerprint(self._state)
            self._kept += 1

    def loaded(self, step: int, slot: int, tier: int) -> None:
        """Note that state `step` was loaded, and compare it."""
        before = self._saved.pop((tier, slot), None)
        if before is not None and self._fingerprint(self._state) != before:
            raise ReplayError(
                f"state {step} is not what was saved: slot {slot} of tier {tier} was changed since, or does not hold the whole state; "
                "let save copy every array of the state, and nothing else write to the copy"
            )

    def ended(self) -> None:
        """Note that the first run is over."""
        self._ended = True
        if self._outputs is not None:
            self._outputs_before = self._fingerprint(self._outputs)

    def finished(self) -> None:
        """Note that the reverse sweep is over, and compare the outputs."""
        if self._outputs is not None and self._fingerprint(self._outputs) != self._outputs_before:
            raise ReplayError(
                "the outputs of the run changed when steps were run again: something is added up in each run of a step; let outputs be "
                "written, not added to, by the number of the step"
            )

    def _fingerprint(self, arrays: Arrays) -> int:
        began = clock()
        value = fingerprint(arrays())
        seconds = clock() - began
        self.seconds += seconds
        if arrays is self._state:
            self._least = min(self._least, seconds)
        return value

    def _coarsen(self) -> None:
        """Coarsen the grid until a fingerprint takes no more than its share of the time between two compared states."""
        before = self.stride
        if self._steps and self._least < float("inf"):
            coarsest = self._reached // 4 if self._foreign else COARSEST
            while self._least > SHARE * self.stride * self._worked / self._steps and self.stride < coarsest:
                self.stride *= 2
        if len(self._known) >= MOST_KNOWN:
            self.stride *= 2
        if self.stride != before:
            self._known = {n: value for n, value in self._known.items() if n % self.stride == 0}
