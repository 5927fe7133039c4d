"""The command `diffsim tune`: measures the width of registers for which kernels are fastest on this computer.

Without it, a rule chooses the width by the CPU and the engine (`engine.usual_register_bytes`). The rule comes from measurements on a few
processors. On others, a measurement of half a minute is better than a rule.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from math import prod

import numpy as np

from diffsim.base.system import REGISTER_VARIABLE, REGISTERS
from diffsim.engine import init
from diffsim.errors import BackendError
from diffsim.mesh.grid import Grid
from diffsim.simulation import Simulation
from diffsim.solvers import Acoustic, Heat

SHAPE = (512, 512)
STEPS = 400
TURNS = 3
LEAST_GAIN = 1.05
"""A width other than the rule's must be so much faster to be kept; less may be noise."""
WORK: dict[str, Callable[[], Simulation]] = {
    "acoustic, order 4": lambda: Simulation(Acoustic(Grid(SHAPE, 10.0), 1e-3, order=4)),
    "acoustic, order 8": lambda: Simulation(Acoustic(Grid(SHAPE, 10.0), 1e-3, order=8)),
    "diffusion": lambda: Simulation(Heat(Grid(SHAPE, 1.0), 0.1)),
}
"""Simulations whose time steps are measured."""
Speeds = Mapping[str, float]
"""Cells that are computed in a second, for each simulation of `WORK`."""


def measured(engine: str, precision: str, threads: int) -> Iterator[tuple[int, Speeds]]:
    """Speeds with each width of registers, `TURNS` times in turns. Each measurement is a process of its own."""
    for _ in range(TURNS):
        for width in REGISTERS:
            yield width, _in_process(width, engine, precision, threads)


def _in_process(width: int, engine: str, precision: str, threads: int) -> Speeds:
    command = f"from diffsim.command.tune import report; report({engine!r}, {precision!r}, {threads})"
    environment = {**os.environ, REGISTER_VARIABLE: str(width)}
    process = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True)
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise BackendError(
            f"measuring with registers of {width} bytes failed: {last}; `diffsim info` shows whether kernels run here at all"
        )
    speeds: Speeds = json.loads(process.stdout.splitlines()[-1])
    return speeds


def report(engine: str, precision: str, threads: int) -> None:
    """Print the speeds of this process, as JSON."""
    init("cpu", precision, threads, engine=engine)
    print(json.dumps({name: _speed(make()) for name, make in WORK.items()}))


def _speed(simulation: Simulation) -> float:
    """Cells of time steps that are computed in a second."""
    inputs = {name: np.ones(simulation.input_shape(name, STEPS)) for name in simulation.inputs}
    simulation.run(inputs, STEPS)  # compiles
    start = time.perf_counter()
    simulation.run(inputs, STEPS)
    return prod(SHAPE) * STEPS / (time.perf_counter() - start)


def best_width(measured: Mapping[int, Speeds], usual: int) -> int:
    """The width with the largest mean of speeds (a geometric one), or the usual one if none is clearly faster."""
    means = {width: float(np.exp(np.mean(np.log(list(speeds.values()))))) for width, speeds in measured.items()}
    best = max(means, key=lambda width: means[width])
    return best if means[best] >= LEAST_GAIN * means[usual] else usual


def fastest(turns: Iterator[tuple[int, Speeds]]) -> dict[int, dict[str, float]]:
    """The largest speed of each width and simulation: other programs only ever make them smaller."""
    best: dict[int, dict[str, float]] = {}
    for width, speeds in turns:
        before = best.setdefault(width, {})
        for name, speed in speeds.items():
            before[name] = max(speed, before.get(name, 0.0))
    return best
