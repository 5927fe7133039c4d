"""The first import of `diffsim`: if the process is the command `diffsim`, end it quietly on a signal.

Importing takes a second or two. Ctrl-C during that time would print a page of tracebacks.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

ENDINGS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that request the end of a process."""
_SIGNALLED = 128
"""A shell's exit code for a process that a signal ended is this plus the signal's number."""


def exit_code(number: int) -> int:
    """The exit code of a process that ends because of a signal."""
    return _SIGNALLED + number


def how(number: int) -> str:
    """The cause of the end, as text."""
    return "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"


def is_command() -> bool:
    """True if this process is `diffsim` or `python -m diffsim`, and this thread receives its signals.

    A user's script with the name diffsim.py does not count, nor does a program with `-m diffsim` in its own arguments.
    """
    if not sys.argv or threading.current_thread() is not threading.main_thread():
        return False
    if sys.argv[0] == "-m":  # while Python looks for the module, the arguments after its name are already in place
        return sys.orig_argv[-len(sys.argv)].removeprefix("-m") == "diffsim"
    return Path(sys.argv[0]).name in ("diffsim", "diffsim.exe")


def leave(number: int, frame: FrameType | None = None) -> None:
    """End the process at once. A module that is being imported could catch an exception."""
    os.write(2, f"diffsim: {how(number)}\n".encode())
    os._exit(exit_code(number))


def begin() -> None:
    """Leave on every signal that has its default handler."""
    for number in ENDINGS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, leave)


if is_command():
    begin()
