"""Incompressible flow through a channel and around bodies in it, by a projection onto velocities without divergence."""

from __future__ import annotations

import functools

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

import diffsim as ds
from diffsim.expr import Symbol, diff, div, grad, interpolate, laplacian
from tests.steps.padded import ahead
from tests.steps.step import Fields, Shape, Step

DX, DT, NU, STEPS_TAKEN = 0.25, 0.02, 0.1, 7


class NavierStokes(ds.Equation):
    """The incompressible Navier-Stokes equations in a channel, with bodies of resistance σ in it (Brinkman penalisation).

        uₜ + ∇·(u uᵀ) = -∇p + ν ∇²u - σ u,    ∇·u = 0

    Incremental pressure correction on the staggered grid of Harlow and Welch. The resistance is implicit, advection, viscosity and the
    pressure known so far are explicit:

        (1 + dt σ) u* = u + dt (ν ∇²u - ∇·(u uᵀ) - ∇p),    ∇²φ = ∇·u* / dt,    u_next = u* - dt ∇φ,    p_next = p + φ

    It is of first order in time and of second order in space. Axes are (y, x). The flow enters at x = 0 by the profile `inflow`, and leaves
    where p = 0 and the velocity has no normal derivative. Both sides along y are walls without slip. The last values of `u` lie on
    the outflow, where the projection corrects them too. So the next velocity has no divergence in any cell, but for round-off.

    States: `u` on the faces of x and `v` on those of y in m/s, `p` at centres, over the density, in m²/s². Parameter: resistance `sigma` at
    centres, in 1/s: 0 in the fluid, large in a body. Series: speed `inflow` in m/s, a value a step and cell along y. Stable while
    dt <= dx² / (4 ν) and dt <= 2 ν / |u|².

    Reference: van Kan (1986), A second-order accurate pressure-correction scheme for viscous incompressible flow, SIAM J. Sci. Stat.
        Comput. 7, 870-891, doi:10.1137/0907059, here with Euler steps. Angot, Bruneau and Fabrie (1999), A penalization method to take into
        account obstacles in incompressible viscous flows, Numer. Math. 81, 497-520, doi:10.1007/s002110050401.
    """

    def __init__(self, grid: ds.Grid, dt: float, nu: float = NU) -> None:
        self.grid, self.dt, self.nu = grid, dt, nu
        wall, still, free = ds.Dirichlet(0.0), ds.Dirichlet(0.0), ds.Neumann(0.0)
        self.states = {
            "u": ds.Variable((wall, (ds.Dirichlet("inflow"), free)), (0, 1), "m/s"),
            "v": ds.Variable((wall, (still, free)), (1, 0), "m/s"),
            "p": ds.Variable((free, (free, ds.Dirichlet(0.0))), unit="m²/s²"),
        }
        self.parameters = {"sigma": ds.Variable("mirror", unit="1/s")}
        self.series = {"inflow": ds.Variable(wall, unit="m/s", axes=(0,))}

    def coefficients(self, sigma: Symbol) -> dict[str, Symbol]:
        slow_y, slow_x = (1 / (1 + self.dt * interpolate(sigma, axis)) for axis in (0, 1))
        return {"slow_x": slow_x, "slow_y": slow_y}

    def step(self, u: Symbol, v: Symbol, p: Symbol, slow_x: Symbol, slow_y: Symbol) -> dict[str, Symbol]:
        through_edge = interpolate(u, 0) * interpolate(v, 1)
        p_y, p_x = grad(p)
        u_rate = self.nu * laplacian(u) - diff(interpolate(u, 1) ** 2, 1) - diff(through_edge, 0) - p_x
        v_rate = self.nu * laplacian(v) - diff(interpolate(v, 0) ** 2, 0) - diff(through_edge, 1) - p_y
        u_star = ds.stage(slow_x * (u + self.dt * u_rate), boundary=u)
        v_star = ds.stage(slow_y * (v + self.dt * v_rate), boundary=v)
        phi = ds.solve(laplacian, div((v_star, u_star)) / self.dt, boundary=p)
        phi_y, phi_x = grad(phi)
        return {"u": u_star - self.dt * phi_x, "v": v_star - self.dt * phi_y, "p": p + phi}


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    """A flow that is not yet free of divergence, and a body with soft edges."""
    y, x = np.meshgrid(np.linspace(-1, 1, shape[0]), np.linspace(-1, 1, shape[1]), indexing="ij")
    return {
        "u": rng.uniform(0.5, 1.0, shape),
        "v": rng.uniform(-0.3, 0.3, shape),
        "p": rng.uniform(-0.2, 0.2, shape),
        "sigma": 50.0 / (1 + np.exp(20 * (np.hypot(2 * x + 0.7, y) - 0.5))),
        "inflow": rng.uniform(0.8, 1.2, (STEPS_TAKEN, 1)) * (1.5 - y[:, 0] ** 2),
    }


