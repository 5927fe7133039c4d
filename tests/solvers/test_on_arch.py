"""Solvers that call the host in a step, and one whose number of laps depends on the state: the same numbers on a GPU's path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.arches import require_vulkan
from tests.solvers.on_arch import SOLVERS

SINGLE = 1e-4
"""Error of f32 relative to the largest value: solutions of linear systems amplify round-off."""


def outputs(arch: str, name: str, folder: Path) -> dict[str, np.ndarray]:
    path = folder / f"{arch}.npz"
    subprocess.run([sys.executable, "-m", "tests.solvers.on_arch", arch, str(path), name], check=True, timeout=600)
    with np.load(path) as stored:
        return dict(stored)


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_on_vulkan_is_that_on_the_cpu(name: str, tmp_path: Path) -> None:
    require_vulkan()
    here, there = (outputs(arch, name, tmp_path) for arch in ("cpu", "vulkan"))
    assert here.keys() == there.keys()
    for key, values in here.items():
        size = np.abs(values).max()
        assert size > 0 or "d/d" in key, key
        assert np.abs(there[key] - values).max() <= SINGLE * size, key
