"""Variable-coefficient diffusion: `python scripts/bench/heat.py [--quick] [--out FILE.json]`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import NARROW, Benchmark, Case, Figure, compare, in_turns, main, median, narrow, ratios, registers, timed
from reference import Diffusion, threads_awake

import diffsim
from diffsim.engine import compiled_register_bytes
from diffsim.solvers import Heat

TOLERANCE = 1e-5
"""f32 round-off of a thousand steps that only smooth; measured 3e-7."""
N, DX, DT = 512, 1e-3, 0.1
KAPPA = (0.2e-6, 2e-6)  # m²/s; at most kappa dt / dx² = 0.2
TARGET = 0.9


def cases(quick: bool) -> list[Case]:
    out = [{"threads": threads, "steps": 200 if quick else 1000, "turns": 3 if quick else 9} for threads in (1, 2)]
    return [*out, *map(narrow, out if compiled_register_bytes() > NARROW else [])]


def arrays_of(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Diffusivity and initial temperature on n x n cells."""
    random = np.random.default_rng(0)
    return random.uniform(*KAPPA, (n, n)).astype(np.float32), random.standard_normal((n, n), np.float32)


def measure(case: Case) -> list[Figure]:
    """Whole runs and time loops alone, in turns."""
    threads, steps = case["threads"], case["steps"]
    diffsim.init(threads=threads)
    simulation = diffsim.Simulation(Heat(diffsim.Grid((N, N), DX), DT))
    kappa, initial = arrays_of(N)
    inputs = {"kappa": kappa, "T": initial}
    reference = Diffusion((N, N), threads, DT / DX**2)
    compare("temperature", simulation.run(inputs, steps).final["T"], reference.run(kappa, initial, steps), TOLERANCE)
    compiled = simulation._compiled
    fields, stepper = compiled.checked(inputs, steps), compiled.stepper

    def our_loop() -> float:
        compiled.start(fields, steps)
        return timed(lambda: stepper.advance(0, steps))

    def their_run() -> float:
        with threads_awake(threads):
            return timed(lambda: reference.run(kappa, initial, steps))

    def their_loop() -> float:
        reference.start(kappa, initial)
        with threads_awake(threads):
            return timed(lambda: reference.loop(steps))

    contenders = {"run": lambda: timed(lambda: simulation.run(inputs, steps)), "C run": their_run, "loop": our_loop, "C loop": their_loop}
    seconds = in_turns(contenders, case["turns"])
    ratio, spread = ratios(seconds["C run"], seconds["run"])
    loop, _ = ratios(seconds["C loop"], seconds["loop"])
    work = N * N * steps * 1e-9
    name = f"diffusion {N} x {N}, {threads} thread{'s'[: threads > 1]}, {steps} steps{registers(case)}"
    return [Figure(name, work / median(seconds["run"]), "Gpoints/s", work / median(seconds["C run"]), ratio, spread, loop, "least", TARGET)]


BENCHMARK = Benchmark(Path(__file__), cases, measure)

if __name__ == "__main__":
    main(BENCHMARK)
