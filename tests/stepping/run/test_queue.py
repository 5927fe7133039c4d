"""Launches on a GPU that are not waited for: how many, and what is learnt of their pace."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from diffsim.stepping.run import queue
from diffsim.stepping.run.pace import LAUNCH_SECONDS, Pace
from diffsim.stepping.run.queue import QUEUED_SECONDS, Queue
from tests.arches import require_vulkan


class Device:
    """A GPU whose launches take `step` seconds for each step, by a clock that only it and the host move."""

    def __init__(self, step: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.step, self.now, self.ready, self.waits, self.longest = step, 0.0, 0.0, 0, 0.0
        monkeypatch.setattr(queue.time, "perf_counter", lambda: self.now)

    def launch(self, steps: int) -> None:
        self.ready = max(self.ready, self.now) + steps * self.step
        self.now += 1e-5

    def wait(self) -> None:
        self.longest, self.waits = max(self.longest, self.ready - self.now), self.waits + 1
        self.now = max(self.now, self.ready)


def run(device: Device, waiting: Queue, pace: Pace, steps: int, at_most: int) -> None:
    done = 0
    while done < steps:
        count = min(steps - done, pace.steps(), at_most)
        waiting.begin(pace)
        device.launch(count)
        waiting.end(pace, count)
        done += count


def test_short_sweeps_are_queued_and_the_pace_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    device, pace = Device(1e-3, monkeypatch), Pace(1)
    waiting = Queue(device.wait)
    for _ in range(100):
        run(device, waiting, pace, 20, at_most=5)
    assert pace.seconds == pytest.approx(1e-3, rel=0.2)
    assert device.waits <= 2.5 / QUEUED_SECONDS  # 2 s of work
    assert device.longest <= QUEUED_SECONDS + LAUNCH_SECONDS


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_a_device_that_becomes_slower_or_faster_is_noticed(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    device, pace = Device(1e-3, monkeypatch), Pace(1)
    waiting = Queue(device.wait)
    run(device, waiting, pace, 200, at_most=20)
    device.step *= factor
    run(device, waiting, pace, 2000, at_most=20)
    assert pace.seconds == pytest.approx(1e-3 * factor, rel=0.2)


def test_time_of_the_host_between_sweeps_is_not_taken_for_that_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device, pace = Device(1e-3, monkeypatch), Pace(1)
    waiting = Queue(device.wait)
    for _ in range(30):
        run(device, waiting, pace, 20, at_most=20)
        device.now += 5.0
    assert pace.seconds == pytest.approx(1e-3, rel=0.2)


def test_two_kernels_share_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    device, paces = Device(1e-3, monkeypatch), (Pace(1), Pace(1))
    waiting = Queue(device.wait)
    for _ in range(50):
        for pace in paces:
            run(device, waiting, pace, 10, at_most=5)
    assert device.longest <= QUEUED_SECONDS + LAUNCH_SECONDS
    assert all(pace.seconds == pytest.approx(1e-3, rel=0.3) for pace in paces)


NUMBERS = """
import numpy as np
import diffsim as ds
from diffsim.engine import backend
from diffsim.stepping.run.queue import BATCH, BATCHES, Entries
ds.init(arch="vulkan")
memory = backend().memory
array = memory.allocate((4 * BATCH * BATCHES,), np.int32)
memory.write(array, np.full(array.shape, -1))
expected, entries = np.full(array.shape, -1), Entries(array)
for places in ({2: 1}, {5: BATCH, 40: 2}, {50: BATCH + 3, 90: 1, 94: 2}, {100: BATCH * BATCHES - 7, 900: 7}):
    parts = {first: np.arange(count) + 1000 * first for first, count in places.items()}
    assert entries.put(parts)
    for first, values in parts.items():
        expected[first : first + len(values)] = values
assert not entries.put({0: np.zeros(BATCH * BATCHES, np.int32), 900: np.zeros(1, np.int32)})
assert np.array_equal(memory.read(array), expected)
pool = memory.allocate((3, 5, 7), np.float32, flat=True)
for level in range(3):
    memory.write(pool, np.full(35, 1.0 + level), level)
memory.clear(pool, 1)
assert [set(memory.read(pool, level).ravel()) for level in range(3)] == [{1.0}, {0.0}, {3.0}]
memory.clear(pool)
assert not memory.read(pool).any()
whole = memory.allocate((2, 6), np.int32, flat=True)  # kernels for another type
memory.write(whole, np.arange(6), 1)
memory.write(whole, np.arange(6), 0)
memory.clear(whole, 0)
assert memory.read(whole).tolist() == [[0] * 6, list(range(6))]
"""


def test_numbers_are_written_where_they_belong() -> None:
    require_vulkan()
    done: Any = subprocess.run([sys.executable, "-c", NUMBERS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
