"""Burgers' equation with time steps as long as the fastest wave allows."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, div, mean, minimum, muscl, van_leer
from diffsim.expr import max as max_of
from diffsim.integrators import ssp_rk2
from tests.steps.padded import ahead
from tests.steps.step import Fields, Shape, Step

DX, COURANT, END_STEPS = 0.5, 0.4, 6.5


class AdaptiveBurgers(ds.Equation):
    """The equation of Burgers in two dimensions, with time steps by the condition of Courant, Friedrichs and Lewy.

        uₜ + ∂ₓ(u²/2) + ∂_y(u²/2) = 0

    The global flux of Lax and Friedrichs between values at faces by van Leer's limited slopes, and Heun's method: of second order where
    slopes are not limited. With a = max |u| over all cells,

        F = (u_l² + u_r²) / 4 - a (u_r - u_l) / 2,    dt = min(C dx / (2 a), end - time),    time_next = time + dt

    A run has a fixed number of steps. Once `time` is `end`, the steps that are left have dt = 0, and change nothing. Periodic sides.

    States: `u` in m/s, and the `time` reached in s, the same in all cells. Parameter: `end` in s, a number. The whole field u must not be
    0. The Courant number C is at most 1/2.

    Reference: LeVeque (2002), Finite Volume Methods for Hyperbolic Problems, sections 4.4 and 12.5, doi:10.1017/CBO9780511791253.
    """

    dt = 1.0  # not used: the step computes its own

    def __init__(self, grid: ds.Grid, courant: float = COURANT) -> None:
        self.grid, self.courant = grid, courant
        self.states = {"u": ds.Variable("periodic", unit="m/s"), "time": ds.Variable("periodic", unit="s")}
        self.parameters = {"end": ds.Variable(axes=(), unit="s")}

    def step(self, u: Symbol, time: Symbol, end: Symbol) -> dict[str, Symbol]:
        speed = max_of(abs(u))
        dt = minimum(0.5 * self.courant * min(self.grid.spacing) / speed, end - mean(time))

        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:
            fluxes = []
            for axis in range(2):
                below, above = muscl(now["u"], axis, van_leer)
                fluxes.append(0.25 * (below * below + above * above) - 0.5 * speed * (above - below))
            return {"u": -div(fluxes)}

        return {**ssp_rk2(rate, {"u": u}, dt), "time": time + dt}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    """The last of the steps begin when the end is reached."""
    steps = END_STEPS * COURANT * DX / (2 * 1.5)
    return {"u": rng.uniform(-1.5, 1.0, shape), "time": np.zeros(shape), "end": np.array(steps)}


def rate(u: np.ndarray, speed: float) -> np.ndarray:
    out = np.zeros_like(u)
    for axis in (0, 1):
        backward, forward = u - ahead(u, axis, -1), ahead(u, axis) - u
        product = backward * forward
        slope = np.where(product > 0, 2 * product / np.where(product > 0, backward + forward, 1.0), 0.0)
        left, right = u + slope / 2, ahead(u - slope / 2, axis)
        flux = (left**2 / 2 + right**2 / 2) / 2 - speed / 2 * (right - left)
        out -= (flux - ahead(flux, axis, -1)) / DX
    return out


def advance(u: np.ndarray, time: np.ndarray, end: np.ndarray) -> Fields:
    speed = np.abs(u).max()
    dt = min(COURANT * DX / (2 * speed), end - time[0, 0])
    first = u + dt * rate(u, speed)
    return {"u": (u + first + dt * rate(first, speed)) / 2, "time": time + dt}


STEP = Step(
    "Burgers, adaptive time steps",
    (15, 21),
    lambda shape: AdaptiveBurgers(ds.Grid(shape, DX)),
    inputs,
    advance,
    DX,
    steps=9,
    receivers={"u": (14, 3)},
)
