"""Shallow water over a bed, of second order."""

from __future__ import annotations

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, maximum, minimum, sqrt, van_albada
from tests.steps.padded import ahead, inside, padded
from tests.steps.shallow_water import FILM, SHALLOW, G
from tests.steps.step import Fields, Shape, Step

DT, EPS = 0.05, 1e-2


class LimitedShallowWater(ds.Equation):
    """The equations of `ShallowWater` with slopes in each cell and two stages in time.

    Depth, level and both velocities have slopes by van Albada's limiter; the slope of a depth leaves it positive at both faces. At a face
    the bed of each side is its level minus its depth, and the flux is that of `ShallowWater`. In a cell with slopes the bed pushes by
    g (h_l + h_r) / 2 (z_l - z_r), of the values at its faces. Heun's method (SSP-RK2) advances it. Velocities and levels are stored.

    Reference: as for `ShallowWater`, section 4.
    """

    def __init__(self, grid: ds.Grid, dt: float) -> None:
        self.grid, self.dt = grid, dt
        self.states = {"h": ds.Variable("mirror", unit="m"), "q": ds.Variable("mirror", unit="m²/s"), "r": ds.Variable("mirror")}
        self.parameters = {"z": ds.Variable("mirror", unit="m")}

    def faces(self, value: Symbol, axis: int, positive: bool = False) -> tuple[Symbol, Symbol]:
        """Values at the upper face of a cell, from the cell below it and from the one above."""
        half = 0.5 * van_albada(EPS)(value - value.shifted(axis, -1), value.shifted(axis, 1) - value)
        if positive:
            half = maximum(minimum(half, value), -value)
        return value + half, (value - half).shifted(axis, 1)

    def rate(self, now: dict[str, Symbol], z: Symbol) -> dict[str, Symbol]:
        h = now["h"]
        level = ds.stage(h + z, boundary="mirror")
        u, v = (ds.stage(2 * h * now[name] / (h * h + maximum(h * h, SHALLOW**2)), boundary="mirror") for name in ("q", "r"))
        change = {"h": 0.0, "q": 0.0, "r": 0.0}
        for axis, along, across, speed, sideways in ((1, "q", "r", u, v), (0, "r", "q", v, u)):
            (d_l, d_r), (e_l, e_r) = self.faces(h, axis, positive=True), self.faces(level, axis)
            (u_l, u_r), (v_l, v_r) = self.faces(speed, axis), self.faces(sideways, axis)
            z_l, z_r = e_l - d_l, e_r - d_r
            bed = maximum(z_l, z_r)
            h_l, h_r = maximum(e_l - bed, 0.0), maximum(e_r - bed, 0.0)
            c_l, c_r = sqrt(G * maximum(h_l, FILM)), sqrt(G * maximum(h_r, FILM))
            slow, fast = minimum(minimum(u_l - c_l, u_r - c_r), 0.0), maximum(maximum(u_l + c_l, u_r + c_r), 0.0)
            p_l, p_r = 0.5 * G * h_l * h_l, 0.5 * G * h_r * h_r
            q_l, q_r = h_l * u_l, h_r * u_r

            def flux(left: Symbol, right: Symbol, of_left: Symbol, of_right: Symbol, slow: Symbol = slow, fast: Symbol = fast) -> Symbol:
                return (fast * of_left - slow * of_right + fast * slow * (right - left)) / (fast - slow)

            def gain(lost: Symbol, gained: Symbol, axis: int = axis) -> Symbol:
                return (gained.shifted(axis, -1) - lost) / self.grid.spacing[axis]

            water, momentum = flux(h_l, h_r, q_l, q_r), flux(q_l, q_r, q_l * u_l + p_l, q_r * u_r + p_r)
            carried = flux(h_l * v_l, h_r * v_r, q_l * v_l, q_r * v_r)
            push = 0.5 * G * (d_l + d_r.shifted(axis, -1)) * (z_r.shifted(axis, -1) - z_l) / self.grid.spacing[axis]
            change["h"] = change["h"] + gain(water, water)
            change[along] = change[along] + gain(momentum - p_l + 0.5 * G * d_l * d_l, momentum - p_r + 0.5 * G * d_r * d_r) + push
            change[across] = change[across] + gain(carried, carried)
        return change

    def step(self, h: Symbol, q: Symbol, r: Symbol, z: Symbol) -> dict[str, Symbol]:
        return ds.integrators.ssp_rk2(lambda now: self.rate(now, z), {"h": h, "q": q, "r": r}, self.dt)


