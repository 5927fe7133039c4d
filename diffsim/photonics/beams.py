"""Currents on a line across an axis: beams, and modes of waveguides."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import positive
from diffsim.errors import ShapeError
from diffsim.photonics.modes import Mode
from diffsim.photonics.sources import Source, across, axis_of, nearest, nodes, signal_of, uniform
from diffsim.solvers import Maxwell


def line_source(equation: Maxwell, axis: str, at: float, profile: npt.ArrayLike, signal: npt.ArrayLike) -> Source:
    """A current sheet across an axis in two dimensions: Re(profile · signal), along the component of E across the axis.

    It sends the same field to both sides, E = -1/2 of the current in vacuum. An absorbing layer takes the half that is not wanted.

    Args:
        equation: on a uniform grid of two axes.
        axis: "x" or "y", across which the line lies.
        at: where along the axis; the nearest place of E is taken.
        profile: current per length, real or complex, a value for each cell along the line.
        signal: at the middle of each step, shape (steps,), real or complex.

    Returns:
        The currents, at the places of E along the line where the profile is not 0.

    Raises:
        ShapeError: a profile or a signal of another shape, or a line outside of the grid.
    """
    equation, values = uniform(equation), signal_of(signal)
    number, c = axis_of(equation, axis), across(equation, axis)
    other, at_nodes = 1 - number, nodes(equation, f"E{c}")
    weights = np.asarray(profile)
    if equation.grid.ndim != 2 or weights.shape != (equation.grid.shape[other],):
        raise ShapeError(f"profile of shape {weights.shape} on a grid of {equation.grid.shape}, expected a value for each cell of the line")
    used = np.flatnonzero(np.abs(weights) > 1e-12 * np.abs(weights).max())
    places = np.empty((len(used), 2))
    places[:, number], places[:, other] = at_nodes[number][nearest(at_nodes[number], at)], at_nodes[other][used]
    currents = equation.grid.spacing[other] * np.real(values[:, None] * weights[used])
    return Source({f"J{c}": places}, {f"J{c}": currents})


def gaussian_beam(
    equation: Maxwell,
    axis: str,
    at: float,
    centre: float,
    waist: float,
    frequency: float,
    signal: npt.ArrayLike,
    focus: float = 0.0,
) -> Source:
    """A Gaussian beam in two dimensions, in vacuum, of amplitude +1/2 at its waist. It is paraxial: for waists above a wavelength.

    Args:
        equation: on a uniform grid of two axes.
        axis: along which it runs, in both directions.
        at: of the line of currents along the axis.
        centre: of the beam, along the line.
        waist: half of its width at the focus, to 1/e of the field.
        frequency: for which the phases along the line are made.
        signal: at the middle of each step, such as of `gaussian_pulse`.
        focus: distance of the waist from the line, along the axis.

    Returns:
        The currents.

    Raises:
        ParameterError: a waist or frequency that is not positive.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.photonics import Source, gaussian_beam, gaussian_pulse, line_source

        grid = ds.Grid((60, 80), spacing=0.1)
        light = ds.solvers.Maxwell(grid, dt=0.07, layer=8, layer_frequency=0.5)
        pulse = gaussian_pulse(0.5, width=2.0, dt=0.07, steps=260)
        beam = gaussian_beam(light, "x", at=1.5, centre=3.0, waist=1.5, frequency=0.5, signal=pulse)
        run = ds.Simulation(light, sources=beam.places, receivers={"Ez": [[3.0, 6.5], [5.0, 6.5]]})
        axis, side = abs(run.run({"eps": np.ones(grid.shape), **beam.amplitudes}, steps=260).traces["Ez"]).max(axis=0)
        assert axis > 1.4 * side  # of a beam that widens to 2.6 over 5 lengths

        slit = np.where(abs(grid.coordinates(1, 1) - 4.0) < 0.3, 1.0, 0.0)
        both = beam + line_source(light, "y", 1.5, slit, pulse)  # a second source, from below
        assert isinstance(both, Source) and len(both.places["Jz"]) == len(beam.places["Jz"]) + 6
    """
    waist, k = positive("waist", waist, "give half the width"), 2 * math.pi * positive("frequency", frequency, "give that of the signal")
    number = axis_of(uniform(equation), axis)
    y = nodes(equation, f"E{across(equation, axis)}")[1 - number] - centre
    rayleigh = 0.5 * k * waist**2
    q = -focus - 1j * rayleigh
    profile = -np.sqrt(-1j * rayleigh / q) * np.exp(0.5j * k * y**2 / q)
    return line_source(equation, axis, at, np.where(np.abs(profile) > 1e-8, profile, 0.0), signal)


def mode_source(equation: Maxwell, axis: str, at: float, mode: Mode, signal: npt.ArrayLike) -> Source:
    """Currents that send a mode of a waveguide along an axis in both directions, with +1/2 of the signal as amplitude, and no other field.

    They are those of its magnetic field: ∫ J·E of all other modes is 0.

    Args:
        equation: on a uniform grid of two axes.
        axis: of the waveguide.
        at: of the line of currents along the axis.
        mode: the mode to send.
        signal: at the middle of each step, such as of `gaussian_pulse`.

    Returns:
        The currents.

    Raises:
        ShapeError: a mode of another number of cells, or a line outside of the grid.
    """
    return line_source(equation, axis, at, -mode.magnetic, signal)
