"""Other thread counts and arches: the same numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

from diffsim.runtime import usable_cores

SINGLE = 2e-4
"""f32 after 60 000 dependent operations; measured 4e-5."""
ROUND_OFF = 1e-12


@cache
def results(arch: str, threads: int, precision: str) -> dict[str, tuple[str, float]]:
    """What each kernel's bits are, and its relative error against f64 by NumPy."""
    command = [sys.executable, "-m", "tests.kernels.run_all", arch, str(threads), precision]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if done.returncode or not lines:
        raise RuntimeError((done.stdout + done.stderr)[-2000:])
    return json.loads(lines[0].removeprefix("RESULT "))


@pytest.mark.skipif(usable_cores() < 2, reason="one core only: there is no second thread to compare")
def test_the_number_of_threads_changes_no_bit() -> None:
    one, two = results("cpu", 1, "f64"), results("cpu", 2, "f64")
    assert {name: digest for name, (digest, _) in one.items()} == {name: digest for name, (digest, _) in two.items()}
    assert {name: error for name, (_, error) in one.items() if not error <= ROUND_OFF} == {}


def test_single_precision() -> None:
    assert {name: error for name, (_, error) in results("cpu", 1, "f32").items() if not error <= SINGLE} == {}


def test_vulkan() -> None:
    """Mesa's software driver will do (Debian: mesa-vulkan-drivers libvulkan1)."""
    probe = "import diffsim as ds; ds.init(arch='vulkan')"
    if subprocess.run([sys.executable, "-c", probe], capture_output=True, timeout=120).returncode:
        pytest.skip("no Vulkan here, the GPU's path is not tested")
    assert {name: error for name, (_, error) in results("vulkan", 0, "f32").items() if not error <= SINGLE} == {}
