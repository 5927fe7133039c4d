"""Launches on a GPU that nobody has waited for: their expected time, and writes between them without waiting."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from diffsim.engine import DeviceArray, check_generation, language, lock, shared_kernel
from diffsim.stepping.run.pace import Pace
from diffsim.typing import IntArray

QUEUED_SECONDS = 0.1
"""The most seconds, approximately, that a GPU works on the queue, so that Ctrl-C and progress work."""
BATCH = 32
"""Numbers that one launch writes."""
BATCHES = 8
"""Launches for one array of numbers; beyond that a copy, which waits for the GPU, costs less."""


class Queue:
    """Launches since the GPU was waited for last.

    Their time is not measured itself. It is at least the time for which the wait blocks, and at most the time since the first launch. The
    pace of each kernel is corrected if it predicts less or more.
    """

    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait = wait
        self._steps: dict[Pace, int] = {}
        self._begin = 0.0

    @property
    def seconds(self) -> float:
        """The expected time of the queued launches."""
        return sum(pace.seconds * steps for pace, steps in self._steps.items())

    def begin(self, pace: Pace) -> None:
        """Call before the launches of some steps. A kernel whose pace is unknown is measured alone."""
        if not pace.seconds:
            self.wait()
        if not self._steps:
            self._begin = time.perf_counter()

    def end(self, pace: Pace, steps: int) -> None:
        """Call after these launches. It waits if there is enough in the queue."""
        self._steps[pace] = self._steps.get(pace, 0) + steps
        if not pace.seconds or self.seconds >= QUEUED_SECONDS:
            self.wait()

    def wait(self) -> None:
        """Wait for the GPU, and correct the paces."""
        blocked = time.perf_counter()
        self._wait()
        now = time.perf_counter()
        least, most, expected = now - blocked, now - self._begin, self.seconds
        for pace, steps in self._steps.items():
            if not pace.seconds:
                pace.note(steps, most)
            else:
                pace.note(steps, steps * pace.seconds * min(max(least / expected, 1.0), most / expected))
        self._steps.clear()


def put_numbers(array: DeviceArray, first: int, values: IntArray) -> bool:
    """Write a few integers into an array from entry `first`, after earlier launches, without waiting. False: they are too many."""
    if len(values) > BATCH * BATCHES:
        return False
    put = _put()
    with lock:
        check_generation(array.generation)
        for start in range(0, len(values), BATCH):
            batch = np.zeros(BATCH, np.int32)
            batch[: len(values) - start] = values[start : start + BATCH]
            put(array.data, first + start, min(BATCH, len(values) - start), language().Vector(batch.tolist(), language().i32))
    return True


def _put() -> Callable[..., None]:
    """A kernel whose argument are the numbers themselves, not an array, for whose copy Taichi would wait."""
    lines = [
        "@ti.kernel",
        "def put(array: Array, first: ti.i32, count: ti.i32, values: Values):",
        "    for _ in range(1):",
        *(f"        if {k} < count:\n            array[first + {k}] = values[{k}]" for k in range(BATCH)),
    ]
    ti = language()
    names = {"Array": ti.types.ndarray(dtype=ti.i32, ndim=1), "Values": ti.types.vector(BATCH, ti.i32)}
    put: Callable[..., None] = shared_kernel("\n".join(lines) + "\n", "put", None, lambda: names)
    return put
