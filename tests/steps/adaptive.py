"""Burgers' equation with time steps as long as the fastest wave allows."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, diff, div, interpolate, minimum
from diffsim.expr import max as max_of
from diffsim.integrators import ssp_rk2
from tests.steps.padded import ahead
from tests.steps.step import Fields, Shape, Step

DX, COURANT = 0.5, 0.4


class AdaptiveBurgers(ds.Equation):
    """The equation of Burgers in two dimensions, with time steps by the condition of Courant, Friedrichs and Lewy.

        uₜ + ∂ₓ(u²/2) + ∂_y(u²/2) = 0

    The global flux of Lax and Friedrichs, of first order in space, and Heun's method. With a = max |u| over all cells, at a face between
    the cells l and r,

        F = (u_l² + u_r²) / 4 - a (u_r - u_l) / 2,    dt = min(C dx / (2 a), end - time),    time_next = time + dt

    A run has a fixed number of steps. Once `time` is `end`, the steps that are left have dt = 0, and change nothing. Periodic sides.

    States: `u` in m/s, and the `time` reached in s, a number. Parameter: `end` in s, a number. The whole field u must not be 0. The Courant
    number C is at most 1/2.

    Reference: LeVeque (2002), Finite Volume Methods for Hyperbolic Problems, sections 4.4 and 12.5, doi:10.1017/CBO9780511791253.
    """

    dt = 1.0  # not used: the step computes its own

    def __init__(self, grid: ds.Grid, courant: float = COURANT) -> None:
        self.grid, self.courant = grid, courant
        self.states = {"u": ds.Variable("periodic", unit="m/s"), "time": ds.Variable(axes=(), unit="s")}
        self.parameters = {"end": ds.Variable(axes=(), unit="s")}

    def step(self, u: Symbol, time: Symbol, end: Symbol) -> dict[str, Symbol]:
        speed = max_of(abs(u))
        dt = minimum(0.5 * self.courant * min(self.grid.spacing) / speed, end - time)

        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:  # stored: the cotangent of dt reads it, and need not compute it again
            fluxes = [
                0.5 * (interpolate(now["u"] ** 2, axis) - speed * diff(now["u"], axis) * self.grid.spacing[axis]) for axis in range(2)
            ]
            return {"u": ds.stage(-div(fluxes), boundary="periodic")}

        return {**ssp_rk2(rate, {"u": u}, dt), "time": time + dt}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    """The end is reached within the run, so that the last steps change nothing."""
    return {"u": rng.uniform(-1.5, 1.0, shape), "time": np.array(0.0), "end": np.array(0.6)}


def rate(u: np.ndarray, speed: float) -> np.ndarray:
    out = np.zeros_like(u)
    for axis in (0, 1):
        flux = (u**2 + ahead(u, axis) ** 2) / 4 - speed / 2 * (ahead(u, axis) - u)
        out -= (flux - ahead(flux, axis, -1)) / DX
    return out


def advance(u: np.ndarray, time: np.ndarray, end: np.ndarray) -> Fields:
    speed = np.abs(u).max()
    dt = min(COURANT * DX / (2 * speed), end - time)
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
