"""Shallow water over a bed, with cells that fall dry."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, maximum, minimum, sqrt
from tests.steps.padded import ahead, inside, padded
from tests.steps.step import Fields, Shape, Step

DT, G = 0.05, 9.81
SHALLOW, FILM = 1e-2, 1e-6


class ShallowWater(ds.Equation):
    """The shallow-water equations with hydrostatic reconstruction and the flux of Harten, Lax and van Leer.

        hₜ + ∂ₓq + ∂_y r = 0
        qₜ + ∂ₓ(q²/h + g h²/2) + ∂_y(q r/h) = -g h ∂ₓz,   rₜ likewise

    Forward Euler in time and first order in space. At a face between the cells L and R with beds z_L and z_R, depths are cut to
    h* = max(h + z - max(z_L, z_R), 0), so that a lake at rest stays at rest, also around islands; the flux of the cut states is that of
    two waves, whose speeds are the smallest and largest u ∓ c. What a cell loses of its pressure by the cut is given back to it.

    Dry cells have h = 0. Velocities are 2 h q / (h² + max(h², 0.01²)), which is q / h in water deeper than 1 cm and tends to 0 with h; the
    wave speed is that of a film at least, sqrt(g max(h*, 1e-6)), whose derivative is finite. At the edges the outermost cells are repeated:
    water flows out freely. Positive depths need dt (|u| + c) / dx <= 1/4.

    Reference: Audusse, Bouchut, Bristeau, Klein and Perthame (2004), A fast and stable well-balanced scheme with hydrostatic
        reconstruction for shallow water flows, SIAM J. Sci. Comput. 25, 2050-2065, doi:10.1137/S1064827503431090; velocities by
        Kurganov and Petrova (2007), doi:10.4310/CMS.2007.v5.n1.a6, without their fourth powers.
    """

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"h": ds.Variable("mirror", unit="m"), "q": ds.Variable("mirror", unit="m²/s"), "r": ds.Variable("mirror")}
        self.parameters = {"z": ds.Variable("mirror", unit="m")}

    def fluxes(self, h: Symbol, along: Symbol, across: Symbol, z: Symbol, axis: int) -> tuple[Symbol, Symbol, Symbol, Symbol]:
        """Through the upper face: water, momentum along the axis as the cell below and the one above see it, momentum across."""

        def velocity(momentum: Symbol) -> Symbol:
            return 2 * h * momentum / (h * h + maximum(h * h, SHALLOW**2))

        def above(value: Symbol) -> Symbol:
            return value.shifted(axis, 1)

        bed = maximum(z, above(z))
        h_l, h_r = maximum(h + z - bed, 0.0), maximum(above(h + z) - bed, 0.0)
        u_l, v_l = velocity(along), velocity(across)
        u_r, v_r = above(u_l), above(v_l)
        c_l, c_r = sqrt(G * maximum(h_l, FILM)), sqrt(G * maximum(h_r, FILM))
        slow = minimum(minimum(u_l - c_l, u_r - c_r), 0.0)
        fast = maximum(maximum(u_l + c_l, u_r + c_r), 0.0)
        p_l, p_r = 0.5 * G * h_l * h_l, 0.5 * G * h_r * h_r

        def flux(left: Symbol, right: Symbol, flux_left: Symbol, flux_right: Symbol) -> Symbol:
            return (fast * flux_left - slow * flux_right + fast * slow * (right - left)) / (fast - slow)

        q_l, q_r = h_l * u_l, h_r * u_r
        momentum = flux(q_l, q_r, q_l * u_l + p_l, q_r * u_r + p_r)
        return flux(h_l, h_r, q_l, q_r), momentum - p_l, momentum - p_r, flux(h_l * v_l, h_r * v_r, q_l * v_l, q_r * v_r)

    def step(self, h: Symbol, q: Symbol, r: Symbol, z: Symbol) -> dict[str, Symbol]:
        new = {"h": h, "q": q, "r": r}
        for axis, along, across in ((1, "q", "r"), (0, "r", "q")):
            momenta = {"q": q, "r": r}
            water, below, above, sideways = self.fluxes(h, momenta[along], momenta[across], z, axis)
            ratio = self.dt / self.grid.spacing[axis]
            new["h"] = new["h"] - ratio * (water - water.shifted(axis, -1))
            new[along] = new[along] - ratio * (below - above.shifted(axis, -1))
            new[across] = new[across] - ratio * (sideways - sideways.shifted(axis, -1))
        return new


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    """A reservoir above an empty valley, with an island in it."""
    y, x = np.meshgrid(np.linspace(-1, 1, shape[0]), np.linspace(-1, 1, shape[1]), indexing="ij")
    z = 0.2 + 0.3 * y**2 + 1.5 * np.exp(-20 * ((x + 0.5) ** 2 + y**2)) + rng.uniform(0, 0.1, shape)
    level = np.where(x < 0.1, 1.0 + 0.1 * np.sin(5 * y), 0.0) + rng.uniform(0, 0.1, shape)
    h = np.where(level > z + 0.05, level - z, 0.0)
    return {"h": h, "q": h * rng.uniform(-0.2, 0.2, shape), "r": h * rng.uniform(-0.2, 0.2, shape), "z": z}


def rates(h: np.ndarray, along: np.ndarray, across: np.ndarray, z: np.ndarray, axis: int) -> list[np.ndarray]:
    """Losses by the fluxes along an axis of h, the momentum along it and that across, by a time step on cells of size 1."""
    h, along, across, z = padded(1, "mirror", h, along, across, z)
    top = np.maximum(z, ahead(z, axis))
    sides = []
    for move in (lambda a: a, lambda a: ahead(a, axis)):
        depth = move(h)
        divisor = depth**2 + np.maximum(depth, SHALLOW) ** 2
        u, v = 2 * depth * move(along) / divisor, 2 * depth * move(across) / divisor
        cut = np.clip(move(h) + move(z) - top, 0, None)
        wave = np.sqrt(G * np.maximum(cut, FILM))
        conserved = np.array([cut, cut * u, cut * v])
        sides.append((u - wave, u + wave, conserved, u * conserved, G * cut**2 / 2))
    (low_l, high_l, left, flux_l, p_l), (low_r, high_r, right, flux_r, p_r) = sides
    flux_l[1] += p_l
    flux_r[1] += p_r
    low, high = np.minimum(np.minimum(low_l, low_r), 0), np.maximum(np.maximum(high_l, high_r), 0)
    flux = (high * flux_l - low * flux_r + low * high * (right - left)) / (high - low)
    lost, gained = flux.copy(), flux
    lost[1] -= p_l
    gained[1] = gained[1] - p_r
    return [inside(1, out - ahead(into, axis, -1)) for out, into in zip(lost, gained, strict=True)]


def advance(h: np.ndarray, q: np.ndarray, r: np.ndarray, z: np.ndarray) -> Fields:
    h_x, q_x, r_x = rates(h, q, r, z, 1)
    h_y, r_y, q_y = rates(h, r, q, z, 0)
    return {"h": h - DT * (h_x + h_y), "q": q - DT * (q_x + q_y), "r": r - DT * (r_x + r_y)}


STEP = Step(
    "shallow water, HLL, wetting and drying",
    (15, 21),
    lambda shape: ShallowWater(ds.Grid(shape, 1.0), DT),
    inputs,
    advance,
    steps=5,
    receivers={"h": (9, 12)},
)
