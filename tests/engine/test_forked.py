"""Forked workers of pools: whatever they are given, the parent gets one error, and never waits for ever."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

import pytest

from tests.engine.pooled import CASES, doubled

WAYS = {"mapped", "applied", "imapped", "executed"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_the_parent_gets_the_error() -> None:
    """A worker that dies while it unpickles would be replaced for ever."""
    done = subprocess.run([sys.executable, "-m", "tests.engine.pooled"], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    outcomes = {name: ways for line in done.stdout.splitlines() if line[0] == "{" for name, ways in json.loads(line).items()}
    assert outcomes.keys() == CASES.keys()
    assert outcomes.pop("again") == dict.fromkeys(WAYS, "Simulation in 5 steps"), (
        "an object that a worker only hands on can be used by the parent"
    )
    for name, ways in outcomes.items():
        assert ways.keys() == WAYS
        for answer in ways.values():
            assert answer.startswith("BackendError: expected a process in which diffsim was started, got one forked"), (name, answer)


def test_a_kernel_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
