"""Keeps an object of every public kind until Python has cleared diffsim's modules, and lets it go then. Run as a script with its name."""

from __future__ import annotations

import builtins
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import diffsim as ds
import diffsim.numpy as dn
from diffsim import checkpoint, optimize
from diffsim.base import buffers

GRID = ds.Grid((300, 300), 0.05)
INPUTS = {"kappa": np.full((300, 300), 8e-3), "T": np.ones((300, 300))}
ON_DISK = checkpoint.Policy(slots=2, schedule="spilling", disk="200 MB", folder=tempfile.gettempdir())
LARGE = np.arange(1.0, 1 << 18)


def heat() -> ds.Simulation:
    simulation = ds.Simulation(ds.solvers.Heat(GRID, dt=0.01), receivers={"T": [[0.5, 0.5]]}, wrt=["kappa"])
    simulation.run(INPUTS, 3)
    return simulation


def vector(x: Any) -> Any:
    return dn.exp(-x)


def total(x: Any) -> Any:
    return dn.sum(x**2)


def loop(x: Any) -> Any:
    return ds.fori_loop(0, 20, lambda _, y: y * 1.01, x, checkpoint="30 MB")


KINDS: dict[str, Callable[[], Any]] = {
    "array": lambda: vector(LARGE),
    "view": lambda: dn.reshape(vector(LARGE), (-1, 3))[1:],
    "memory": lambda: buffers.empty((1 << 21,), float),
    "simulation": heat,
    "tangent": lambda: heat().tangent(),
    "batch": lambda: ds.Batch(heat(), 2),
    "solution": lambda: heat().run(INPUTS, 3, every=1),
    "pullback": lambda: heat().vjp(INPUTS, 3),
    "disk": lambda: heat().vjp(INPUTS, 30, checkpoint=ON_DISK),
    "plan": lambda: ds.plan(heat(), steps=3),
    "vjp": lambda: ds.vjp(vector, LARGE),
    "linearize": lambda: ds.linearize(vector, LARGE),
    "loop": lambda: ds.vjp(loop, LARGE),
    "grad": lambda: (ds.grad(total), ds.grad(total)(LARGE)),
    "scan": lambda: ds.vjp(dn.cumsum, np.arange(1.0, 1 << 20)),
    "tiles": lambda: ds.vjp(ds.tile.map(vector), np.ones((50, 4, 4))),
    "search": lambda: optimize.minimise(lambda x: (float(x @ x), 2 * x), np.ones(1 << 16), iterations=2),
    "scene": lambda: ds.Scene.load("heat_mri").problem(),
}


class Late:
    """Python deletes it after it has set the names of modules to None, for it is known to `builtins`."""

    def __init__(self, kept: Any, modules: list[dict[str, Any]]) -> None:
        self.kept, self.modules = kept, modules

    def __del__(self) -> None:
        for names in self.modules:
            for name in list(names):
                if not name.startswith("__"):
                    names[name] = None
        self.kept = None


def main(names: list[str]) -> None:
    kept = [KINDS[name]() for name in names]
    modules = [vars(module) for name, module in sys.modules.items() if name.partition(".")[0] == "diffsim"]
    builtins.__dict__["kept_to_the_end"] = Late(kept, modules)


if __name__ == "__main__":
    main(sys.argv[1:] or list(KINDS))
