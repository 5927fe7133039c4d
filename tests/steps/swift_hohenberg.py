"""Rolls of convection, with the linear part of a step taken in Fourier space."""

from __future__ import annotations

from typing import Any

import numpy as np

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.expr import Symbol
from tests.steps.step import Fields, Shape, Step

DX, DT = 0.7, 0.1


def half_linear(u: Any, fft: Any, dx: float, dt: float) -> Any:
    """Half a step of uₜ = -(1 + ∇²)² u, which is exact, by the transforms of `fft`."""
    waves = [2 * np.pi * np.fft.fftfreq(u.shape[0], dx)[:, None], 2 * np.pi * np.fft.rfftfreq(u.shape[1], dx)[None, :]]
    decay = np.exp(-0.5 * dt * (1 - waves[0] ** 2 - waves[1] ** 2) ** 2)
    return fft.irfft2(decay * fft.rfft2(u), s=u.shape)


class SwiftHohenberg(ds.Equation):
    """The Swift-Hohenberg model of convection near its onset.

        uₜ = r u - (1 + ∇²)² u - u³ + g

    Strang splitting, second order in time: half of a step of the linear part in Fourier space, a midpoint step of the others cell by cell,
    and the other half. Periodic. `r` is a parameter, cell by cell. Good values: dx = 0.7, dt = 0.1, r of 0.1 to 0.3.

    Reference: Swift, Hohenberg (1977), Hydrodynamic fluctuations at the convective instability, Physical Review A 15, 319-328,
    doi:10.1103/PhysRevA.15.319.
    """

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"u": ds.Variable("periodic")}
        self.parameters = {"r": ds.Variable("periodic")}
        self.forcings = ("g",)

    def step(self, u: Symbol, r: Symbol, g: Symbol) -> dict[str, Symbol]:
        def half(u: Any) -> Any:
            return half_linear(u, dnp.fft, self.grid.spacing[0], self.dt)

        u = ds.host_stage(half, u, boundary="periodic")
        middle = u + 0.5 * self.dt * (r * u - u**3)
        u = ds.host_stage(half, u + self.dt * (r * middle - middle**3), boundary="periodic")
        return {"u": u + self.dt * g}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    return {"r": rng.uniform(0.1, 0.3, shape), "u": rng.uniform(-0.5, 0.5, shape)}


def advance(u: np.ndarray, r: np.ndarray, g: np.ndarray) -> Fields:
    u = half_linear(u, np.fft, DX, DT)
    middle = u + 0.5 * DT * (r * u - u**3)
    return {"u": half_linear(u + DT * (r * middle - middle**3), np.fft, DX, DT) + DT * g}


STEP = Step(
    "Swift-Hohenberg",
    (23, 37),
    lambda shape: SwiftHohenberg(ds.Grid(shape, DX), DT),
    inputs,
    advance,
    DX,
    sources={"g": (7, 36)},
    receivers={"u": (22, 0)},
)
