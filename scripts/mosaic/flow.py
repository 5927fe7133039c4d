"""Incompressible flow as Mosaic's grid problems state it: velocities at the corners of the cells of a periodic square or cube."""

from __future__ import annotations

import functools
import math
from typing import Any, Literal

import numpy as np

import diffsim as ds
import diffsim.numpy as dnp

Order = Literal[2, 4, 6]
Precision = Literal["f32", "f64"]
COURANT, DIFFUSION = 1.0, 1.6
"""The largest Σ |v| dt/dx of the initial velocity, and Σ 4 ν dt/dx², of a step of rk3; beyond, steps are divided. Orders 4 and 6 are
stable up to 1.09, and order 6 up to 1.66."""
METHOD: Literal["rk3"] = "rk3"
SMALL, MEMORY = 20**3, "120 MB"
"""Cells up to which "auto" means this memory, so that gradients over thousands of steps take less than 400 MB, with the 200 of a process
with its kernels. It has all residuals of 1400 steps of 16³ cells in f32."""
SHORT = 64
"""Cells along an axis up to which a matrix moves velocities between corners and faces; beyond, Fourier transforms do."""


def flow(v0: Any, viscosity: Any, dt: Any, steps: int, domain_extent: float, divided: int = 1, checkpoint: str = "auto", **how: Any) -> Any:
    """The velocity after some steps; diffsim differentiates it for `v0`, `viscosity` and `dt`.

    The solver counts lengths in cells and times in its own steps, so that one compiled simulation serves for every viscosity, time step
    and extent, and derivatives for them are those for its velocity and viscosity.

    Args:
        v0: velocity, shape (nx, ny, nz, components) with nz = 1 in two dimensions; component c is along axis c, m/s.
        viscosity: shape (1,), m²/s.
        dt: time step, shape (1,), s.
        steps: time steps.
        domain_extent: length of the first axis, m.
        divided: steps of the solver in each of these, from `division`.
        checkpoint: memory of a gradient, such as "150 MB"; "auto" takes `MEMORY` for boxes of `SMALL` cells or fewer.
        **how: order (2 or 4) and precision of the solver.
    """
    shape, simulation = v0.shape, periodic(tuple(n for n in v0.shape[:-1] if n > 1), **how)
    spacing = domain_extent / shape[0]
    cells = dt[0] / divided / spacing  # by which a velocity of 1 moves in a step
    names = simulation.equation.velocities
    parts = {name: cells * between(v0[..., axis].reshape(simulation.grid.shape), axis, -0.5) for axis, name in enumerate(names)}
    if checkpoint == "auto" and math.prod(shape[:-1]) <= SMALL:
        checkpoint = MEMORY
    final = simulation.run({"nu": viscosity[0] * cells / spacing, **parts}, steps=steps * divided, checkpoint=checkpoint).final
    back = [between(final[name], axis, 0.5) / cells for axis, name in enumerate(names)]
    return dnp.stack(back, axis=-1).reshape(shape).astype(v0.dtype)


@functools.lru_cache(maxsize=8)
def periodic(shape: tuple[int, ...], order: Order = 2, precision: Precision = "f32") -> Any:
    """The simulation of a periodic box of cells of size 1, with steps of length 1."""
    equation = ds.solvers.NavierStokes(ds.Grid(shape, spacing=1.0), dt=1.0, order=order, method=METHOD)
    return ds.Simulation(equation, wrt=["nu", *equation.velocities], precision=precision)


def between(component: Any, along: int, shift: float) -> Any:
    """A component of the velocity, moved by a part of a cell along all axes but its own, by its Fourier series.

    The corner (i, j) lies on the face i of the first component, half a cell above the middle of this face, and so on. Waves of two cells
    are 0 half a cell further. On the way to faces (`shift` < 0) those along its own axis are left out too, for no series says which
    derivative they have, and so which divergence. Short lines are multiplied by a matrix, which is one operation.
    """
    own = 0.0 if shift < 0 else None
    shifts = tuple(own if axis == along else shift for axis in range(component.ndim))
    if max(component.shape) <= SHORT:
        for axis, distance in enumerate(shifts):
            if distance is None:
                continue
            matrix = moved(component.shape[axis], distance, component.dtype.name)
            rows = component.reshape(component.shape[0], -1) if axis == 0 else component
            component = (component @ matrix.T if axis == component.ndim - 1 else matrix @ rows).reshape(component.shape)
        return component
    hat = dnp.fft.rfftn(component) * phases(component.shape, shifts, component.dtype.name)
    return dnp.fft.irfftn(hat, s=component.shape, axes=range(component.ndim))


@functools.lru_cache(maxsize=32)
def moved(n: int, shift: float, precision: str) -> np.ndarray:
    """The matrix that moves a line of n values by a part of a cell, by its Fourier series."""
    hat = np.fft.rfft(np.eye(n), axis=0) * phases((n,), (shift,), "float64")[:, None]
    return np.fft.irfft(hat, n, axis=0).astype(precision)


@functools.lru_cache(maxsize=32)
def phases(shape: tuple[int, ...], shifts: tuple[float | None, ...], precision: str) -> np.ndarray:
    """The factors of the Fourier coefficients of a real field that is moved by parts of a cell along its axes: 0 for waves of two cells.

    Along an axis with None it stays as it is.
    """
    product = np.ones((), complex)
    for axis, (n, shift) in enumerate(zip(shape, shifts, strict=True)):
        waves = np.fft.rfftfreq(n) if axis == len(shape) - 1 else np.fft.fftfreq(n)
        moving = np.where(np.abs(waves) == 0.5, 0.0, np.exp(2j * np.pi * (shift or 0.0) * waves))
        along = np.ones_like(waves) if shift is None else moving
        product = product * along.reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return product.astype(np.result_type(precision, np.complex64))


def division(v0: Any, viscosity: Any, dt: Any, domain_extent: float) -> int:
    """Into how many steps of the solver each step is divided, so that it is stable."""
    cells, components = float(dt[0]) * v0.shape[0] / domain_extent, v0.shape[-1]
    fastest = float(np.abs(np.asarray(v0)).sum(axis=-1).max())
    diffusion = float(viscosity[0]) * 4 * components * cells * v0.shape[0] / domain_extent / DIFFUSION
    return max(1, math.ceil(cells * fastest / COURANT), math.ceil(diffusion))
