"""A packaged scene in domains finds the same answer as in one process, bit for bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.domains.test_domains import LAUNCHER, ROOT, WITH_MPI

SCENE = ["-m", "diffsim", "run", "acoustic_crosswell", "--set", "optimise.iterations=1", "--threads", "1"]


def run(out: Path, *options: str, ranks: int = 1) -> subprocess.CompletedProcess[str]:
    launcher = [] if ranks == 1 else [str(LAUNCHER), "-n", str(ranks)]
    return subprocess.run(
        [*launcher, sys.executable, *SCENE, "--out", str(out), *options], cwd=ROOT, capture_output=True, text=True, timeout=900
    )


@WITH_MPI
@pytest.mark.slow
def test_a_scene_in_four_domains_finds_the_same_answer(tmp_path: Path) -> None:
    one, four = run(tmp_path / "one"), run(tmp_path / "four", "--domains", "2x2", ranks=4)
    assert one.returncode == four.returncode, one.stderr + four.stderr
    results = [np.load(tmp_path / name / "result.npz") for name in ("one", "four")]
    assert results[0].files == results[1].files and "unknowns.c.answer" in results[0].files
    for name in results[0].files:
        assert np.array_equal(results[0][name], results[1][name]), name
    assert (tmp_path / "four" / "report.html").exists()
    last = [(tmp_path / name / "history.csv").read_text().splitlines()[-1].split(",")[1] for name in ("one", "four")]
    assert last[0] == last[1]


@WITH_MPI
@pytest.mark.slow
@pytest.mark.parametrize(
    ("domains", "line"),
    [("3x1", "expected as many ranks, got 2; start the program with mpiexec -n 3"), ("2y", "--domains: expected a number of boxes")],
)
def test_wrong_domains_are_one_line_and_nothing_is_written(domains: str, line: str, tmp_path: Path) -> None:
    done = run(tmp_path / "run", "--domains", domains, ranks=2)
    lines = [each for each in done.stderr.splitlines() if each.startswith("diffsim:")]
    assert done.returncode == 2 and len(lines) == 1 and line in lines[0], done.stderr
    assert not (tmp_path / "run").exists()
