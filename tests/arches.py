"""Which arches the tests can run on here."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import pytest


@functools.cache
def _why_not(arch: str) -> str:
    code = f"import diffsim as ds; ds.init(arch={arch!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]


def require_vulkan() -> None:
    """Skip a test of the GPU's path where there is no Vulkan; where DIFFSIM_TEST_VULKAN says "required", it fails instead.

    Mesa's software driver will do (Debian: mesa-vulkan-drivers libvulkan1).
    """
    missing = _why_not("vulkan")
    if missing and os.environ.get("DIFFSIM_TEST_VULKAN") == "required":
        pytest.fail(f"Vulkan was installed, and cannot be used: {missing}")
    if missing:
        pytest.skip(f"no Vulkan here, the GPU's path is not tested: {missing}")
