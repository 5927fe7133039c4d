"""The table of tests that the gate leaves to the nightly run."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.nightly import NIGHTLY

HERE = Path(__file__).parent


@pytest.mark.parametrize("file", NIGHTLY)
def test_it_names_tests_that_exist(file: str) -> None:
    functions = {node.name for node in ast.walk(ast.parse((HERE / file).read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}
    assert NIGHTLY[file].keys() <= functions, f"the nightly table names tests that {file} lacks: {sorted(NIGHTLY[file].keys() - functions)}"
