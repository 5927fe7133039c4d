"""Choose the number of steps and workers of a launch from the times of earlier launches."""

from __future__ import annotations

LAUNCH_SECONDS = 0.05
"""Approximate longest duration of a launch, so that Ctrl-C and progress work."""
PATIENCE = 3.0
"""A launch this many times slower than the best counts as slow."""
TICK = 2e-3
"""Least delay of a slow launch, in seconds: a worker that waits for a busy core loses a scheduler tick."""
STRIKES = 3
"""Slow or abandoned launches in a row after which one worker runs alone. (First touches of memory are slow too, but do not repeat.)"""
ALONE = 0.03
"""Seconds with one worker before all are tried again in a short launch. They double after each trial that is too early."""
ALONE_AT_MOST = 0.5
TRIAL = 8
"""Steps of the trial launch with all workers."""
BRIEF = 1e-3
"""Seconds of a step at whose end no worker waits long for another one that has a core."""
MOST = 100.0
"""Largest patience. Steps may seem longer than they are, such as after a pause of the process."""
UNKNOWN = 10.0
"""Patience of the first launch, which touches memory for the first time."""


class Pace:
    """Steps and workers of the coming launch of one kernel.

    Workers wait for one another in busy loops. With fewer free cores than workers, they often abandon launches. The cost of that
    cannot be predicted, so it is measured. If it is too high, one worker runs alone for a while.
    """

    def __init__(self, workers: int) -> None:
        self.all = workers
        self.seconds = 0.0  # seconds of a step, recent average
        self.best = 0.0  # the same, with all workers
        self.strikes = 0
        self.doubt = False  # True if the last trial with all workers was slow
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

    def patience(self, steps: int) -> float:
        """The factor on the usual time that a worker waits for others at a barrier after `steps` steps. After long ones it is larger,
        because memory delays some workers more."""
        return min(MOST, max(1.0, steps * self.seconds / BRIEF)) if self.seconds else UNKNOWN

    def note(self, steps: int, seconds: float, left: bool = False) -> None:
        """Note a launch of `steps` steps. `left`: workers abandoned it before its end, perhaps in its first step."""
        each = seconds / max(steps, 1)
        if steps and not (left and self.seconds):
            self.seconds = each if steps >= TRIAL or not self.seconds else 0.8 * self.seconds + 0.2 * each
        if self.alone:
            self.alone = max(0.0, self.alone - seconds)
        elif self.all > 1:
            slow = left or (self.best > 0 and each > PATIENCE * self.best and seconds - self.best * steps > TICK)
            self.strikes = self.strikes + 1 if slow else 0
            if self.strikes == STRIKES:
                self.alone, self.next_alone = self.next_alone, min(2 * self.next_alone, ALONE_AT_MOST)
                self.strikes, self.doubt = 0, True  # a pool that slept is slow once, so its strikes are reset
            elif not slow and steps:
                self.doubt = False
                self.next_alone = ALONE
                self.best = min(self.best, each) if self.best else each
