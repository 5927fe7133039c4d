"""Acoustic waves: `diffsim.solvers.Acoustic`, with a sponge and edges that reflect."""

from __future__ import annotations

import numpy as np

from diffsim.mesh.grid import Grid
from diffsim.solvers import Acoustic
from tests.solvers import plain
from tests.steps.step import Fields, Shape, Step

DX, DT, ORDER, SPONGE = 10.0, 1e-3, 4, 5


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    return {"c": rng.uniform(1500, 3000, shape), "p": rng.standard_normal(shape), "p_prev": rng.standard_normal(shape)}


def advance(p: np.ndarray, p_prev: np.ndarray, c: np.ndarray, f: np.ndarray) -> Fields:
    damping = plain.half_damping(p.shape, DT, SPONGE, 2000.0, (DX, DX))
    push = (c * DT) ** 2 * (plain.laplacian(p, (DX, DX), ORDER, "mirror") + f)
    return {"p": plain.leapfrog(p, p_prev, push, damping), "p_prev": p}


STEP = Step(
    "acoustic",
    (23, 37),
    lambda shape: Acoustic(Grid(shape, DX), DT, ORDER, "mirror", SPONGE),
    inputs,
    advance,
    DX,
    sources={"f": (7, 11)},
    receivers={"p": (0, 30)},
)
