"""First calls of kernels, without and with Taichi's offline cache: `python scripts/bench/compile_time.py [--quick] [--out FILE.json]`.

A first call is compared with the second of the same work; starting Taichi is apart. Of the gradient, what remains after a
run is the adjoint kernel.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from common import Benchmark, Case, Figure, in_process, main, median, timed

import diffsim
from diffsim.solvers import Acoustic, Heat

TARGET = 1.5
N = 256
KERNELS = ("forward", "adjoint")


def cases(quick: bool) -> list[Case]:
    repeats = 1 if quick else 3
    return [{"what": what, "repeats": repeats} for what in ("acoustic 8", "acoustic 4", "heat")]


def measure(case: Case) -> list[Figure]:
    """A fresh process with an empty cache, then a second one that finds the first one's kernels."""
    if "repeats" not in case:
        return _first_calls(case["what"])
    fresh: dict[str, list[float]] = {kernel: [] for kernel in KERNELS}
    again: dict[str, list[float]] = {kernel: [] for kernel in KERNELS}
    compiled = 0
    for _ in range(case["repeats"]):
        with tempfile.TemporaryDirectory(prefix="diffsim-bench-") as cache:
            for seconds in (fresh, again):
                before = _cached(cache)
                for timing in in_process(Path(__file__), {"what": case["what"]}, TI_OFFLINE_CACHE_FILE_PATH=cache):
                    seconds[timing["name"]].append(timing["value"])
            compiled = max(compiled, _cached(cache) - before)
    out = [Figure(f"kernels that a second process compiles, {case['what']}", compiled, "", bound="most", target=0)]
    for kernel in KERNELS:
        name = f"first call, {case['what']}, {kernel} kernel"
        out.append(Figure(name, median(fresh[kernel]), "s", bound="most", target=TARGET))
        out.append(Figure(f"{name}, second process", median(again[kernel]), "s"))
    return out


def _cached(folder: str) -> int:
    """Kernels in an offline cache."""
    return sum(1 for path in Path(folder).rglob("*.tic"))


def _first_calls(what: str) -> list[Figure]:
    grid = diffsim.Grid((N, N), 10.0)
    diffsim.init()
    if what == "heat":
        simulation = diffsim.Simulation(Heat(grid, 1.0))
        inputs = {"kappa": np.ones((N, N))}
    else:
        points = {"f": [(20.0, 20.0)]}, {"p": [(30.0, 10.0 * k) for k in range(10)]}
        simulation = diffsim.Simulation(Acoustic(grid, 1e-3, order=int(what[-1])), sources=points[0], receivers=points[1])
        inputs = {"c": np.full((N, N), 2000.0), "f": np.ones((1, 1))}
    state = simulation._stepper.delays
    first, second = timed(lambda: simulation.run(inputs, 1)), timed(lambda: simulation.run(inputs, 1))
    out = [Figure("forward", first - second, "s")]
    seconds = []
    for _ in range(2):
        _, pullback = simulation.vjp(inputs, 1)
        cotangents = diffsim.Solution(final={name: np.ones((N, N)) for name in state})
        begin = time.perf_counter()
        pullback(cotangents)
        seconds.append(time.perf_counter() - begin)
    return [*out, Figure("adjoint", seconds[0] - seconds[1], "s")]


BENCHMARK = Benchmark(Path(__file__), cases, measure)

if __name__ == "__main__":
    main(BENCHMARK)
