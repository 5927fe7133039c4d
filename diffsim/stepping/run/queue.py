"""Launches on a GPU that nobody has waited for: their expected time, and writes between them without waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from diffsim.engine import BoundKernel, DeviceArray, language, shared_kernel
from diffsim.stepping.run.pace import Pace
from diffsim.typing import IntArray

QUEUED_SECONDS = 0.1
"""The most seconds, approximately, that a GPU works on the queue, so that Ctrl-C and progress work."""
BATCH = 16
"""Entries that one launch writes."""
BATCHES = 16
"""Launches for one array; beyond that a copy, which waits for the GPU, costs less."""


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


class Entries:
    """Writes of a few integers into an array of a GPU, after earlier launches, without waiting.

    Args:
        array: int32, of one dimension.
    """

    def __init__(self, array: DeviceArray) -> None:
        self._array = array
        self._put: BoundKernel | None = None

    def put(self, parts: Mapping[int, IntArray]) -> bool:
        """Write parts, by the index of their first entry. False: they are too many, and none is written."""
        indices = [index for first, values in parts.items() for index in range(first, first + len(values))]
        numbers = [number for values in parts.values() for number in values.tolist()]
        if len(numbers) > BATCH * BATCHES:
            return False
        if self._put is None:
            self._put = BoundKernel(_put(), [self._array.data, *[0] * (2 * BATCH)])
        for start in range(0, len(numbers), BATCH):
            batch = [each[start : start + BATCH] for each in (indices, numbers)]
            again = BATCH - len(batch[0])  # the last entry fills the batch
            self._put(*batch[0], *[batch[0][-1]] * again, *batch[1], *[batch[1][-1]] * again)
        return True


def _put() -> Any:
    """A kernel whose arguments are the numbers themselves, not an array, for whose copy Taichi would wait."""
    names = [f"{kind}{k}: ti.i32" for kind in ("index_", "value_") for k in range(BATCH)]
    lines = [
        "@ti.kernel",
        f"def put(array: Array, {', '.join(names)}):",
        "    for _ in range(1):",
        *(f"        array[index_{k}] = value_{k}" for k in range(BATCH)),
    ]
    ti = language()
    return shared_kernel("\n".join(lines) + "\n", "put", None, lambda: {"Array": ti.types.ndarray(dtype=ti.i32, ndim=1)})
