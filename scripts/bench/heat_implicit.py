"""Cost of a gradient of implicit heat, in forward runs: `python scripts/bench/heat_implicit.py [--turns 5]`.

CPU time of this process, all threads, medians of several turns, everything stored, f64. The loss is half the sum of squares at the end, and
the gradient is for the diffusivity of all cells and the initial temperature.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import diffsim as ds
from diffsim.solvers import Heat

CASES = (((128, 128), 40), ((256, 256), 10), ((40, 40, 40), 10))


def cpu(call: Callable[[], object]) -> float:
    before = time.process_time()
    call()
    return time.process_time() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    rng = np.random.default_rng(0)
    for shape, steps in CASES:
        for method in ("crank_nicolson", "sdirk2", "adi"):
            equation = Heat(ds.Grid(shape, 1.0), 2.0, method=method, mean="harmonic")
            simulation = ds.Simulation(equation, wrt=["kappa", "T"], precision="f64")
            inputs = {name: rng.uniform(0.5, 1.0, shape) for name in ("kappa", "T")}

            def forward(simulation: ds.Simulation = simulation, inputs: dict = inputs, steps: int = steps) -> object:
                return simulation.run(inputs, steps)

            def gradient(simulation: ds.Simulation = simulation, inputs: dict = inputs, steps: int = steps) -> object:
                return simulation.value_and_grad(lambda found: 0.5 * (found.final["T"] ** 2).sum(), inputs, steps)

            for call in (forward, gradient, gradient):  # compile
                call()
            seconds = [(cpu(forward), cpu(gradient)) for _ in range(turns)]
            run, grad = (statistics.median(each) for each in zip(*seconds, strict=True))
            cells = " x ".join(map(str, shape))
            print(f"{cells}, {method}: {1e3 * run / steps:.2f} ms a step, the gradient {grad / run:.2f} runs", flush=True)


if __name__ == "__main__":
    main()
