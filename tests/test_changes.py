"""The worked changes in docs/changes: each applies to this tree, and its test fails without the source part and passes with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHANGES = sorted((ROOT / "docs" / "changes").glob("*.diff"))
NAMES = ["boundary_rule", "equation", "function", "misfit", "penalty", "scene_key", "schedule", "stage"]
SCENE = ["diffsim/scene/schema", "diffsim/scene/setup"]
"""Folders of a new key of a scene: the schema, and the source that reads it. No other change touches the folder of scenes."""
PARTS = ("diffsim", "tests", "docs", "scripts", "pyproject.toml")
EXPORTS = r"^[+-](?:from diffsim\.\S+ import \w+(?: as \w+|(?:, \w+)*)|    \"?\w+\"?,|__all__ = \[.*\]|(\w+) = named\(\"\1\"\))$"
"""Lines of a diff that only export a name, from a package or a module of functions of the table."""


def files(change: Path) -> dict[str, list[str]]:
    """Each file that a diff touches -> its added and removed lines."""
    parts = re.split(r"^diff --git a/\S+ b/(\S+)\n", change.read_text(), flags=re.MULTILINE)[1:]
    lines = {name: text.splitlines() for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return {name: [line for line in text if re.match(r"[+-](?!\+\+ |-- )", line)] for name, text in lines.items()}


def run_test(change: Path, tree: Path) -> subprocess.CompletedProcess[str]:
    line = re.search(r"^Test: (.+)$", change.read_text(), re.MULTILINE)
    assert line is not None
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *line[1].split()]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {"PYTHONPATH": str(tree)}
    return subprocess.run(command, capture_output=True, text=True, cwd=tree, env=environment, timeout=300)


def apply(change: Path, tree: Path, *which: str) -> None:
    """Apply the part of a diff that concerns some folders; outside of a repository `git apply` is a better `patch`."""
    command = ["git", "apply", *(f"--include={folder}/*" for folder in which), str(change)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree, env=os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent)})
    assert done.returncode == 0, done.stderr


def test_there_is_a_change_of_each_kind() -> None:
    assert [change.stem for change in CHANGES] == NAMES


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.stem)
def test_a_change_is_one_source_file_and_one_entry_of_a_test(change: Path) -> None:
    """Beside lines that export a name: no table of names, no page, and nothing else."""
    touched = files(change)
    exports = [name for name, lines in touched.items() if name.startswith("diffsim/") and all(re.match(EXPORTS, line) for line in lines)]
    others = sorted(name for name in touched if name not in exports)
    assert not any(name.startswith("diffsim/scene/") for name in exports), exports
    *sources, test = others
    assert test.startswith("tests/")
    if change.stem == "scene_key":
        assert [str(Path(name).parent) for name in sources] == SCENE
    else:
        assert len(sources) == 1 and sources[0].startswith("diffsim/") and not sources[0].startswith("diffsim/scene/"), others


@pytest.mark.skipif(shutil.which("git") is None, reason="the diffs are applied by git")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.stem)
def test_a_change_applies_to_this_tree(change: Path) -> None:
    done = subprocess.run(["git", "apply", "--check", str(change)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="the diffs are applied by git")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.stem)
def test_its_test_needs_its_source(change: Path, tmp_path: Path) -> None:
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, tmp_path / part)
    apply(change, tmp_path, "tests")
    without = run_test(change, tmp_path)
    assert without.returncode != 0, without.stdout[-2000:]
    apply(change, tmp_path, "diffsim")
    done = run_test(change, tmp_path)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert re.search(r"\d+ passed", done.stdout) or "[100%]" in done.stdout
