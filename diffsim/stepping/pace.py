"""How many steps a launch takes, and with how many workers, from what launches took so far."""

from __future__ import annotations

LAUNCH_SECONDS = 0.05
"""A launch lasts about this long at most, so that Ctrl-C and progress stay alive."""
PATIENCE = 4.0
"""Workers that spin for a core that is taken are this much slower than they were, or more: then one worker goes on alone."""
RETRY = 20
"""Launches with one worker before all are tried again."""


class Pace:
    """Steps and workers of the coming launch of one kernel."""

    def __init__(self, workers: int) -> None:
        self.all = workers
        self.seconds = 0.0  # a step, lately
        self.best: float | None = None  # a step, with all workers
        self.alone = 0  # launches left with one worker

    def steps(self) -> int:
        if not self.seconds:
            return 8
        return max(1, int(LAUNCH_SECONDS / self.seconds))

    def workers(self) -> int:
        return 1 if self.alone else self.all

    def note(self, steps: int, seconds: float) -> None:
        """Learn from a launch of `steps` steps."""
        each = seconds / steps
        if self.alone:
            self.alone -= 1
        elif steps >= 8:
            if self.best is not None and self.all > 1 and each > PATIENCE * max(self.best, 1e-6) and seconds > LAUNCH_SECONDS:
                self.alone = RETRY
            self.best = each if self.best is None else min(self.best, each)
        self.seconds = each if steps >= 8 or not self.seconds else min(self.seconds, each)
