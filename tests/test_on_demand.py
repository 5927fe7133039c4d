"""Modules that take long to import come on use, and then have their names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import diffsim

OTHERS = ("pydantic", "rich", "matplotlib", "scipy", "psutil", "taichi", "torch", "jax", "pint", "xarray")
SLOW = (*OTHERS, *(f"diffsim.{part}" for part in diffsim.PARTS))


def output_of(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_the_import_leaves_out_what_takes_long() -> None:
    assert output_of(f"import sys, diffsim; print([name for name in {SLOW} if name in sys.modules])") == "[]"


@pytest.mark.parametrize("first", ["ds.Scene", "ds.scene.Scene"])
def test_scenes_are_there(first: str) -> None:
    assert output_of(f"import diffsim as ds; {first}; print(ds.Scene is ds.scene.Scene, 'Scene' in dir(ds))") == "True True"


def test_names_that_come_on_demand_are_as_any_other() -> None:
    program = """
import pickle
import diffsim as ds
from diffsim import *
assert set(ds.__all__) <= set(globals()) and {*ds.__all__, *ds.PARTS} <= set(dir(ds))
for name in (*ds.__all__, *ds.PARTS):
    assert getattr(ds, name) is getattr(ds, name)
for name in ds.NAMES:
    assert pickle.loads(pickle.dumps(getattr(ds, name))) is getattr(ds, name), name
print("as any other")
"""
    assert output_of(program) == "as any other"


def test_type_checkers_are_told_the_same_names() -> None:
    """Names that come on demand are written twice: for Python, and for type checkers."""
    tree = ast.parse(Path(diffsim.__file__).read_text())
    block = next(n for n in tree.body if isinstance(n, ast.If) and isinstance(n.test, ast.Name) and n.test.id == "TYPE_CHECKING")
    names = {alias.name for line in block.body if isinstance(line, ast.ImportFrom) for alias in line.names}
    assert names == {*diffsim.PARTS, *diffsim.NAMES} - {"scene"}


def test_other_names_are_refused() -> None:
    assert output_of("import diffsim as ds; print(hasattr(ds, 'sceen'), 'Scene' in dir(ds))") == "False True"
