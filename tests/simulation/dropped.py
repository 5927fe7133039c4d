"""Build, use and drop simulations, and print the resident bytes and the objects of Python after some.

Usage: python -m tests.simulation.dropped same|unlike: one simulation again and again, or ever new ones with ds.init between them.
"""

from __future__ import annotations

import gc
import json
import sys

import numpy as np

import diffsim as ds
from diffsim.base.system import resident_memory
from diffsim.solvers import Acoustic, Heat

STEPS = 10
TURNS = 7


def differentiate() -> None:
    grid = ds.Grid((16, 20), 10.0)
    simulation = ds.Simulation(Acoustic(grid, 1e-3, 2), sources={"f": [[50.0, 50.0]]}, receivers={"p": [[100.0, 100.0]]})
    solution, pullback = simulation.vjp({"c": np.full(grid.shape, 2000.0), "f": np.ones((STEPS, 1))}, STEPS)
    pullback(ds.Solution(traces=dict(solution.traces)))


def run(columns: int) -> None:
    cells = np.ones((8, columns))
    ds.Simulation(Heat(ds.Grid(cells.shape, 1.0), 0.1)).run({"kappa": cells, "T": cells}, 2)


def main(what: str) -> None:
    counts = []
    for turn in range(TURNS):
        for number in range(4):
            if what == "same":
                differentiate()
            else:
                run(20 + 4 * turn + number)
        if what == "unlike":
            ds.init(anew=True)
        gc.collect()
        counts.append((resident_memory(), len(gc.get_objects())))
    print(json.dumps(counts))


if __name__ == "__main__":
    main(sys.argv[1])
