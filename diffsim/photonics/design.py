"""Densities of a material that become binary."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import binary_opening, distance_transform_edt
from scipy.optimize import Bounds

import diffsim.numpy as dnp
from diffsim.base.arguments import number, positive
from diffsim.errors import ParameterError, ShapeError
from diffsim.numpy.calling.dispatch import plain
from diffsim.optimize.parametrise import NamedUnknown, check_theta
from diffsim.optimize.smoothing import smooth
from diffsim.typing import Array

RIGHT_ANGLE, BESIDE = 0.5 * (math.sqrt(2) - 1), 1.5
"""How far an opening by a disc of diameter 1 stays away from a right angle; neighbouring cells are less than the second number apart."""
ROUND_OFF = 1e-6
"""Fields whose values differ by less than this part of the larger of both materials are the same."""


def projected(density: Any, radius: float, steepness: float, threshold: float = 0.5) -> Any:
    """A density between 0 and 1, smoothed and then pushed towards 0 and 1, with derivatives.

        (tanh(β η) + tanh(β (ρ̃ - η))) / (tanh(β η) + tanh(β (1 - η)))

    ρ̃ is the density after a Gaussian filter, which removes parts smaller than its radius. A search begins with a small steepness β and
    raises it in stages, at last beyond 30: then nearly all cells are 0 or 1.

    Args:
        density: over the cells of the design, of any number of axes.
        radius: standard deviation of the filter, cells.
        steepness: β.
        threshold: η.

    Returns:
        An array of that shape.

    Raises:
        ParameterError: a steepness that is not positive, or a threshold that is not between 0 and 1.

    Reference: Wang, Lazarov and Sigmund (2011), On projection methods, convergence and robust formulations in topology optimization,
        Struct. Multidisc. Optim. 43, 767-784, doi:10.1007/s00158-010-0602-y, equation 9.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.photonics import projected

        rough = np.random.default_rng(1).random((20, 30))
        soft, hard = (projected(rough, 1.5, steepness) for steepness in (1.0, 100.0))
        assert (abs(hard - 0.5) >= abs(soft - 0.5) - 1e-12).all() and ((hard < 0.01) | (hard > 0.99)).mean() > 0.5
        assert ds.grad(lambda rho: projected(rho, 1.5, 4.0).sum())(rough).shape == (20, 30)
    """
    beta = positive("steepness", steepness, "begin with 1 or so")
    eta = number("threshold", threshold, "a number between 0 and 1", lambda x: 0 < x < 1, "give one such as 0.5")
    radius = number("radius", radius, "a number of at least 0", lambda x: x >= 0, "give the radius in cells")
    filtered = smooth(density, (radius,) * density.ndim) if radius else density
    return (dnp.tanh(beta * eta) + dnp.tanh(beta * (filtered - eta))) / (dnp.tanh(beta * eta) + dnp.tanh(beta * (1 - eta)))


@dataclass(frozen=True, eq=False)
class Density(NamedUnknown, kind="density"):
    """A field between two materials that becomes binary: a `diffsim.optimize.Unknown`, with a density for each free cell.

        field = lower + (upper - lower) projected(ρ, radius, steepness),   field = reference elsewhere

    The filter goes over all cells, and takes those that are not free as the reference has them. So the design joins the structures there.

    Args:
        shape: of the field.
        dtype: of the field; the density is always f64.
        mask: True where a cell is free.
        reference: the field of cells that are not free, and where the search begins: its densities are those at the start.
        lower (field): the value where the density is 0.
        upper (field): the value where it is 1.
        radius (cells): standard deviation of the filter. Good: the width of the thinnest bar or gap that may be; `feature_size` measures
            the result.
        steepness: of the projection, in a scene that of the first stage; 2 is nearly none, and 32 nearly binary. Infinite: each value is
            `lower` or `upper`, and the derivative is 0.
        binary: whether a scene ends with each value `lower` or `upper`, whichever is nearer. That is judged and shown.
        density: where the search begins, shape (size,); None: as the reference says.

    Raises:
        ParameterError: a reference beyond the two values in a free cell, or a number out of range.

    Example:
        import numpy as np

        from diffsim.photonics import Density

        free = np.zeros((20, 20), bool)
        free[5:15, 5:15] = True
        glass = Density((20, 20), np.float64, free, np.full((20, 20), 1.5), lower=1.0, upper=2.25, radius=1.5, steepness=8.0)
        rho = np.random.default_rng(1).random(glass.size)
        field, built = glass.to_field(rho), glass.built(rho).to_field(rho)
        assert (field[~free] == 1.5).all() and set(built[free]) == {1.0, 2.25}
    """

    shape: tuple[int, ...]
    dtype: npt.DTypeLike
    mask: npt.NDArray[np.bool_]
    reference: Array
    lower: float
    upper: float
    radius: float = 1.5
    steepness: float = 2.0
    binary: bool = True
    density: npt.NDArray[np.float64] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ParameterError(f"lower = {self.lower:g} and upper = {self.upper:g}, expected lower < upper; exchange them")
        number("radius", self.radius, "a number of at least 0", lambda x: x >= 0, "give the radius in cells")
        if not self.steepness > 0:
            raise ParameterError(f"steepness = {self.steepness:g}, expected a number above 0; begin with 2 or so")
        inside = np.asarray(self.reference, float)[self.mask]
        if inside.size and not (inside.min() >= self.lower and inside.max() <= self.upper):
            raise ParameterError(
                f"reference: expected values from lower = {self.lower:g} to upper = {self.upper:g} in free cells, got {inside.min():g} to "
                f"{inside.max():g}; correct the start, or these"
            )

    @property
    def size(self) -> int:
        """Number of free cells."""
        return int(np.count_nonzero(self.mask))

    @property
    def theta(self) -> npt.NDArray[np.float64]:
        """Where the search begins."""
        return self._densities[self.mask] if self.density is None else self.density

    def to_field(self, theta: Any) -> Any:
        """The field at these densities of the free cells, with derivatives."""
        rho = dnp.array(self._densities)
        rho[self.mask] = check_theta(theta, self.size)
        if math.isinf(self.steepness):
            filtered = smooth(rho, (self.radius,) * rho.ndim) if self.radius else rho
            share = dnp.where(plain(filtered) > 0.5, 1.0, 0.0) + 0.0 * filtered
        else:
            share = projected(rho, self.radius, self.steepness)
        values = self.lower + (self.upper - self.lower) * share
        return dnp.where(self.mask, values, np.asarray(self.reference, float)).astype(self.dtype)

    def from_field(self, values: Array) -> npt.NDArray[np.float64]:
        """The densities at which the search begins. Those of another field are not known, for the filter cannot be undone.

        Raises:
            ShapeError: a field of another shape.
            ParameterError: a field that is neither the reference nor that of these densities.
        """
        if np.shape(values) != tuple(self.shape):
            raise ShapeError(f"field: expected shape {tuple(self.shape)}, got {np.shape(values)}; give one value for each cell")
        near = ROUND_OFF * max(abs(self.lower), abs(self.upper))
        known = (np.asarray(self.reference, float), np.asarray(self.to_field(self.theta)))
        if not any(np.abs(values - each)[self.mask].max(initial=0.0) <= near for each in known):
            raise ParameterError("field: expected the reference, because the filter cannot be undone, got another field; give that")
        return self.theta

    def bounds(self) -> Bounds:
        """Densities are between 0 and 1."""
        return Bounds(np.zeros(self.size), np.ones(self.size))

    def at(self, theta: Array, steepness: float | None = None) -> Density:
        """The same with these densities as the start of a search.

        Args:
            theta: the densities.
            steepness: of the projection; None: as it is.
        """
        return replace(self, density=np.array(theta, float), steepness=self.steepness if steepness is None else steepness)

    def built(self, theta: Array) -> Density:
        """The same with a projection to 0 and 1."""
        return self.at(theta, math.inf)

    @property
    def _densities(self) -> npt.NDArray[np.float64]:
        """The densities of the reference, over all cells."""
        return np.clip((np.asarray(self.reference, float) - self.lower) / (self.upper - self.lower), 0.0, 1.0)


def feature_size(solid: npt.NDArray[np.bool_], within: npt.NDArray[np.bool_] | None = None) -> int:
    """The size of the smallest feature of a binary design, in cells: of a bar, and of a gap alike.

    It is the largest diameter of a disc with which an opening leaves both materials as they are, but for corners: the parts that it takes
    of a right angle, and steps of a cell, count as no features.

    Args:
        solid: True where the material is.
        within: cells that count; None: all.

    Returns:
        The diameter; that of half the smallest axis if no feature is smaller.

    Example:
        import numpy as np

        from diffsim.photonics import feature_size

        bar = np.zeros((30, 30), bool)
        bar[12:17] = True  # 5 cells wide
        assert feature_size(bar) == 5
    """
    solid = np.asarray(solid, bool)
    counts = np.ones(solid.shape, bool) if within is None else within
    largest = min(solid.shape) // 2
    for diameter in range(2, largest + 1):
        disc, inside = _disc(diameter, solid.ndim), (slice(diameter, -diameter),) * solid.ndim
        for material in (solid, ~solid):
            padded = np.pad(material, diameter, mode="edge")
            kept = binary_opening(padded, disc)
            far = distance_transform_edt(~kept) > max(BESIDE, RIGHT_ANGLE * diameter + 0.5) if kept.any() else ~kept
            if ((padded & far)[inside] & counts).any():
                return diameter - 1
    return largest


def _disc(diameter: int, ndim: int) -> npt.NDArray[np.bool_]:
    """The cells whose centres lie in a disc or ball."""
    along = np.arange(diameter) - 0.5 * (diameter - 1)
    squares = sum(np.square(each) for each in np.meshgrid(*[along] * ndim, indexing="ij", sparse=True))
    return np.asarray(squares <= (0.5 * diameter) ** 2 + 1e-9)
