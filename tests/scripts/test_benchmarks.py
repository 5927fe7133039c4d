"""The benchmarks run: no other test calls them, and they use more than the exports of diffsim."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diffsim.base.system import REGISTER_VARIABLE
from tests.arches import require_vulkan

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the benchmarks compare with a C version, and there is no gcc")
def test_the_smallest_case_of_each_runs() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), REGISTER_VARIABLE: "16"}  # the narrowest compile in the shortest time
    command = [sys.executable, "-m", "tests.scripts.smallest_benchmarks"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.rstrip().splitlines()[-1] == "THROUGH all"


def test_that_of_the_gpu_runs_at_a_tiny_size(tmp_path: Path) -> None:
    require_vulkan()
    out = tmp_path / "gpu.json"
    command = [
        sys.executable,
        str(ROOT / "scripts" / "bench" / "gpu.py"),
        "--arch",
        "vulkan",
        "--quick",
        "--only",
        "acoustic",
        "--out",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    figures = {figure["name"]: figure["value"] for figure in json.loads(out.read_text())["figures"]}
    assert (
        figures["dispatches of a step, acoustic"] == 2.25
    )  # cells with the receivers of the step before; sources; the last receivers, by 4
    assert all(value > 0 for value in figures.values())
