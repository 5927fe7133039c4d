"""How many steps a launch takes, and with how many workers, from what launches took so far."""

from __future__ import annotations

LAUNCH_SECONDS = 0.05
"""A launch lasts about this long at most, so that Ctrl-C and progress stay alive."""
PATIENCE = 3.0
"""A launch this many times slower than the best is a slow one."""
TICK = 2e-3
"""Seconds by which a slow launch is at least late: a worker that waits for a core that is taken loses a scheduler tick."""
STRIKES = 3
"""Launches in a row that were slow, or left, after which one worker goes on alone. (First touches of memory are slow too, but pass.)"""
ALONE = 0.03
"""Seconds with one worker before all are tried again, in a short launch; doubled each time that proves too early."""
ALONE_AT_MOST = 0.5
TRIAL = 8
"""Steps of the launch that tries all workers again."""


class Pace:
    """Steps and workers of the coming launch of one kernel.

    Workers wait for one another by spinning, and where there are fewer free cores than workers they leave launches all the
    time. What that costs cannot be known beforehand, so it is measured: one worker goes on alone for a while then.
    """

    def __init__(self, workers: int) -> None:
        self.all = workers
        self.seconds = 0.0  # a step, lately
        self.best = 0.0  # a step, with all workers
        self.strikes = 0
        self.doubt = False  # whether all workers were slow when they were last tried
        self.alone = 0.0  # seconds left with one worker
        self.next_alone = ALONE

    def steps(self) -> int:
        """Steps of the coming launch."""
        if not self.seconds or (self.doubt and not self.alone):
            return TRIAL
        return max(1, int(LAUNCH_SECONDS / self.seconds))

    def workers(self) -> int:
        """Workers of the coming launch."""
        return 1 if self.alone else self.all

    def note(self, steps: int, seconds: float, left: bool = False) -> None:
        """Learn from a launch of `steps` steps; `left` if workers left it before its end, which may be before its first step ended."""
        each = seconds / max(steps, 1)
        if not left and steps:
            self.seconds = each if steps >= TRIAL or not self.seconds else 0.8 * self.seconds + 0.2 * each
        if self.alone:
            self.alone = max(0.0, self.alone - seconds)
        elif self.all > 1:
            slow = left or (self.best > 0 and each > PATIENCE * self.best and seconds - self.best * steps > TICK)
            self.strikes = self.strikes + 1 if slow else 0
            if self.strikes == STRIKES:
                self.alone, self.next_alone = self.next_alone, min(2 * self.next_alone, ALONE_AT_MOST)
                self.strikes, self.doubt = 0, True  # a pool that slept is slow once: it gets its strikes again
            elif not slow and steps:
                self.doubt = False
                self.next_alone = ALONE
                self.best = min(self.best, each) if self.best else each
