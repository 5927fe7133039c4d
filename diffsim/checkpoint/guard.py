"""Refuse a gradient of steps that did not do again what they did the first time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy.typing as npt

from diffsim.checkpoint.schedule import require_count
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.errors import ReplayError

SHARE = 0.05  # of the time of the first run that may go into fingerprints, about 2 % of the whole sweep
MOST_KNOWN = 1024  # fingerprints kept, each of 8 bytes

Arrays = Callable[[], Sequence[npt.NDArray]]


class ReplayGuard:
    """Fingerprints of states of the first run, which every later run over them must meet again.

    A grid of states is compared: every `stride`-th. The states that the first run saves are compared when they are first loaded.

    Args:
        state: gives the working state's arrays.
        outputs: gives what the run has recorded beside its state, such as traces, which replays must leave as it is; or None.
        stride: of the grid; None: as fine as 5 % of the time of the first run allows, and at most 1024 states.
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
        self._taken = 0  # fingerprints, in the first run
        self._worked = self._spent = 0.0
        self._mark = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Time that fingerprints have taken."""
        return self._spent

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Cut an advance where its states are to be compared; `reached` is to be called after each piece."""
        while start < stop:
            end = min(stop, (start // self.stride + 1) * self.stride)
            yield start, end
            start = end

    def reached(self, step: int, since: int) -> None:
        """The working state is state `step`, computed from state `since`."""
        if step % self.stride:
            return
        began = self._begin()
        if step > self._reached and not self._ended:
            self._known[step] = fingerprint(self._state())
            self._reached, self._taken = step, self._taken + 1
            self._spent += time.perf_counter() - began
            if self._adapts and (self._too_dear() or len(self._known) > MOST_KNOWN):
                self.stride *= 2
                self._known = {n: value for n, value in self._known.items() if n % self.stride == 0}
        elif step in self._known:
            if fingerprint(self._state()) != self._known[step]:
                raise ReplayError(
                    f"state {step}, computed again from state {since}, differs from that of the first run: a step between them is not "
                    "deterministic, or reads something that is not part of the state; let the state hold all that a step reads and "
                    "changes, and draw random numbers by the step's number, or keep every state (StoreAll)"
                )
            self._spent += time.perf_counter() - began
        self._mark = time.perf_counter()

    def saved(self, step: int, slot: int, tier: int) -> None:
        """The working state, state `step`, was saved."""
        if not self._ended:
            self._saved[tier, slot] = fingerprint(self._state())

    def loaded(self, step: int, slot: int, tier: int) -> None:
        """State `step` was loaded."""
        before = self._saved.pop((tier, slot), None)
        if before is not None and fingerprint(self._state()) != before:
            raise ReplayError(
                f"state {step} is not what was saved: slot {slot} of tier {tier} was changed since, or does not hold the whole state; "
                "let save copy every array of the state, and nothing else write to the copy"
            )

    def ended(self) -> None:
        """The first run is over."""
        self._ended = True
        if self._outputs is not None:
            self._outputs_before = fingerprint(self._outputs())

    def finished(self) -> None:
        """The reverse sweep is over."""
        if self._outputs is not None and fingerprint(self._outputs()) != self._outputs_before:
            raise ReplayError(
                "what the run recorded changed when steps were run again: something is added up in each run of a step; let records be "
                "written, not added to, by the number of the step"
            )

    def _too_dear(self) -> bool:
        """Whether a fingerprint takes more than its share of the steps between two."""
        fingerprint_seconds, step_seconds = self._spent / self._taken, self._worked / self._reached
        return fingerprint_seconds > SHARE * self.stride * step_seconds

    def _begin(self) -> float:
        now = time.perf_counter()
        self._worked += now - self._mark
        return now
