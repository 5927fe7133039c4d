"""What stays of simulations that are gone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

NOISE = 2 * 2**20
"""Bytes by which a resident size varies; a cycle left 0.4 MB (one run of diffusion) to 3 MB, and 12 are between the two."""


@pytest.mark.parametrize("what", ["same", "unlike"])
def test_simulations_that_are_dropped_leave_nothing(what: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.simulation.dropped", what], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    (first_bytes, first_objects), (last_bytes, last_objects) = found[1], found[-1]
    assert last_bytes - first_bytes < NOISE
    assert last_objects - first_objects < 50