def inputs(rng: np.random.Generator, shape: Shape) -> Fields:
    """Waves over a rough bed."""
    y, x = np.meshgrid(np.linspace(-1, 1, shape[0]), np.linspace(-1, 1, shape[1]), indexing="ij")
    z = 0.2 + 0.3 * y**2 + rng.uniform(0, 0.1, shape)
    h = 1.3 + 0.2 * np.sin(4 * x) + rng.uniform(0, 0.1, shape) - z
    return {"h": h, "q": h * rng.uniform(-0.2, 0.2, shape), "r": h * rng.uniform(-0.2, 0.2, shape), "z": z}


def faces(value: np.ndarray, axis: int, positive: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Values at the lower and at the upper face of each cell."""
    low, high = value - ahead(value, axis, -1), ahead(value, axis) - value
    ratio = np.maximum(2 * low * high + EPS**2, 0) / (low**2 + high**2 + EPS**2)
    half = 0.25 * (low + high) * ratio
    if positive:
        half = np.clip(half, -value, value)
    return value - half, value + half


def rates(h: np.ndarray, level: np.ndarray, u: np.ndarray, v: np.ndarray, axis: int) -> list[np.ndarray]:
    """Losses through the faces along an axis: of h, of the momentum along it and of that across."""
    h, level, u, v = padded(3, "mirror", h, level, u, v)
    (d_low, d_high), (e_low, e_high) = faces(h, axis, positive=True), faces(level, axis)
    speeds, sideways = faces(u, axis), faces(v, axis)
    left, right = (d_high, e_high, speeds[1], sideways[1]), [ahead(each, axis) for each in (d_low, e_low, speeds[0], sideways[0])]
    top = np.maximum(left[1] - left[0], right[1] - right[0])
    sides = []
    for depth, surface, along, across in (left, right):
        cut = np.clip(surface - top, 0, None)
        wave = np.sqrt(G * np.maximum(cut, FILM))
        conserved = np.array([cut, cut * along, cut * across])
        pressure = G * cut**2 / 2
        sides.append((along - wave, along + wave, conserved, along * conserved + np.array([0 * cut, pressure, 0 * cut])))
        sides[-1] += (G * depth**2 / 2 - pressure,)
    (low_l, high_l, of_l, flux_l, back_l), (low_r, high_r, of_r, flux_r, back_r) = sides
    low, high = np.minimum(np.minimum(low_l, low_r), 0), np.maximum(np.maximum(high_l, high_r), 0)
    flux = (high * flux_l - low * flux_r + low * high * (of_r - of_l)) / (high - low)
    lost, gained = flux.copy(), flux.copy()
    lost[1] += back_l
    gained[1] += back_r
    push = G / 2 * (d_low + d_high) * ((e_low - d_low) - (e_high - d_high))
    losses = [out - ahead(into, axis, -1) for out, into in zip(lost, gained, strict=True)]
    losses[1] = losses[1] - push
    return [inside(3, each) for each in losses]


def rate(h: np.ndarray, q: np.ndarray, r: np.ndarray, z: np.ndarray) -> list[np.ndarray]:
    divisor = h**2 + np.maximum(h, SHALLOW) ** 2
    u, v = 2 * h * q / divisor, 2 * h * r / divisor
    h_x, q_x, r_x = rates(h, h + z, u, v, 1)
    h_y, r_y, q_y = rates(h, h + z, v, u, 0)
    return [-(h_x + h_y), -(q_x + q_y), -(r_x + r_y)]


def advance(h: np.ndarray, q: np.ndarray, r: np.ndarray, z: np.ndarray) -> Fields:
    now = [h, q, r]
    first = [a + DT * b for a, b in zip(now, rate(*now, z), strict=True)]
    second = [a + DT * b for a, b in zip(first, rate(*first, z), strict=True)]
    return {name: (a + b) / 2 for name, a, b in zip("hqr", now, second, strict=True)}


STEP = Step(
    "shallow water, HLL, van Albada, two stages",
    (15, 21),
    lambda shape: LimitedShallowWater(ds.Grid(shape, 1.0), DT),
    inputs,
    advance,
    steps=5,
    receivers={"h": (9, 12)},
)
