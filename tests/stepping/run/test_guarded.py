"""Kernels touch no memory beside their arrays. Taichi does not check that; here the pages beside each array have no access."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(sys.platform != "linux", reason="pages without access are made by Linux's mprotect")
@pytest.mark.parametrize("cases", ["some", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("side", ["begin", "end"])
def test_no_kernel_touches_memory_beside_its_arrays(side: str, cases: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.stepping.run.guarded", side, cases], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "all within"
