"""Generated sources translated by Python's help: an engine is given the same program, to the letter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from diffsim.engine import translation
from tests.engine.installed import require
from tests.sampled import sampled
from tests.steps import STEPS

KINDS = ("acoustic with CPML", "shallow water")
"""Steps with regions; with conditions and kept values."""
NAMES = [step.name for step in STEPS if step.name.startswith(KINDS)]


def _translated(engine: str, name: str, *by_itself: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.engine.translated", engine, name, *by_itself]
    environment = os.environ | {"TI_OFFLINE_CACHE": "0", "QD_OFFLINE_CACHE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    lines, digest = done.stdout.split()
    return int(lines), digest


SHORT = next(name for name in NAMES if name.startswith("shallow"))
PAIRS = [("taichi", SHORT), ("quadrants", SHORT), *(("taichi", name) for name in NAMES if name != SHORT)]


@pytest.mark.parametrize(("engine", "name"), sampled(PAIRS))
def test_an_engine_gets_the_same_tree_as_from_its_own_visitor(engine: str, name: str) -> None:
    require(engine)
    lines, digest = _translated(engine, name)
    assert lines > 1000  # it did print its programs
    assert (lines, digest) == _translated(engine, name, "by_itself")


def test_functions_are_in_a_class_where_its_body_decorates_them() -> None:
    def decorator(function: object) -> bool:
        return translation.is_in_class(3)

    def nested() -> object:
        return decorator(None)

    class Body:
        inside = decorator(None)

        class Inner:
            inside = decorator(None)

    assert (Body.inside, Body.Inner.inside) == (True, True)
    assert (decorator(None), nested()) == (False, False)
