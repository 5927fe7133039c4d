"""Heat that is driven at its sides: a held temperature and a flux, given anew for each time step."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, laplacian
from tests.steps.padded import five_points
from tests.steps.step import Fields, Shape, Step

DX, DT, STEPS_TAKEN = 0.5, 0.05, 9


class BoundaryControl(ds.Equation):
    """Heat conduction in a plate that is driven at two of its sides.

        Tₜ = κ ∇²T,    T = held(t) at low y,    ∂T/∂n = flux(y, t) at high x

    The midpoint rule, second order in time and space. The other sides are insulated. Axes are (y, x).

    State: temperature `T` in K. Parameter: diffusivity `kappa` in m²/s, a number. Series: `held` in K, a number a step, and `flux` in K/m,
    a value a step and cell along the side. Stable while dt <= dx² / (4 κ).
    """

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"T": ds.Variable(((ds.Dirichlet("held"), "mirror"), ("mirror", ds.Neumann("flux"))), unit="K")}
        self.parameters = {"kappa": ds.Variable(axes=(), unit="m²/s")}
        self.series = {"held": ds.Variable(unit="K"), "flux": ds.Variable(axes=(0,), unit="K/m")}

    def step(self, T: Symbol, kappa: Symbol) -> dict[str, Symbol]:
        half = ds.stage(T + 0.5 * self.dt * kappa * laplacian(T), boundary=T)
        return {"T": T + self.dt * kappa * laplacian(half)}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    return {
        "T": rng.uniform(1.0, 2.0, shape),
        "kappa": np.array(0.8),
        "held": rng.uniform(1.0, 4.0, STEPS_TAKEN),
        "flux": rng.uniform(-1.0, 1.0, (STEPS_TAKEN, shape[0])),
    }


def advance(T: np.ndarray, kappa: np.ndarray, held: np.ndarray, flux: np.ndarray) -> Fields:
    def rate(T: np.ndarray) -> np.ndarray:
        wide = np.pad(T, 1, mode="edge")
        wide[0, 1:-1] = 2 * held - T[0]
        wide[1:-1, -1] = T[:, -1] + DX * flux
        return kappa * five_points(wide)[1:-1, 1:-1] / DX**2

    return {"T": T + DT * rate(T + DT / 2 * rate(T))}


STEP = Step(
    "heat, driven at its sides",
    (23, 37),
    lambda shape: BoundaryControl(ds.Grid(shape, DX), DT),
    inputs,
    advance,
    DX,
    STEPS_TAKEN,
    receivers={"T": (0, 36)},
)
