"""Runs struck again and again in one folder, then left alone: the bits of a run that was never struck, and nothing left anywhere else."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from diffsim.scene.schema.toml import to_toml
from tests.scene.tiny import ACOUSTIC, scene

WAYS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "ENOSPC", "EACCES", "EFBIG")
CHECKPOINT = {"schedule": "multi_tier", "slots": 2, "disk": "1 MB", "resume": 1e-9}
"""States on disk, and a copy of the sweep after every piece."""


class Struck:
    """A scene, its undisturbed run, and folders of runs that are struck.

    Args:
        folder: for all of it; empty.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        self.scene = folder / "scene.toml"
        self.scene.write_text(to_toml(scene(ACOUSTIC, accept=[], optimise={"iterations": 2}, checkpoint=CHECKPOINT)))
        done = self.run("whole", 0, "SIGKILL")
        assert done.returncode == 0, done.stderr
        self.touches = int(done.stdout.split()[-1])

    def run(self, name: str, number: int, how: str) -> subprocess.CompletedProcess[str]:
        """Run, or go on with the files there, and strike at that touch of the disk; at 0: never."""
        out = self.folder / name / "run"
        out.parent.mkdir(exist_ok=True)
        more = ["--resume"] if (out / "run.json").exists() else []
        command = [sys.executable, "-m", "tests.scene.struck", str(self.scene), str(out), str(number), how, *more]
        environment = {**os.environ, "TMPDIR": str(self.temporary)}
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)

    def check(self, name: str, strikes: Iterable[tuple[int, str]]) -> None:
        """Strike one run in turn, and see that it ends as it should each time, and in the end."""
        for number, how in strikes:
            done = self.run(name, number, how)
            what = f"{how} at {number}: exit code {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-2500:]}"
            assert not list(self.temporary.iterdir()), what
            if done.returncode != 0:  # it may have ended before
                self._require_end(how, done, what)
        done = self.run(name, 0, "SIGKILL")
        assert done.returncode == 0, done.stderr
        run, expected = self.folder / name / "run", self.folder / "whole" / "run"
        assert {path.name for path in run.iterdir()} == {path.name for path in expected.iterdir()}
        with np.load(run / "result.npz") as a, np.load(expected / "result.npz") as b:
            assert set(a.files) == set(b.files)
            for array in b.files:
                np.testing.assert_array_equal(a[array], b[array], err_msg=array)

    @staticmethod
    def _require_end(how: str, done: subprocess.CompletedProcess[str], what: str) -> None:
        assert "Traceback" not in done.stderr, what
        if how == "SIGKILL":
            assert done.returncode == -signal.SIGKILL, what
            return
        message = done.stderr[done.stderr.rindex("diffsim: ") :]
        assert message.count("\n") == 1, what
        if hasattr(errno, how):
            assert done.returncode == 2, what
            assert os.strerror(getattr(errno, how)) in message and "; " in message and "/run" in message, what
            assert how == "EACCES" or " free" in message, what
        else:
            assert done.returncode == 128 + getattr(signal, how), what
            assert ("interrupted" if how == "SIGINT" else how) in message and "--resume" in message, what


def drawn(rng: random.Random, touches: int, count: int) -> list[tuple[int, str]]:
    """Strikes at random, each half of the way or so on from the last: most touches are those of the first gradients."""
    return [(rng.randint(1, max(2, int(touches * rng.random()))), rng.choice(WAYS)) for _ in range(count)]