def around(u: np.ndarray, v: np.ndarray, p: np.ndarray, inflow: np.ndarray) -> list[np.ndarray]:
    """The fields with a cell more at every end, by the conditions on the sides, written side by side."""
    u, v, p = (np.pad(field, 1) for field in (u, v, p))
    u[1:-1, 0], u[:, -1] = inflow, u[:, -3]  # the values before the last are on the outflow
    u[0], u[-1] = -u[1], -u[-2]
    v[:, 0], v[:, -1] = -v[:, 1], v[:, -2]
    v[0], v[-1] = 0, -v[-3]  # the values before the last are on the wall, like the first
    p[:, 0], p[:, -1] = p[:, 1], -p[:, -2]
    p[0], p[-1] = p[1], p[-2]
    return [u, v, p]


def second_differences(n: int, ends: tuple[float, float]) -> sparse.csr_matrix:
    """Second differences of a line of cells. `ends`: outflow at each end: none (0), or to φ = 0 half a cell away (2)."""
    ones = np.ones(n - 1)
    through = -(np.append(0.0, ones) + np.append(ones, 0.0))
    through[[0, -1]] -= ends
    return sparse.diags([ones, through, ones], [-1, 0, 1])


@functools.cache
def factored(shape: Shape) -> SuperLU:
    """∇² with no flow through the walls and the inflow, and φ = 0 on the outflow, factored."""
    matrix = sparse.kronsum(second_differences(shape[1], (0, 2)), second_differences(shape[0], (0, 0)))
    return splu(matrix.tocsc() / DX**2, permc_spec="MMD_AT_PLUS_A")


def pressure(source: np.ndarray) -> np.ndarray:
    """The solution of ∇²φ = source by elimination."""
    return factored(source.shape).solve(source.ravel()).reshape(source.shape)


def advance(u: np.ndarray, v: np.ndarray, p: np.ndarray, sigma: np.ndarray, inflow: np.ndarray) -> Fields:
    w, z, q = around(u, v, p, inflow)
    s = np.pad(sigma, 1, mode="edge")

    def five_points(field: np.ndarray) -> np.ndarray:
        return (field[1:-1, 2:] + field[1:-1, :-2] + field[2:, 1:-1] + field[:-2, 1:-1] - 4 * field[1:-1, 1:-1]) / DX**2

    in_x, in_y = (w + ahead(w, 1, -1)) ** 2 / 4, (z + ahead(z, 0, -1)) ** 2 / 4  # at centres
    at_edge = (w + ahead(w, 0)) * (z + ahead(z, 1)) / 4
    out_u = (ahead(in_x, 1) - in_x + at_edge - ahead(at_edge, 0, -1) + ahead(q, 1) - q)[1:-1, 1:-1] / DX
    out_v = (ahead(in_y, 0) - in_y + at_edge - ahead(at_edge, 1, -1) + ahead(q, 0) - q)[1:-1, 1:-1] / DX
    u_star = (u + DT * (NU * five_points(w) - out_u)) / (1 + DT * (s + ahead(s, 1))[1:-1, 1:-1] / 2)
    v_star = (v + DT * (NU * five_points(z) - out_v)) / (1 + DT * (s + ahead(s, 0))[1:-1, 1:-1] / 2)
    v_star[-1] = 0
    phi = pressure(divergence(u_star, v_star, inflow) / DT)
    _, _, f = around(u, v, phi, inflow)
    return {
        "u": u_star - DT * (ahead(f, 1) - f)[1:-1, 1:-1] / DX,
        "v": v_star - DT * (ahead(f, 0) - f)[1:-1, 1:-1] / DX,
        "p": p + phi,
    }


def divergence(u: np.ndarray, v: np.ndarray, inflow: np.ndarray, dx: float = DX) -> np.ndarray:
    """Flow out of each cell, over its size."""
    return (np.diff(u, axis=1, prepend=inflow[:, None]) + np.diff(v, axis=0, prepend=0.0)) / dx


STEP = Step(
    "Navier-Stokes, projection",
    (13, 21),
    lambda shape: NavierStokes(ds.Grid(shape, DX), DT),
    inputs,
    advance,
    DX,
    steps=STEPS_TAKEN,
    receivers={"p": (12, 0)},
)
