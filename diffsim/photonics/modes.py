"""Modes of waveguides whose permittivity varies across them alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import positive, real_array, whole
from diffsim.errors import ParameterError, ShapeError
from diffsim.photonics.sources import axis_of, uniform
from diffsim.solvers import Maxwell
from diffsim.typing import Array


@dataclass(frozen=True, eq=False)
class Mode:
    """A guided mode of a slab on the grid, exp(iβx - iωt) along it. Its power is 1.

    Attributes:
        frequency: ω / 2π.
        wave_number: β.
        electric: E across the waveguide's axis, a value for each cell across it, where E lies.
        magnetic: values of H at the same places, in the mean over both sides of a plane of E.
    """

    frequency: float
    wave_number: float
    electric: Array
    magnetic: Array

    @property
    def index(self) -> float:
        """The effective index, β / ω."""
        return self.wave_number / (2 * math.pi * self.frequency)


def slab_mode(equation: Maxwell, axis: str, eps: npt.ArrayLike, frequency: float, order: int = 0) -> Mode:
    """The mode of a slab waveguide along an axis, from the discrete equations: on the grid it keeps its shape to round-off.

    For "TM" (E across the plane) it solves E'' + ω² ε E = β² E, for "TE" ε (H' / ε)' + ω² ε H = β² H, with centred differences and with
    the ω and β that the time step and the spacing stand for, 2/dt sin(ω dt/2) and 2/h sin(β h/2).

    Args:
        equation: on a uniform grid of two axes.
        axis: along the waveguide, "x" or "y".
        eps: permittivity at the centres of cells across the axis, such as `eps[:, 20]`.
        frequency: in vacuum wavelengths per unit of length.
        order: 0 for the fundamental mode.

    Returns:
        The mode.

    Raises:
        ParameterError: there is no such guided mode, or a number is out of range.
        ShapeError: a permittivity of another number of cells.

    Reference: Snyder and Love (1983), Optical Waveguide Theory, chapter 12.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.photonics import Mode, Monitors, Plane, gaussian_pulse, mode_source, slab_mode

        # A mode that is sent into a slab of glass passes a plane with the power that it had before.
        grid = ds.Grid((60, 120), spacing=0.05)
        light = ds.solvers.Maxwell(grid, dt=0.034, layer=12, layer_frequency=1.0)
        eps = np.where(abs(grid.coordinates(0) - 1.5) < 0.3, 4.0, 1.0)[:, None] * np.ones(grid.shape)
        mode = slab_mode(light, "x", eps[:, 0], frequency=1.0)
        assert isinstance(mode, Mode) and 1.0 < mode.index < 2.0
        source = mode_source(light, "x", 1.0, mode, gaussian_pulse(1.0, 1.5, light.dt, 800))
        watch = Monitors(light, [1.0], before=Plane("x", 2.0), behind=Plane("x", 4.0))
        found = ds.Simulation(light, sources=source.places, receivers=watch.receivers, precision="f64").run(
            {"eps": eps, **source.amplitudes}, steps=800
        )
        assert np.isclose(watch.flux(found, "behind"), watch.flux(found, "before"), rtol=1e-3)
        forward, backward = watch.amplitudes(found, "behind", mode)
        assert np.isclose(abs(forward) ** 2, watch.flux(found, "behind")[0], rtol=1e-3) and abs(backward) < 0.02 * abs(forward)
    """
    from scipy.linalg import eigh_tridiagonal

    number = axis_of(uniform(equation), axis)
    if equation.grid.ndim != 2:
        raise ShapeError(f"a slab on a grid of {equation.grid.ndim} axes, expected 2; the mode varies across the waveguide alone")
    n, h, along = equation.grid.shape[1 - number], equation.grid.spacing[1 - number], equation.grid.spacing[number]
    medium = real_array("eps", eps, float)
    if medium.shape != (n,):
        raise ShapeError(f"eps of shape {medium.shape}, expected ({n},), a value for each cell across {axis}")
    frequency = positive("frequency", frequency, "give it in wavelengths per unit of length")
    omega = 2 / equation.dt * math.sin(math.pi * frequency * equation.dt)
    faces = 0.5 * (medium + np.append(medium[1:], medium[-1]))
    if "z" in equation.electric:  # at the faces, 0 at the last
        diagonal, beside = omega**2 * faces[:-1] - 2 / h**2, np.full(n - 2, 1 / h**2)
    else:  # of H / √ε at the centres; no flux through the ends
        inner = 1 / faces[:-1]
        diagonal = medium * (omega**2 - (np.append(inner, 0.0) + np.append(0.0, inner)) / h**2)
        beside = np.sqrt(medium[:-1] * medium[1:]) * inner / h**2
    count = len(diagonal)
    order = whole("order", order, 0, count - 1, "give 0 for the fundamental mode")
    squares, vectors = eigh_tridiagonal(diagonal, beside, select="i", select_range=(count - 1 - order, count - 1 - order))
    least = omega**2 * max(medium[0], medium[-1])
    if not squares[0] > least:
        raise ParameterError(f"order = {order}, expected a guided mode; at frequency {frequency:g} the waveguide has fewer, widen it")
    beta = math.sqrt(squares[0])
    if 0.5 * beta * along > 1:
        raise ParameterError(
            f"{2 * math.pi / (beta * along):.2g} cells a wavelength in the waveguide, expected more than 3; refine the grid"
        )
    wave_number = 2 / along * math.asin(0.5 * beta * along)
    between = math.cos(0.5 * wave_number * along)  # H half a cell before and behind, in the mean
    if "z" in equation.electric:
        electric = np.append(vectors[:, 0], 0.0)
        magnetic = beta / omega * between * electric
    else:
        electric = vectors[:, 0] / np.sqrt(medium)
        magnetic = omega / beta * between * medium * electric
    power = float((electric * magnetic).sum()) * h
    scale = math.copysign(1 / math.sqrt(power), electric[np.abs(electric).argmax()])
    return Mode(frequency, wave_number, scale * electric, scale * magnetic)
