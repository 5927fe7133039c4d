"""The benchmarks run: no other test calls them, and they use more than what diffsim exports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diffsim.system import REGISTER_VARIABLE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the benchmarks compare with a C version, and there is no gcc")
def test_the_smallest_case_of_each_runs() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), REGISTER_VARIABLE: "16"}  # the narrowest compile in the shortest time
    command = [sys.executable, "-m", "tests.scripts.smallest_benchmarks"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.rstrip().splitlines()[-1] == "THROUGH all"
