"""The outline of a body of a given area, as the unknown of an optimisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import map_coordinates, spline_filter
from scipy.optimize import Bounds

import diffsim.numpy as dnp
from diffsim.base.arguments import positive, whole
from diffsim.errors import ParameterError
from diffsim.mesh.grid import Grid
from diffsim.optimize.parametrise import NamedUnknown, check_field, check_theta
from diffsim.typing import Array

RAYS = 256
"""Directions in which an outline is looked for, and of its integrals."""
HALVINGS = 40
"""Times that the interval is halved in which a ray meets the outline."""
ROUNDS, CLOSE = 60, 1e-12
"""The most rounds in which the ellipse of an outline is fitted, and waves 1 and 2 that are left of it then."""
SETTLED, ALIKE = 1e-6, 0.05
"""Waves 1 and 2 that may be left after all rounds, and the largest relative difference between the area within the outline and that of
all cells below 0."""
TINY = 1e-30
"""Added to squares, whose root has no derivative at 0."""
ANGLES = 2 * np.pi * np.arange(RAYS) / RAYS
AROUND = np.stack([np.cos(ANGLES), np.sin(ANGLES)])
"""Unit vectors (x, y) of the rays."""


@dataclass(frozen=True)
class Fitted:
    """A body as `Outline` describes it.

    Attributes:
        centre: its centroid, (x, y), m.
        area: m².
        stretch: p and q.
        waves: a and b of the waves from 3 on, shape (2, waves - 2).
    """

    centre: Array
    area: float
    stretch: Array
    waves: Array


class Outline(NamedUnknown, kind="outline"):
    """The signed distance to a body whose outline varies and whose area does not: an `Unknown`, such as `phi` of `NavierStokes`.

    The outline is a circle with waves along it, stretched to an ellipse with waves by X = exp([p q; q -p]) X'. In the direction α of the
    stretched coordinates X' = (x', y') it has the distance r from their origin, for which

        r² = (A / π) exp(g) / mean of exp(g),    g(α) = Σₖ aₖ cos kα + bₖ sin kα,    k = 3 to `waves`

    The stretch keeps areas, so the area ½ ∫ r² dα is A for all values of p, q, aₖ and bₖ. The origin is placed so that the centroid of
    the body stays, too. The field is F / |∇F| with F = |X'| - r: 0 on the outline, with a slope of 1 across it. Area and centroid are those
    of the reference, of which waves beyond `waves` are left out. The variables are 2p, 2q, aₖ and bₖ over scale (2/k)².

    Args:
        shape: of the field.
        dtype: of the field; the variables are f64.
        reference: the distance to a body (m), negative inside, whose outline each ray from its centre meets once.
        grid: of the field: two axes, (y, x), uniform spacing.
        waves: of the shortest wave along the outline there are so many around it; 2 for ellipses alone. Good: waves of five cells or
            more.
        scale: of the variables: 1 of that of p stands for a body that is longer along x than along y by a factor exp(scale). Good: 0.1
            to 0.3.
        most: bound of 2p, 2q, aₖ and bₖ. With 2 an ellipse may be seven times as long as wide.

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
        long = outline.to_field([5.0, 0, 0, 0, 0, 0])  # an ellipse, longer along x by a factor exp(0.5)
        assert np.isclose((long < 0).sum() * 0.05**2, np.pi * 0.4**2, rtol=0.03)
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        reference: Array,
        grid: Grid,
        waves: int = 6,
        scale: float = 0.1,
        most: float = 2.0,
    ) -> None:
        if grid.ndim != 2 or None in grid.uniform_spacing or tuple(shape) != grid.shape:
            raise ParameterError(f"a field of shape {tuple(shape)} on {grid.shape} cells, expected two axes of uniform cells; take those")
        self.dtype, self.grid = np.dtype(dtype), grid
        self.numbers = np.arange(3, whole("waves", waves, 2, remedy="take 6, or a wave of five cells") + 1)
        self.scale, self.most = positive("scale", scale, "take 0.1"), positive("most", most, "take 2")
        each = np.concatenate([[2], self.numbers])
        self.heights = (self.scale * (2 / each) ** 2).repeat(2)
        self._body = self._fitted("reference", check_field("reference", np.asarray(reference, np.float64), grid.shape))
        y, x = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
        self._x, self._y = x - self._body.centre[0], y - self._body.centre[1]

    @property
    def size(self) -> int:
        return self.heights.size

    @property
    def area(self) -> float:
        """Area of the body, m²."""
        return self._body.area

    @property
    def centre(self) -> tuple[float, float]:
        """Centroid of the body, (y, x), m."""
        return float(self._body.centre[1]), float(self._body.centre[0])

    def to_field(self, theta: Any) -> Any:
        amplitudes = dnp.reshape(self.heights * check_theta(theta, self.size), (-1, 2))
        p, q, waves = 0.5 * amplitudes[0, 0], 0.5 * amplitudes[0, 1], amplitudes[1:]
        size, origin = self._round(waves)
        x, y = backward(p, q, self._x, self._y)
        x, y = x + origin[0], y + origin[1] + TINY
        rho = dnp.sqrt(x * x + y * y + TINY)
        g, slope = self._waves(waves, dnp.arctan2(y, x))
        radius = dnp.sqrt(size) * dnp.exp(0.5 * g)
        # ∇F in stretched coordinates is e_ρ - (r'/r) e_α on the outline, and r'/r = g'/2
        across = backward(p, q, (x + 0.5 * slope * y) / rho, (y - 0.5 * slope * x) / rho)
        return ((rho - radius) / dnp.sqrt(across[0] ** 2 + across[1] ** 2 + TINY)).astype(self.dtype)

    def from_field(self, field: Array) -> npt.NDArray[np.float64]:
        body = self._fitted("field", check_field("field", np.asarray(field, np.float64), self.grid.shape))
        return np.concatenate([2 * body.stretch, body.waves.T.ravel()]) / self.heights

    def bounds(self) -> Bounds:
        return Bounds(-self.most / self.heights, self.most / self.heights)

    def _waves(self, waves: Any, alpha: Any) -> tuple[Any, Any]:
        """g and its derivative at angles."""
        g, slope = dnp.zeros_like(alpha), dnp.zeros_like(alpha)
        for number, k in enumerate(self.numbers.tolist()):
            cosine, sine = dnp.cos(k * alpha), dnp.sin(k * alpha)
            a, b = waves[number, 0], waves[number, 1]
            g, slope = g + a * cosine + b * sine, slope + k * (b * cosine - a * sine)
        return g, slope

    def _round(self, waves: Any) -> tuple[Any, Any]:
        """A / π over the mean of exp(g), and the centroid in stretched coordinates, which is (2/3) ∫ r³ e(α) dα / ∫ r² dα."""
        g, _ = self._waves(waves, ANGLES)
        size = self._body.area / np.pi / dnp.mean(dnp.exp(g))
        return size, 2 / 3 * size**1.5 * dnp.mean(dnp.exp(1.5 * g) * AROUND, axis=1) / (self._body.area / np.pi)

    def _fitted(self, name: str, field: Array) -> Fitted:
        """The body of a field: origin and stretch for which the outline has no waves 1 and 2, by repeated correction."""

        def refused(what: str) -> ParameterError:
            return ParameterError(
                f"{name}: expected one body around its own centre, inside of the grid, at most six times as long as wide, got {what}; give "
                "the distance to a circle or an ellipse"
            )

        share = np.clip(0.5 - field / min(self.grid.spacing), 0.0, 1.0)
        if not share.any() or share.all():
            raise ParameterError(
                f"{name} has no cell below 0 or none above, expected the distance to a body, negative inside; give that of a circle"
            )
        y, x = np.meshgrid(self.grid.coordinates(0), self.grid.coordinates(1), indexing="ij")
        origin = np.array([(share * place).sum() / share.sum() for place in (x, y)])
        values, p, q = spline_filter(field, order=3, mode="mirror"), 0.0, 0.0
        for _ in range(ROUNDS):
            met = self._radii(values, origin, p, q)
            if met is None:
                raise refused("one whose outline does not go around its centre, or not within the grid")
            radii = met
            g = np.log(radii**2)
            (a1, b1), (a2, b2) = (2 * np.array([np.mean(g * np.cos(k * ANGLES)), np.mean(g * np.sin(k * ANGLES))]) for k in (1, 2))
            if np.abs([a1, b1, a2, b2]).max() < CLOSE:
                break
            shift = 0.5 * np.sqrt(np.mean(radii**2)) * np.array([a1, b1])
            origin = origin + np.array(backward(-p, -q, *shift))
            p, q = p + 0.5 * a2, q + 0.5 * b2
        square, seen = float(np.mean(radii**2)), float(share.sum() * np.prod(self.grid.spacing))
        if np.abs([a1, b1, a2, b2]).max() > SETTLED:
            raise refused("one to which no ellipse with waves can be fitted")
        if abs(np.pi * square / seen - 1) > ALIKE:
            raise refused(f"several, or a part of one: {seen:.4g} m² in all and {np.pi * square:.4g} m² around the centre")
        centroid = 2 / 3 * np.mean(radii**3 * AROUND, axis=1) / square
        waves = [[2 * np.mean(g * wave(k * ANGLES)) for k in self.numbers] for wave in (np.cos, np.sin)]
        return Fitted(origin + np.array(backward(-p, -q, *centroid)), np.pi * square, np.array([p, q]), np.array(waves))

    def _radii(self, values: Array, origin: Array, p: float, q: float) -> npt.NDArray[np.float64] | None:
        """The distance of the outline from the origin in each direction of stretched coordinates, by a cubic spline of the field.

        None if a ray leaves the grid before it meets the outline, or begins outside of the body.
        """
        (first_y, first_x), (dy, dx) = self.grid.origin, self.grid.spacing
        along_x, along_y = backward(-p, -q, *AROUND)
        longest = np.hypot(along_x, along_y)

        def along(distance: Array) -> Array:
            places = (origin[1] + distance * along_y - first_y) / dy, (origin[0] + distance * along_x - first_x) / dx
            return map_coordinates(values, places, order=3, mode="mirror", prefilter=False)

        step = 0.5 * min(dy, dx) / longest
        low, inside = np.zeros(RAYS), np.ones(RAYS, bool)
        reach = max(n * h for n, h in zip(self.grid.shape, self.grid.spacing, strict=True))
        for _ in range(round(reach / (step * longest).min())):
            inside &= along(low + step) < 0
            low = np.where(inside, low + step, low)
        if (along(np.zeros(RAYS)) >= 0).any() or inside.any():
            return None
        high = low + step
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            outside = along(middle) >= 0
            low, high = np.where(outside, low, middle), np.where(outside, middle, high)
        radii = 0.5 * (low + high)
        places = np.stack([origin[1] + radii * along_y, origin[0] + radii * along_x])
        ends = np.array([[first_y, first_x], [first_y + dy * (self.grid.shape[0] - 1), first_x + dx * (self.grid.shape[1] - 1)]])
        within = (places >= ends[0][:, None]) & (places <= ends[1][:, None])
        return radii if within.all() else None


def backward(p: Any, q: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """exp(-[p q; q -p]) (x, y): cosh m - (sinh m / m) [p q; q -p] with m² = p² + q²."""
    m = dnp.sqrt(p * p + q * q + TINY)
    even, odd = dnp.cosh(m), dnp.sinh(m) / m
    return even * x - odd * (p * x + q * y), even * y - odd * (q * x - p * y)
