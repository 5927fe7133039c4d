"""`mpiexec -n N python -m tests.domains.mishap KIND`: a run in two domains in which something goes wrong on rank 1."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np
from mpi4py import MPI

import diffsim as ds


def main(kind: str) -> None:
    ds.init(threads=1)
    here = MPI.COMM_WORLD.rank == 1
    rod = ds.Simulation(ds.solvers.Heat(ds.Grid((40,), 0.05), 0.1), receivers={"T": [[0.5]]}, domains=(1, 1) if kind == "axes" else (2,))
    kappa: Any = np.full(40, 5e-3)
    if here and kind == "inputs":
        kappa[3] = 4e-3
    if kind == "nan":
        kappa[33] = np.nan  # rank 1 owns it, and rank 0 does not have it
    if here and kind == "points":
        rod.move(receivers={"T": [[1.5]]})
    if kind == "place":
        kappa = lambda x: 5e-3 * x / x.max()  # noqa: E731
    start = {"kappa": kappa, "T": np.linspace(0.0, 1.0, 40)}
    if kind == "loss":
        noise = np.random.default_rng(MPI.COMM_WORLD.rank).normal()
        rod.value_and_grad(lambda solution: ((solution.traces["T"] - noise) ** 2).sum(), start, 40)

    if kind == "followed":  # functions that follow a gradient may differ from rank to rank
        progress = (lambda share, left: None) if here else None
        for steps in (10, 120):
            rod.value_and_grad(lambda solution: (solution.traces["T"] ** 2).sum(), start, steps, on_progress=progress)

    def watch(done: int, states: Any) -> None:
        if here and kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if here and kind == "function":
            raise ds.errors.ParameterError("a watch that fails on one rank")
        time.sleep(0.01)

    rod.run(start, 40, every=20, watch=watch)


if __name__ == "__main__":
    main(sys.argv[1])
