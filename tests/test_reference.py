"""Every public name has a docstring with its sections and an example that runs, and the pages of docs/api/ are made of these."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
RUN_ALL = """
import json, pathlib, sys, time, traceback, warnings

warnings.simplefilter("error")
warnings.filterwarnings("ignore", category=DeprecationWarning, module="taichi.*")
found = {}
for path in sorted(pathlib.Path().glob("*.py")):
    source, began = path.read_text(), time.process_time()
    try:
        exec(compile(source, str(path), "exec"), {"__name__": path.stem})
        found[path.stem] = ""
    except BaseException:
        found[path.stem] = traceback.format_exc(limit=-3)
    print(f"{time.process_time() - began:6.2f} s  {path.stem}", file=sys.stderr)
pathlib.Path("found.json").write_text(json.dumps(found))
"""
"""Runs the examples in one process, which compiles a kernel once; files, since Taichi reads the source of kernels."""


def _reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "scripts" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


reference = _reference()
ENTRIES = {f"{entry.package}.{entry.name}": entry for package in reference.packages() for entry in reference.entries(package)}
EXAMPLES = {name: entry.example for name, entry in ENTRIES.items() if entry.example and not entry.shown_at}
SHARED = "Arguments, result and errors"
"""What a docstring says that leaves Args, Returns and Raises to another one of its family."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each example raised, "" if it ran."""
    folder = tmp_path_factory.mktemp("examples")
    for name, text in EXAMPLES.items():
        (folder / f"{name}.py").write_text(text + "\n")
    command = [sys.executable, "-c", RUN_ALL]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert (folder / "found.json").exists(), done.stderr[-3000:]
    print(done.stderr)
    return json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name: str, outcomes: dict[str, str]) -> None:
    if outcomes[name]:
        pytest.fail(outcomes[name], pytrace=False)


@pytest.mark.parametrize("name", ENTRIES)
def test_it_is_documented(name: str) -> None:
    entry = ENTRIES[name]
    found = entry.sections
    assert found[""], "there is no docstring"
    assert found.get("Example"), "there is no example"
    if inspect.isfunction(entry.value) and SHARED not in entry.doc:
        wanted = ["Args"] if inspect.signature(entry.value).parameters else []
        wanted += [] if inspect.signature(entry.value).return_annotation in ("None", None) else ["Returns"]
        assert not [section for section in wanted if not found.get(section)], f"of the sections there are {', '.join(found)}"


@pytest.mark.parametrize("name", ENTRIES)
def test_the_example_uses_the_name_and_asserts_something(name: str) -> None:
    entry = ENTRIES[name]
    shown = ENTRIES[f"{entry.package}.{entry.shown_at}"] if entry.shown_at else entry
    assert not shown.shown_at, "that example refers to another one"
    assert re.search(rf"\b{entry.name}\b", shown.example)
    assert "assert " in shown.example


@pytest.mark.parametrize("name", ENTRIES)
def test_each_parameter_is_explained(name: str) -> None:
    """A docstring that has Args names all parameters, and no other ones."""
    entry = ENTRIES[name]
    text = entry.sections.get("Args")
    if text is None:
        return
    told = {word.strip("* ") for line in re.findall(r"^([^\s:][^:]*):", text, re.MULTILINE) for word in line.split(",")}
    assert told == set(inspect.signature(entry.value).parameters)


def test_the_pages_are_those_of_the_docstrings() -> None:
    assert not reference.stale(), "run python scripts/reference.py"


def test_a_page_that_differs_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    for name, text in reference.pages().items():
        (tmp_path / name).write_text(text)
    assert not reference.stale()
    (tmp_path / "diffsim.expr.md").write_text("old")
    (tmp_path / "gone.md").write_text("of a package that is gone")
    (tmp_path / "README.md").unlink()
    assert reference.stale() == ["README.md", "diffsim.expr.md", "gone.md"]
