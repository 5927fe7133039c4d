"""Faults that `scripts/mutate.py` plants: each changes the program in one place, and a fault that tests do not see is said to survive."""

from __future__ import annotations

import ast
import importlib.util
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]


def _mutate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutate", ROOT / "scripts" / "mutate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutate"] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


mutate = _mutate()
SOURCE = '''\
"""A docstring of 1 + 2."""

LIMIT: float = 2.5


def f(x: int = 3, *, sign: bool = True) -> int:
    """Not 4."""
    total = 0
    if x > LIMIT and not sign:
        raise ValueError(f"{x + 1} is above {2 * LIMIT}")
    total += -x * (x -
                   1)
    return total  # é: bytes and letters differ
'''
CHANGES = {
    "2.5 -> 3.5",
    "3 -> 4",
    "True -> False",
    "without total = 0",
    "0 -> 1",
    "x > LIMIT: > -> >=",
    "x > LIMIT and (not sign): and -> or",
    "not sign: without its sign or not",
    "if x > LIMIT and (not sign): always True",
    "if x > LIMIT and (not sign): always False",
    "without total += -x * (x - 1)",
    "-x: without its sign or not",
    "-x * (x - 1): * -> /",
    "x - 1: - -> +",
    "1 -> 2",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "diffsim").mkdir()
    (tmp_path / "diffsim" / "a.py").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def test_the_faults_of_a_module(root: Path) -> None:
    assert {fault.shown for fault in mutate.faults_of("diffsim/a.py", root)} == CHANGES


def test_each_fault_is_another_program_and_is_taken_out_again(root: Path) -> None:
    file, seen = root / "diffsim" / "a.py", set()
    for fault in mutate.faults_of("diffsim/a.py", root):
        assert mutate.can_be_planted(fault, root), fault
        source = fault.plant(root)
        seen.add(ast.dump(ast.parse(file.read_bytes())))
        file.write_bytes(source)
        assert file.read_text(encoding="utf-8") == SOURCE
    assert len(seen) == len(CHANGES)


def test_every_module_of_the_package_has_tests_near_it() -> None:
    for path in mutate.modules(["diffsim"]):
        assert all((ROOT / place).exists() for place in mutate.nearest_tests(path)), path
    assert mutate.nearest_tests("diffsim/base/system.py") == ["tests/base/test_system.py"]
    assert mutate.nearest_tests("diffsim/stepping/ir/program.py") == ["tests/stepping/ir"]


def test_a_place_that_is_none() -> None:
    with pytest.raises(SystemExit, match=r"diffsim/nowhere: expected a module or a folder"):
        list(mutate.modules(["diffsim/nowhere"]))


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Four faults, in place of those that would be drawn."""
    faults = mutate.drawn(mutate.faults_of("diffsim/base/kinds.py"), 4, 0)
    monkeypatch.setattr(mutate, "drawn", lambda *_: faults)
    return faults


@pytest.mark.parametrize(("least", "status"), [("0.5", 0), ("0.6", 1)])
def test_a_fault_that_is_not_found_survives(
    least: str, status: int, chosen: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every second one of four faults is found."""
    planted: list[str] = []

    def run(folder: Path, tests: list[str], option: str) -> tuple[int, str]:
        changed = [fault for fault in chosen if (folder / fault.path).read_bytes() == fault.changed((ROOT / fault.path).read_bytes())]
        planted.extend(str(fault) for fault in changed)
        assert bool(changed) == (option == "--cache-clear")
        return int(bool(changed) and chosen.index(changed[0]) % 2 == 0), ""

    monkeypatch.setattr(mutate, "run_tests", run)
    assert mutate.main(["diffsim/base/kinds.py", "--least", least]) == status
    printed = capsys.readouterr().out
    assert planted == [str(fault) for fault in chosen]
    assert printed.count("SURVIVED") == 2 and "2 of 4 planted faults were found" in printed


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_tests_that_fail_without_a_fault_judge_nothing(
    jobs: str, chosen: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutate, "run_tests", lambda *_: (mutate.FAILED, "1 failed"))
    assert mutate.main(["diffsim/base/kinds.py", "--jobs", jobs, "--least", "0.1"]) == 1
    printed = capsys.readouterr().out
    assert (
        printed.count("expected tests/base/test_kinds.py to pass without it, got status 1:\n1 failed") == printed.count("NOT JUDGED") == 4
    )
    assert "0 of 4 planted faults were found, 4 were not judged" in printed


