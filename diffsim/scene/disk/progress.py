"""A live line during a run: iteration, loss, gradient norm, time left."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from diffsim.checkpoint.progress import time_text
from diffsim.optimize import Iteration

QUIET_SECONDS = 2.0
"""Least time between plain lines, except for the first and the last."""
LONG_SECONDS = 30.0
"""Least time between plain lines within a gradient."""


class Watcher:
    """Receives the progress of a run, and prints nothing."""

    def phase(self, text: str) -> None:
        """A new phase begins."""

    def note(self, text: str) -> None:
        """A message for the user that must not be overwritten."""

    def iteration(self, state: Iteration, iterations: int) -> None:
        """An iteration is done."""

    def gradient(self, share: float, seconds_left: float | None) -> None:
        """The share of a gradient that is done, and the seconds left."""


class Display(Watcher):
    """A watcher that prints one line to standard error, updated in place on a terminal. Elsewhere it prints plain lines now and then."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._live = Live(console=self.console, refresh_per_second=8, transient=True) if self.console.is_terminal else None
        self._began = time.monotonic()
        self._told = -QUIET_SECONDS
        self._text = ""

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def phase(self, text: str) -> None:
        self._began = time.monotonic()
        self._show(text, plain=True)

    def note(self, text: str) -> None:
        self.console.print(text, markup=False, soft_wrap=True)

    def iteration(self, state: Iteration, iterations: int) -> None:
        now = time.monotonic()
        left = (now - self._began) / max(state.iteration, 1) * (iterations - state.iteration)
        text = (
            f"iteration {state.iteration:>3} of {iterations}   loss {state.value:.4e}   largest gradient {state.gradient_norm:.2e}   "
            f"{left:.0f} s left"
        )
        due = now - self._told >= QUIET_SECONDS or state.iteration in (1, iterations)
        self._show(text, plain=due)
        if due:
            self._told = now

    def gradient(self, share: float, seconds_left: float | None) -> None:
        now = time.monotonic()
        if self._live is None and now - self._told < LONG_SECONDS:
            return
        left = "" if seconds_left is None else f", {time_text(seconds_left)} left of it"
        text = f"{self._text}   gradient {share:.0%}{left}"
        if self._live is not None:
            self._live.update(Text(text))
        else:
            self.console.print(text, markup=False, soft_wrap=True)
            self._told = now

    def _show(self, text: str, plain: bool) -> None:
        self._text = text
        if self._live is not None:
            self._live.update(Text(text), refresh=True)
        elif plain:
            self.console.print(text, markup=False, soft_wrap=True)
