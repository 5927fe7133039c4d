"""The progress of an evaluation, from that of its shots."""

from __future__ import annotations

import time

from diffsim.checkpoint import OnProgress


class ShotProgress:
    """Converts the progress of single shots to that of all.

    Args:
        tell: called with the share of all shots that is done, and the seconds left.
        shots: number of all shots.
        done: number of shots that were done before.
    """

    def __init__(self, tell: OnProgress, shots: int, done: int = 0) -> None:
        self._tell, self._shots, self._done, self._began = tell, shots, done, time.perf_counter()

    def within(self, place: int, count: int = 1) -> OnProgress:
        """Called with the progress of some shots that run together.

        Args:
            place: place of the first among those to do, from 0.
            count: number of these shots.
        """

        def report(share: float, left: float | None) -> None:
            self._report((self._done + place + share * count) / self._shots, left)

        return report

    def finished(self, count: int) -> None:
        """So many of the shots to do are done."""
        self._report((self._done + count) / self._shots, 0.0)

    def _report(self, whole: float, left: float | None) -> None:
        if left is not None and self._shots > 1:  # later shots take as long as earlier ones
            left = (time.perf_counter() - self._began) * (1 - whole) / max(whole, 1e-9)
        self._tell(whole, left)
