"""Handle Ctrl-C and other signals that end a run, without losing one.

Python raises KeyboardInterrupt at any place, and drops it in a finaliser or in a callback of the garbage
collector. Then the run would continue. So the signal is also noted, and handled at the next evaluation.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from diffsim.base.start import leave


class Stopped(KeyboardInterrupt):
    """A signal requested the end of this process.

    Attributes:
        number: number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Interrupt:
    """Inside of a `with` block in the main thread, notes signals and raises `Stopped`. Nested blocks share the noted signal.

    Args:
        signals: the signals. Those that the surrounding program handles or ignores are not changed.
    """

    def __init__(self, signals: tuple[int, ...] = (signal.SIGINT,)) -> None:
        self.asked: int | None = None
        self._signals = signals
        self._outer: Interrupt | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                handler = signal.getsignal(number)
                holder = getattr(handler, "__self__", None)
                if isinstance(holder, Interrupt):
                    self._outer = holder
                elif handler in (signal.SIG_DFL, signal.default_int_handler, leave):
                    self._previous[number] = handler
                    signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def heed(self) -> None:
        """Raise `Stopped` if a signal came."""
        if self._outer is not None:
            self._outer.heed()
        if self.asked is not None:
            raise Stopped(self.asked)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = number
        raise Stopped(number)
