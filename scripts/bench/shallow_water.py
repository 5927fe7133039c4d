"""Cost of gradients of `ShallowWater`: `python scripts/bench/shallow_water.py [--quick] [--out FILE.json]`.

A wave runs over an island in 128 x 128 cells, on one thread. The cost of a step is the difference of runs of 120 and of 20 steps, in CPU
time, so set-up and checks drop out. A gradient for the bed and the first level, all states stored, is compared with a run of the same
turn. The first gradient is measured in a process that finds no compiled kernels.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
from common import Benchmark, Case, Figure, cpu_seconds, in_process, main, median, ratios

import diffsim
from diffsim.checkpoint import StoreAll

SIZE, LENGTHS = 128, (20, 120)
COST = {"euler": 5.0, "rk2": 5.0}
"""Forward runs that a gradient costs at most."""
FIRST = 6.0
"""Seconds of CPU time that the first gradient takes at most, from making the simulation on."""


def cases(quick: bool) -> list[Case]:
    return [
        {"method": method, "precision": precision, "turns": 3 if quick else 10}
        for method in ("euler", "rk2")
        for precision in ("f32", "f64")
    ]


def measure(case: Case) -> list[Figure]:
    """The first gradient in a process of its own, then runs in turns in this one."""
    method, precision = case["method"], case["precision"]
    diffsim.init(precision=precision, threads=1)
    if "turns" not in case:
        seas: list[tuple[diffsim.Simulation, dict[str, np.ndarray]]] = []
        making = cpu_seconds(lambda: seas.append(_sea(method, precision)))
        compiling = cpu_seconds(lambda: _gradient(*seas[0], LENGTHS[0]))
        return [Figure("making it", making, "s"), Figure("first gradient", making + compiling, "s")]
    making, first = in_process(Path(__file__), {"method": method, "precision": precision}, TI_OFFLINE_CACHE="0")
    simulation, inputs = _sea(method, precision)
    seconds: dict[str, list[list[float]]] = {"run": [], "gradient": []}
    for turn in range(case["turns"] + 1):
        for name, call in (("run", simulation.run), ("gradient", lambda given, steps: _gradient(simulation, given, steps))):
            each = [cpu_seconds(lambda call=call, steps=steps: call(inputs, steps)) for steps in LENGTHS]  # type: ignore[misc]
            if turn:
                seconds[name].append(each)
    run, gradient = ([(long - short) / (LENGTHS[1] - LENGTHS[0]) for short, long in seconds[name]] for name in seconds)
    ratio, spread = ratios(gradient, run)
    what = f"{method}, {precision}"
    return [
        Figure(f"{what}: run", median(run) * 1e6, "us/step"),
        Figure(f"{what}: gradient over run, all stored", ratio, "", None, ratio, spread, bound="most", target=COST[method]),
        Figure(f"{what}: first gradient", first["value"], "s", bound="most", target=FIRST),
        Figure(f"{what}: of this, making the simulation", making["value"], "s"),
    ]


def _sea(method: Any, precision: Any) -> tuple[diffsim.Simulation, dict[str, np.ndarray]]:
    grid = diffsim.Grid((SIZE, SIZE), 10.0)
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None]
    rough = np.random.default_rng(0).normal(size=grid.shape)
    z = -8 + 9 * np.exp(-((x - 900) ** 2 + (y - 600) ** 2) / 2e4) + 0.2 * rough
    inputs = {"z": z, "eta": 0.5 * np.exp(-((x - 400) ** 2 + (y - 600) ** 2) / 1e4)}
    sea = diffsim.solvers.ShallowWater(grid, 0.125, method=method, fastest=18.0)
    simulation = diffsim.Simulation(sea, wrt=["z", "eta"], precision=precision)
    return simulation, {name: value.astype(precision.replace("f", "float")) for name, value in inputs.items()}


def _gradient(simulation: diffsim.Simulation, inputs: dict[str, np.ndarray], steps: int) -> None:
    solution, pullback = simulation.vjp(inputs, steps, StoreAll(steps))
    pullback(solution)


BENCHMARK = Benchmark(Path(__file__), cases, measure)

if __name__ == "__main__":
    main(BENCHMARK)
