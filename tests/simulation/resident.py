"""How much memory a gradient really takes, in a process of its own.

Usage: python -m tests.simulation.resident SLOTS|reversible: prints predicted and measured bytes; 0 slots: every step is kept;
reversible: steps are run backwards, with a sponge whose cells are kept.
"""

from __future__ import annotations

import json
import sys

import numpy as np

import diffsim as ds
from diffsim.checkpoint import Resident, Reversible, StoreAll
from diffsim.solvers import Acoustic

CELLS, STEPS, RECEIVERS = 600, 150, 10000


def main(slots: str) -> None:
    ds.init(arch="cpu", precision="f32", threads=1)  # on a busy machine, a kernel for one of two threads would be compiled on the way
    undone = slots == "reversible"
    sponge = 40 if undone else 0
    grid = ds.Grid((CELLS, CELLS), 10.0)
    places = np.random.default_rng(0).uniform(100, 5000, (RECEIVERS, 2))
    simulation = ds.Simulation(
        Acoustic(grid, 1e-3, order=4, sponge=sponge), sources={"f": [[500.0, 500.0]]}, receivers={"p": places}, wrt=["c"]
    )
    inputs = {"c": np.full(grid.shape, 2000, np.float32), "f": np.ones((STEPS, 1), np.float32)}
    schedule = Reversible(STEPS) if undone else int(slots) or StoreAll(STEPS)
    ds.plan(simulation, steps=STEPS, seconds=0.05, schedule="reversible" if undone else "auto")  # compiles
    sizes, chosen = simulation.sizes(STEPS, inputs if undone else None), simulation.schedule(STEPS, schedule)
    resident = Resident()
    solution, pullback = simulation.vjp(inputs, STEPS, schedule)
    pullback(ds.Solution(traces={"p": solution.traces["p"] - 1}))
    report = {"predicted": sizes.peak(chosen), "measured": resident.peak, "exact": resident.exact}
    print(json.dumps(report | {"without": simulation.predicted_bytes(chosen)}))


if __name__ == "__main__":
    main(sys.argv[1])
