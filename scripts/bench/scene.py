"""The acoustic scene that is measured: random smooth wave speed, a source in the middle, a row of receivers."""

from __future__ import annotations

import numpy as np
from reference import Wave

import diffsim
from diffsim.solvers import Acoustic

DX, DT = 10.0, 1e-3
SLOW, FAST = 1500.0, 4500.0
RECEIVER_STEP = 4
FREQUENCY = 12.0


def speed_of(n: int) -> np.ndarray:
    """A smooth random wave speed on n x n cells, m/s."""
    waves = np.random.default_rng(0).uniform(0.5, 3.0, 2)
    x = np.linspace(0, 2 * np.pi, n, dtype=np.float32)
    speed = 0.5 * (SLOW + FAST) + 0.5 * (FAST - SLOW) * np.sin(waves[0] * x)[:, None] * np.sin(waves[1] * x)
    return np.asarray(speed, np.float32)


def wavelet_of(steps: int) -> np.ndarray:
    """A Ricker wavelet of `FREQUENCY` Hz."""
    phase = (np.pi * FREQUENCY * (DT * np.arange(steps) - 0.1)) ** 2
    return np.asarray((1 - 2 * phase) * np.exp(-phase), np.float32)


def receivers_of(n: int) -> tuple[int, int, int, int]:
    """Row, first column, step and count of the receivers."""
    return n // 2 - min(40, n // 4), 2, RECEIVER_STEP, n // RECEIVER_STEP - 1


class AcousticScene:
    """The same problem for diffsim and for C.

    Attributes:
        simulation: diffsim's.
        reference: the C version's.
        inputs: of `simulation.run`.
    """

    def __init__(self, n: int, order: int, steps: int, threads: int) -> None:
        diffsim.init(threads=threads)
        self.n, self.steps, self.threads = n, steps, threads
        grid = diffsim.Grid((n, n), DX)
        receivers = receivers_of(n)
        row, first, step, count = receivers
        coordinates = [(row * DX, (first + step * r) * DX) for r in range(count)]

        self.simulation = diffsim.Simulation(
            Acoustic(grid, DT, order=order), sources={"f": [(n // 2 * DX, n // 2 * DX)]}, receivers={"p": coordinates}, wrt=["c"]
        )
        self.reference = Wave((n, n), order, threads, DT / DX, (n // 2, n // 2), receivers)
        self.speed, self.wavelet = speed_of(n), wavelet_of(steps)
        self.inputs = {"c": self.speed, "f": self.wavelet[:, None]}
