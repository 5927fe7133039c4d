"""Heat conduction, explicit: `diffsim.solvers.Heat`, with insulated edges."""

from __future__ import annotations

import numpy as np

from diffsim.mesh.grid import Grid
from diffsim.solvers import Heat
from tests.solvers import plain
from tests.steps.step import Fields, Shape, Step

DX, DT = 0.5, 0.1


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    return {"kappa": rng.uniform(0.2, 0.5, shape), "T": rng.uniform(1.0, 2.0, shape)}


def advance(T: np.ndarray, kappa: np.ndarray, q: np.ndarray) -> Fields:
    return {"T": plain.heat(kappa, T, 1, DT, (DX, DX), "mirror") + DT * q}


STEP = Step(
    "heat",
    (23, 37),
    lambda shape: Heat(Grid(shape, DX), DT),
    inputs,
    advance,
    DX,
    sources={"q": (3, 36)},
    receivers={"T": (22, 0)},
)
