"""The digest that stands for a kernel changes with the code of every function behind it."""

from __future__ import annotations

import math
import os
import types
from pathlib import Path
from typing import Any

import pytest

from diffsim.engine import kernels, present
from diffsim.engine.kernels import PACKAGE

AROUND = "def around(inner):\n    def outer(x):\n        return inner(x)\n    return outer\n"
WAYS = {
    "itself": "from_helper = helper",
    "closed over": f"{AROUND}from_helper = around(helper)",
    "closed over twice": f"{AROUND}from_helper = around(around(helper))",
    "named": "def from_helper(x):\n    return helper(x)",
    "named by a function inside": "def from_helper(x):\n    return [part for part in map(lambda y: helper(y), x)]",
    "named by one that is named": "def second(x):\n    return helper(x)\ndef from_helper(x):\n    return second(x)",
    "of a method": "class Kind:\n    def apply(self, x):\n        return helper(x)\nfrom_helper = Kind().apply",
    "beside an empty cell": (
        "def around(inner):\n    def outer(x):\n        return inner(x), late\n    if not inner:\n        late = 1\n    return outer\n"
        "from_helper = around(helper)"
    ),
    "in a circle": "def second(x):\n    return from_helper(x)\ndef from_helper(x):\n    return second(helper(x))",
}
"""Sources of a function that depends on `helper`, which another file defines."""


def digest(things: list[Any], monkeypatch: pytest.MonkeyPatch, source: str = "", key: Any = None) -> Any:
    marks: list[Any] = []
    monkeypatch.setattr(type(present()), "mark", lambda engine, words: marks.append(tuple(words)))
    kernels._digest(source, key, things)()
    return marks[0]


def module(path: Path, text: str, **names: Any) -> dict[str, Any]:
    """The names of a module of the package that lies in a file."""
    path.write_text(text)
    new = types.ModuleType(f"{PACKAGE}.{path.stem}")
    new.__dict__.update(names)
    exec(compile(text, str(path), "exec"), new.__dict__)
    return new.__dict__


@pytest.mark.parametrize("way", WAYS)
def test_it_changes_with_the_code_behind_a_name(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_IMPORTED", math.inf)
    marks = []
    for text in ("def helper(x):\n    return x", "def helper(x):\n    return -x", "def helper(x):\n    return x"):
        helper = module(tmp_path / "helping.py", text)["helper"]
        function = module(tmp_path / "using.py", WAYS[way], helper=helper)["from_helper"]
        marks.append(digest([function, 3, "text"], monkeypatch))
    assert marks[0] == marks[2] != marks[1]


@pytest.mark.parametrize("later", [False, True])
def test_a_process_whose_files_have_changed_shares_no_kernel(later: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code is that of before, and the digest is of the files."""
    path = tmp_path / "helping.py"
    helper = module(path, "def helper(x):\n    return x")["helper"]
    os.utime(path, (0.0, kernels._IMPORTED + (1.0 if later else -1.0)))
    first, second = (digest([helper], monkeypatch) for _ in range(2))
    assert (first != second) is later


def test_it_changes_with_what_makes_the_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks: list[Any] = []
    monkeypatch.setattr(kernels, "_digest", lambda source, key, things: marks.append(kernels.files_behind(things)) or (lambda: None))
    monkeypatch.setattr(kernels, "_shared", {})
    monkeypatch.setattr(kernels, "compile_kernel", lambda *arguments, **options: None)
    names = module(tmp_path / "names.py", "def names():\n    return {'n': 3}")["names"]
    kernels.shared_kernel("", "kernel", None, names)
    assert str(tmp_path / "names.py") in marks[0]


def test_it_changes_with_the_source_and_the_meanings_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [("a", "f4"), ("a", "f8"), ("b", "f4")]
    assert len({digest([], monkeypatch, *case) for case in cases}) == len(cases)
