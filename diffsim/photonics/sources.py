"""Currents at points, which all sources are made of, and their course in time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffsim.base.arguments import instance, positive, whole
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError
from diffsim.solvers import Maxwell
from diffsim.typing import Array


@dataclass(frozen=True, eq=False)
class Source:
    """Currents at points. Sources add up by `+`.

    Attributes:
        places: forcing, such as "Jz" -> coordinates, shape (points, axes): the `sources` of a `Simulation`.
        amplitudes: forcing -> shape (steps, points): inputs of its runs.
    """

    places: Mapping[str, Array]
    amplitudes: Mapping[str, Array]

    def __add__(self, other: Source) -> Source:
        instance("other", other, Source, "a Source", "add sources of this package")
        steps = {len(each) for source in (self, other) for each in source.amplitudes.values()}
        if len(steps) > 1:
            raise ShapeError(f"sources of {' and '.join(map(str, sorted(steps)))} steps, expected one number; make both for the same run")
        return Source(_joined(self.places, other.places, 0), _joined(self.amplitudes, other.amplitudes, 1))


def _joined(one: Mapping[str, Array], two: Mapping[str, Array], axis: int) -> dict[str, Array]:
    return {name: np.concatenate([part[name] for part in (one, two) if name in part], axis) for name in {**one, **two}}


def gaussian_pulse(frequency: float, width: float, dt: float, steps: int, delay: float | None = None) -> NDArray[np.complex128]:
    """exp(-iω(t - delay)) exp(-((t - delay) / width)² / 2) at the middle of each step: a signal for sources, whose real part they take.

    Args:
        frequency: in the middle of the spectrum, which falls to 1/e of its power at a distance of 1 / (2π width).
        width: in time.
        dt: time step.
        steps: of the run.
        delay: of the peak; None: 5 widths, so that it begins at 4e-6.

    Returns:
        Shape (steps,), complex.

    Raises:
        ParameterError: a number that is not positive.

    Example:
        import numpy as np

        from diffsim.photonics import gaussian_pulse

        signal = gaussian_pulse(frequency=1.0, width=1.5, dt=0.02, steps=800)
        power = abs(np.fft.fft(signal)) ** 2
        assert abs(np.fft.fftfreq(800, 0.02)[power.argmax()]) - 1.0 < 0.05
    """
    width, dt = positive("width", width, "give it in time"), positive("dt", dt, "give that of the equation")
    t = (np.arange(whole("steps", steps, 1)) + 0.5) * dt - (5 * width if delay is None else delay)
    return np.exp(-2j * math.pi * positive("frequency", frequency, "give that in the middle") * t - 0.5 * (t / width) ** 2)


def signal_of(signal: Any) -> NDArray[Any]:
    """A signal, real or complex, a number for each step."""
    numbers = np.asarray(signal)
    if numbers.ndim != 1 or not len(numbers) or numbers.dtype.kind not in "fciu":
        raise ShapeError(f"signal of shape {numbers.shape}, expected (steps,); give a number for each time step")
    return numbers


def uniform(equation: Maxwell) -> Maxwell:
    """The equation, on a uniform grid."""
    instance("equation", equation, Maxwell, "a diffsim.solvers.Maxwell", "give the equation of the simulation")
    if None in equation.grid.uniform_spacing:
        raise ShapeError("a grid whose cells differ in size, expected a uniform one; sources and monitors need equal cells")
    return equation


def axis_of(equation: Maxwell, axis: str) -> int:
    """The number of an axis by its letter."""
    if not isinstance(axis, str) or len(axis) != 1 or axis not in equation.axes:
        raise ParameterError(f"axis = {shown(axis)}, expected one of {', '.join(equation.axes)}; give one of the grid")
    return equation.axes.index(axis)


def nodes(equation: Maxwell, name: str) -> list[Array]:
    """Coordinates along each axis of the values of a component such as "Ez"."""
    return [equation.grid.coordinates(axis, place) for axis, place in enumerate(equation.states[name].location or ())]


def nearest(values: Array, at: float) -> int:
    """The number of the node at a coordinate."""
    if not values[0] - 1e-9 <= at <= values[-1] + 1e-9:
        raise ShapeError(f"at = {at:g}, expected {values[0]:g} to {values[-1]:g}; move it into the grid")
    return int(np.abs(values - at).argmin())


def across(equation: Maxwell, axis: str) -> str:
    """The component of E of a wave in two dimensions or one that runs along an axis."""
    if equation.grid.ndim == 3:
        raise ParameterError("a beam or mode on a grid with 3 axes, expected 1 or 2; in three dimensions there are plane waves and dipoles")
    return "z" if "z" in equation.electric else next(c for c in equation.electric if c != axis)
