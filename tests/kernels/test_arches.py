"""Other thread counts and arches: the same numbers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from diffsim.base.system import usable_cores
from tests.arches import require_vulkan

SINGLE = 2e-4
"""f32 after 40 000 dependent operations; measured 4e-5."""


def results(*arguments: str) -> dict[str, str | float]:
    command = [sys.executable, "-m", "tests.kernels.run_all", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise RuntimeError((done.stdout + done.stderr)[-2000:])
    return json.loads(lines[0].removeprefix("RESULT "))


@pytest.mark.slow
@pytest.mark.skipif(usable_cores() < 2, reason="one core only: there is no second thread to compare")
def test_the_number_of_threads_changes_no_bit() -> None:
    assert results("cpu", "1", "f64", "digest") == results("cpu", "2", "f64", "digest")


@pytest.mark.engines
def test_vulkan() -> None:
    require_vulkan()
    assert {name: error for name, error in results("vulkan", "0", "f32", "error").items() if not float(error) <= SINGLE} == {}
