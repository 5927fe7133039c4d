"""Acoustic waves as pressure and velocity on a staggered grid, with a convolutional perfectly matched layer."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, diff, interpolate
from diffsim.layers import CPML
from tests.steps.layer import Layer
from tests.steps.padded import ahead, inside, padded
from tests.steps.step import Fields, Shape, Step

DT = 0.3
CELLS = ((5, 4), (7, 0))
SPEED, FREQUENCY, KAPPA = 1.5, 0.1, 3.0
LAYER = Layer(1.0, DT, CELLS, SPEED, FREQUENCY, KAPPA)


class AcousticCPML(ds.Equation):
    """Pressure waves in a medium of variable density.

        vᵢ,ₜ = -b ∂p/∂x̃ᵢ,   pₜ = -K (Σᵢ ∂vᵢ/∂x̃ᵢ - f)

    Leap-frog in time, staggered differences of second order. Derivatives along x̃ are stretched in the layer. Outside the grid all is 0.
    Parameters: bulk modulus `K` and buoyancy `b` = 1/rho. Stable while dt sqrt(K b) / dx < 0.707.

    Reference: Virieux (1984), SH-wave propagation in heterogeneous media, Geophysics 49, 1933-1942, doi:10.1190/1.1441605, for the scheme.
    """

    forcings = ("f",)

    def __init__(self, grid: ds.Grid, dt: float, layer: CPML) -> None:
        self.grid, self.dt, self.layer = grid, dt, layer
        y, x = (1, 0), (0, 1)
        self.states = {"p": ds.Variable(), "vy": ds.Variable("zero", y), "vx": ds.Variable("zero", x)}
        self.states |= {"psi_py": layer.memory(0, y), "psi_px": layer.memory(1, x), "psi_vy": layer.memory(0), "psi_vx": layer.memory(1)}
        self.parameters = {"K": ds.Variable("mirror"), "b": ds.Variable("mirror")}

    def step(
        self,
        p: Symbol,
        vy: Symbol,
        vx: Symbol,
        psi_py: Symbol,
        psi_px: Symbol,
        psi_vy: Symbol,
        psi_vx: Symbol,
        K: Symbol,
        b: Symbol,
        f: Symbol,
    ) -> dict[str, Symbol]:
        slope_y, psi_py = self.layer.stretch(diff(p, 0), 0, psi_py)
        slope_x, psi_px = self.layer.stretch(diff(p, 1), 1, psi_px)
        vy = ds.stage(vy - self.dt * interpolate(b, 0) * slope_y, boundary=vy)
        vx = ds.stage(vx - self.dt * interpolate(b, 1) * slope_x, boundary=vx)
        growth_y, psi_vy = self.layer.stretch(diff(vy, 0), 0, psi_vy)
        growth_x, psi_vx = self.layer.stretch(diff(vx, 1), 1, psi_vx)
        p = p - self.dt * K * (growth_y + growth_x) + self.dt * K * f
        return {"p": p, "vy": vy, "vx": vx, "psi_py": psi_py, "psi_px": psi_px, "psi_vy": psi_vy, "psi_vx": psi_vx}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    states = {name: rng.standard_normal(shape) for name in ("p", "vy", "vx")}
    for name, axis, place in (("psi_py", 0, 1), ("psi_px", 1, 1), ("psi_vy", 0, 0), ("psi_vx", 1, 0)):
        states[name] = LAYER.memory(rng, shape, axis, place)
    return states | {"K": rng.uniform(0.5, 1.5, shape), "b": rng.uniform(0.8, 1.2, shape)}


def advance(
    p: np.ndarray,
    vy: np.ndarray,
    vx: np.ndarray,
    psi_py: np.ndarray,
    psi_px: np.ndarray,
    psi_vy: np.ndarray,
    psi_vx: np.ndarray,
    K: np.ndarray,
    b: np.ndarray,
    f: np.ndarray,
) -> Fields:
    (pressure,), (buoyancy,) = padded(1, "zero", p), padded(1, "mirror", b)
    slope_y, psi_py = LAYER.stretch(inside(1, ahead(pressure, 0) - pressure), 0, 1, psi_py)
    slope_x, psi_px = LAYER.stretch(inside(1, ahead(pressure, 1) - pressure), 1, 1, psi_px)
    vy = vy - DT * inside(1, buoyancy + ahead(buoyancy, 0)) / 2 * slope_y
    vx = vx - DT * inside(1, buoyancy + ahead(buoyancy, 1)) / 2 * slope_x
    y, x = padded(1, "zero", vy, vx)
    growth_y, psi_vy = LAYER.stretch(inside(1, y - ahead(y, 0, -1)), 0, 0, psi_vy)
    growth_x, psi_vx = LAYER.stretch(inside(1, x - ahead(x, 1, -1)), 1, 0, psi_vx)
    return {
        "p": p - DT * K * (growth_y + growth_x - f),
        "vy": vy,
        "vx": vx,
        "psi_py": psi_py,
        "psi_px": psi_px,
        "psi_vy": psi_vy,
        "psi_vx": psi_vx,
    }


def equation(shape: Shape) -> AcousticCPML:
    grid = ds.Grid(shape, 1.0)
    return AcousticCPML(grid, DT, CPML(grid, DT, CELLS, SPEED, FREQUENCY, kappa=KAPPA))


STEP = Step("acoustic with CPML", (23, 37), equation, inputs, advance, sources={"f": (7, 11)}, receivers={"p": (20, 30), "psi_vx": (3, 2)})
