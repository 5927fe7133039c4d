"""Heat conduction by alternating directions: along each axis in turn the step is implicit, and a system is solved along every line."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, diff, interpolate
from tests.steps.step import Fields, Shape, Step

DX, DT = 0.5, 0.3
RULES = ("mirror", "periodic")


class PeacemanRachford(ds.Equation):
    """Heat conduction.

        Tₜ = ∇·(κ ∇T) + q

    The alternating direction implicit scheme, of second order in time, central differences of second order in space; insulated along the
    first axis, periodic along the second. Conductivity `kappa` in m²/s. It is stable for every time step.

    Reference: Peaceman, Rachford (1955), The numerical solution of parabolic and elliptic differential equations, Journal of the Society
    for Industrial and Applied Mathematics 3, 28-41, doi:10.1137/0103003.
    """

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"T": ds.Variable(RULES)}
        self.parameters = {"kappa": ds.Variable(RULES)}
        self.forcings = ("q",)

    def step(self, T: Symbol, kappa: Symbol, q: Symbol) -> dict[str, Symbol]:
        def half(T: Symbol, axis: int) -> Symbol:
            return 0.5 * self.dt * diff(interpolate(kappa, axis) * diff(T, axis), axis)

        first = ds.solve(lambda T: T - half(T, 0), T + half(T, 1), RULES, method="tridiagonal")
        second = ds.solve(lambda T: T - half(T, 1), first + half(first, 0), RULES)
        return {"T": second + self.dt * q}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    return {"kappa": rng.uniform(0.2, 0.5, shape), "T": rng.uniform(1.0, 2.0, shape)}


def half_matrices(kappa: np.ndarray, axis: int) -> np.ndarray:
    """dt/2 ∂(κ ∂) along an axis, a dense matrix for each line."""
    lines = np.moveaxis(kappa, axis, 1)
    count, n = lines.shape
    out = np.zeros((count, n, n))
    for i in range(n - (RULES[axis] == "mirror")):
        j = (i + 1) % n
        through = 0.5 * (lines[:, i] + lines[:, j]) * 0.5 * DT / DX**2
        out[:, i, i] -= through
        out[:, i, j] += through
        out[:, j, j] -= through
        out[:, j, i] += through
    return out


def advance(T: np.ndarray, kappa: np.ndarray, q: np.ndarray) -> Fields:
    for axis in (0, 1):
        explicit, implicit = (half_matrices(kappa, a) for a in (1 - axis, axis))
        right = T + np.moveaxis(np.einsum("lij,lj->li", explicit, np.moveaxis(T, 1 - axis, 1)), 1, 1 - axis)
        lines = np.moveaxis(right, axis, 1)[..., None]
        T = np.moveaxis(np.linalg.solve(np.eye(implicit.shape[1]) - implicit, lines)[..., 0], 1, axis)
    return {"T": T + DT * q}


STEP = Step(
    "Peaceman-Rachford",
    (23, 37),
    lambda shape: PeacemanRachford(ds.Grid(shape, DX), DT),
    inputs,
    advance,
    DX,
    sources={"q": (3, 36)},
    receivers={"T": (22, 0)},
)
