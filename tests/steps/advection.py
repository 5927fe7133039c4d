"""A tracer carried by a flow, in three dimensions."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, div, maximum, minimum, minmod, muscl
from tests.steps.padded import ahead, inside, padded
from tests.steps.step import Fields, Shape, Step

DT = 0.1
NAMES = ("w", "v", "u")


class Advection(ds.Equation):
    """Conservative advection with limited slopes.

        cₜ + ∇·(u c) = 0

    Forward Euler in time (first order), second order in space where slopes are not limited: at each face c is extrapolated from the cell
    upwind by half of the smaller slope, none where slopes differ in sign (minmod). The concentration is mirrored at the sides; the
    velocities `w`, `v`, `u` along z, y, x are parameters on the faces. Entry i is the velocity through the upper face of cell i, and 0
    below the first cell. Stable while Σ |u| dt / dx <= 1/2.

    Reference: LeVeque (2002), Finite Volume Methods for Hyperbolic Problems, sections 6.9 and 9.4, doi:10.1017/CBO9780511791253.
    """

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"c": ds.Variable("mirror")}
        self.parameters = {name: ds.Variable("zero", tuple(int(a == axis) for a in range(3)), "m/s") for axis, name in enumerate(NAMES)}

    def step(self, c: Symbol, w: Symbol, v: Symbol, u: Symbol) -> dict[str, Symbol]:
        fluxes = []
        for axis, velocity in enumerate((w, v, u)):
            below, above = muscl(c, axis, minmod)
            fluxes.append(maximum(velocity, 0.0) * below + minimum(velocity, 0.0) * above)
        return {"c": c - self.dt * div(fluxes)}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    return {"c": rng.uniform(0.5, 1.5, shape)} | {name: rng.uniform(-1.5, 1.5, shape) for name in NAMES}


def advance(c: np.ndarray, w: np.ndarray, v: np.ndarray, u: np.ndarray) -> Fields:
    (wide,) = padded(2, "mirror", c)
    change = np.zeros_like(c)
    for axis, velocity in enumerate(padded(2, "zero", w, v, u)):
        backward, forward = wide - ahead(wide, axis, -1), ahead(wide, axis) - wide
        slope = (np.sign(backward) + np.sign(forward)) / 2 * np.minimum(np.abs(backward), np.abs(forward))
        upwind = np.where(velocity > 0, wide + slope / 2, ahead(wide - slope / 2, axis))
        change += inside(2, velocity * upwind - ahead(velocity * upwind, axis, -1))
    return {"c": c - DT * change}


STEP = Step(
    "advection, 3-D", (5, 6, 19), lambda shape: Advection(ds.Grid(shape, 1.0), DT), inputs, advance, steps=4, receivers={"c": (0, 5, 18)}
)
