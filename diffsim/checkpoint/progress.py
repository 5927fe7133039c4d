"""Progress of a sweep, with the time left computed from the work left."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from diffsim.checkpoint.actions import Action

if TYPE_CHECKING:
    from diffsim.checkpoint.driver import Sweep

OnProgress = Callable[[float, float | None], None]
"""Called with the share of the work that is done, from 0 to 1, and the seconds left, or None while they are unknown."""

REPORT_SECONDS = 0.1


class Reporter:
    """A callback for each piece of a sweep. It reports the progress now and then, and at the end."""

    def __init__(self, sweep: Sweep, report: OnProgress) -> None:
        self._sweep, self._report = sweep, report
        self._reported = time.monotonic()

    def __call__(self, action: Action) -> None:
        now = time.monotonic()
        if now - self._reported >= REPORT_SECONDS or self._sweep.progress == 1.0:
            self._reported = now
            self._report(self._sweep.progress, self._sweep.clock.seconds_left)


class ProgressBar:
    """A line on the terminal that fills up, for `on_progress=`.

    ```
    with ProgressBar("gradient") as bar:
        solution, pullback = simulation.vjp(inputs, steps, on_progress=bar)
        gradient = pullback(cotangents)
    ```

    Args:
        text: the text before the bar.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.checkpoint import OnProgress, ProgressBar

        rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), spacing=0.05), dt=0.1))
        inputs = {"kappa": np.full(40, 5e-3), "T": np.linspace(0.0, 1.0, 40)}
        with ProgressBar("gradient of the rod") as bar:
            report: OnProgress = bar
            solution, pullback = rod.vjp(inputs, steps=60, on_progress=report)
            gradient = pullback(ds.Solution(final={"T": np.ones(40)}))
        assert gradient["T"].shape == (40,)
    """

    def __init__(self, text: str = "gradient") -> None:
        from rich.progress import BarColumn, Progress, TextColumn  # late: it takes a tenth of a second to import

        self._bar = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %   {task.fields[left]}"))
        self._task = self._bar.add_task(text, total=1.0, left="")

    def __call__(self, share: float, seconds_left: float | None) -> None:
        self._bar.update(self._task, completed=share, left="" if seconds_left is None else f"{time_text(seconds_left)} left")

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()


def time_text(seconds: float) -> str:
    """A duration for people: 0.8 s, 43 s, 5 min 20 s, 3 h 07 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
