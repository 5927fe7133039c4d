"""How much memory this process really took: the largest resident size since a moment."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from contextlib import suppress
from pathlib import Path

_STATUS, _FORGET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Resident:
    """The resident memory of this process from now on.

    Attributes:
        before: bytes that are resident now.
        exact: whether the peak is counted from now on; elsewhere than on Linux it is that of the process from its start, so that it says
            something only where it is a new one.
    """

    def __init__(self) -> None:
        _give_back()
        self.exact = _forget_peak()
        self.before = _status("VmRSS") or _largest()

    @property
    def peak(self) -> int:
        """Bytes by which the resident size has exceeded `before` at most."""
        now = _status("VmHWM") if self.exact else None
        return max((_largest() if now is None else now) - self.before, 0)


def _give_back() -> None:
    """Let Python and the C library return what is not in use to the system: else later arrays would take that, and not count."""
    gc.collect()
    with suppress(OSError, AttributeError, TypeError):  # another C library, or another system
        ctypes.CDLL(None).malloc_trim(0)


def _forget_peak() -> bool:
    """Let the system's peak start anew from what is resident now."""
    try:
        _FORGET.write_text("5")
    except OSError:
        return False
    return True


def _status(key: str) -> int | None:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), None)


def _largest() -> int:
    """Largest resident size so far; getrusage counts kilobytes, on macOS bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
