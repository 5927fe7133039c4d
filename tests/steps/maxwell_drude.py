"""Light at a metal: Maxwell's equations with the current of free electrons."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, curl
from tests.steps.padded import ahead, inside, padded
from tests.steps.step import Fields, Shape, Step

DT = 0.5


class MaxwellDrude(ds.Equation):
    """Transverse-magnetic waves with a Drude metal, in units where the vacuum's constants are 1.

        ε Eₜ = ∂ₓH_y - ∂_yHₓ - J - f,   Hₓ,ₜ = -∂_yE,   H_y,ₜ = ∂ₓE,   Jₜ + γ J = ω_p² E

    Yee's scheme, second order in space and time: E at t, magnetic fields and current half a step later; the damping γ J is the mean of old
    and new. Outside the grid E is 0, as in a perfect conductor. Parameters: permittivity `eps`, plasma frequency `wp`, collision rate
    `gamma`. Stable while dt < dx sqrt(eps / 2), less where wp dt is not small.

    Reference: Taflove and Hagness (2005), Computational Electrodynamics, 3rd ed., section 9.4 (auxiliary differential equations).
    """

    forcings = ("f",)

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"E": ds.Variable(), "Hx": ds.Variable("zero", (1, 0)), "Hy": ds.Variable("zero", (0, 1)), "J": ds.Variable()}
        self.parameters = {"eps": ds.Variable(), "wp": ds.Variable(), "gamma": ds.Variable()}

    def coefficients(self, eps: Symbol, wp: Symbol, gamma: Symbol) -> dict[str, Symbol]:
        loss = 0.5 * self.dt * gamma
        return {"push": self.dt / eps, "keep": (1 - loss) / (1 + loss), "drive": self.dt * wp * wp / (1 + loss)}

    def step(self, E: Symbol, Hx: Symbol, Hy: Symbol, J: Symbol, push: Symbol, keep: Symbol, drive: Symbol, f: Symbol) -> dict[str, Symbol]:
        Hy, Hx = (ds.stage(H - self.dt * turn) for H, turn in zip((Hy, Hx), curl(E), strict=True))
        J = keep * J + drive * E
        return {"E": E + push * (curl((Hy, Hx)) - J) - push * f, "Hx": Hx, "Hy": Hy, "J": J}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    metal = np.arange(shape[1]) >= shape[1] // 2
    waves = {name: rng.standard_normal(shape) for name in ("E", "Hx", "Hy")}
    return waves | {
        "J": metal * rng.standard_normal(shape),
        "eps": rng.uniform(1, 2, shape),
        "wp": metal * rng.uniform(0.3, 0.6, shape),
        "gamma": metal * rng.uniform(0.05, 0.2, shape),
    }


def advance(
    E: np.ndarray, Hx: np.ndarray, Hy: np.ndarray, J: np.ndarray, eps: np.ndarray, wp: np.ndarray, gamma: np.ndarray, f: np.ndarray
) -> Fields:
    (e,) = padded(1, "zero", E)
    Hx = Hx - DT * inside(1, ahead(e, 0) - e)
    Hy = Hy + DT * inside(1, ahead(e, 1) - e)
    # (J_new - J) / dt + gamma (J_new + J) / 2 = wp² E
    J = (J / DT - gamma * J / 2 + wp**2 * E) / (1 / DT + gamma / 2)
    x, y = padded(1, "zero", Hx, Hy)
    curl = inside(1, y - ahead(y, 1, -1) - x + ahead(x, 0, -1))
    return {"E": E + DT / eps * (curl - J - f), "Hx": Hx, "Hy": Hy, "J": J}


STEP = Step(
    "Maxwell with a Drude metal",
    (23, 37),
    lambda shape: MaxwellDrude(ds.Grid(shape, 1.0), DT),
    inputs,
    advance,
    sources={"f": (7, 11)},
    receivers={"E": (20, 30)},
)
