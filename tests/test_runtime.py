"""Where the threads of Taichi's pool run."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from diffsim.runtime import usable_cores

AFFINITIES = """
import json, os, sys
import diffsim as ds
ds.init(threads=1 if sys.argv[1] == "one" else None)
ds.init(threads=1 if sys.argv[1] == "one" else None)
print(json.dumps([sorted(os.sched_getaffinity(int(thread))) for thread in os.listdir("/proc/self/task")]))
"""


def pinned(threads: str) -> list[list[int]]:
    """The cores of threads that may use one core only."""
    done = subprocess.run([sys.executable, "-c", AFFINITIES, threads], capture_output=True, text=True, check=True)
    return sorted(found for found in json.loads(done.stdout.splitlines()[-1]) if len(found) == 1)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system tells nothing of threads")
@pytest.mark.skipif(usable_cores() < 2, reason="one core only")
def test_as_many_workers_as_cores_have_a_core_each() -> None:
    cores = sorted(os.sched_getaffinity(0))
    expected = [[core] for core in cores] if usable_cores() == len(cores) else []
    assert pinned("all") == expected
    assert pinned("one") == []
