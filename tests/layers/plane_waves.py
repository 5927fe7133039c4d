"""Plane waves that run into an absorbing layer at an angle, and their reflections.

A packet of pressure waves on axes (y, x) runs along x between two layers, with periodic sides along y: its lines of equal phase are
inclined, and its envelope is a function of x alone. Lengths are in cells along x, and the wave speed is 1 cell in a unit of time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import diffsim as ds
from diffsim.expr import Symbol, diff, laplacian
from diffsim.layers import CPML, Sponge
from diffsim.typing import Array

WAVELENGTH = 10.0
ROWS = 16
SIDES = ("periodic", "zero")


@dataclass(frozen=True)
class Packet:
    """A wave packet.

    Attributes:
        angle: between its direction and x, degrees.
        length: half of the packet's length along x, to 1/e, in wavelengths along x. Short packets are made of many wavelengths and angles.
    """

    angle: float
    length: float = 1.5

    @property
    def k(self) -> tuple[float, float]:
        """Wave numbers along y and x."""
        return tuple(2 * math.pi / WAVELENGTH * f(math.radians(self.angle)) for f in (math.sin, math.cos))  # type: ignore[return-value]

    @property
    def width(self) -> float:
        return self.length * 2 * math.pi / self.k[1]

    @property
    def inner(self) -> int:
        """Cells between the layers: the packet fits."""
        return 2 * math.ceil(3.5 * self.width)

    def grid(self, cells: int) -> ds.Grid:
        """A grid with so many cells of a layer at both ends of x; one wavelength along y, and x = 0 in the middle."""
        n = self.inner + 2 * cells
        return ds.Grid((ROWS, n), (2 * math.pi / self.k[0] / ROWS if self.angle else 1.0, 1.0), (0.0, 0.5 - 0.5 * n))

    def dt(self, grid: ds.Grid) -> float:
        """0.7 of the largest stable time step."""
        return 0.7 / math.sqrt(sum(h**-2 for h in grid.spacing))

    def pressure(self, y: Array, x: Array, t: float) -> Array:
        ky, kx = self.k
        k = math.hypot(ky, kx)
        return np.exp(-(((x - kx / k * t) / self.width) ** 2)) * np.cos(ky * y + kx * x - k * t)

    def back(self, cells: int) -> float:
        """The time at which the reflection from the end of the grid is in the middle."""
        return (self.inner + 2 * cells) / math.cos(math.radians(self.angle))


class FirstOrder(ds.Equation):
    """Pressure and velocity, with a CPML along x."""

    def __init__(self, grid: ds.Grid, dt: float, cells: int, **settings: float) -> None:
        self.grid, self.dt = grid, dt
        self.layer = CPML(grid, dt, (0, cells), 1.0, 1 / WAVELENGTH, **settings)
        self.states = {"p": ds.Variable(SIDES), "vy": ds.Variable(SIDES, (1, 0)), "vx": ds.Variable(SIDES, (0, 1))}
        self.states |= {"psi_p": self.layer.memory(1, (0, 1)), "psi_v": self.layer.memory(1)}

    def step(self, p: Symbol, vy: Symbol, vx: Symbol, psi_p: Symbol, psi_v: Symbol) -> dict[str, Symbol]:
        p_x, psi_p = self.layer.stretch(diff(p, 1), 1, psi_p)
        vy, vx = ds.stage(vy - self.dt * diff(p, 0), vy), ds.stage(vx - self.dt * p_x, vx)
        v_x, psi_v = self.layer.stretch(diff(vx, 1), 1, psi_v)
        return {"p": p - self.dt * (diff(vy, 0) + v_x), "vy": vy, "vx": vx, "psi_p": psi_p, "psi_v": psi_v}

    @staticmethod
    def start(packet: Packet, y: Array, x: Array, grid: ds.Grid, dt: float) -> dict[str, Array]:
        hy, hx = (0.5 * h for h in grid.spacing)
        vy, vx = (math.cos(a) for a in (math.radians(90 - packet.angle), math.radians(packet.angle)))
        return {
            "p": packet.pressure(y, x, 0.0),
            "vy": vy * packet.pressure(y + hy, x, -dt / 2),
            "vx": vx * packet.pressure(y, x + hx, -dt / 2),
        }


class Staged(FirstOrder):
    """The same by a method of Runge and Kutta."""

    def step(self, **state: Symbol) -> dict[str, Symbol]:
        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:
            p_x, psi_p = self.layer.rate(diff(now["p"], 1), 1, now["psi_p"])
            v_x, psi_v = self.layer.rate(diff(now["vx"], 1), 1, now["psi_v"])
            return {"p": -diff(now["vy"], 0) - v_x, "vy": -diff(now["p"], 0), "vx": -p_x, "psi_p": psi_p, "psi_v": psi_v}

        return ds.integrators.ssp_rk3(rate, state, self.dt)

    @staticmethod
    def start(packet: Packet, y: Array, x: Array, grid: ds.Grid, dt: float) -> dict[str, Array]:
        return FirstOrder.start(packet, y, x, grid, 0.0)


class LeapFrog(ds.Equation):
    """The start of both equations of second order."""

    states = {name: ds.Variable(SIDES) for name in ("p", "p_prev")}  # noqa: RUF012

    @staticmethod
    def start(packet: Packet, y: Array, x: Array, grid: ds.Grid, dt: float) -> dict[str, Array]:
        return {"p": packet.pressure(y, x, 0.0), "p_prev": packet.pressure(y, x, -dt)}


class SecondOrder(LeapFrog):
    """Pressure alone, with a CPML along x."""

    def __init__(self, grid: ds.Grid, dt: float, cells: int, **settings: float) -> None:
        self.grid, self.dt = grid, dt
        self.layer = CPML(grid, dt, (0, cells), 1.0, 1 / WAVELENGTH, **settings)
        self.states = {**LeapFrog.states, "psi": self.layer.memory(1, (0, 1)), "zeta": self.layer.memory(1)}

    def step(self, p: Symbol, p_prev: Symbol, psi: Symbol, zeta: Symbol) -> dict[str, Symbol]:
        p_x, psi = self.layer.stretch(diff(p, 1), 1, psi)
        p_xx, zeta = self.layer.stretch(diff(p_x, 1), 1, zeta)
        p_next = 2 * p - p_prev + self.dt**2 * (diff(diff(p, 0), 0) + p_xx)
        return {"p": p_next, "p_prev": p, "psi": psi, "zeta": zeta}


class Compact(LeapFrog):
    """Pressure alone, by the layer's own Laplacian."""

    order = 2

    def __init__(self, grid: ds.Grid, dt: float, cells: int, **settings: float) -> None:
        self.grid, self.dt = grid, dt
        self.layer = CPML(grid, dt, (0, cells), 1.0, 1 / WAVELENGTH, **settings)
        self.states = {**LeapFrog.states, **self.layer.memories("p")}

    def curvature(self, p: Symbol, memories: dict[str, Symbol]) -> tuple[Symbol, dict[str, Symbol]]:
        return self.layer.laplacian(p, "p", memories, self.order)

    def step(self, p: Symbol, p_prev: Symbol, **memories: Symbol) -> dict[str, Symbol]:
        curvature, memories = self.curvature(p, memories)
        return {"p": 2 * p - p_prev + self.dt**2 * curvature, "p_prev": p} | memories


