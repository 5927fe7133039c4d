"""The outline of a body of a given area, as the unknown of an optimisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import map_coordinates
from scipy.optimize import Bounds

import diffsim.numpy as dnp
from diffsim.base.arguments import positive, whole
from diffsim.errors import ParameterError
from diffsim.mesh.grid import Grid
from diffsim.optimize.parametrise import NamedUnknown, check_field, check_theta
from diffsim.typing import Array

RAYS = 256
"""Directions in which an outline is looked for, and of the mean of its square radius."""
HALVINGS = 40
"""Of the interval in which a ray meets the outline."""


class Outline(NamedUnknown, kind="outline"):
    """The signed distance to a body whose outline varies and whose area does not: an `Unknown`, such as `phi` of `NavierStokes`.

    In the direction α from the centre the outline has the distance r, for which

        r² = (A / π) exp(g) / mean of exp(g),    g(α) = scale Σₖ (2/k)² (aₖ cos kα + bₖ sin kα),    k = 2 to `waves`

    So the area ½ ∫ r² dα is A, and r is positive, for all values of the variables aₖ and bₖ. There is no k = 1, which moves a body without
    a change of its shape. The field is (ρ - r) / √(1 + (r'/r)²) at the distance ρ from the centre: 0 on the outline, with a slope of 1 across it.
    Centre and area are those of the reference; of that, the search sees waves up to `waves`.

    Args:
        shape: of the field.
        dtype: of the field; the variables are f64.
        reference: the distance to a body (m), negative inside, that contains the straight lines from its centre to its outline.
        grid: of the field: two axes, uniform spacing.
        waves: of the shortest wave along the outline there are so many around it. Good: a wave of five cells or more.
        scale: of the variables: g has this amplitude where one with k = 2 is 1. Good: 0.1 to 0.3.
        most: bound of the amplitude of each wave of g. With 2 and one wave, r is up to seven times as large in one direction as in another.

    Raises:
        ParameterError: a grid of another kind, waves below 2, or a reference with no such body inside of the grid.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.solvers import bodies

        grid = ds.Grid((40, 60), spacing=0.05)
        round = bodies.cylinder(grid, (1.0, 1.5), 0.4)
        outline = ds.optimize.Outline(grid.shape, np.float64, round, grid, waves=4)
        theta = outline.from_field(round)
        assert theta.size == 6 and np.abs(outline.to_field(theta) - round).max() < 1e-3
        long = outline.to_field([1.0, 0, 0, 0, 0, 0])  # a₂, longer along x
        assert np.isclose((long < 0).sum() * 0.05**2, np.pi * 0.4**2, rtol=0.02)
    """

    def __init__(
        self, shape: tuple[int, ...], dtype: npt.DTypeLike, reference: Array, grid: Grid, waves: int = 6, scale: float = 0.1, most: float = 2.0
    ) -> None:
        if grid.ndim != 2 or None in grid.uniform_spacing or tuple(shape) != grid.shape:
            raise ParameterError(f"a field of shape {tuple(shape)} on {grid.shape} cells, expected two axes of uniform cells; take those")
        self.waves = whole("waves", waves, 2, remedy="take 6, or a wave of five cells")
        self.dtype, self.scale, self.grid = np.dtype(dtype), positive("scale", scale, "take 0.1"), grid
        self.most = positive("most", most, "take 2")
        numbers = np.arange(2, self.waves + 1)
        self.heights = np.tile(self.scale * (2 / numbers) ** 2, 2)
        reference = check_field("reference", np.asarray(reference, np.float64), grid.shape)
        share = np.clip(0.5 - reference / min(grid.spacing), 0.0, 1.0)
        if not share.any() or share.all():
            raise ParameterError(
                "reference has no cell below 0 or none above, expected the distance to a body, negative inside; give that of a circle"
            )
        y, x = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
        self.centre = tuple(float((share * place).sum() / share.sum()) for place in (y, x))
        y, x = y - self.centre[0], x - self.centre[1]
        self._rho, alpha = np.hypot(y, x), np.arctan2(y, x)
        self._at_cells, self._slopes = (waves_at(numbers, alpha, order) for order in (0, 1))
        self._rays = 2 * np.pi * np.arange(RAYS) / RAYS
        self._at_rays = waves_at(numbers, self._rays)
        self.area = float(np.pi * np.mean(self._radii(reference) ** 2))

    @property
    def size(self) -> int:
        return self.heights.size

    def to_field(self, theta: Any) -> Any:
        parts = self.heights * check_theta(theta, self.size)
        mean = dnp.mean(dnp.exp(dnp.tensordot(parts, self._at_rays, 1)))
        radius = dnp.sqrt(self.area / np.pi / mean * dnp.exp(dnp.tensordot(parts, self._at_cells, 1)))
        slope = 0.5 * dnp.tensordot(parts, self._slopes, 1)  # r' / r
        return ((self._rho - radius) / dnp.sqrt(1 + slope**2)).astype(self.dtype)

    def from_field(self, field: Array) -> npt.NDArray[np.float64]:
        g = np.log(self._radii(check_field("field", field, self.grid.shape)) ** 2)
        return 2 / RAYS * (self._at_rays @ g) / self.heights

    def bounds(self) -> Bounds:
        return Bounds(-self.most / self.heights, self.most / self.heights)

    def _radii(self, field: Array) -> npt.NDArray[np.float64]:
        """The distance of the outline from the centre in each direction, by a cubic spline through the field."""
        (first_y, first_x), (dy, dx) = self.grid.origin, self.grid.spacing

        def along(distance: Array) -> Array:
            y = (self.centre[0] + distance * np.sin(self._rays) - first_y) / dy
            x = (self.centre[1] + distance * np.cos(self._rays) - first_x) / dx
            return map_coordinates(np.asarray(field, np.float64), [y, x], order=3, mode="nearest")

        step = 0.5 * min(dy, dx)
        low = np.zeros(RAYS)
        inside = np.ones(RAYS, bool)
        for _ in range(round(2 * max(n * h for n, h in zip(self.grid.shape, self.grid.spacing, strict=True)) / step)):
            inside &= along(low + step) < 0
            low[inside] += step
        if (along(np.zeros(RAYS)) >= 0).any() or inside.any():
            raise ParameterError("reference: expected a body around its own centre, inside of the grid, got another; give that of a circle")
        high = low + step
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            outside = along(middle) >= 0
            low, high = np.where(outside, low, middle), np.where(outside, middle, high)
        return 0.5 * (low + high)


def waves_at(numbers: Array, alpha: Array, order: int = 0) -> Array:
    """cos kα and then sin kα for each k, shape (2 k, *alpha), or their derivatives."""
    phases = np.multiply.outer(numbers, alpha)
    if order == 0:
        return np.concatenate([np.cos(phases), np.sin(phases)])
    along = numbers.reshape(-1, *(1,) * np.ndim(alpha))
    return np.concatenate([-along * np.sin(phases), along * np.cos(phases)])
