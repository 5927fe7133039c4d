"""Steps that are run again: the tape of one, and a loop of them as the checkpointing schedules see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays.leaves import Cores, is_floating
from diffsim.ad.core import Tracer, bottom
from diffsim.ad.transforms.modes import ReverseTrace, ReverseTracer
from diffsim.ad.transforms.sweep import backward
from diffsim.checkpoint.growth import largest
from diffsim.checkpoint.storage.fingerprint import fingerprint
from diffsim.errors import PlanError, ReplayError

Step = Callable[[int, Cores, Cores], Cores]
"""(number of the step, state, captured values) -> state: a pure function of core values."""
NODE_BYTES = 600
"""Memory of a node of the tape beside the arrays that it keeps."""


class StepTape:
    """The tape of one step: a pullback from the cotangents of the state after it."""

    def __init__(self, step: Step, number: int, state: Cores, captured: Cores) -> None:
        trace = ReverseTrace()
        inputs = [trace.leaf(c) if is_floating(c) else c for c in (*state, *captured)]
        outs = step(number, tuple(inputs[: len(state)]), tuple(inputs[len(state) :]))
        trace.ended = True
        mine = [isinstance(o, ReverseTracer) and o.trace is trace for o in outs]
        self.ends = [o.node if m else None for o, m in zip(outs, mine, strict=True)]
        self.state = tuple(o.primal if m else o for o, m in zip(outs, mine, strict=True))
        self.leaves = [i.node if isinstance(i, ReverseTracer) and i.trace is trace else None for i in inputs]

    def pull(self, cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the state before and of the captured values."""
        seeds = [(end, ct) for end, ct in zip(self.ends, cts, strict=True) if end is not None and ct is not None]
        bars = iter(backward(seeds, [n for n in self.leaves if n is not None]))
        return [None if n is None else next(bars) for n in self.leaves]

    def nbytes(self) -> int:
        """Memory that it holds."""
        seen: set[int] = set()
        stack = [end for end in self.ends if end is not None]
        total = 0
        while stack:
            node = stack.pop()
            if node.id in seen:
                continue
            seen.add(node.id)
            kept = [bottom(a) for a in (*node.args, node.out) if a is not None]
            total += NODE_BYTES + sum(a.nbytes for a in kept if isinstance(a, np.ndarray))
            stack += [p for p in node.parents if p is not None]
        return total


class LoopStepper:
    """A loop as the checkpointing schedules see it."""

    def __init__(self, step: Step, first: int, steps: int, state: Cores, captured: Cores) -> None:
        self.step, self.first, self.steps, self.captured = step, first, steps, captured
        self.state = state
        self.slots: dict[int, Cores] = {}
        self.tapes: dict[int, StepTape] = {}
        self.cts: list[Any] = [None] * len(state)
        self.captured_cts: list[Any] = [None] * len(captured)

    def advance(self, start: int, stop: int) -> int | None:
        stop = min(stop, self.steps)
        for n in range(start, stop):
            self.state = self.step(self.first + n, self.state, self.captured)
        return stop if stop == self.steps else None

    def record(self, start: int, stop: int) -> None:
        for n in range(start, stop):
            self.tapes[n] = StepTape(self.step, self.first + n, self.state, self.captured)
            self.state = self.tapes[n].state

    def save(self, step: int, slot: int) -> None:
        self.slots[slot] = self.state

    def load(self, step: int, slot: int) -> None:
        self.state = self.slots[slot]

    def free(self, slot: int) -> None:
        del self.slots[slot]

    def reverse(self, start: int, stop: int) -> None:
        for n in reversed(range(start, stop)):
            tape = self.tapes.pop(n, None) or StepTape(self.step, self.first + n, self.state, self.captured)
            bars = tape.pull(self.cts)
            self.cts = bars[: len(self.cts)]
            for k, bar in enumerate(bars[len(self.cts) :]):
                if bar is not None:
                    self.captured_cts[k] = bar if self.captured_cts[k] is None else self.captured_cts[k] + bar

    def compared(self) -> list[np.ndarray]:
        """The fingerprint of the state, which the guard compares."""
        return _compared(self.state)

    def state_arrays(self) -> list[np.ndarray]:
        """The state for a slow tier.

        Raises:
            PlanError: not all of it is numbers.
        """
        if other := [type(c).__name__ for c in self.state if not _is_storable(c)]:
            raise PlanError(
                f"expected numbers, of 64 bits where they are integers, in the state of a loop that keeps states in slow tiers, got "
                f"{', '.join(other)}; give checkpoint= a schedule without slow tiers"
            )
        return [np.asarray(bottom(c)) for c in self.state]

    def cotangent_size(self) -> float:
        """The largest entry of the state's cotangent now."""
        return largest(bottom(ct) for ct in self.cts if ct is not None)

    def precision(self) -> float:
        """The largest relative rounding error of the entries of the state."""
        kinds = {value.dtype for value in self.compared() if value.dtype.kind in "fc"}
        return max((float(np.finfo(kind).eps) for kind in kinds), default=float(np.finfo(float).eps))

    def set_state(self, arrays: Sequence[np.ndarray]) -> None:
        if any(isinstance(c, Tracer) for c in self.state):
            raise PlanError(
                "a loop that is differentiated twice keeps its states in memory; give checkpoint= a schedule without slow tiers"
            )
        self.state = tuple(_like(array, c) for array, c in zip(arrays, self.state, strict=True))


def _is_storable(core: Any) -> bool:
    """True if a value of a state comes back as it was from an array of numbers."""
    if isinstance(core, int):
        return -(2**63) <= core < 2**63
    return isinstance(core, (float, complex)) or getattr(getattr(core, "dtype", None), "kind", "O") in "biufc"


def _compared(cores: Cores) -> list[np.ndarray]:
    """The numbers of a state as arrays whose bytes are their value: an integer of Python's may be of any length."""
    out = []
    for c in cores:
        if isinstance(c, int):
            out.append(np.frombuffer(c.to_bytes(c.bit_length() // 8 + 1, "little", signed=True), np.uint8))
        elif isinstance(c, (float, complex)) or hasattr(c, "dtype"):
            array = np.asarray(bottom(c))
            if array.dtype.kind != "O":
                out.append(array)
    return out


def _like(array: np.ndarray, core: Any) -> Any:
    """A copy of a stored array as a value of the kind of `core`."""
    if isinstance(core, (np.ndarray, np.generic)):
        return array.copy() if isinstance(core, np.ndarray) else array[()]
    return array.item()


def require_same(again: Cores, expected: Cores, what: str, causes: Callable[[], str]) -> None:
    """Refuse a second run that differs from the first. `causes`: why it may, and what to do."""
    if fingerprint(_compared(again)) != fingerprint(_compared(expected)):
        raise ReplayError(f"{what} gave another result when it was run again for its derivative: {causes()}")
