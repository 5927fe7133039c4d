"""A quantum particle in a potential."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, laplacian
from tests.steps.padded import five_points, inside, padded
from tests.steps.step import Fields, Shape, Step

DT = 0.2


class Schroedinger(ds.Equation):
    """The time-dependent Schrödinger equation, real and imaginary part half a step apart.

        i ψₜ = H ψ,  H = -½ ∇² + V;   ψ = R + i I:   Rₜ = H I,   Iₜ = -H R

        R(t + dt) = R(t) + dt H I(t + dt/2),   I(t + 3dt/2) = I(t + dt/2) - dt H R(t + dt)

    Second order in space and time. Outside the grid ψ = 0. The sum of R(t)² + I(t + dt/2) I(t - dt/2) is conserved. Parameter: potential
    `V`. Stable while dt times the largest eigenvalue of H, at most 4 / dx² + max V in two dimensions, is below 2.

    Reference: Visscher (1991), A fast explicit algorithm for the time-dependent Schrödinger equation, Computers in Physics 5, 596-598,
        doi:10.1063/1.168415.
    """

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"R": ds.Variable("zero"), "I": ds.Variable("zero")}
        self.parameters = {"V": ds.Variable("zero")}

    def step(self, R: Symbol, I: Symbol, V: Symbol) -> dict[str, Symbol]:  # noqa: E741  the field's name
        R = ds.stage(R + self.dt * (V * I - 0.5 * laplacian(I)))
        return {"R": R, "I": I - self.dt * (V * R - 0.5 * laplacian(R))}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    return {"R": rng.standard_normal(shape), "I": rng.standard_normal(shape), "V": rng.uniform(0, 3, shape)}


def energy(psi: np.ndarray, V: np.ndarray) -> np.ndarray:
    (wide,) = padded(1, "zero", psi)
    return V * psi - inside(1, five_points(wide)) / 2


def advance(R: np.ndarray, I: np.ndarray, V: np.ndarray) -> Fields:  # noqa: E741
    R = R + DT * energy(I, V)
    return {"R": R, "I": I - DT * energy(R, V)}


STEP = Step(
    "Schrödinger",
    (23, 37),
    lambda shape: Schroedinger(ds.Grid(shape, 1.0), DT),
    inputs,
    advance,
    receivers={"R": (0, 36), "I": (12, 5)},
)
