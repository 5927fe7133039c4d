"""Elastic waves in two dimensions: velocities and stresses on a staggered grid."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, div, interpolate, strain
from tests.steps.padded import ahead, inside, padded
from tests.steps.step import Fields, Shape, Step

DT = 0.2


class Elastic(ds.Equation):
    """P-SV waves.

        vₓ,ₜ = b (∂ₓ σₓₓ + ∂_y σₓ_y),          v_y,ₜ = b (∂ₓ σₓ_y + ∂_y σ_yy)
        σₓₓ,ₜ = (λ + 2μ) ∂ₓvₓ + λ ∂_y v_y + f,  σ_yy,ₜ likewise,  σₓ_y,ₜ = μ (∂_y vₓ + ∂ₓ v_y)

    Leap-frog in time (second order), staggered differences of fourth order in space. Buoyancy b = 1/rho is averaged to the velocities, mu
    to the shear stress. Outside the grid all is 0. The source f is an explosion. Stable while dt sqrt((lam + 2 mu) b) / dx < 0.606.

    Reference: Levander (1988), Fourth-order finite-difference P-SV seismograms, Geophysics 53, 1425-1436, doi:10.1190/1.1442422.
    """

    forcings = ("f",)

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {
            "vx": ds.Variable("zero", (0, 1), "m/s"),
            "vy": ds.Variable("zero", (1, 0), "m/s"),
            "sxx": ds.Variable("zero", unit="Pa"),
            "syy": ds.Variable("zero", unit="Pa"),
            "sxy": ds.Variable("zero", (1, 1), "Pa"),
        }
        self.parameters = {"lam": ds.Variable("mirror", unit="Pa"), "mu": ds.Variable("mirror", unit="Pa"), "b": ds.Variable("mirror")}

    def step(
        self, vx: Symbol, vy: Symbol, sxx: Symbol, syy: Symbol, sxy: Symbol, lam: Symbol, mu: Symbol, b: Symbol, f: Symbol
    ) -> dict[str, Symbol]:
        dt = self.dt
        forces = div(((syy, sxy), (sxy, sxx)), 4)
        vy, vx = (ds.stage(v + dt * interpolate(b, axis) * forces[axis]) for axis, v in enumerate((vy, vx)))
        (eyy, exy), (_, exx) = strain((vy, vx), 4)
        mu_corner = interpolate(interpolate(mu, 0), 1)
        return {
            "vx": vx,
            "vy": vy,
            "sxx": sxx + dt * ((lam + 2 * mu) * exx + lam * eyy + f),
            "syy": syy + dt * ((lam + 2 * mu) * eyy + lam * exx + f),
            "sxy": sxy + 2 * dt * mu_corner * exy,
        }


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    waves = {name: rng.standard_normal(shape) for name in ("vx", "vy", "sxx", "syy", "sxy")}
    return waves | {"lam": rng.uniform(1, 2, shape), "mu": rng.uniform(0.5, 1, shape), "b": rng.uniform(0.8, 1.2, shape)}


def to_face(a: np.ndarray, axis: int) -> np.ndarray:
    """Difference at the upper face, of values at centres."""
    return 9 / 8 * (ahead(a, axis) - a) - (ahead(a, axis, 2) - ahead(a, axis, -1)) / 24


def to_centre(a: np.ndarray, axis: int) -> np.ndarray:
    """Difference at the centre, of values at upper faces."""
    return 9 / 8 * (a - ahead(a, axis, -1)) - (ahead(a, axis) - ahead(a, axis, -2)) / 24


def advance(
    vx: np.ndarray,
    vy: np.ndarray,
    sxx: np.ndarray,
    syy: np.ndarray,
    sxy: np.ndarray,
    lam: np.ndarray,
    mu: np.ndarray,
    b: np.ndarray,
    f: np.ndarray,
) -> Fields:
    b_wide, mu_wide = padded(2, "mirror", b, mu)
    xx, yy, xy = padded(2, "zero", sxx, syy, sxy)
    vx = vx + DT * inside(2, (b_wide + ahead(b_wide, 1)) / 2 * (to_face(xx, 1) + to_centre(xy, 0)))
    vy = vy + DT * inside(2, (b_wide + ahead(b_wide, 0)) / 2 * (to_centre(xy, 1) + to_face(yy, 0)))
    x, y = padded(2, "zero", vx, vy)
    exx, eyy, exy = (inside(2, e) for e in (to_centre(x, 1), to_centre(y, 0), to_face(x, 0) + to_face(y, 1)))
    corner = inside(2, mu_wide + ahead(mu_wide, 0) + ahead(mu_wide, 1) + ahead(ahead(mu_wide, 0), 1)) / 4
    pressure = lam * (exx + eyy) + f
    return {
        "vx": vx,
        "vy": vy,
        "sxx": sxx + DT * (pressure + 2 * mu * exx),
        "syy": syy + DT * (pressure + 2 * mu * eyy),
        "sxy": sxy + DT * corner * exy,
    }


STEP = Step(
    "elastic",
    (23, 37),
    lambda shape: Elastic(ds.Grid(shape, 1.0), DT),
    inputs,
    advance,
    sources={"f": (7, 11)},
    receivers={"sxx": (0, 30), "syy": (22, 2)},
)
