"""A process is killed in the middle of a reverse sweep; the next one goes on there, to the same bits."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffsim.checkpoint import Binomial, Policy, StoreAll
from diffsim.errors import StorageError
from tests.sampled import sampled
from tests.simulation import chaotic
from tests.simulation.killed_run import STEPS


def run(folder: Path, schedule: str, below: int, *loss: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation.killed_run", str(folder), schedule, str(below), *loss]
    return subprocess.run(command, capture_output=True, text=True)


def ends(done: subprocess.CompletedProcess[str]) -> tuple[str, str, int]:
    assert done.returncode == 0, done.stderr[-2000:]
    gradient, solution, steps = done.stdout.split()
    return gradient, solution, int(steps)


@pytest.mark.parametrize("schedule", sampled(["disk", "binomial"]))
def test_it_goes_on_inside_the_reverse_sweep(schedule: str, tmp_path: Path) -> None:
    undisturbed = ends(run(tmp_path / "whole", schedule, -1))
    assert undisturbed[2] == STEPS
    killed = run(tmp_path / "cut", schedule, 250)
    assert killed.returncode == -signal.SIGKILL
    assert list((tmp_path / "cut").iterdir())
    killed = run(tmp_path / "cut", schedule, 100)  # and once more, in what was resumed
    assert killed.returncode == -signal.SIGKILL
    gradient, solution, steps = ends(run(tmp_path / "cut", schedule, -1))
    assert (gradient, solution) == undisturbed[:2]
    assert steps < 110
    assert not list((tmp_path / "cut").iterdir())


@pytest.mark.slow
def test_another_loss_starts_anew(tmp_path: Path) -> None:
    assert run(tmp_path, "binomial", 250).returncode == -signal.SIGKILL
    gradient, _, steps = ends(run(tmp_path, "binomial", -1, "another"))
    assert steps >= STEPS
    assert gradient == ends(run(tmp_path, "binomial", -1, "another"))[0]
    assert gradient != ends(run(tmp_path, "binomial", -1))[0]


@pytest.mark.parametrize("schedule", [StoreAll(STEPS), "auto"], ids=repr)
@pytest.mark.filterwarnings("ignore::diffsim.checkpoint.growth.ChaosWarning")
def test_it_goes_on_where_all_is_stored(schedule: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.checkpoint.progress.REPORT_SECONDS", 0.0)
    model = chaotic.simulation("f64")
    policy = Policy(schedule=schedule, folder=tmp_path, resume=1e-9)
    stop_at = 2.0

    def stop(share: float, seconds_left: float | None) -> None:
        if share > stop_at:
            raise KeyboardInterrupt

    def gradient() -> dict[str, np.ndarray]:
        solution, pullback = model.vjp(chaotic.inputs(model, STEPS), STEPS, policy, on_progress=stop)
        return pullback(chaotic.cotangents(solution))

    expected = gradient()
    stop_at = 0.7
    with pytest.raises(KeyboardInterrupt):
        gradient()
    stop_at = 2.0
    resumed = gradient()
    assert model.last_sweep is not None
    assert model.last_sweep.steps["reverse"] < 0.7 * STEPS
    for name, value in expected.items():
        assert resumed[name].tobytes() == value.tobytes()


@pytest.mark.filterwarnings("ignore::diffsim.checkpoint.growth.ChaosWarning")
def test_a_damaged_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffsim.checkpoint.progress.REPORT_SECONDS", 0.0)
    model = chaotic.simulation("f64")

    def stop(share: float, seconds_left: float | None) -> None:
        if share > 0.7:
            raise KeyboardInterrupt

    def gradient(on_progress: Any = None) -> None:
        policy = Policy(schedule=Binomial(STEPS, 4), folder=tmp_path, resume=1e-9)
        solution, pullback = model.vjp(chaotic.inputs(model, STEPS), STEPS, policy, on_progress=on_progress)
        pullback(chaotic.cotangents(solution))

    with pytest.raises(KeyboardInterrupt):
        gradient(stop)
    (file,) = tmp_path.iterdir()
    data = bytearray(file.read_bytes())
    data[-9] ^= 1
    file.write_bytes(data)
    with pytest.raises(StorageError, match=re.escape(str(file))):
        gradient()
