"""A run that is killed inside a reverse sweep goes on inside it: finished shots and reversed steps are not done again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.sampled import sampled
from tests.scene.killed_in_sweep import SLOTS

STEPS, SHOTS = 24, 2
GRADIENT = STEPS * SHOTS


def run(folder: Path, most: int, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.scene.killed_in_sweep", str(folder), str(most), *more]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("whole") / "run"
    done = run(folder, -1)
    assert done.returncode == 0, done.stderr
    return folder, int(done.stdout.split()[-1])


@pytest.mark.parametrize("inside", sampled([17, 5, STEPS + 9], 3))
def test_it_goes_on_inside_the_gradient(whole: tuple[Path, int], tmp_path: Path, inside: int) -> None:
    complete, total = whole
    folder = tmp_path / "run"
    killed = run(folder, 2 * GRADIENT + inside)
    assert killed.returncode == -signal.SIGKILL
    killed_at = int(killed.stdout)
    left = [path.name for path in folder.iterdir()]
    assert any(name.startswith("sweep-") for name in left)
    done = run(folder, -1, "resume")
    assert done.returncode == 0, done.stderr
    again = int(done.stdout.split()[-1]) - (total - killed_at)
    assert again <= SLOTS + 1  # the run of steps whose end was not yet on disk
    with np.load(folder / "result.npz") as result, np.load(complete / "result.npz") as expected:
        for name in expected.files:
            np.testing.assert_array_equal(result[name], expected[name], err_msg=name)
    assert not any(path.name.startswith(("sweep-", "shots", "states-")) for path in folder.iterdir())


def test_histories_go_on_inside_the_gradient(tmp_path: Path) -> None:
    """The unknown varies with time: its gradient is gathered step by step."""
    complete, folder = tmp_path / "whole", tmp_path / "run"
    assert run(complete, -1, "driven").returncode == 0
    assert run(folder, 14 + 9, "driven").returncode == -signal.SIGKILL
    assert any(path.name.startswith("sweep-") for path in folder.iterdir())
    done = run(folder, -1, "resume", "driven")
    assert done.returncode == 0, done.stderr
    with np.load(folder / "result.npz") as result, np.load(complete / "result.npz") as expected:
        assert "unknowns.lamp.answer" in expected.files
        for name in expected.files:
            np.testing.assert_array_equal(result[name], expected[name], err_msg=name)
