"""Chaotic flame fronts."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, diff_centred, laplacian
from tests.steps.padded import ahead, five_points
from tests.steps.step import Fields, Shape, Step

DT = 0.01


class KuramotoSivashinsky(ds.Equation):
    """The Kuramoto-Sivashinsky equation in two dimensions, with a stiffness that varies.

        uₜ = -½ |∇u|² - ∇²u - ∇²(ν ∇²u)

    Forward Euler in time (first order), central differences of second order in space, periodic. ∇²u is a stage: with it the product of two
    Laplacians reads 5 + 5 values of a cell instead of 13. Parameter: `nu`, m⁴/s relative to the instability's 1 m²/s. Stable while
    dt nu (8 / dx²)² < 2.

    Reference: Sivashinsky (1977), Nonlinear analysis of hydrodynamic instability in laminar flames I, Acta Astronautica 4, 1177-1206,
        doi:10.1016/0094-5765(77)90096-0.
    """

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"u": ds.Variable("periodic")}
        self.parameters = {"nu": ds.Variable("periodic")}

    def step(self, u: Symbol, nu: Symbol) -> dict[str, Symbol]:
        bend = ds.stage(laplacian(u), "periodic")
        slopes = [diff_centred(u, axis) for axis in range(self.grid.ndim)]
        steepness = sum(slope * slope for slope in slopes)
        return {"u": u - self.dt * (0.5 * steepness + bend + laplacian(nu * bend))}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    return {"u": 2 * rng.standard_normal(shape), "nu": rng.uniform(0.8, 1.2, shape)}


def advance(u: np.ndarray, nu: np.ndarray) -> Fields:
    bend = five_points(u)
    steepness = sum(((ahead(u, axis) - ahead(u, axis, -1)) / 2) ** 2 for axis in (0, 1))
    return {"u": u - DT * (steepness / 2 + bend + five_points(nu * bend))}


STEP = Step(
    "Kuramoto-Sivashinsky",
    (23, 37),
    lambda shape: KuramotoSivashinsky(ds.Grid(shape, 1.0), DT),
    inputs,
    advance,
    receivers={"u": (22, 36)},
)
