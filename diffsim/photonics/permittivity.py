"""The permittivity of shapes whose borders do not follow the cells."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.base.arguments import instance, real_array, whole
from diffsim.errors import ParameterError, ShapeError
from diffsim.solvers import Maxwell
from diffsim.typing import Array

Medium: TypeAlias = Callable[..., Any] | npt.ArrayLike


def permittivity(equation: Maxwell, eps: Medium, samples: int = 8) -> dict[str, Array]:
    """Inputs of an equation for a medium with sharp borders, averaged over the volume of a cell around each place.

        1/ε_aa = n_a² <1/ε> + (1 - n_a²) / <ε>

    with the normal n of a border from the first moment of ε: harmonic across a border, arithmetic along it. It keeps the second order of
    the scheme for borders along an axis, and most of it for others, where the entries beside the diagonal are left out.

    Args:
        equation: with `anisotropic`, for a value for each component of E where it lies; without, the arithmetic mean at centres.
        eps: a function of the coordinates along each axis, which are arrays that broadcast, such as
            `lambda y, x: np.where(y**2 + x**2 < 1, 4.0, 1.0)`; or an array that is finer than the grid by a whole factor.
        samples: along each axis of a cell.

    Returns:
        Input -> values, shape of the grid.

    Raises:
        ShapeError: an array that does not divide the cells evenly.
        ParameterError: values that are not positive.

    Reference: Kottke, Farjadpour and Johnson (2008), Perturbation theory for anisotropic dielectric interfaces, and application to
        subpixel smoothing of discretized numerical methods, Phys. Rev. E 77, 036611, doi:10.1103/PhysRevE.77.036611. Here the diagonal.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.photonics import permittivity

        grid = ds.Grid((8, 8), spacing=1.0)
        light = ds.solvers.Maxwell(grid, dt=0.6, polarisation="TE", anisotropic=True)
        found = permittivity(light, lambda y, x: np.where(x < 3.25, 1.0, 4.0) + 0 * y)
        half = 1 / (0.25 * 1.0 + 0.75 / 4.0)  # around x = 3.5, a quarter of the cell is thin ...
        assert np.allclose(found["eps_y"][:, 3], 0.25 * 1.0 + 0.75 * 4.0)  # ... with Ey, on the face there, along the border
        assert np.allclose(found["eps_x"][:, 3], 1 / (0.75 / 1.0 + 0.25 / 4.0))  # Ex, at x = 3, across it
    """
    instance("equation", equation, Maxwell, "a diffsim.solvers.Maxwell", "give the equation of the simulation")
    grid, samples = equation.grid, whole("samples", samples, 1, 64)
    function = eps if callable(eps) else _lookup(equation, real_array("eps", eps, float))
    centre = (0,) * grid.ndim
    places = {name: field.location or centre for name, field in equation.parameters.items() if name.startswith("eps")}
    averaged = {}
    for name, location in places.items():
        middle = [
            grid.coordinates(axis, place).reshape([-1 if axis == each else 1 for each in range(grid.ndim)])
            for axis, place in enumerate(location)
        ]
        mean, inverse, moment = np.zeros(grid.shape), np.zeros(grid.shape), np.zeros((grid.ndim, *grid.shape))
        widths = [_width(grid.widths(axis, place), m.shape) for axis, (m, place) in enumerate(zip(middle, location, strict=True))]
        offsets = (np.arange(samples) + 0.5) / samples - 0.5
        for offset in itertools.product(offsets, repeat=grid.ndim):
            at = [m + o * width for m, o, width in zip(middle, offset, widths, strict=True)]
            values = np.broadcast_to(np.asarray(function(*at), float), grid.shape)
            if not (values > 0).all():
                raise ParameterError(f"eps has a value of {values.min():g}, expected positive everywhere; correct the function")
            mean += values
            inverse += 1 / values
            for axis, o in enumerate(offset):
                moment[axis] += o * values / widths[axis]
        mean, inverse = mean / samples**grid.ndim, inverse / samples**grid.ndim
        component = name.partition("_")[2]
        along = equation.axes.find(component) if component else -1
        length = (moment**2).sum(axis=0)
        across = moment[along] ** 2 / np.where(length > 0, length, 1.0) if along >= 0 else 0.0
        averaged[name] = 1 / (across * inverse + (1 - across) / mean)
    return averaged


def _width(widths: Array, shape: tuple[int, ...]) -> Array:
    return widths.reshape(shape)


def _lookup(equation: Maxwell, fine: Array) -> Callable[..., Array]:
    """A function of the coordinates that reads a finer array."""
    grid = equation.grid
    if None in grid.uniform_spacing:
        raise ShapeError("a finer array on a grid whose cells differ in size, expected a uniform grid; give a function of the coordinates")
    factors = [m // n for m, n in zip(fine.shape, grid.shape, strict=False)]
    if fine.ndim != grid.ndim or any(n * f != m for n, f, m in zip(grid.shape, factors, fine.shape, strict=True)):
        raise ShapeError(f"eps of shape {fine.shape}, expected a multiple of {grid.shape} along each axis; resample it")

    def read(*at: Array) -> Array:
        cells = [
            np.floor((x - (o - 0.5 * h)) / h * f).astype(int).clip(0, m - 1)
            for x, o, h, f, m in zip(at, grid.origin, grid.spacing, factors, fine.shape, strict=True)
        ]
        return fine[tuple(cells)]

    return read
