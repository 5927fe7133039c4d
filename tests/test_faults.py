"""The list of planted faults, `scripts/faults.toml`: that each can be planted, and that no part is left out.

`scripts/mutate.py` plants them and sees the tests fail; that takes a while, this does not.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
FEWEST = 60


def _mutate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "scripts" / "mutate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


mutate = _mutate()
FAULTS = mutate.load()


def parts() -> set[str]:
    """Folders and modules of the floors in docs/architecture.md."""
    table = (ROOT / "docs" / "architecture.md").read_text().split("## Floors")[1].split("\n## ")[0]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")][2:]
    return {name.partition("/")[0] for row in rows for name in row.replace("`", " ").split()}


def part_of(path: str) -> str:
    return path.removeprefix("diffsim/").partition("/")[0].removesuffix(".py")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.replace(" ", "_"))
def test_a_fault_can_be_planted(fault) -> None:
    assert (ROOT / fault.path).read_text().count(fault.old) == 1, f"bring scripts/faults.toml up to date with {fault.path}"
    assert fault.old != fault.new
    assert fault.tests
    for test in fault.tests:
        file, _, name = test.partition("::")
        assert (ROOT / file).exists(), test
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text() if name else True, test


def test_there_are_many_of_different_names() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= FEWEST


def test_every_part_has_a_fault() -> None:
    unused = {"errors", "typing", "version"}  # hold names alone
    assert {part_of(fault.path) for fault in FAULTS} == parts() - unused


def test_a_fault_that_is_not_found_is_a_survivor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two faults in the real tree, one in what no test of its own looks at."""
    seen = [mutate.Fault(name, "diffsim/errors.py", old, new, ("tests/test_x.py",)) for name, old, new in CHANGES]
    monkeypatch.setattr(mutate, "load", lambda words: seen)
    monkeypatch.setattr(mutate, "run_tests", lambda root, tests, *_: (int("BROKEN" in (root / "diffsim/errors.py").read_text()), ""))
    assert mutate.main([]) == 1
    printed = capsys.readouterr().out
    assert "1 of 2 planted faults were found\n  survived: harmless\n" in printed


CHANGES = (
    ("broken", "class DiffsimError(", "BROKEN = 1\n\n\nclass DiffsimError("),
    ("harmless", "class DiffsimError(", "\n\nclass DiffsimError("),
)
