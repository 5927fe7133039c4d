"""A conservation law with shocks: WENO reconstruction of fifth order."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, div, weno5
from diffsim.integrators import ssp_rk3
from tests.steps.padded import ahead
from tests.steps.step import Fields, Shape, Step

DT, SPEED = 0.2, 1.2


class Weno(ds.Equation):
    """Burgers' equation in two dimensions with a source.

        uₜ + ∂ₓ(u²/2) + ∂_y(u²/2) = s

    Fluxes are split after Lax and Friedrichs, f± = (u²/2 ± a u) / 2 with a speed a that no |u| exceeds; each part is reconstructed at the
    faces from three parabolas, whose weights are large where the parabola is smooth (fifth order in space, where all are). Three
    Runge-Kutta stages that are convex sums of Euler steps (third order in time). Periodic. Stable while 2 a dt / dx <= 1.

    Reference: Jiang and Shu (1996), Efficient implementation of weighted ENO schemes, J. Comput. Phys. 126, 202-228,
        doi:10.1006/jcph.1996.0130; stages by Shu and Osher (1988), doi:10.1016/0021-9991(88)90177-5.
    """

    def __init__(self, grid: ds.Grid, dt: float, speed: float) -> None:
        self.grid, self.dt, self.speed = grid, dt, speed
        self.states = {"u": ds.Variable("periodic")}
        self.parameters = {"s": ds.Variable("periodic")}

    def rate(self, u: Symbol, s: Symbol) -> Symbol:
        flux = 0.5 * u * u
        to_right, to_left = 0.5 * (flux + self.speed * u), 0.5 * (flux - self.speed * u)
        return s - div([weno5(to_right, axis)[0] + weno5(to_left, axis)[1] for axis in range(self.grid.ndim)])

    def step(self, u: Symbol, s: Symbol) -> dict[str, Symbol]:
        return ssp_rk3(lambda now: {"u": self.rate(now["u"], s)}, {"u": u}, self.dt)


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    """Hills with a cliff, and some roughness."""
    y, x = np.meshgrid(*(np.arange(n) / n for n in shape), indexing="ij")
    u = 0.4 * np.sin(2 * np.pi * (x + y)) + np.where(x > 0.6, 0.3, -0.1) + rng.uniform(-0.1, 0.1, shape)
    return {"u": u, "s": rng.uniform(-0.1, 0.1, shape)}


IDEAL = (0.1, 0.6, 0.3)
PARABOLAS = ((2 / 6, -7 / 6, 11 / 6), (-1 / 6, 5 / 6, 2 / 6), (2 / 6, 5 / 6, -1 / 6))  # values at the face of parabolas by three means
SLOPES = ((1.0, -4.0, 3.0), (1.0, 0.0, -1.0), (3.0, -4.0, 1.0))


def at_face(flux: np.ndarray, axis: int, upwind: int) -> np.ndarray:
    """At the upper face of each cell; `upwind` is 1 for what comes from below, -1 for what comes from above."""
    centre = 0 if upwind > 0 else 1
    cells = [ahead(flux, axis, centre + upwind * k) for k in (-2, -1, 0, 1, 2)]
    total, total_weight = np.zeros_like(flux), np.zeros_like(flux)
    for k in range(3):
        three = cells[k : k + 3]
        curvature = three[0] - 2 * three[1] + three[2]
        slope = sum(w * value for w, value in zip(SLOPES[k], three, strict=True))
        weight = IDEAL[k] / (13 / 12 * curvature**2 + slope**2 / 4 + 1e-6) ** 2
        total += weight * sum(w * value for w, value in zip(PARABOLAS[k], three, strict=True))
        total_weight += weight
    return total / total_weight


def rate(u: np.ndarray, s: np.ndarray) -> np.ndarray:
    total = s.copy()
    for axis in (0, 1):
        face = at_face((u**2 / 2 + SPEED * u) / 2, axis, 1) + at_face((u**2 / 2 - SPEED * u) / 2, axis, -1)
        total -= face - ahead(face, axis, -1)
    return total


def advance(u: np.ndarray, s: np.ndarray) -> Fields:
    first = u + DT * rate(u, s)
    second = 3 / 4 * u + 1 / 4 * first + 1 / 4 * DT * rate(first, s)
    return {"u": 1 / 3 * u + 2 / 3 * second + 2 / 3 * DT * rate(second, s)}


STEP = Step(
    "WENO 5 with three stages",
    (23, 37),
    lambda shape: Weno(ds.Grid(shape, 1.0), DT, SPEED),
    inputs,
    advance,
    steps=6,
    receivers={"u": (0, 36)},
)
