"""Planes at which the spectrum of the field, the power through them, and the amplitudes of modes are measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import diffsim.numpy as dnp
from diffsim.base.arguments import instance, one_of, real_array
from diffsim.errors import ParameterError, ShapeError
from diffsim.photonics.modes import Mode
from diffsim.photonics.sources import axis_of, nearest, nodes, uniform
from diffsim.simulation import Solution
from diffsim.solvers import Maxwell
from diffsim.typing import Array


@dataclass(frozen=True)
class Plane:
    """A part of a plane across an axis: a line in two dimensions, a point in one.

    Attributes:
        axis: "x", "y" or "z".
        at: where along it; the nearest place of E is taken.
        low: least coordinates along the other axes, in their order; None: the grid's. Cells that are cut there count in part.
        high: greatest ones.
    """

    axis: str
    at: float
    low: float | Sequence[float] | None = None
    high: float | Sequence[float] | None = None


class Monitors:
    """Receivers on planes, and quantities of their traces, with derivatives.

    Spectra are sums over traces, F(ω) = dt Σ exp(iωtₙ) f(tₙ), with H at its own times, half a step before E. So the powers of two planes
    with a medium without losses between them are equal to round-off, once the field has left. The traces are stored, points times steps:
    for a line some megabytes. States that sum up as the run goes would take two fields for each frequency instead.

    Args:
        equation: on a uniform grid.
        frequencies: at which spectra are taken.
        planes: by name.

    Attributes:
        receivers: state -> coordinates: those of a `Simulation`.
        frequencies: as given.

    Raises:
        ShapeError: a plane outside of the grid.
        ParameterError: no frequency or plane, or an axis that there is not.

    Solutions do not say where their receivers were: those of a simulation with as many receivers elsewhere are taken as they are.
    """

    def __init__(self, equation: Maxwell, frequencies: Sequence[float], **planes: Plane) -> None:
        self.equation, self.frequencies = uniform(equation), np.atleast_1d(real_array("frequencies", frequencies, float))
        if not planes or not self.frequencies.size:
            raise ParameterError(
                "no plane or no frequency, expected one of each at least; write it like Monitors(light, [1.0], out=Plane('x', 2.0))"
            )
        self.planes = {name: instance(name, plane, Plane, "a Plane", "write it like Plane('x', 2.0)") for name, plane in planes.items()}
        self.receivers: dict[str, Array] = {}
        self._columns: dict[tuple[str, str, str], slice] = {}
        self._areas: dict[tuple[str, str], Array] = {}
        for name, plane in self.planes.items():
            for _, e, h in self._pairs(plane):
                places, self._areas[name, e] = self._places(plane, e)
                for state in (e, h):
                    before = self.receivers.get(state, np.empty((0, equation.grid.ndim)))
                    self._columns[name, e, state] = slice(len(before), len(before) + len(places))
                    self.receivers[state] = np.concatenate([before, places])

    def spectrum(self, solution: Solution, plane: str) -> dict[str, tuple[Any, Any]]:
        """Component of E along the plane -> its spectrum and that of H such that the power is Re E H*; shapes (frequencies, points).

        Args:
            solution: of a simulation with these receivers.
            plane: its name.
        """
        watched = self.planes[one_of("plane", plane, self.planes)]
        return {
            e: (self._transform(solution.traces, plane, e, e, 0.0), sign * self._transform(solution.traces, plane, e, h, -0.5))
            for sign, e, h in self._pairs(watched)
        }

    def flux(self, solution: Solution, plane: str) -> Any:
        """Power through a plane towards greater coordinates at each frequency, Re ∫ E × H*, shape (frequencies,).

        Args:
            solution: of a simulation with these receivers.
            plane: its name.
        """
        powers = {name: dnp.real(e) * dnp.real(h) + dnp.imag(e) * dnp.imag(h) for name, (e, h) in self.spectrum(solution, plane).items()}
        return sum(dnp.sum(power * self._areas[plane, name], axis=1) for name, power in powers.items())

    def amplitudes(self, solution: Solution, plane: str, mode: Mode) -> tuple[Any, Any]:
        """Amplitudes of a mode that runs towards greater coordinates, and of the one that comes back; their squares are powers.

        Args:
            solution: of a simulation with these receivers.
            plane: its name; it reaches across the whole grid.
            mode: at one of the frequencies.
        """
        if mode.frequency not in self.frequencies:
            raise ParameterError(f"a mode at frequency {mode.frequency:g}, expected one of {self.frequencies}; add it to the monitors'")
        at = int(np.flatnonzero(self.frequencies == mode.frequency)[0])
        ((name, (e, h)),) = self.spectrum(solution, plane).items()
        if e.shape[1] != len(mode.electric):
            raise ShapeError(f"a mode of {len(mode.electric)} cells on a plane of {e.shape[1]}; leave out low and high of the plane")
        area = self._areas[plane, name]
        by_e, by_h = dnp.sum(e[at] * (area * mode.magnetic)), dnp.sum(h[at] * (area * mode.electric))
        return 0.5 * (by_e + by_h), 0.5 * (by_e - by_h)

    def _transform(self, traces: Mapping[str, Any], plane: str, e: str, state: str, late: float) -> Any:
        """The spectrum of a component at the places of a component of E."""
        wanted, count = len(self.receivers[state]), traces[state].shape[1] if state in traces else 0
        if count != wanted:
            raise ShapeError(
                f"a solution with {count} receivers of {state}, expected the {wanted} of these monitors; build the simulation with "
                "receivers=monitors.receivers, and no others of these components"
            )
        values = traces[state][:, self._columns[plane, e, state]]
        t = self.equation.dt * (np.arange(values.shape[0]) + late)
        phase = 2 * math.pi * self.frequencies[:, None] * t
        return dnp.matmul(self.equation.dt * np.cos(phase), values) + 1j * dnp.matmul(self.equation.dt * np.sin(phase), values)

    def _pairs(self, plane: Plane) -> list[tuple[float, str, str]]:
        """(E × H)_x = Ey Hz - Ez Hy, and so on in turn."""
        axis_of(self.equation, plane.axis)
        b, c = ("xyzxy"["xyz".index(plane.axis) + k] for k in (1, 2))
        pairs = ((1.0, f"E{b}", f"H{c}"), (-1.0, f"E{c}", f"H{b}"))
        return [pair for pair in pairs if pair[1] in self.equation.states and pair[2] in self.equation.states]

    def _places(self, plane: Plane, e: str) -> tuple[Array, Array]:
        """Coordinates of a component of E on a plane, and the area that each stands for."""
        number, values = axis_of(self.equation, plane.axis), nodes(self.equation, e)
        others = [axis for axis in range(len(values)) if axis != number]
        low, high = (_corner(name, end, len(others)) for name, end in (("low", plane.low), ("high", plane.high)))
        used, sizes = list(values), [np.ones(len(along)) for along in values]
        used[number], sizes[number] = values[number][[nearest(values[number], plane.at)]], np.ones(1)
        for axis, least, most in zip(others, low, high, strict=True):
            h, at = self.equation.grid.spacing[axis], values[axis]
            size = np.minimum(at + 0.5 * h, most) - np.maximum(at - 0.5 * h, least)
            kept = size > 1e-9 * h
            if not kept.any():
                raise ShapeError(f"plane from {least:g} to {most:g}, expected a part of {at[0]:g} to {at[-1]:g}; move it")
            used[axis], sizes[axis] = at[kept], size[kept]
        areas = np.prod(np.meshgrid(*sizes, indexing="ij"), axis=0)
        return np.stack([part.ravel() for part in np.meshgrid(*used, indexing="ij")], -1), areas.ravel()


def _corner(name: str, given: float | Sequence[float] | None, count: int) -> list[float]:
    """A coordinate for each axis along a plane."""
    if given is None:
        return [-math.inf if name == "low" else math.inf] * count
    corner = [float(given)] if isinstance(given, (int, float)) else [float(each) for each in given]
    if len(corner) != count:
        raise ShapeError(f"{name} = {given} of a plane, expected {count} coordinates; give one for each axis along it")
    return corner
