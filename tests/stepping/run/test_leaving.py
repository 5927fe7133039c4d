"""Workers that wait too long leave their launch; what they leave is done by others, with the same bits."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.sampled import sampled

NEVER = 10**6


def run(threads: int, patience: int, strikes: int) -> dict[str, Any]:
    arguments = [sys.executable, "-m", "tests.stepping.run.leaving", str(threads), str(patience), str(strikes)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return run(1, 1, NEVER)


@pytest.mark.parametrize(("threads", "patience", "strikes"), sampled([(2, 1, 3), (2, 1, NEVER), (4, 40, NEVER)]))
def test_launches_that_are_left_change_no_bit(alone: dict[str, Any], threads: int, patience: int, strikes: int) -> None:
    left = run(threads, patience, strikes)
    assert alone["left"] == 0 and left["left"] >= 3
    assert left["digest"] == alone["digest"]
