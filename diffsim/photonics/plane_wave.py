"""A plane wave in a box, outside of which there are only waves that structures scatter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import one_of
from diffsim.errors import ParameterError, ShapeError
from diffsim.photonics.sources import Source, nodes, signal_of, uniform
from diffsim.solvers import Maxwell
from diffsim.typing import Array, IntArray


def plane_wave(
    equation: Maxwell, direction: str, low: Sequence[float], high: Sequence[float], signal: npt.ArrayLike, component: str | None = None
) -> Source:
    """A plane wave along an axis: the total field in a box, the scattered field around it (TF/SF).

    The incident wave is that of the grid itself, from a run in one dimension. With χ = 1 in the box and 0 outside, χE solves the
    discrete equations for the currents

        J = -(∇ₕ×∇ₕ× χ - χ ∇ₕ×∇ₕ×) W,   Wⁿ = dt Σ Eᵏ, k <= n

    which are 0 but next to the faces of the box. So in vacuum the field outside is round-off. H is not corrected: half a cell outside of
    the box, and only there, it is neither that of the total nor that of the scattered field.

    Args:
        equation: on a uniform grid. The medium at the faces of the box has to be vacuum.
        direction: "+x", "-x", "+y" and so on.
        low: the corner of the box with the least coordinates, one an axis. Along periodic axes the box may reach from end to end.
        high: the opposite corner.
        signal: E just before the box, at t = n dt, shape (steps,); of a complex one, the real part.
        component: of E, "x", "y" or "z"; None: the one that there is, in one and two dimensions.

    Returns:
        The currents. Those at corners act at one place several times, and add up there.

    Raises:
        ParameterError: a direction or component that there is not.
        ShapeError: a box that is not inside of the grid, or holds no cells.

    Reference: Taflove and Hagness (2005), Computational Electrodynamics, 3rd ed., chapter 5. Here by currents alone.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.photonics import plane_wave

        grid = ds.Grid((40, 50), spacing=0.1)
        light = ds.solvers.Maxwell(grid, dt=0.07, layer=8)
        t = 0.07 * np.arange(150)
        wave = plane_wave(light, "+x", (1.2, 1.2), (2.8, 3.8), np.sin(2 * np.pi * t) * (1 - np.exp(-t)))
        empty = ds.Simulation(light, sources=wave.places, precision="f64").run({"eps": np.ones(grid.shape), **wave.amplitudes}, steps=150)
        field = abs(empty.final["Ez"])
        assert field[20, 25] > 0.1 and field[:, :10].max() < 1e-12  # nothing leaves the box
    """
    equation, wave = uniform(equation), signal_of(signal).real.astype(float)
    axis, sign, e = _directions(equation, direction, component)
    grid, axes = equation.grid, equation.axes
    inside = _inside(equation, f"E{e}", low, high)
    first, last = np.flatnonzero(inside[axis])[[0, -1]]
    cells = np.arange(grid.shape[axis])
    reach = (cells - first if sign > 0 else last - cells) + 1  # 0 just before the box
    incident = equation.dt * np.cumsum(_line(wave, int(last - first) + 3, equation.dt / grid.spacing[axis]), axis=0)
    currents = _Currents(equation, axis, incident, reach.clip(0, incident.shape[1] - 1))
    chi = np.ones(grid.shape)
    for number, part in enumerate(inside):
        chi *= part.reshape([-1 if number == each else 1 for each in range(grid.ndim)])
    for number, b in enumerate(axes):  # ∂²W/∂b², as W(+1) - 2 W + W(-1)
        for shift in (-1, 1) if b != e else ():
            currents.add(e, (_moved(chi, number, shift, equation) - chi) / grid.spacing[number] ** 2, shift if number == axis else 0)
    if e in axes:  # ∂²W/∂e∂c, which the other components feel
        jump = _moved(chi, axes.index(e), 1, equation) - chi
        for c in (c for c in equation.electric if c != e and c in axes):
            number = axes.index(c)
            area = grid.spacing[axes.index(e)] * grid.spacing[number]
            currents.add(c, -jump / area, 0)
            currents.add(c, _moved(jump, number, -1, equation) / area, -1 if number == axis else 0)
    return currents.source()


@dataclass
class _Currents:
    """Currents that are collected.

    Attributes:
        equation: whose forcings they are.
        axis: of the direction.
        incident: W along a line, shape (steps, cells).
        reach: for each cell along the direction the one of the line.
    """

    equation: Maxwell
    axis: int
    incident: Array
    reach: IntArray
    places: dict[str, list[Array]] = field(default_factory=dict)
    amplitudes: dict[str, list[Array]] = field(default_factory=dict)

    def add(self, c: str, weights: Array, shift: int) -> None:
        """Currents along c, where there are weights, of W so many cells further along the axis."""
        at, values = np.argwhere(weights), nodes(self.equation, f"E{c}")
        if len(at):
            self.places.setdefault(f"J{c}", []).append(np.stack([along[k] for along, k in zip(values, at.T, strict=True)], -1))
            W = self.incident[:, self.reach[at[:, self.axis] + shift]]
            self.amplitudes.setdefault(f"J{c}", []).append(self.equation.grid.cell_volume * weights[tuple(at.T)] * W)

    def source(self) -> Source:
        joined = ({name: np.concatenate(each, k) for name, each in part.items()} for k, part in enumerate((self.places, self.amplitudes)))
        return Source(*joined)


def _moved(values: Array, number: int, cells: int, equation: Maxwell) -> Array:
    """Values so many cells further along an axis; 0 beyond a conductor."""
    moved = np.roll(values, -cells, number)
    if equation.walls[number] != "periodic":
        moved[(slice(None),) * number + (slice(-cells, None) if cells > 0 else slice(0, -cells),)] = 0.0
    return moved


def _line(wave: Array, cells: int, courant: float) -> Array:
    """E along a line in vacuum whose first value is given: shape (steps, cells). The line is so long that nothing comes back."""
    steps = len(wave)
    now, before = np.zeros(cells + steps + 2), np.zeros(cells + steps + 2)
    out = np.zeros((steps, cells))
    for n in range(steps):
        now[0] = wave[n]
        out[n] = now[:cells]
        following = np.zeros_like(now)
        following[1:-1] = 2 * now[1:-1] - before[1:-1] + courant**2 * (now[2:] - 2 * now[1:-1] + now[:-2])
        now, before = following, now
    return out


def _directions(equation: Maxwell, direction: str, component: str | None) -> tuple[int, int, str]:
    """The axis, 1 or -1, and the component of E."""
    known = [sign + axis for axis in equation.axes for sign in "+-"]
    sign, along = tuple(one_of("direction", direction, known))
    possible = [c for c in equation.electric if c != along]
    if component is None and len(possible) > 1:
        raise ParameterError(f"component = None of a wave along {along}, expected one of {', '.join(possible)}; choose its polarisation")
    return equation.axes.index(along), 1 if sign == "+" else -1, one_of("component", component or possible[0], possible)


def _inside(equation: Maxwell, name: str, low: Sequence[float], high: Sequence[float]) -> list[Array]:
    """Along each axis 1 where a component lies in the box."""
    grid, parts = equation.grid, []
    if len(low) != grid.ndim or len(high) != grid.ndim:
        raise ShapeError(f"corners {low} and {high} of a box, expected {grid.ndim} coordinates each; give one an axis")
    for axis, values in enumerate(nodes(equation, name)):
        near = 1e-9 * grid.spacing[axis]
        part = ((values >= low[axis] - near) & (values <= high[axis] + near)).astype(float)
        ends = equation.walls[axis] != "periodic" and (part[0] or part[-1])
        if ends or not part.any():
            raise ShapeError(
                f"box from {low[axis]:g} to {high[axis]:g} along {equation.axes[axis]}, expected values between {values[0]:g} and "
                f"{values[-1]:g}; leave a cell free at both sides"
            )
        parts.append(part)
    return parts
