"""Light at a metal that goes on into a convolutional perfectly matched layer."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, diff
from diffsim.layers import CPML
from tests.steps import maxwell_drude
from tests.steps.layer import Layer
from tests.steps.maxwell_drude import DT
from tests.steps.padded import ahead, inside, padded
from tests.steps.step import Fields, Shape, Step

CELLS = ((4, 4), (6, 6))
SPEED, FREQUENCY = 1.0, 0.05
MEMORY = {"psi_Ey": (0, 1), "psi_Ex": (1, 1), "psi_Hx": (0, 0), "psi_Hy": (1, 0)}
"""Memory variables by the axis of their derivative, and whether that lies at centres or upper faces."""
LAYER = Layer(1.0, DT, CELLS, SPEED, FREQUENCY, 1.0)


class MaxwellCPML(maxwell_drude.MaxwellDrude):
    """The equation of `maxwell_drude`, whose curls are taken along stretched coordinates.

    Outside the grid E is 0, as in a perfect conductor behind the layer.
    """

    def __init__(self, grid: ds.Grid, dt: float, layer: CPML) -> None:
        super().__init__(grid, dt)
        self.layer = layer
        self.states |= {"psi_Ey": layer.memory(0, (1, 0)), "psi_Ex": layer.memory(1, (0, 1))}
        self.states |= {"psi_Hx": layer.memory(0), "psi_Hy": layer.memory(1)}

    def step(
        self, E: Symbol, Hx: Symbol, Hy: Symbol, J: Symbol, push: Symbol, keep: Symbol, drive: Symbol, f: Symbol, **memory: Symbol
    ) -> dict[str, Symbol]:
        slope_y, psi_Ey = self.layer.stretch(diff(E, 0), 0, memory["psi_Ey"])
        slope_x, psi_Ex = self.layer.stretch(diff(E, 1), 1, memory["psi_Ex"])
        Hx, Hy = ds.stage(Hx - self.dt * slope_y), ds.stage(Hy + self.dt * slope_x)
        turn_y, psi_Hx = self.layer.stretch(diff(Hx, 0), 0, memory["psi_Hx"])
        turn_x, psi_Hy = self.layer.stretch(diff(Hy, 1), 1, memory["psi_Hy"])
        J = keep * J + drive * E
        E = E + push * (turn_x - turn_y - J) - push * f
        return {"E": E, "Hx": Hx, "Hy": Hy, "J": J, "psi_Ey": psi_Ey, "psi_Ex": psi_Ex, "psi_Hx": psi_Hx, "psi_Hy": psi_Hy}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    memory = {name: LAYER.memory(rng, shape, axis, place) for name, (axis, place) in MEMORY.items()}
    return maxwell_drude.inputs(rng, shape) | memory


def advance(
    E: np.ndarray, Hx: np.ndarray, Hy: np.ndarray, J: np.ndarray, eps: np.ndarray, wp: np.ndarray, gamma: np.ndarray, f: np.ndarray,
    psi_Ey: np.ndarray, psi_Ex: np.ndarray, psi_Hx: np.ndarray, psi_Hy: np.ndarray,
) -> Fields:  # fmt: skip
    (e,) = padded(1, "zero", E)
    slope_y, psi_Ey = LAYER.stretch(inside(1, ahead(e, 0) - e), 0, 1, psi_Ey)
    slope_x, psi_Ex = LAYER.stretch(inside(1, ahead(e, 1) - e), 1, 1, psi_Ex)
    Hx, Hy = Hx - DT * slope_y, Hy + DT * slope_x
    x, y = padded(1, "zero", Hx, Hy)
    turn_y, psi_Hx = LAYER.stretch(inside(1, x - ahead(x, 0, -1)), 0, 0, psi_Hx)
    turn_x, psi_Hy = LAYER.stretch(inside(1, y - ahead(y, 1, -1)), 1, 0, psi_Hy)
    J = (J / DT - gamma * J / 2 + wp**2 * E) / (1 / DT + gamma / 2)
    E = E + DT / eps * (turn_x - turn_y - J - f)
    return {"E": E, "Hx": Hx, "Hy": Hy, "J": J, "psi_Ey": psi_Ey, "psi_Ex": psi_Ex, "psi_Hx": psi_Hx, "psi_Hy": psi_Hy}


def equation(shape: Shape) -> MaxwellCPML:
    grid = ds.Grid(shape, 1.0)
    return MaxwellCPML(grid, DT, CPML(grid, DT, CELLS, SPEED, FREQUENCY))


STEP = Step("Maxwell with CPML", (23, 37), equation, inputs, advance, sources={"f": (7, 11)}, receivers={"E": (20, 30)})
