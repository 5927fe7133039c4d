"""A packaged scene in domains finds the same answer as in one process, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from diffsim.scene.disk.outcome import Outcome
from tests.domains.test_domains import LAUNCHER, ROOT, WITH_MPI
from tests.scene.test_packaged import SMALL

CHANGES = ["optimise.iterations=1", *SMALL["acoustic_crosswell"].changes]
SCENE = ["-m", "diffsim", "run", "acoustic_crosswell", "--threads", "1", *(word for change in CHANGES for word in ("--set", change))]


def run(out: Path, *options: str, ranks: int = 1) -> subprocess.CompletedProcess[str]:
    launcher = [] if ranks == 1 else [str(LAUNCHER), "-n", str(ranks)]
    return subprocess.run(
        [*launcher, sys.executable, *SCENE, "--out", str(out), *options], cwd=ROOT, capture_output=True, text=True, timeout=900
    )


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the scene in one process."""
    folder = tmp_path_factory.mktemp("one") / "run"
    done = run(folder)
    assert done.returncode == 1, done.stderr  # an iteration is not enough for what the scene accepts
    return folder


@WITH_MPI
@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2])
def test_a_scene_in_groups_of_four_domains_finds_the_same_answer(groups: int, one: Path, tmp_path: Path) -> None:
    four = tmp_path / "four"
    done = run(four, "--domains", "2x2", ranks=4 * groups)
    assert done.returncode == 1, done.stderr
    require_same_results(one, four)
    divided = Outcome.load(four).divided
    assert divided is not None and (divided.boxes, divided.groups) == ((2, 2), groups) and divided.exchanges > 0
    assert 0 < divided.ghost_share < 1 and 0 < divided.exchange_seconds < divided.seconds
    assert Outcome.load(one).divided is None
    assert "2 x 2" in (four / "report.html").read_text(encoding="utf-8")
    last = [(folder / "history.csv").read_text().splitlines()[-1].split(",")[1] for folder in (one, four)]
    assert last[0] == last[1]


STEPS, SHOTS, SLOTS = 24, 2, 3
"""Steps, shots and states in memory of the scene `tests.domains.killed_scene`."""


def tiny(folder: Path, domains: str, kill_after: int, ranks: int = 1) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.domains.killed_scene", str(folder), domains, str(kill_after)]
    launcher = [] if ranks == 1 else [str(LAUNCHER), "-n", str(ranks)]
    return subprocess.run([*launcher, *command], cwd=ROOT, capture_output=True, text=True, timeout=300)


def require_same_results(one: Path, other: Path) -> None:
    with np.load(one / "result.npz") as expected, np.load(other / "result.npz") as results:
        assert expected.files == results.files and "unknowns.c.answer" in expected.files
        for name in expected.files:
            np.testing.assert_array_equal(results[name], expected[name], err_msg=name)


@pytest.fixture(scope="module")
def tiny_one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The folder of that scene in one process, and the steps that it reversed."""
    folder = tmp_path_factory.mktemp("tiny") / "run"
    done = tiny(folder, "none", -1)
    assert done.returncode == 0, done.stderr
    return folder, int(done.stdout)


@WITH_MPI
@pytest.mark.slow
@pytest.mark.parametrize(("inside", "then"), [(17, "2x1"), (STEPS + 9, "2x1"), (STEPS + 9, "none")])
def test_a_scene_whose_ranks_were_killed_goes_on_inside_its_gradient(
    inside: int, then: str, tiny_one: tuple[Path, int], tmp_path: Path
) -> None:
    (one, total), folder = tiny_one, tmp_path / "two"
    killed = tiny(folder, "2x1", 2 * STEPS * SHOTS + inside, ranks=2)
    assert killed.returncode != 0 and len(list(folder.glob("sweep-*"))) == 4, killed.stderr
    done = tiny(folder, then, -1, ranks=1 if then == "none" else 2)
    assert done.returncode == 0, done.stderr
    before, after = int(killed.stdout.split()[0]), int(done.stdout)
    assert before + after - total <= (SLOTS + 1 if then == "2x1" else STEPS)  # a few steps again, or those of one shot in other domains
    require_same_results(one, folder)
    assert not [path.name for path in folder.iterdir() if path.name.startswith(("sweep-", "shots-", "states-"))]


@WITH_MPI
@pytest.mark.slow
def test_two_groups_of_two_ranks_share_the_shots_out(tiny_one: tuple[Path, int], tmp_path: Path) -> None:
    (one, total), folder = tiny_one, tmp_path / "four"
    killed = tiny(folder, "2x1", 2 * STEPS + 9, ranks=4)  # each group reverses one shot of two
    assert killed.returncode != 0 and len(list(folder.glob("sweep-*"))) >= 4, killed.stderr
    done = tiny(folder, "2x1", -1, ranks=4)
    assert done.returncode == 0, done.stderr
    before, after = int(killed.stdout.split()[0]), int(done.stdout)
    assert before + after - total // SHOTS <= SLOTS + 1
    require_same_results(one, folder)


@WITH_MPI
@pytest.mark.slow
@pytest.mark.parametrize(
    ("domains", "line"),
    [
        ("3x1", "expected a multiple of 3 ranks, got 2; start the program with mpiexec -n 3, or 6 for 2 groups"),
        ("2y", "--domains: expected a number of boxes"),
    ],
)
def test_wrong_domains_are_one_line_and_nothing_is_written(domains: str, line: str, tmp_path: Path) -> None:
    done = run(tmp_path / "run", "--domains", domains, ranks=2)
    lines = [each for each in done.stderr.splitlines() if each.startswith("diffsim:")]
    assert done.returncode == 2 and len(lines) == 1 and line in lines[0], done.stderr
    assert not (tmp_path / "run").exists()


@WITH_MPI
@pytest.mark.slow
def test_ranks_with_other_scenes_are_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    command = [sys.executable, *SCENE, "--out", str(tmp_path / "run"), "--domains", "2x1"]
    launcher = [str(LAUNCHER), "-n", "1", *command, ":", "-n", "1", *command, "--set", "optimise.iterations=2"]
    done = subprocess.run(launcher, cwd=ROOT, capture_output=True, text=True, timeout=300)
    lines = [each for each in done.stderr.splitlines() if each.startswith("diffsim:")]
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert "rank 1 of 2 differs from rank 0, expected the same on all, got another scene" in lines[0]
    assert not (tmp_path / "run").exists()
