"""Compiled kernels are found again by another process, and never those of another step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engine.installed import require
from tests.sampled import sampled

ROUNDING = 1e-13
SHORT, LONG = "0.05", "0.1"
ENGINES = ["taichi", "quadrants"]


def run(engine: str, folder: Path, *time_steps: str, cached: bool = True) -> dict[str, Any]:
    require(engine)
    short = "TI" if engine == "taichi" else "QD"
    cache = {f"{short}_OFFLINE_CACHE_FILE_PATH": str(folder), f"{short}_OFFLINE_CACHE": str(int(cached))}
    environment = os.environ | cache | {"DIFFSIM_ENGINE": engine}
    command = [sys.executable, "-m", "tests.stepping.run.cached", *time_steps]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def kernels(folder: Path) -> set[str]:
    """Names of the files of compiled kernels, "tic" of Taichi and "qdc" of Quadrants."""
    return {file.name for file in folder.rglob("*") if file.suffix in (".tic", ".qdc")}


@pytest.mark.parametrize("engine", ENGINES)
def test_another_process_finds_the_kernels(engine: str, tmp_path: Path) -> None:
    first = run(engine, tmp_path, LONG)
    compiled = kernels(tmp_path)
    assert len(compiled) == 2, "the forward kernel and its adjoint"
    assert run(engine, tmp_path, LONG) == first
    assert kernels(tmp_path) == compiled


@pytest.mark.parametrize("engine", sampled(ENGINES))
@pytest.mark.parametrize("cached", sampled([True, False]))
def test_kernels_that_differ_within_a_function_are_told_apart(engine: str, tmp_path: Path, cached: bool) -> None:
    for time_steps in ((SHORT, LONG), (LONG, SHORT)):
        assert max(run(engine, tmp_path, *time_steps, cached=cached)["errors"]) < ROUNDING
