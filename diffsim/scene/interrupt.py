"""Ctrl-C that is never lost.

Python raises KeyboardInterrupt wherever it happens to be, and drops it if that is a finaliser or a callback of the garbage
collector: then a run would go on as if nothing had been asked. So the wish is also noted, and heeded at the next evaluation.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interrupt:
    """While entered in the main thread, notes that Ctrl-C was pressed; Python's own handling goes on."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: object = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.getsignal(signal.SIGINT)
            if self._previous is signal.default_int_handler:  # not where an embedding program handles it
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._previous is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def heed(self) -> None:
        """Raise KeyboardInterrupt if it was asked for."""
        if self.asked:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        raise KeyboardInterrupt
