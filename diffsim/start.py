"""The first thing that `import diffsim` does, where the process is the command `diffsim`: end it quietly on a signal.

Importing takes a second or two. Ctrl-C in there would leave a page of tracebacks of whatever was being imported.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

ENDINGS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a process to end."""
_SIGNALLED = 128
"""A shell's exit code for a process that a signal has ended is this and the signal's number."""


def exit_code(number: int) -> int:
    """Of a process that ends because of a signal."""
    return _SIGNALLED + number


def how(number: int) -> str:
    """What ended it, in words."""
    return "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"


def is_command() -> bool:
    """Whether this process is `diffsim` or `python -m diffsim`, and this thread the one that has its signals.

    A script of a user's that is called diffsim.py is not, nor is a program that has `-m diffsim` among its own arguments.
    """
    if not sys.argv or threading.current_thread() is not threading.main_thread():
        return False
    if sys.argv[0] == "-m":  # while Python looks for the module; what follows its name is in its place already
        return sys.orig_argv[-len(sys.argv)].removeprefix("-m") == "diffsim"
    return Path(sys.argv[0]).name in ("diffsim", "diffsim.exe")


def leave(number: int, frame: FrameType | None = None) -> None:
    """End the process at once: what is being imported might take an exception for one of its own."""
    os.write(2, f"diffsim: {how(number)}\n".encode())
    os._exit(exit_code(number))


def begin() -> None:
    """Leave on every signal whose handling nobody has changed."""
    for number in ENDINGS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, leave)


if is_command():
    begin()
