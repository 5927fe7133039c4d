"""Locks: one thread at a time uses a simulation, because its kernels work on one storage."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from diffsim.engine import refuse_forked
from diffsim.errors import StaleValueError

_guard = threading.RLock()
"""Protects the lists of holders and waiting threads of all turns."""
_table = threading.Condition(_guard)
"""It is notified whenever a turn is released that a thread may wait for."""
_awaited: dict[int, Turn] = {}
"""Number of a waiting thread -> the turn that it waits for."""


class Turn:
    """A lock that is held by the thread that uses a simulation. Other threads wait.

    A thread may take its own turn again, but not in a function that a running simulation calls (`watch`, `until` and the like): the state
    of that run would be replaced. Nor may a thread wait for a turn whose holder waits, directly or not, for a turn of this thread.
    """

    def __init__(self) -> None:
        self._holder: int | None = None  # number of the thread that holds it
        self._depth = 0  # number of times that this thread took it
        self._outside = False  # True while that thread runs a function of the user

    def __enter__(self) -> None:
        refuse_forked()
        me = threading.get_ident()
        with _guard:
            if self._holder == me and self._outside:
                raise StaleValueError(
                    "expected a simulation that is not running, got one whose run has called this function (watch, until, on_action or "
                    "on_progress); use another Simulation in it"
                )
            if self._holder not in (None, me):
                self._wait(me)
            self._holder, self._depth = me, self._depth + 1

    def __exit__(self, *error: object) -> None:
        with _guard:
            self._depth -= 1
            if not self._depth:
                self._holder = None
                if _awaited:
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
        """True if the chain of waiting holders ends at a turn of this thread.

        The chain contains no other circle, since no thread starts to wait if that would close one.
        """
        holder = self._holder
        while holder is not None and holder != me:
            awaited = _awaited.get(holder)
            holder = None if awaited is None else awaited._holder
        return holder == me

    def outside(self, function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        """Wrap a function of the user for calls by a run."""
        if function is None:
            return None

        def called(*args: Any) -> Any:
            self._outside = True
            try:
                return function(*args)
            finally:
                self._outside = False

        return called
