"""Whose turn it is to use a simulation: its kernels work on one storage."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from diffsim.errors import StaleValueError


class Turn:
    """Held by the thread that uses a simulation; others wait.

    A thread may take a turn within its own, but not from a function that a run in progress calls (`watch`, `until` and the like): that
    would exchange the state under its feet.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._outside = False  # whether the thread that holds the lock is in a function of the user's

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._outside:
            self._lock.release()
            raise StaleValueError(
                "expected a simulation that is not running, got one whose run has called this function (watch, until, on_action or "
                "on_progress); use another Simulation in it"
            )

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def outside(self, function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """A function of the user's as a run calls it."""
        if function is None:
            return None

        def called(*args: Any) -> Any:
            self._outside = True
            try:
                return function(*args)
            finally:
                self._outside = False

        return called
