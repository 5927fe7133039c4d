"""What takes long to import comes when it is used, and can then be had by its name."""

from __future__ import annotations

import subprocess
import sys

import pytest

SLOW = ("pydantic", "rich", "matplotlib", "scipy.signal", "scipy.stats", "torch", "jax")


def output_of(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_the_import_leaves_out_what_takes_long() -> None:
    assert output_of(f"import sys, diffsim; print([name for name in {SLOW} if name in sys.modules])") == "[]"


@pytest.mark.parametrize("first", ["ds.Scene", "ds.scene.Scene"])
def test_scenes_are_there(first: str) -> None:
    assert output_of(f"import diffsim as ds; {first}; print(ds.Scene is ds.scene.Scene, 'Scene' in dir(ds))") == "True True"


def test_other_names_are_refused() -> None:
    assert output_of("import diffsim as ds; print(hasattr(ds, 'sceen'), 'Scene' in dir(ds))") == "False True"
