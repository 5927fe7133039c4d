"""A run of a scene that is struck at its n-th touch of the disk: by a signal, or by an error of the system.

As a program: python -m tests.scene.struck SCENE FOLDER NUMBER HOW [more arguments of `diffsim run`]; HOW is the name of a signal or of an
errno. Prints how often the disk was touched.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import diffsim.report
from diffsim.command import cli

NAMES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
"""Events of Python's audit, raised before the system is called, that change files; and `open` for writing."""
CALLS = ("fsync", "pwrite")
"""Without an event."""


def main() -> int:
    scene, folder, number, how, *more = sys.argv[1:]
    watched, touches, most = [str(Path(folder).parent), os.environ["TMPDIR"]], 0, int(number)

    def touch() -> None:
        nonlocal touches
        touches += 1
        if touches == most or (touches > most > 0 and hasattr(errno, how)):  # a full disk stays full
            if hasattr(errno, how):
                raise OSError(getattr(errno, how), os.strerror(getattr(errno, how)))
            os.kill(os.getpid(), getattr(signal, how))

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        changes = event in NAMES - ({"os.remove", "os.rmdir"} if hasattr(errno, how) else set())  # a full disk lets go
        if changes or (event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            path = arguments[0]
            if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(tuple(watched)):
                touch()

    def struck(call: Callable[..., Any]) -> Callable[..., Any]:
        def calling(*arguments: Any) -> Any:
            touch()
            return call(*arguments)

        return calling

    for name in CALLS:
        setattr(os, name, struck(getattr(os, name)))
    diffsim.report.write_report = lambda outcome, folder: None  # type: ignore[assignment]  # it takes seconds, and is no part of this
    tempfile.gettempdir()  # tries the folder with a file of its own, once a process: that is Python's to lose
    sys.addaudithook(heard)
    code = cli.main(["run", scene, "--out", folder, "--precision", "f64", "--threads", "1", *more])
    print(f"touched {touches}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
