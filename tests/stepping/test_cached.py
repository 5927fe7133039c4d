"""Compiled kernels are found again by another process, and never those of another step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROUNDING = 1e-13
SHORT, LONG = "0.05", "0.1"


def run(folder: Path, *time_steps: str, cached: bool = True) -> dict[str, Any]:
    environment = {**os.environ, "TI_OFFLINE_CACHE_FILE_PATH": str(folder), "TI_OFFLINE_CACHE": str(int(cached))}
    command = [sys.executable, "-m", "tests.stepping.cached", *time_steps]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_another_process_finds_the_kernels(tmp_path: Path) -> None:
    first = run(tmp_path, LONG)
    compiled = {file.name for file in tmp_path.rglob("*.tic")}
    assert len(compiled) == 2, "the forward kernel and its adjoint"
    assert run(tmp_path, LONG) == first
    assert {file.name for file in tmp_path.rglob("*.tic")} == compiled


@pytest.mark.parametrize("cached", [True, False])
def test_kernels_that_differ_within_a_function_are_told_apart(tmp_path: Path, cached: bool) -> None:
    for time_steps in ((SHORT, LONG), (LONG, SHORT)):
        assert max(run(tmp_path, *time_steps, cached=cached)["errors"]) < ROUNDING
