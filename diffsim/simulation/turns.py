"""Whose turn it is to use a simulation: its kernels work on one storage."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from diffsim.engine import refuse_forked
from diffsim.errors import StaleValueError

_table = threading.Condition()
"""Held for the few lines that read or change who holds and who waits for any turn; notified of every turn that is given up."""
_awaited: dict[int, Turn] = {}
"""The turn that each waiting thread waits for, by the thread's number."""


class Turn:
    """Held by the thread that uses a simulation; others wait.

    A thread may take a turn within its own, but not from a function that a run in progress calls (`watch`, `until` and the like): that
    would exchange the state under its feet. Nor may it wait for a turn whose holder waits, however indirectly, for one of its own.
    """

    def __init__(self) -> None:
        self._holder: int | None = None  # number of the thread whose turn it is
        self._depth = 0  # how often it took it
        self._outside = False  # whether it is in a function of the user's

    def __enter__(self) -> None:
        refuse_forked()
        me = threading.get_ident()
        with _table:
            if self._holder == me and self._outside:
                raise StaleValueError(
                    "expected a simulation that is not running, got one whose run has called this function (watch, until, on_action or "
                    "on_progress); use another Simulation in it"
                )
            if self._holder not in (None, me):
                self._wait(me)
            self._holder, self._depth = me, self._depth + 1

    def __exit__(self, *error: object) -> None:
        with _table:
            self._depth -= 1
            if not self._depth:
                self._holder = None
                _table.notify_all()

    def _wait(self, me: int) -> None:
        if self._waits_for(me):
            raise StaleValueError(
                "expected a simulation that will be free, got one whose thread waits for a simulation that this thread uses; in a function "
                "that a run calls (watch, until, on_action or on_progress), use simulations of the thread's own (copy.deepcopy makes one)"
            )
        _awaited[me] = self
        try:
            _table.wait_for(lambda: self._holder is None)
        finally:
            del _awaited[me]

    def _waits_for(self, me: int) -> bool:
        """Whether the holder waits for a turn whose holder waits, and so on, for one of this thread's.

        Nobody began to wait where that was so: there is no other circle on the way.
        """
        holder = self._holder
        while holder is not None and holder != me:
            awaited = _awaited.get(holder)
            holder = None if awaited is None else awaited._holder
        return holder == me

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
