"""The memory that remains after simulations are gone."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys

import pytest

from tests.sampled import sampled

NOISE = 2**20
"""Bytes by which a resident size varies within one turn of four simulations. Runs of diffusion that are kept take 16 MB a turn."""


@pytest.mark.parametrize("what", sampled(["same", "unlike"]))
def test_simulations_that_are_dropped_leave_nothing(what: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.simulation.dropped", what], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    settled = json.loads(done.stdout.splitlines()[-1])[1:]
    memory, objects = ([after[i] - before[i] for before, after in itertools.pairwise(settled)] for i in range(2))
    # What is kept is kept in every turn. In single ones the allocator takes more, or threads leave a launch for the first time,
    # on a busy machine, and the kernel that goes on there is compiled.
    assert statistics.median(memory) < NOISE, memory
    assert statistics.median(objects) < 8, objects
