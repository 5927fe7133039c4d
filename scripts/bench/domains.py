"""Costs of domains: `python scripts/bench/domains.py`, and the same under `mpiexec -n 2` with `--cuts 1x1x2`.

Times of a step forward and of one of a gradient, of an exchange, and the share of ghost cells, for the equation and the grid that are
named. A process prints one line; in domains rank 0 does. Compare lines of one machine that were measured when it was quiet.
`--alone` runs rank 0 of the cuts without any other: its times are those of computing and copying, without waiting; its results are wrong.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import diffsim as ds
from diffsim.domains import Domains, mpi
from diffsim.domains.ranks import Alone


def equation(name: str, shape: tuple[int, ...]) -> tuple[ds.Equation, dict[str, float], str]:
    """An equation, its homogeneous medium, and the state that is recorded."""
    grid, half = ds.Grid(shape, 10.0), len(shape) * ((10, 10),)
    if name == "acoustic":
        layer = {"layer": half, "layer_speed": 2000.0, "layer_frequency": 15.0}
        return ds.solvers.Acoustic(grid, 1e-3, 8, **layer), {"c": 2000.0}, "p"
    if name == "elastic":
        layer = {"layer": half, "layer_speed": 2500.0, "layer_frequency": 15.0}
        return ds.solvers.Elastic(grid, 1e-3, 4, **layer), {"vp": 2500.0, "vs": 1400.0, "rho": 2200.0}, "vx"
    return ds.solvers.Heat(grid, 1.0), {"kappa": 1.0}, "T"


class Unheard(Alone):
    """Rank 0 of several, the others of which are not there."""

    launched = True

    def __init__(self, size: int) -> None:
        self.size = size

    def gathered(self, value: Any) -> list[Any]:
        return [value] * self.size

    def exchanged(self, outgoing: Mapping[int, np.ndarray], incoming: Mapping[int, np.ndarray]) -> None:
        for values in incoming.values():
            values[...] = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--equation", choices=("acoustic", "elastic", "heat"), default="acoustic")
    parser.add_argument("--shape", default="160x160x320")
    parser.add_argument("--cuts", default="")
    parser.add_argument("--between", type=int, default=0, help="steps between exchanges; 0: as chosen")
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--gradient", action="store_true", help="time gradients by 4 slots too")
    parser.add_argument("--alone", action="store_true", help="one rank without others, whose ghost cells are 0")
    options = parser.parse_args()
    now = time.process_time if options.threads == 1 and (options.alone or not options.cuts) else time.perf_counter  # busy cores count less
    shape = tuple(map(int, options.shape.split("x")))
    cuts = tuple(map(int, options.cuts.split("x"))) if options.cuts else (1,) * len(shape)
    ds.init(threads=options.threads, precision="f32")
    step, medium, seen = equation(options.equation, shape)
    middle = [[0.5 * (step.grid.coordinates(axis)[0] + step.grid.coordinates(axis)[-1]) for axis in range(len(shape))]]
    if options.alone:
        mpi._known[:] = [Unheard(math.prod(cuts))]
    domains = None if math.prod(cuts) == 1 else Domains(cuts, options.between or None, gathered=False)
    run = ds.Simulation(step, receivers={seen: middle}, wrt=list(medium)[:1], domains=domains)
    inputs = {name: np.full(shape, value, np.float32) for name, value in medium.items()}

    compiled = run._compiled
    fields = compiled.checked(inputs, options.steps)
    compiled.start(fields, options.steps)
    compiled.stepper.advance(0, options.steps)  # compiles
    forward = []
    before = compiled.domain.spent
    for _ in range(options.turns):
        compiled.start(fields, options.steps)
        began = now()
        compiled.stepper.advance(0, options.steps)
        forward.append((now() - began) / options.steps)
    count, seconds = (after - earlier for after, earlier in zip(compiled.domain.spent, before, strict=True))
    line = [f"{options.equation} {options.shape} in {'x'.join(map(str, cuts))}, {options.threads} threads"]
    line.append(f"forward {1e3 * statistics.median(forward):.2f} ms a step")
    if count:
        line.append(f"{count} exchanges of {1e3 * seconds / count:.2f} ms, ghost cells {compiled.domain.ghost_share:.1%}")
    if options.gradient:
        whole = []
        for _ in range(1 + options.turns):
            began = now()
            run.value_and_grad(lambda solution: (solution.traces[seen] ** 2).sum(), inputs, options.steps, checkpoint=4)
            whole.append((now() - began) / options.steps)
        line.append(f"gradient by 4 slots {1e3 * statistics.median(whole[1:]):.1f} ms a step")
    if getattr(getattr(compiled.domain, "box", None), "rank", 0) == 0:
        sys.stdout.write("; ".join(line) + "\n")


if __name__ == "__main__":
    main()