TESTS = """\
import a
import pytest

@pytest.mark.parametrize("x", [5, 3, 4, 9])
def test_f(x):
    open("ran", "a").write(f"{x} ")
    assert a.f(x) == x + 1
"""


def test_what_failed_with_a_fault_is_run_again_without_it(tmp_path: Path) -> None:
    """And only that, though those before it passed and those after it did not run."""
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "test_a.py").write_text(TESTS)
    ran, source = tmp_path / "ran", tmp_path / "a.py"
    for right, wrong, runs in [("x + 1", "x + 1 + (x == 4)", "5 3 4 "), ("x + 1", "x + 1 + (x == 5)", "5 ")]:
        source.write_text(f"def f(x):\n    return {wrong}\n")
        ran.write_text("")
        assert mutate.run_tests(tmp_path, ["test_a.py"], "--cache-clear")[0] == mutate.FAILED
        assert ran.read_text() == runs
        source.write_text(f"def f(x):\n    return {right}\n")
        ran.write_text("")
        assert mutate.run_tests(tmp_path, ["test_a.py"], "--last-failed")[0] == mutate.PASSED
        assert ran.read_text() == f"{runs.split()[-1]} "
    source.write_text("def f(:\n")  # no test of it can be collected
    assert mutate.run_tests(tmp_path, ["test_a.py"], "--cache-clear")[0] not in (mutate.PASSED, mutate.EMPTY)


def test_an_endless_fault_leaves_no_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (tmp_path / "test_a.py").write_text(
        "import subprocess, sys, time\ndef test():\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
        "    open('child', 'w').write(str(child.pid))\n    time.sleep(100)\n"
    )
    monkeypatch.setattr(mutate, "SECONDS", 5)
    assert mutate.run_tests(tmp_path, ["test_a.py"], "--cache-clear") == (mutate.FAILED, "no end")
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.1)
    else:
        pytest.fail("its child lives on")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_tests_too(number: int, tmp_path: Path) -> None:
    """That of a step's time limit, and Ctrl-C."""
    (tmp_path / "test_long.py").write_text(
        f"import os, time\ndef test():\n    open({str(tmp_path / 'child')!r}, 'w').write(str(os.getpid()))\n    time.sleep(100)\n"
    )
    command = [sys.executable, str(ROOT / "scripts" / "mutate.py"), "diffsim/base/kinds.py", "--number", "3"]
    with subprocess.Popen([*command, "--tests", str(tmp_path / "test_long.py")], stdout=subprocess.DEVNULL) as process:
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(number)
        try:
            assert process.wait(60) == 128 + number
        finally:
            process.kill()
    assert not psutil.pid_exists(int((tmp_path / "child").read_text()))


@pytest.fixture
def sleepers() -> Iterator[list[Any]]:
    """Processes that sleep, each the first of its group."""
    started = [
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True, text=True) for _ in range(3)
    ]
    yield started
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("first", range(3))
def test_a_group_that_has_just_ended_hides_no_others(first: int, sleepers: list[Any]) -> None:
    running = mutate.Running()
    for process in sleepers:
        running.add(process)
    running.groups = sorted(running.groups)
    ended = next(process for process in sleepers if process.pid == running.groups[first])
    ended.kill()
    ended.wait()
    with pytest.raises(SystemExit):
        running.end(signal.SIGTERM)
    assert all(process.wait(20) == -signal.SIGKILL for process in sleepers)


def test_a_process_that_starts_while_the_others_are_ended(sleepers: list[Any]) -> None:
    """Between the question whether it may start and its entry in the list."""
    running = mutate.Running()
    with pytest.raises(SystemExit):
        running.end(signal.SIGTERM)
    running.add(sleepers[0])
    assert sleepers[0].wait(20) == -signal.SIGKILL and sleepers[1].poll() is None