class CompactOfOrder8(Compact):
    order = 8


class Divergence(Compact):
    """The same by the layer's divergence of a flux."""

    def curvature(self, p: Symbol, memories: dict[str, Symbol]) -> tuple[Symbol, dict[str, Symbol]]:
        return self.layer.divergence(p, "p", memories, self.order, lambda slope, axis: slope)


class Sponged(LeapFrog):
    """Pressure alone, with a sponge along x."""

    def __init__(self, grid: ds.Grid, dt: float, cells: int, **settings: float) -> None:
        self.grid, self.dt = grid, dt
        self.sponge = Sponge(grid, dt, (0, cells), 1.0, **settings)
        self.profiles = self.sponge.profiles

    def coefficients(self, **damping: Symbol) -> dict[str, Symbol]:
        return self.sponge.coefficients(damping)

    def step(self, p: Symbol, p_prev: Symbol, **others: Symbol) -> dict[str, Symbol]:
        return {"p": self.sponge.leapfrog(p, p_prev, self.dt**2 * laplacian(p), others), "p_prev": p}


def final_pressure(equation: Callable[..., ds.Equation], packet: Packet, cells: int, beyond: int = 0, **settings: float) -> Array:
    """Pressure between the layers when the reflection is back in the middle.

    Args:
        equation: one of those above.
        packet: of amplitude 1.
        cells: of the layer at either end.
        beyond: cells that are put between the packet and the layers, for a run in which no reflection comes back in time.
        settings: of the layer.
    """
    grid = packet.grid(cells + beyond)
    dt = packet.dt(grid)
    y, x = grid.coordinates(0)[:, None], grid.coordinates(1)[None, :]
    simulation = ds.Simulation(equation(grid, dt, cells, **settings), precision="f64")
    inputs = equation.start(packet, y, x, grid, dt)  # type: ignore[attr-defined]
    final = simulation.run(inputs, round(packet.back(cells) / dt)).final["p"]
    return final[:, cells + beyond : grid.shape[1] - cells - beyond]


def reflection(equation: Callable[..., ds.Equation], packet: Packet, cells: int, **settings: float) -> float:
    """Largest pressure that is left of a packet of amplitude 1, which should have gone."""
    return float(np.abs(final_pressure(equation, packet, cells, **settings)).max())
