"""Two chemicals that react and diffuse."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, laplacian
from tests.steps.padded import five_points
from tests.steps.step import Fields, Shape, Step

DT, DU, DV = 0.5, 0.16, 0.08


class GrayScott(ds.Equation):
    """The Gray-Scott model of an autocatalytic reaction U + 2V -> 3V.

        uₜ = Du ∇²u - u v² + F (1 - u),   vₜ = Dv ∇²v + u v² - (F + k) v

    Forward Euler in time (first order), central differences of second order in space, periodic. Parameters: feed rate `F` and rate `k` of
    decay, cell by cell. Good values: Du = 0.16, Dv = 0.08, dt = 0.5 to 1 at dx = 1, F of 0.02 to 0.06, k of 0.05 to 0.065.

    Reference: Pearson (1993), Complex patterns in a simple system, Science 261, 189-192, doi:10.1126/science.261.5118.189.
    """

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"u": ds.Variable("periodic"), "v": ds.Variable("periodic")}
        self.parameters = {"F": ds.Variable("periodic"), "k": ds.Variable("periodic")}

    def step(self, u: Symbol, v: Symbol, F: Symbol, k: Symbol) -> dict[str, Symbol]:
        reaction = u * v * v
        return {
            "u": u + self.dt * (DU * laplacian(u) - reaction + F * (1 - u)),
            "v": v + self.dt * (DV * laplacian(v) + reaction - (F + k) * v),
        }


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    v = rng.uniform(0.1, 0.5, shape)
    return {"u": 1 - v, "v": v, "F": rng.uniform(0.03, 0.05, shape), "k": rng.uniform(0.055, 0.065, shape)}


def advance(u: np.ndarray, v: np.ndarray, F: np.ndarray, k: np.ndarray) -> Fields:
    reaction = u * v**2
    return {
        "u": u + DT * (DU * five_points(u) - reaction + F - F * u),
        "v": v + DT * (DV * five_points(v) + reaction - F * v - k * v),
    }


STEP = Step(
    "Gray-Scott", (23, 37), lambda shape: GrayScott(ds.Grid(shape, 1.0), DT), inputs, advance, receivers={"u": (0, 0), "v": (11, 36)}
)
