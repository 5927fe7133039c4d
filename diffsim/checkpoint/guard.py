"""Refuse a gradient of steps that did not do again what they did the first time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy.typing as npt

from diffsim.checkpoint.schedule import require_count
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.errors import ReplayError

SHARE = 0.02  # share of the first run's time spent on the grid, as much on saved states, and again on comparing: 2 to 4 % of a sweep
MOST_KNOWN = 1024  # fingerprints kept, each of 8 bytes
COARSEST = 2**40

Arrays = Callable[[], Sequence[npt.NDArray]]


class ReplayGuard:
    """Fingerprints of states of the first run, which every later run over them must meet again.

    A grid of states is compared: every `stride`-th, whether they are advanced to or recorded. Of the states that the first run saves, as
    many as 2 % of its time allow are compared when they are first loaded, the first of them always.

    Args:
        state: gives the working state's arrays.
        outputs: gives what the run has recorded beside its state, such as traces, which replays must leave as it is; or None.
        stride: of the grid; None: as fine as 2 % of the time of the first run allows, and at most 1024 states. If it is given, all
            states that are saved are compared.

    Example:
        See `Sweep`.
    """

    def __init__(self, state: Arrays, outputs: Arrays | None = None, stride: int | None = None) -> None:
        self._state, self._outputs = state, outputs
        self._adapts = stride is None
        self.stride = 1 if stride is None else require_count("stride", stride)
        self._known: dict[int, int] = {}
        self._saved: dict[tuple[int, int], int] = {}  # tier and slot: fingerprint of what the first run saved there
        self._reached = 0  # the farthest state of the first run
        self._outputs_before: int | None = None
        self._ended = False
        self._steps = self._pieces = 0  # of the first run, after its first piece, which compiles kernels
        self._worked = 0.0  # seconds that they took
        self._spent, self._least = 0.0, float("inf")  # seconds of all fingerprints, and of the quickest of a state
        self._kept = 0  # fingerprints of states that the first run saved, which are not on the grid
        self._began: tuple[int, float] | None = None

    @property
    def seconds(self) -> float:
        """Time that fingerprints have taken."""
        return self._spent

    def next(self, start: int, stop: int) -> int:
        """Where a run from state `start` to state `stop` is to pause, for `reached`: at the next state that is compared, or its end."""
        self._began = start, time.perf_counter()
        return min(stop, (start // self.stride + 1) * self.stride)

    def reached(self, step: int, since: int) -> None:
        """The working state is state `step`, computed from state `since`; `next` was asked before."""
        if not self._ended and self._began is not None and step > self._reached:
            start, began = self._began
            if self._pieces:
                self._steps += step - start
                self._worked += time.perf_counter() - began
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
        """The working state, state `step`, was saved."""
        self._saved.pop((tier, slot), None)
        if self._ended:
            return
        if step in self._known:
            self._saved[tier, slot] = self._known[step]
        elif not self._adapts or not self._kept or (self._kept + 1) * self._least <= SHARE * self._worked:
            self._saved[tier, slot] = self._fingerprint(self._state)
            self._kept += 1

    def loaded(self, step: int, slot: int, tier: int) -> None:
        """State `step` was loaded."""
        before = self._saved.pop((tier, slot), None)
        if before is not None and self._fingerprint(self._state) != before:
            raise ReplayError(
                f"state {step} is not what was saved: slot {slot} of tier {tier} was changed since, or does not hold the whole state; "
                "let save copy every array of the state, and nothing else write to the copy"
            )

    def ended(self) -> None:
        """The first run is over."""
        self._ended = True
        if self._outputs is not None:
            self._outputs_before = self._fingerprint(self._outputs)

    def finished(self) -> None:
        """The reverse sweep is over."""
        if self._outputs is not None and self._fingerprint(self._outputs) != self._outputs_before:
            raise ReplayError(
                "what the run recorded changed when steps were run again: something is added up in each run of a step; let records be "
                "written, not added to, by the number of the step"
            )

    def _fingerprint(self, arrays: Arrays) -> int:
        began = time.perf_counter()
        found = fingerprint(arrays())
        seconds = time.perf_counter() - began
        self._spent += seconds
        if arrays is self._state:
            self._least = min(self._least, seconds)
        return found

    def _coarsen(self) -> None:
        """Make the grid so coarse that a fingerprint takes no more than its share of the steps between two."""
        before = self.stride
        if self._steps and self._least < float("inf"):
            while self._least > SHARE * self.stride * self._worked / self._steps and self.stride < COARSEST:
                self.stride *= 2
        if len(self._known) >= MOST_KNOWN:
            self.stride *= 2
        if self.stride != before:
            self._known = {n: value for n, value in self._known.items() if n % self.stride == 0}
