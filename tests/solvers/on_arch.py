"""Run solvers in small on a given arch and save their solutions and gradients. A process of its own: Taichi is initialised once.

Usage: python -m tests.solvers.on_arch ARCH FILE NAME...
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

import diffsim as ds

STEPS = 3
SOLVERS: dict[str, Callable[[], ds.Equation]] = {
    "currents": lambda: ds.solvers.QuasiGeostrophic(ds.Grid((15, 17), 1e5), 3600.0),
    "layers": lambda: ds.solvers.QuasiGeostrophic(ds.Grid((9, 11), 1e5), 3600.0, layers=(500.0, 2000.0), gravities=(0.02,), f0=1e-4),
    "drifters": lambda: ds.solvers.QuasiGeostrophic(ds.Grid((11, 13), 1e5), 3600.0, drifters=True),
    "flow": lambda: ds.solvers.NavierStokes(ds.Grid((12, 10), 0.1), 0.01, order=2),
    "implicit flow": lambda: ds.solvers.NavierStokes(ds.Grid((12, 10), 0.1), 0.01, method="imex2"),
    "front": lambda: ds.solvers.KuramotoSivashinsky(ds.Grid((32,), 22 / 32), 0.05),
    "wave function": lambda: ds.solvers.Schroedinger(ds.Grid((24,), 0.5), 0.01),
    "flood in cut steps": lambda: ds.solvers.ShallowWater(ds.Grid((24,), 10.0), 0.25, method="euler", substeps=3),
    "flood": lambda: ds.solvers.ShallowWater(ds.Grid((9, 11), 10.0), 0.25, ("open", "wall"), drag="manning"),
    "tsunami": lambda: ds.solvers.LongWave(ds.Grid((9, 11), 0.1, (40.0, 140.0)), 10.0, coordinates="sphere", sponge=2, uplift=True),
    "storm and tide": lambda: ds.solvers.ShallowWater(
        ds.Grid((24,), 10.0), 0.25, (("tide", "open"),), method="euler", weather="steady", supply="steady"
    ),
    "flood on the sphere": lambda: ds.solvers.ShallowWater(
        ds.Grid((9, 11), 0.1, (40.0, 140.0)), 60.0, method="euler", drag="quadratic", coordinates="sphere"
    ),
}
LEVELS = {"eta": 2.0, "z": -1.0, "beta": 2e-11, "drag": 1e-7, "manning": 0.03, "nu": 0.01}
LEVELS |= {"H": 100.0, "start": 0.1, "rise": 0.5, "tide": 2.0}
"""Values about which inputs vary by some hundredths. Others vary about 0."""
SIZES = {"psi": 1e4, "psi1": 1e4, "psi2": 1e4, "wind": 1e-10, "supply": 1e-3}
"""The size of those; 1 where there is none."""


def outputs(name: str) -> dict[str, np.ndarray]:
    """The final states of random inputs, and their gradient for a random loss."""
    equation, random = SOLVERS[name](), np.random.default_rng(0)
    simulation = ds.Simulation(equation)
    inputs = {}
    for each in simulation.inputs:
        level, noise = LEVELS.get(each, 0.0), random.standard_normal(simulation.input_shape(each, STEPS))
        inputs[each] = level * (1 + 0.03 * noise) if level else SIZES.get(each, 1.0) * noise
    solution, pullback = simulation.vjp(inputs, STEPS)
    gradient = pullback(ds.Solution({key: random.standard_normal(value.shape) for key, value in solution.final.items()}))
    return {**{f"{name} {key}": value for key, value in solution.final.items()}, **{f"{name} d/d{key}": v for key, v in gradient.items()}}


def main() -> None:
    arch, path, *names = sys.argv[1:]
    ds.init(arch=arch, precision="f32")
    np.savez(path, **{key: value for name in names for key, value in outputs(name).items()})


if __name__ == "__main__":
    main()
