"""Peers: their scripts, environments with the packages that these name, and processes that do their work."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "peers"
HEAD = re.compile(r"^# /// script\n((?:#.*\n)+?)# ///$", re.MULTILINE)
TOO_LONG = "took over "
INSTALLING = 900
"""Seconds after which an installation is given up."""


class Unavailable(Exception):  # noqa: N818 - an answer, not a mistake
    """A peer cannot run here; its argument is the reason."""


@dataclass(frozen=True)
class Peer:
    """A script `by_NAME.py` and the statements of its head.

    Attributes:
        name: of the script.
        title: in the table.
        packages: pinned requirements; none: it runs in diffsim's own environment.
        index: another package index to look in.
        needs: a program that it calls.
        notes: differences from the work of the others.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    own: bool = False
    index: str | None = None
    needs: str | None = None
    notes: str = ""

    @property
    def script(self) -> Path:
        return SCRIPTS / f"by_{self.name}.py"

    @property
    def versions(self) -> str:
        return ", ".join(p.replace("==", " ") for p in self.packages)

    def python(self, cache: Path) -> str:
        """An interpreter that has the peer's packages, installed on first use.

        Raises:
            Unavailable: they cannot be installed, or a program is missing.
        """
        if self.needs and shutil.which(self.needs) is None:
            raise Unavailable(f"needs {self.needs}, which was not found")
        if self.own:
            return sys.executable
        about = json.dumps([sys.version, self.packages])
        folder = cache / f"{self.name}-{hashlib.sha256(about.encode()).hexdigest()[:10]}"
        python = folder / "bin" / "python"
        done = folder / "installed"
        if not done.exists():
            print(f"{self.title}: installing {self.versions} in {folder}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            try:
                subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True, text=True)
                more = ["--extra-index-url", self.index] if self.index else []
                command = [str(python), "-m", "pip", "install", "--quiet", *more, *self.packages]
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALLING)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
                said = getattr(error, "stderr", None) or str(error)
                lines = [line for line in str(said).strip().splitlines() if line.startswith("ERROR")] or str(said).strip().splitlines()
                raise Unavailable(f"could not be installed: {lines[-1][:200]}") from None
            done.touch()
        return str(python)


def peers() -> list[Peer]:
    """All scripts, diffsim's first."""
    every = [_read(path) for path in sorted(SCRIPTS.glob("by_*.py"))]
    return sorted(every, key=lambda peer: (peer.name != "diffsim", not peer.own, peer.title))


def _read(path: Path) -> Peer:
    if sys.version_info < (3, 11):
        raise SystemExit("the comparison with other packages needs Python 3.11 or later")
    import tomllib

    head = HEAD.search(path.read_text())
    if head is None:
        raise SystemExit(f"{path} has no inline script metadata at its head, expected # /// script ... # ///")
    about = tomllib.loads("".join(line[2:] for line in head[1].splitlines(keepends=True)))
    return Peer(path.stem.removeprefix("by_"), packages=tuple(about.get("dependencies", ())), **about["tool"]["diffsim-bench"])


class Worker:
    """A process that has done a problem once and does it again at each call of `turn`.

    Args:
        peer: whose script is run.
        python: the interpreter.
        problem: the file of the problem.
        result: the file that results are written to.
        threads: that it may use; it is bound to as many cores.
        limit: seconds that an answer may take.

    Raises:
        Unavailable: the peer cannot do this work, failed, or took too long.
    """

    def __init__(self, peer: Peer, python: str, problem: Path, result: Path, threads: int, limit: float) -> None:
        self._peer, self._limit = peer, limit
        cores = sorted(os.sched_getaffinity(0))[:threads]
        environment = {**os.environ, **{f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "MKL", "OPENBLAS")}}
        own = str(HERE.parent.parent) if peer.own else ""
        environment["PYTHONPATH"] = os.pathsep.join(p for p in (own, environment.get("PYTHONPATH", "")) if p and peer.own)
        self._log = result.with_suffix(".log").open("w+")
        bound = f"import os, sys; os.sched_setaffinity(0, {cores}); os.execv(sys.argv[1], sys.argv[1:])"
        self._process = subprocess.Popen(
            [sys.executable, "-c", bound, python, str(peer.script), str(problem), str(result)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )
        try:
            self.first: float = self._answer()["first"]
        except Unavailable:
            self.close()
            raise

    def turn(self) -> dict[str, float]:
        """Seconds by the clock and of CPU time of one call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        timer = threading.Timer(self._limit, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        late = not timer.is_alive()
        timer.cancel()
        if late:
            raise Unavailable(f"{TOO_LONG}{self._limit:.0f} s")
        if not line:
            self._log.seek(0)
            lines = [line for line in self._log.read().splitlines() if line.strip()] or ["no message"]
            raise Unavailable(f"failed: {lines[-1].strip()[:200]}")
        said: dict[str, Any] = json.loads(line)
        if "cannot" in said:
            raise Unavailable(said["cannot"])
        return said

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
