"""What stays of simulations that are gone."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys

import pytest

NOISE = 2**20
"""Bytes by which a resident size varies within one turn of four simulations. Runs of diffusion that are kept take 16 MB a turn."""


@pytest.mark.parametrize("what", ["same", "unlike"])
def test_simulations_that_are_dropped_leave_nothing(what: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.simulation.dropped", what], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    settled = json.loads(done.stdout.splitlines()[-1])[1:]
    grown = [after[0] - before[0] for before, after in itertools.pairwise(settled)]
    # What is kept is kept in every turn. The allocator of the system takes more in single ones.
    assert statistics.median(grown) < NOISE, grown
    assert settled[-1][1] - settled[0][1] < 50
