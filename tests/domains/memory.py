"""`mpiexec -n N python -m tests.domains.memory CELLS PARTS FILE`: bytes of each rank for a run whose inputs are no arrays in memory.

The grid has CELLS x CELLS cells in PARTS boxes along the first axis, or is that of one process for PARTS = 1. The wave speed is a function
of coordinates, and the initial pressure a file, which is mapped into memory. A small run before it compiles all that a run needs.
Prints the largest growth of a rank's memory, pages of the file included.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

import diffsim as ds
from diffsim.domains import Domains


def status(key: str) -> int:
    """Bytes of an entry of /proc/self/status."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{key}:"))
    return 1024 * int(line.split()[1])


def run(cells: int, parts: int, path: str) -> float:
    """Run a few steps, and return a sum of the final pressure of the rank."""
    sea = ds.solvers.Acoustic(ds.Grid((cells, cells), 10.0), 1e-3, 2)
    simulation = ds.Simulation(sea, wrt=[], precision="f32", domains=None if parts == 1 else Domains((parts, 1), gathered=False))
    start = np.load(path, mmap_mode="r")[:cells, :cells]
    inputs = {"c": lambda z, x: 2000.0 + 0.01 * z + 0.02 * x, "p": start}
    return float(simulation.run(inputs, 2).final["p"][::8, ::8].sum())


def main(cells: str, parts: str, path: str) -> None:
    ds.init(threads=1)
    run(64, int(parts), path)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    run(int(cells), int(parts), path)
    every = MPI.COMM_WORLD.gather(status("VmHWM") - before)
    if every is not None:
        sys.stdout.write(f"{max(every)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
