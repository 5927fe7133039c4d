"""Format foreign text for messages: never long, never deep, with unprintable characters escaped. Show warnings where the user called."""

from __future__ import annotations

import os
import re
import reprlib
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep

LONGEST = 60
"""Characters of a value in a message."""
LONGEST_REASON = 200
"""Characters of the message of another package about an error."""
LONGEST_PATH = 300
"""Characters of a path."""
LONGEST_MESSAGE = 4000
"""Characters of a whole message."""
_DIGITS = 40
"""Most digits of an integer that is printed in full."""


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 3
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = LONGEST // 3
        self.maxstring = self.maxother = LONGEST

    def repr_int(self, x: int, level: int) -> str:
        """Abbreviate long integers, because Python refuses to print integers of thousands of digits."""
        return repr(x) if abs(x) < 10**_DIGITS else f"an integer of about {int(x.bit_length() * 0.30103) + 1} digits"

    def repr_instance(self, x: object, level: int) -> str:
        """On one line, without an address in memory."""
        return re.sub(r"\s+", " ", re.sub(r" at 0x[0-9a-fA-F]+", "", super().repr_instance(x, level)))


_short = _Short()


def shown(value: object) -> str:
    """A value for a message."""
    return cut(printable(_short.repr(value)))


def name_shown(name: str) -> str:
    """A name for a message, without quotes."""
    return cut(printable(name))


def path_shown(path: str | os.PathLike[str]) -> str:
    """A path for a message."""
    return cut(printable(str(path)), LONGEST_PATH)


def reason_shown(error: Exception) -> str:
    """The message of an error of another package, or its kind if the message is empty."""
    return cut(printable(str(error)) or type(error).__name__, LONGEST_REASON)


def printable(text: str) -> str:
    """The text with invisible characters escaped: NUL, control characters, marks of direction."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cut(text: str, most: int = LONGEST) -> str:
    """The beginning of a long text."""
    return text if len(text) <= most else text[: most - 3] + "..."


def message_shown(message: str) -> str:
    """A message of one or more lines, ready to be printed."""
    return cut("\n".join(map(printable, message.splitlines())), LONGEST_MESSAGE)


class _Silent(threading.local):
    on = False


_silent = _Silent()


@contextmanager
def silenced() -> Iterator[None]:
    """Leave out warnings in a `with` block of this thread, for a call that is done again."""
    before, _silent.on = _silent.on, True
    try:
        quiet: dict[str, Any] = {kind: how if how == "raise" else "ignore" for kind, how in np.geterr().items()}
        with np.errstate(**quiet):
            yield
    finally:
        _silent.on = before


def warn_user(text: str, category: type[Warning], each: bool = False) -> bool:
    """Warn at the line outside of this package that called it. The default filter shows one text of a category a line.

    It is like `warnings.warn` with `skip_file_prefixes`, which needs Python 3.12, but the registry of a module has the texts that were
    shown, by line. Texts with numbers differ from call to call, so a line in a loop would warn each time.

    Args:
        text: one line.
        category: class of the warning.
        each: whether another text is shown though the line has shown one.

    Returns:
        whether warnings are not silenced.
    """
    if _silent.on:
        return False
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_filename.startswith(PACKAGE) or frame.f_globals.get("__name__") == "abc"):
        frame = frame.f_back  # a class with an ABCMeta is made within Python's module abc
    names, line = frame.f_globals, frame.f_lineno
    registry = names.setdefault("__warningregistry__", {})
    key = text, category, line
    if not each and any(isinstance(other, tuple) and other[1:] == key[1:] for other in registry):
        registry[key] = 1  # which Python forgets when the filters change
    warnings.warn_explicit(text, category, frame.f_code.co_filename, line, names.get("__name__"), registry)
    return True
