"""`mpiexec -n 2 python -m tests.domains.killed FOLDER MODEL SCHEDULE COPIES`: ranks are killed in a reverse sweep in domains.

Rank 1 is killed before it writes the copy of this number, when rank 0 has written its own. With COPIES = 0 nobody is killed: the ranks
go on in the folder, and print the number of steps that were reversed, and whether gradient and solution have the bits of one process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import diffsim as ds
from diffsim.checkpoint import Binomial, MultiTier, Policy, StoreAll, SweepFile
from diffsim.domains import Domains
from tests.domains import calls
from tests.domains.calls import STEPS

SCHEDULES: dict[str, Any] = {
    "auto": "auto",
    "binomial": Binomial(STEPS, 3),
    "disk": MultiTier(STEPS, [("device", 2, 0, 0), ("disk", 4, 2.0, 1.0)]),
    "all": StoreAll(STEPS),
}


def kill_before(copy: int) -> None:
    """Kill rank 1 before it writes the copy of this number, and rank 0 soon after its own."""
    save, written = SweepFile.save, 0

    def counted(file: SweepFile, step: int, arrays: Mapping[str, np.ndarray]) -> None:
        nonlocal written
        written += 1
        if written == copy and MPI.COMM_WORLD.rank == 1:
            time.sleep(0.5)
            os.kill(os.getpid(), signal.SIGKILL)
        save(file, step, arrays)

    SweepFile.save = counted  # type: ignore[method-assign]


def rod(domains: Domains | None) -> ds.Simulation:
    """Its adjoint needs no states, so its cotangents alone decide when they are exchanged: copies are between two exchanges."""
    heat = ds.solvers.Heat(ds.Grid((40,), 0.05), 0.1)
    return ds.Simulation(heat, receivers={"T": [[0.5], [1.02]]}, wrt=["T"], domains=domains)


def inputs_of_rod() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"kappa": 5e-3 + 1e-3 * rng.random(40), "T": rng.random(40)}


MODELS: dict[str, Any] = {
    "rod": (rod, inputs_of_rod, Domains((2,), steps=8)),
    "sea": (calls.simulation, calls.inputs, Domains((1, 2))),
}


def gradient(run: ds.Simulation, inputs: dict[str, np.ndarray], policy: Any) -> list[np.ndarray]:
    solution, pullback = run.vjp(inputs, STEPS, policy)
    return [*pullback(solution).values(), *solution.final.values(), *solution.traces.values()]


def main(folder: str, model: str, schedule: str, copies: int) -> None:
    ds.init(threads=1, precision="f32")
    policy = Policy(schedule=SCHEDULES[schedule], folder=Path(folder), resume=1e-9)
    if copies:
        kill_before(copies)
    simulation, inputs, domains = MODELS[model]
    run = simulation(domains)
    here = gradient(run, inputs(), policy)
    assert run.last_sweep is not None
    fine = all(map(np.array_equal, here, gradient(simulation(None), inputs(), SCHEDULES[schedule])))
    every = MPI.COMM_WORLD.gather((fine, run.last_sweep.steps["reverse"]))
    if every is not None:
        sys.stdout.write(f"{sorted({steps for _, steps in every})} {'same bits' if all(fine for fine, _ in every) else 'other bits'}\n")


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
