"""Generated sources translated by Python's help: an engine is given the same program, with fewer variables."""

from __future__ import annotations

import ast
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
def test_a_program_is_shorter_than_that_of_the_engines_own_visitor_and_has_the_same_results(engine: str, name: str) -> None:
    require(engine)
    lines, digest = _translated(engine, name)
    by_itself, same = _translated(engine, name, "by_itself")
    assert 1000 < lines < 0.85 * by_itself  # it did print its programs
    assert digest == same


MOVED = """
def f(x, p):
    a = x * F(2.0)
    b = ti.max(a, x)
    c = p[0]
    p[1] = b
    d = c + b
    n = 0
    e = n + 1
    n = e + x
    g = x - 1
    for i in range(3):
        p[i] = g + d
    h = called(x)
    p[2] = h
"""
"""A function with names that are read once: `a`, `e` is computed from a name that changes, `c` from memory, `g` is read in another block,
`h` is the result of a function that may do more."""


def test_values_move_to_where_they_are_read_if_nothing_can_change_between() -> None:
    (function,) = ast.parse(MOVED).body
    assert isinstance(function, ast.FunctionDef)
    translation._without_names_read_once(function)
    assert ast.unparse(function).split("\n") == [
        "def f(x, p):",
        "    b = ti.max(x * F(2.0), x)",
        "    c = p[0]",
        "    p[1] = b",
        "    n = 0",
        "    e = n + 1",
        "    n = e + x",
        "    d = c + b",
        "    g = x - 1",
        "    for i in range(3):",
        "        p[i] = g + d",
        "    h = called(x)",
        "    p[2] = h",
    ]


def test_a_value_of_one_statement_has_a_bounded_depth() -> None:
    lines = [f"    v{n} = v{n - 1} + x" for n in range(1, 100)]
    (function,) = ast.parse("def f(x, v0, p):\n" + "\n".join(lines) + "\n    p[0] = v99\n").body
    assert isinstance(function, ast.FunctionDef)
    translation._without_names_read_once(function)
    assert 100 / translation.DEEPEST < len(function.body) < 200 / translation.DEEPEST
