"""A small optimisation that tests interrupt; as a program, one that is killed by SIGKILL at a chosen moment.

python rosenbrock_run.py JOURNAL EVALUATION objective|write
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import numpy as np

from diffsim.optimize import Journal, Result, minimise
from diffsim.typing import Array

FINGERPRINT = "rosenbrock, 6 unknowns"
X0 = np.array([-1.2, 1.0, -0.3, 0.7, 1.9, -1.0])
BOUNDS = [(-2.0, 2.0)] * 5 + [(-1.5, 0.5)]


def rosenbrock(x: Array) -> tuple[float, Array]:
    """Σ 100 (xᵢ₊₁ - xᵢ²)² + (1 - xᵢ)² and its gradient; 0 at x = 1."""
    valley, slope = x[1:] - x[:-1] ** 2, 1 - x[:-1]
    gradient = np.zeros_like(x)
    gradient[1:] += 200 * valley
    gradient[:-1] -= 400 * valley * x[:-1] + 2 * slope
    return float(np.sum(100 * valley**2 + slope**2)), gradient


def run(objective: Callable[[Array], tuple[float, Array]] = rosenbrock, journal: Journal | None = None, iterations: int = 25) -> Result:
    return minimise(objective, X0, bounds=BOUNDS, iterations=iterations, tolerance=0.0, journal=journal)


def kill_at(path: str, evaluation: int, where: str) -> None:
    """Die inside the objective, or with half of a record's gradient written, at that evaluation (from 1)."""
    count = 0

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal count
        count += 1
        if count == evaluation:
            if where == "objective":
                os.kill(os.getpid(), signal.SIGKILL)
            file = journal._file
            journal._file = HalfWriter(file)  # type: ignore[assignment]
        return rosenbrock(x)

    with Journal(path, FINGERPRINT) as journal:
        run(objective, journal)


class HalfWriter:
    """A file whose first long write stops half-way, and the process with it."""

    def __init__(self, file: object) -> None:
        self._file = file

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def write(self, data: bytes | memoryview) -> None:
        if isinstance(data, memoryview):
            self._file.write(data.cast("B")[: data.nbytes // 2])  # type: ignore[attr-defined]
            self._file.flush()  # type: ignore[attr-defined]
            os.kill(os.getpid(), signal.SIGKILL)
        self._file.write(data)  # type: ignore[attr-defined]


if __name__ == "__main__":
    kill_at(sys.argv[1], int(sys.argv[2]), sys.argv[3])
