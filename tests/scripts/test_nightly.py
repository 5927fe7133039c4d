"""`.ci/nightly`, whose programs are replaced by one that notes its arguments, and fails or hangs where it is asked to."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
STEPS = {
    "slow": ["test tests -m slow and not gpu"],
    "linear": ["tests/linear"],
    "pages": ["tests/test_docs.py"],
    "scene": ["diffsim run a ", "diffsim run b "],
    "mangled": ["scripts/fuzz/scenes.py"],
    "strikes": ["scripts/fuzz/strikes.py"],
    "numpy": ["scripts/fuzz/numpy_suite.py"],
    "mutants": ["scripts/mutate.py"],
}
"""Words of the commands of each step."""
PROGRAM = """#!/bin/bash
[ "$1" != -c ] || exit 0
echo "${0##*/} $*" >>"$CALLS"
for word in $HANGS; do [[ "$*" != *$word* ]] || { sleep 60 & echo $$ $! >"$CALLS.hang"; wait; }; done
if [[ "$*" == *--version* ]]; then mkdir -p "$DIFFSIM_VENV/bin"; cp "$0" "$DIFFSIM_VENV/bin/python"; exit; fi
for word in $FAILS; do [[ "$*" != *$word* ]] || exit 1; done
[[ "$*" != *openblas.py ]] || { echo A; echo B; }
"""

pytestmark = pytest.mark.skipif(shutil.which("bash") is None or shutil.which("timeout") is None, reason="a script of bash")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project of two scenes without an environment."""
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / "scenes").mkdir()
    for name in "ab":
        (tmp_path / "scenes" / f"{name}.toml").touch()
    (tmp_path / "bin").mkdir()
    for program in ("python3", "uv", "apt-get"):
        (tmp_path / "bin" / program).write_text(PROGRAM)
        (tmp_path / "bin" / program).chmod(0o755)
    return tmp_path


def _environment(tree: Path, **variables: str) -> dict[str, str]:
    """Variables with which the script finds the programs of the tree, where no calls have been noted yet."""
    (tree / "calls").write_text("")
    kept = {key: value for key, value in os.environ.items() if key not in ("DAY", "JOBS", "LIMIT")}
    path, calls = f"{tree / 'bin'}:{os.environ['PATH']}", str(tree / "calls")
    return {**kept, "PATH": path, "DIFFSIM_VENV": str(tree / "venv"), "CALLS": calls, **variables}


def _run(tree: Path, *steps: str, **variables: str) -> tuple[int, str, list[str]]:
    """Exit status, output, and the calls of programs in their order."""
    environment, calls = _environment(tree, **variables), tree / "calls"
    done = subprocess.run([tree / ".ci" / "nightly", *steps], capture_output=True, text=True, env=environment, timeout=100)
    return done.returncode, done.stdout + done.stderr, calls.read_text().splitlines()


def test_each_step_may_be_asked_for_alone_in_a_fresh_tree(tree: Path) -> None:
    """It makes its environment first, and runs its own commands and those of no other step."""
    for step, words in STEPS.items():
        shutil.rmtree(tree / "venv", ignore_errors=True)
        status, output, calls = _run(tree, step)
        assert status == 0, output
        assert "start.py test --version" in calls[0], calls
        for other, others in STEPS.items():
            assert all(any(word in call for call in calls) == (other == step) for word in others), (step, other, calls)
        assert all(any(word in call for call in calls) for word in words)


def test_a_step_that_fails_or_hangs_hides_none_of_the_others(tree: Path) -> None:
    status, output, calls = _run(tree, LIMIT="1s", HANGS="scenes.py", FAILS="strikes.py tests/linear")
    assert status == 1
    assert all(any(word in call for call in calls) for words in STEPS.values() for word in words), calls
    kernels = ["linear algebra with kernels of A", "linear algebra with kernels of B"]
    assert _failed(output) == [*kernels, "mangled scenes", "runs struck at random moments"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("hangs", ["scenes.py", "tests/linear", "--version"])
def test_a_signal_ends_the_running_step_and_starts_no_other(hangs: str, number: signal.Signals, tree: Path) -> None:
    """That of a terminal goes to the group of the script, in which the step is not. Bash starts `sleep` so that it ignores SIGINT."""
    (tree / "tmp").mkdir()
    hanging, environment = tree / "calls.hang", _environment(tree, HANGS=hangs, TMPDIR=str(tree / "tmp"))
    before = signal.signal(number, lambda *_: None)  # what is ignored here, as in a process of `nohup`, would be ignored there
    try:
        command = [tree / ".ci" / "nightly", "linear", "mangled", "mutants"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    finally:
        signal.signal(number, before)
    with process:
        try:
            while not hanging.exists() or not hanging.read_text().endswith("\n"):
                assert process.poll() is None
                time.sleep(0.02)
            os.killpg(process.pid, number)
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 128 + number and f"== ended by {number.name}" in output
    assert hangs in (tree / "calls").read_text().splitlines()[-1]
    for each in hanging.read_text().split():
        assert not psutil.pid_exists(int(each)) or psutil.Process(int(each)).status() == psutil.STATUS_ZOMBIE, "the step lives on"
    assert not [*(tree / "tmp").iterdir()]


def test_no_types_hide_no_steps(tree: Path) -> None:
    status, output, calls = _run(tree, FAILS="openblas.py")
    assert status == 1 and _failed(output) == ["the types of OpenBLAS"] and "scripts/mutate.py" in calls[-1]


def _failed(output: str) -> list[str]:
    return [line.split(": ")[1].split(",")[0] for line in output.splitlines() if line.startswith("FAILED")]


@pytest.mark.parametrize("jobs", ["1", "7"])
def test_the_number_of_processes_is_chosen(jobs: str, tree: Path) -> None:
    _, _, calls = _run(tree, "slow", "pages", "mutants", JOBS=jobs)
    several = [call for call in calls if " -n " in call or " --jobs " in call]
    assert len(several) == 3 and all(f" -n {jobs} " in f"{call} " or f" --jobs {jobs} " in f"{call} " for call in several), calls


def test_a_step_that_is_none(tree: Path) -> None:
    status, output, calls = _run(tree, "linear", "slwo")
    assert status == 2 and "got slwo; name one of these" in output and not calls


def test_each_type_of_openblas_is_another_one_and_has_its_kernels() -> None:
    """A type that the library lacks is not among them, for then its kernels would be those of this processor again."""
    command, library = [sys.executable, ROOT / "scripts" / "fuzz" / "openblas.py"], {}
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    here = subprocess.run([*command, "--chosen"], capture_output=True, text=True, env=environment, check=True).stdout.strip()
    types = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout.split()
    for kind in types:
        environment["OPENBLAS_CORETYPE"] = kind
        library[kind] = subprocess.run([*command, "--chosen"], capture_output=True, text=True, env=environment, check=True).stdout.strip()
    assert library == {kind: kind for kind in types} and here not in types
    if here == "Haswell":  # each processor that has its instructions has those of the types before it
        assert types[:2] == ["Nehalem", "Sandybridge"]
