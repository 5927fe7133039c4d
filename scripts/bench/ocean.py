"""Cost of gradients of the equations of the sea: `python scripts/bench/ocean.py [--quick] [--out FILE.json]`.

`ShallowWater`: a wave runs over an island in 128 x 128 cells; with friction, by Manning's roughness, which is differentiated for as well.
`QuasiGeostrophic`: eddies in a basin of 63 x 63 points under a wind. All on one thread. The cost of a step is the difference of runs of two
lengths, in CPU time, so set-up and checks drop out. A gradient with all states stored is compared with a run of the same turn. The first
gradient is measured in a process that finds no compiled kernels.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from common import Benchmark, Case, Figure, cpu_seconds, in_process, main, median, ratios

import diffsim
from diffsim.checkpoint import StoreAll

Fields = dict[str, Any]
FIRST = 6.0
"""Seconds of CPU time that the first gradient takes at most, from making the simulation on."""


@dataclass(frozen=True)
class Sea:
    """A problem.

    Attributes:
        make: the equation and its inputs.
        wrt: inputs with a gradient.
        lengths: steps of the short and the long run.
        cost: forward runs that a gradient costs at most.
        precisions: those that are measured.
    """

    make: Callable[[], tuple[diffsim.Equation, Fields]]
    wrt: tuple[str, ...]
    lengths: tuple[int, int]
    cost: float
    precisions: tuple[str, ...] = ("f32", "f64")


def _flood(**options: Any) -> tuple[diffsim.Equation, Fields]:
    grid = diffsim.Grid((128, 128), 10.0)
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None]
    random = np.random.default_rng(0)
    z = -8 + 9 * np.exp(-((x - 900) ** 2 + (y - 600) ** 2) / 2e4) + 0.2 * random.normal(size=grid.shape)
    inputs = {"z": z, "eta": 0.5 * np.exp(-((x - 400) ** 2 + (y - 600) ** 2) / 1e4)}
    if "drag" in options:
        inputs["manning"] = 0.03 * random.uniform(0.7, 1.3, grid.shape)
    return diffsim.solvers.ShallowWater(grid, 0.125, fastest=18.0, **options), inputs


def _eddies(layers: int = 1) -> tuple[diffsim.Equation, Fields]:
    grid = diffsim.Grid((63, 63), 1e6 / 64, origin=1e6 / 64)
    y, x = (np.pi * grid.coordinates(axis) / 1e6 for axis in (0, 1))
    eddies = 1e4 * sum(np.outer(np.sin(k * y), np.sin((4 - k) * x)) for k in (1, 2, 3))
    inputs: Fields = {"wind": -1e-12 * np.outer(np.sin(2 * y), np.ones(63)), "beta": 2e-11, "drag": 1e-7, "nu": 300.0}
    if layers == 1:
        return diffsim.solvers.QuasiGeostrophic(grid, 7200.0), inputs | {"psi": eddies}
    depths, gravities = (500.0, 1000.0, 2500.0)[:layers], (0.02, 0.01)[: layers - 1]
    states = {f"psi{i}": eddies / i for i in range(1, layers + 1)}
    return diffsim.solvers.QuasiGeostrophic(grid, 7200.0, layers=depths, gravities=gravities, f0=1e-4), inputs | states


SEAS = {
    "euler": Sea(functools.partial(_flood, method="euler"), ("z", "eta"), (20, 120), 5.0),
    "rk2": Sea(functools.partial(_flood, method="rk2"), ("z", "eta"), (20, 120), 5.0),
    "euler, friction": Sea(functools.partial(_flood, method="euler", drag="manning"), ("z", "eta", "manning"), (20, 120), 5.0),
    "rk2, friction": Sea(functools.partial(_flood, method="rk2", drag="manning"), ("z", "eta", "manning"), (20, 120), 5.0),
    "currents": Sea(_eddies, ("psi", "wind"), (50, 450), 3.0, ("f64",)),
    "currents, 3 layers": Sea(functools.partial(_eddies, layers=3), ("psi1", "psi2", "psi3", "wind"), (30, 180), 3.0, ("f64",)),
}


def cases(quick: bool) -> list[Case]:
    return [
        {"sea": name, "precision": precision, "turns": 3 if quick else 10} for name, sea in SEAS.items() for precision in sea.precisions
    ]


def measure(case: Case) -> list[Figure]:
    """The first gradient in a process of its own, then runs in turns in this one."""
    name, precision = case["sea"], case["precision"]
    sea = SEAS[name]
    diffsim.init(precision=precision, threads=1)
    if "turns" not in case:
        seas: list[tuple[diffsim.Simulation, Fields]] = []
        making = cpu_seconds(lambda: seas.append(_simulation(sea, precision)))
        compiling = cpu_seconds(lambda: _gradient(*seas[0], sea.lengths[0]))
        return [Figure("making it", making, "s"), Figure("first gradient", making + compiling, "s")]
    making, first = in_process(Path(__file__), {"sea": name, "precision": precision}, TI_OFFLINE_CACHE="0")
    simulation, inputs = _simulation(sea, precision)
    seconds: dict[str, list[list[float]]] = {"run": [], "gradient": []}
    for turn in range(case["turns"] + 1):
        for kind, call in (("run", simulation.run), ("gradient", functools.partial(_gradient, simulation))):
            each = [cpu_seconds(functools.partial(call, inputs, steps)) for steps in sea.lengths]
            if turn:
                seconds[kind].append(each)
    short, long = sea.lengths
    run, gradient = ([(after - before) / (long - short) for before, after in seconds[kind]] for kind in seconds)
    ratio, spread = ratios(gradient, run)
    what = f"{name}, {precision}"
    return [
        Figure(f"{what}: run", median(run) * 1e6, "us/step"),
        Figure(f"{what}: gradient over run, all stored", ratio, "", None, ratio, spread, bound="most", target=sea.cost),
        Figure(f"{what}: first gradient", first["value"], "s", bound="most", target=FIRST),
        Figure(f"{what}: of this, making the simulation", making["value"], "s"),
    ]


def _simulation(sea: Sea, precision: Any) -> tuple[diffsim.Simulation, Fields]:
    equation, inputs = sea.make()
    simulation = diffsim.Simulation(equation, wrt=sea.wrt, precision=precision)
    return simulation, {name: np.asarray(value, precision.replace("f", "float")) for name, value in inputs.items()}


def _gradient(simulation: diffsim.Simulation, inputs: Fields, steps: int) -> None:
    solution, pullback = simulation.vjp(inputs, steps, StoreAll(steps))
    pullback(solution)


BENCHMARK = Benchmark(Path(__file__), cases, measure)

if __name__ == "__main__":
    main(BENCHMARK)
