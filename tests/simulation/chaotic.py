"""A chaotic equation of two coupled fields, to tell states apart that differ by a rounding; and a gradient of it.

Usage: python -m tests.simulation.chaotic THREADS|ARCH FOLDER: prints digests of the gradient under several schedules.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import diffsim as ds
from diffsim.checkpoint import Binomial, Lossless, Mixed, MultiTier, Online, Policy, Reversible, Spilling, StoreAll, Tier
from diffsim.expr.operators import laplacian
from diffsim.solvers import Acoustic

STEPS = 130
DISK = Tier("disk", 12, 2.0, 1.0)


class LogisticLattice(ds.Equation):
    """u' = g + laplacian(g) / 10 with g = a u (1 - u) (1 - v/50), v' = 0.9 v + 0.1 u u, and a force on v.

    The logistic map at a = 3.9 doubles small changes about every step and a half, the lattice more slowly; v remembers u.
    """

    forcings = ("f",)

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 1.0
        self.states = {"u": ds.Variable("periodic"), "v": ds.Variable("mirror")}
        self.parameters = {"a": ds.Variable("zero")}

    def step(self, u: Any, v: Any, a: Any, f: Any) -> dict[str, Any]:
        g = ds.stage(a * u * (1 - u) * (1 - 0.02 * v), "periodic")
        return {"u": g + 0.1 * laplacian(g), "v": 0.9 * v + 0.1 * u * u + 0.01 * f}


def simulation(precision: str | None = None, cells: int = 14) -> ds.Simulation:
    grid = ds.Grid((cells, cells + 5), 1.0)
    return ds.Simulation(LogisticLattice(grid), sources={"f": [[3.0, 4.0]]}, receivers={"u": [[2.5, 3.0]]}, precision=precision)


def inputs(model: ds.Simulation, steps: int = STEPS) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    shape = model.grid.shape
    fields = {"u": rng.uniform(0.2, 0.8, shape), "v": rng.uniform(0, 1, shape), "a": rng.uniform(3.9, 3.99, shape)}
    return {**fields, "f": rng.uniform(0, 1, (steps, 1))}


def cotangents(solution: ds.Solution) -> ds.Solution:
    rng = np.random.default_rng(6)
    return ds.Solution(
        {k: rng.normal(size=v.shape) for k, v in solution.final.items()}, {k: rng.normal(size=v.shape) for k, v in solution.traces.items()}
    )


def gradient(model: ds.Simulation, checkpoint: Any, steps: int = STEPS, on_action: Callable[[Any], None] | None = None) -> str:
    """Digest of the gradient."""
    solution, pullback = model.vjp(inputs(model, steps), steps, checkpoint, on_action)
    bars = pullback(cotangents(solution))
    return digest([bars[name] for name in sorted(bars)])


def digest(arrays: list[np.ndarray]) -> str:
    return hashlib.blake2b(b"".join(array.tobytes() for array in arrays), digest_size=12).hexdigest()


def schedules(steps: int = STEPS, state: int = 2, record: int = 2) -> list[Any]:
    return [
        *(Binomial(steps, slots) for slots in (1, 2, 7, steps - 1, steps)),
        *(Online(slots) for slots in (1, 4, 30)),
        MultiTier(steps, [("device", 2, 0, 0), ("disk", 5, 2.0, 1.0)]),
        MultiTier(steps, [("device", 2, 0, 0), ("host", 2, 0.5, 0.5), ("disk", 5, 2.0, 1.0)]),
        Spilling(steps, 3, DISK),
        Mixed(steps, 9 * record, state, record),
    ]


def policy(schedule: Any, folder: Path, **options: Any) -> Policy:
    return Policy(schedule=schedule, folder=folder, **options)


def on_device(arch: str, folder: Path) -> None:
    """A few schedules where memory is not the host's, and steps that are undone."""
    ds.init(arch=arch, precision="f32")
    model, steps = simulation(), 30
    print(gradient(model, StoreAll(steps), steps))
    tiers = [("device", 2, 0, 0), ("host", 2, 0.5, 0.5), ("disk", 5, 2.0, 1.0)]
    for schedule in (Binomial(steps, 4), Online(4), MultiTier(steps, tiers)):
        print(gradient(model, policy(schedule, folder), steps))
    undone()


def undone() -> str:
    """Digest of a gradient of a wave, with absorbing edges, whose steps are run backwards; it is the stored one but for rounding."""
    shape, steps = (12, 45), 24
    wave = ds.Simulation(Acoustic(ds.Grid(shape, 10.0), 1e-3, 4, "mirror", sponge=3), receivers={"p": [[40.0, 50.0]]}, wrt=["c"])
    fields = {"c": np.full(shape, 2000.0), "p": np.random.default_rng(1).normal(size=shape)}
    solution, pullback = wave.vjp(fields, steps, StoreAll(steps))
    expected = pullback(solution)["c"]
    backwards = wave.vjp(fields, steps, Reversible(steps, 6))[1](solution)["c"]
    assert wave.last_sweep is not None and wave.last_sweep.drift
    assert np.abs(backwards - expected).max() <= 1e-5 * np.abs(expected).max()
    return digest([backwards])


def main() -> None:
    arch, folder = sys.argv[1], Path(sys.argv[2])
    if not arch.isdecimal():
        on_device(arch, folder)
        return
    ds.init(arch="cpu", threads=int(arch), precision="f64")
    model = simulation()
    print(gradient(model, StoreAll(STEPS)))
    for schedule in schedules():
        print(gradient(model, policy(schedule, folder, compression=Lossless())))
    print(undone())


if __name__ == "__main__":
    main()
