"""`mpiexec -n 2 python -m tests.domains.refused FOLDER`: inputs that differ between ranks, and what both ranks say of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import diffsim as ds
from tests.domains.generator import mapped

STEPS = 3
ALIKE = {
    "k": 1.0,
    "depth": np.ones(7),
    "r": np.ones((16, 7)),
    "wind": np.ones((STEPS, 16, 7)),
    "tide": np.ones(STEPS),
    "f": np.ones((STEPS, 1)),
}
"""Inputs in memory."""


class Pointwise(ds.Equation):
    """A parameter, a profile and a number, series of both kinds, amplitudes, and a check whose error is not one of diffsim."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 0.1
        self.states = {"u": ds.Variable()}
        self.parameters = {"k": ds.Variable(axes=()), "depth": ds.Variable(axes=(1,)), "r": ds.Variable()}
        self.series = {"wind": ds.Variable(axes=(0, 1)), "tide": ds.Variable()}
        self.forcings = ("f",)

    def step(self, u: Any, k: Any, depth: Any, r: Any, wind: Any, tide: Any, f: Any) -> dict[str, Any]:
        return {"u": u + k * depth * r * wind + tide + f}

    def check(self, parameters: Any) -> None:
        if parameters["r"].max() > 5:
            raise KeyError("the error of a user")


def main(folder: str) -> None:
    from mpi4py import MPI  # tests without it import the equation

    ds.init(threads=1)
    rank = MPI.COMM_WORLD.rank
    run = ds.Simulation(Pointwise(ds.Grid((16, 7), 1.0)), sources={"f": [[3.0, 3.0]]}, domains=(2, 1), wrt=[])
    inputs: dict[str, dict[str, Any]] = {
        name: {name: mapped(np.asarray(value) * (1 + rank), Path(folder) / f"{name} {rank}.npy")}
        for name, value in ALIKE.items()
        if name != "r"
    }
    inputs |= {"depth of a function": {"depth": lambda x: x + rank}, "check": {"r": lambda y, x: np.where(y > 14, 9.0, 1.0)}}
    for what, other in inputs.items():
        said = "nothing"
        try:
            run.run(ALIKE | other, STEPS)
        except (ds.DiffsimError, KeyError) as error:
            said = f"{type(error).__name__}: {error.args[0]}"
        every = MPI.COMM_WORLD.gather(said)
        if every is not None:
            sys.stdout.write(f"{what}: {every[0] if len(set(every)) == 1 else every}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
