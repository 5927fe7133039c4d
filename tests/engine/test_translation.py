"""Generated sources translated by Python's help: Taichi is given the same program, to the letter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.steps import STEPS

KINDS = ("acoustic with CPML", "shallow water")
"""Steps with regions; with conditions and kept values."""
NAMES = [step.name for step in STEPS if step.name.startswith(KINDS)]


def _translated(name: str, *by_taichi: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.engine.translated", name, *by_taichi]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"TI_OFFLINE_CACHE": "0"})
    lines, digest = done.stdout.split()
    return int(lines), digest


@pytest.mark.parametrize("name", NAMES)
def test_taichi_is_given_what_its_own_visitor_makes_of_a_source(name: str) -> None:
    lines, digest = _translated(name)
    assert lines > 1000  # Taichi did print its programs
    assert (lines, digest) == _translated(name, "by_taichi")
