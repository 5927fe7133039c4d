"""Displacement of the ground by slip on rectangular faults in an elastic half-space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import diffsim.numpy as dnp
from diffsim.ad import stop_gradient
from diffsim.base.arguments import positive, real_array
from diffsim.errors import ParameterError, ShapeError
from diffsim.solvers.parts.sea import EARTH_RADIUS

STEEP = 5e-3
"""Cosine of the dip below which formulas for slanted faults lose digits."""
TINY = 1e-12
"""Length relative to the fault below which a distance from its plane, or from the lines that go on from its edges, counts as 0."""
LIMITS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "dip": ("angles above 0 and at most 90 degrees", lambda each: (each > 0) & (each <= 90)),
    "depth": ("depths above 0", lambda each: each > 0),
    "length": ("lengths above 0", lambda each: each > 0),
    "width": ("widths above 0", lambda each: each > 0),
    "poisson": ("ratios from 0 to below 0.5", lambda each: (each >= 0) & (each < 0.5)),
}


@dataclass(frozen=True)
class Fault:
    """Rectangular faults in an elastic half-space, which slip.

    Each attribute is a number, or an array with a value for each fault; the displacements of all are added. All may be differentiated, so a
    gradient for the sea floor becomes one for slip, depth, dip and rake.

    Attributes:
        east: position of the centre, m.
        north: position of the centre, m.
        depth: depth of the centre, m.
        strike: direction of the upper edge, degrees clockwise from north; the fault dips to its right.
        dip: angle of the fault with the horizontal, degrees, above 0 and at most 90.
        rake: direction in which the upper side moves, degrees from the strike: 0 is left-lateral, 90 a thrust, -90 a normal fault.
        slip: size of the motion, m.
        length: extent along the strike, m.
        width: extent along the dip, m.
        poisson: Poisson's ratio of the half-space.

    `displacement` refuses attributes out of range. On the upper edge of a fault that breaks the surface the displacement has a jump, and at
    its ends no value.

    Reference: Okada (1985), Surface deformation due to shear and tensile faults in a half-space, Bull. Seismol. Soc. Am. 75, 1135-1154,
        doi:10.1785/BSSA0750041135.

    Example:
        import numpy as np

        import diffsim as ds

        # A thrust fault of 100 km by 50 km lifts the sea floor; how does its largest uplift change with the dip?
        x = np.linspace(-100e3, 100e3, 41)
        east, north = np.meshgrid(x, x)

        def largest(dip):
            fault = ds.ocean.Fault(0.0, 0.0, 20e3, strike=0.0, dip=dip, rake=90.0, slip=5.0, length=100e3, width=50e3)
            return fault.displacement(east, north)[2].max()

        height, slope = ds.value_and_grad(largest)(15.0)
        assert 1.0 < height < 5.0 and np.isclose(slope, largest(15.5) - largest(14.5), rtol=1e-2)
    """

    east: Any
    north: Any
    depth: Any
    strike: Any
    dip: Any
    rake: Any
    slip: Any
    length: Any
    width: Any
    poisson: Any = 0.25

    def displacement(self, east: Any, north: Any) -> Any:
        """The displacement of the surface, m: to the east, to the north and up, shape (3, *shape of `east`).

        Args:
            east: positions of the points, m.
            north: likewise, of the same shape.

        Raises:
            ParameterError: an attribute out of range, or a fault that reaches above the surface.
            ShapeError: attributes for different numbers of faults, or points of different shapes.
        """
        east, north = real_array("east", east, np.float64), real_array("north", north, np.float64)
        if east.shape != north.shape:
            raise ShapeError(f"east and north have shapes {east.shape} and {north.shape}, expected the same; give a place for each point")
        behind = (slice(None), *[None] * east.ndim)  # faults before points
        each = {name: value[behind] for name, value in self._checked().items()}
        strike, rake, dip = (dnp.deg2rad(each[name]) for name in ("strike", "rake", "dip"))
        sin, cos = dnp.sin(strike), dnp.cos(strike)
        de, dn = east - each["east"], north - each["north"]
        half = 0.5 * each["width"]
        x = de * sin + dn * cos + 0.5 * each["length"]  # from the corner that is deepest, along the strike
        y = dn * sin - de * cos + half * dnp.cos(dip)
        plane = _Plane(dnp.sin(dip), dnp.cos(dip), 1 - 2 * each["poisson"], each["length"])
        deepest = each["depth"] + half * plane.sin
        p, q = y * plane.cos + deepest * plane.sin, y * plane.sin - deepest * plane.cos
        corners = [(1, x, p), (-1, x, p - each["width"]), (-1, x - each["length"], p), (1, x - each["length"], p - each["width"])]
        terms = [(sign, *plane.displacement(xi, eta, q, dnp.cos(rake), dnp.sin(rake))) for sign, xi, eta in corners]
        along, across, up = (-each["slip"] / (2 * np.pi) * sum(term[0] * term[k] for term in terms) for k in (1, 2, 3))
        moved = (along * sin - across * cos, along * cos + across * sin, up)
        return dnp.stack([dnp.sum(component, axis=0) for component in moved])

    def _checked(self) -> dict[str, Any]:
        """The attributes with a value for each fault, shape (faults,) or (1,)."""
        each = {one.name: dnp.atleast_1d(dnp.asarray(getattr(self, one.name), dtype=np.float64)) for one in fields(self)}
        seen = {name: np.asarray(stop_gradient(value)) for name, value in each.items()}
        several = [(name, len(value)) for name, value in seen.items() if value.ndim == 1 and len(value) != 1]
        for name, value in seen.items():
            expected, holds = LIMITS.get(name, ("finite numbers", lambda each: True))
            if value.ndim > 1:
                raise ShapeError(f"{name} has shape {value.shape}, expected a number, or one for each fault; give that")
            if not (np.isfinite(value).all() and np.all(holds(value))):
                raise ParameterError(f"{name} = {value[0] if value.size == 1 else value}, expected {expected}; correct it")
        for name, count in several[1:]:
            if count != several[0][1]:
                first, many = several[0]
                raise ShapeError(f"{first} and {name} are for {many} and {count} faults, expected one number of faults; correct one")
        top = seen["depth"] - 0.5 * seen["width"] * np.sin(np.deg2rad(seen["dip"]))
        if top.min() < -TINY * seen["width"].max():
            raise ParameterError(
                f"a fault reaches above the surface, to {-top.min():.4g} m, expected depths below it; give a larger depth, m"
            )
        return each


@dataclass(frozen=True)
class _Plane:
    """The planes of faults: sine and cosine of their dip, the elastic ratio m = mu / (lambda + mu), and a length."""

    sin: Any
    cos: Any
    m: Any
    length: Any

    def displacement(self, xi: Any, eta: Any, q: Any, strike_slip: Any, dip_slip: Any) -> tuple[Any, Any, Any]:
        """Equations 25 and 26 of Okada (1985) for a corner, times -2 pi: along the strike, to its left, and up."""
        sin, cos = self.sin, self.cos
        tiny = TINY * self.length
        r = dnp.sqrt(xi * xi + eta * eta + q * q)
        y, d = eta * cos + q * sin, eta * sin - q * cos
        angle = dnp.where(dnp.abs(q) > tiny, dnp.arctan(_over(xi * eta, q * r, tiny * tiny)), 0.0)
        by_eta, by_xi = _over(1.0, r + eta, tiny), _over(q, r * (r + xi), tiny * tiny)
        i1, i2, i3, i4, i5 = self.integrals(xi, eta, q, r)
        along = strike_slip * (xi * q * by_eta / r + angle + i1 * sin) + dip_slip * (q / r - i3 * sin * cos)
        left = strike_slip * (y * q * by_eta / r + q * cos * by_eta + i2 * sin) + dip_slip * (y * by_xi + cos * angle - i1 * sin * cos)
        up = strike_slip * (d * q * by_eta / r + q * sin * by_eta + i4 * sin) + dip_slip * (d * by_xi + sin * angle - i5 * sin * cos)
        return along, left, up

    def integrals(self, xi: Any, eta: Any, q: Any, r: Any) -> list[Any]:
        """I1 to I5 of equations 28 and, where a fault is next to vertical, of a parabola in the cosine of the dip through equations 29 and
        two values of 28, which lose their digits there."""
        near = np.asarray(stop_gradient(self.cos)) < STEEP
        sin, cos = dnp.where(near, (1 - STEEP**2) ** 0.5, self.sin), dnp.where(near, STEEP, self.cos)
        direct = self.slanted(xi, eta, q, r, sin, cos)
        if not near.any():
            return direct
        c = self.cos / STEEP
        shares = 0.5 * (c - 1) * (c - 2), c * (2 - c), 0.5 * c * (c - 1)
        there = (1 - (2 * STEEP) ** 2) ** 0.5
        rows = zip(self.upright(xi, eta, q, r), direct, self.slanted(xi, eta, q, r, there, 2 * STEEP), strict=True)
        return [dnp.where(near, sum(share * one for share, one in zip(shares, row, strict=True)), row[1]) for row in rows]

    def slanted(self, xi: Any, eta: Any, q: Any, r: Any, sin: Any, cos: Any) -> list[Any]:
        """Equations 28."""
        m, tiny, log = self.m, TINY * self.length, self.logarithm(r, eta)
        y, rd, x = eta * cos + q * sin, r + eta * sin - q * cos, dnp.sqrt(xi * xi + q * q)
        slant = _over(eta * (x + q * cos) + x * (r + x) * sin, xi * (r + x) * cos, tiny * tiny)
        i5 = 2 * m / cos * dnp.arctan(slant)
        i4 = m / cos * (dnp.log(rd) - sin * log)
        i3 = m * (y / (cos * rd) - log) + sin / cos * i4
        return [-m * xi / (cos * rd) - sin / cos * i5, -m * log - i3, i3, i4, i5]

    def upright(self, xi: Any, eta: Any, q: Any, r: Any) -> list[Any]:
        """Equations 29."""
        m, log, rd = self.m, self.logarithm(r, eta), r + eta
        i3 = 0.5 * m * (eta / rd + q * q / rd**2 - log)
        return [-0.5 * m * xi * q / rd**2, -m * log - i3, i3, -m * q / rd, -m * xi / rd]

    def logarithm(self, r: Any, eta: Any) -> Any:
        """ln(R + eta), and -ln(R - eta) on the line that goes on from an edge along the dip."""
        beyond = r + eta <= TINY * self.length
        return dnp.where(beyond, -dnp.log(dnp.where(beyond, r - eta, 1.0)), dnp.log(dnp.where(beyond, 1.0, r + eta)))


def _over(top: Any, bottom: Any, least: Any) -> Any:
    """The quotient, and 0 where the denominator is next to 0."""
    near = dnp.abs(bottom) <= least
    return dnp.where(near, 0.0, top / dnp.where(near, 1.0, bottom))


def tangent_plane(latitude: Any, longitude: Any, centre: tuple[float, float], radius: float = EARTH_RADIUS) -> tuple[Any, Any]:
    """Distances to the east and to the north of a centre, on a plane that touches the sphere there (azimuthal equidistant projection).

    Args:
        latitude: of the points, degrees.
        longitude: of the points, degrees, of the same shape.
        centre: latitude and longitude where plane and sphere touch.
        radius: of the sphere, m.

    Returns:
        east and north, m. Directions and distances from the centre are exact; 500 km away other lengths are 0.1 % too large.

    Raises:
        ShapeError: latitudes and longitudes of different shapes.
        ParameterError: a radius that is not positive.

    Reference: Snyder (1987), Map projections: a working manual, U.S. Geol. Survey Prof. Paper 1395, 191-202, doi:10.3133/pp1395.

    Example:
        import numpy as np

        import diffsim as ds

        east, north = ds.ocean.tangent_plane(np.array([38.0, 39.0]), np.array([142.0, 142.0]), centre=(38.0, 142.0))
        assert np.allclose(east, 0.0) and np.allclose(north, [0.0, 111_195], atol=1.0)
    """
    latitude, longitude = (
        np.deg2rad(real_array(name, each, np.float64)) for name, each in (("latitude", latitude), ("longitude", longitude))
    )
    if latitude.shape != longitude.shape:
        raise ShapeError(
            f"latitude and longitude have shapes {latitude.shape} and {longitude.shape}, expected the same; give a place for each point"
        )
    radius = positive("radius", radius, unit="m")
    here, there = np.deg2rad(centre)
    cos_distance = np.sin(here) * np.sin(latitude) + np.cos(here) * np.cos(latitude) * np.cos(longitude - there)
    east, north = (
        np.cos(latitude) * np.sin(longitude - there),
        np.cos(here) * np.sin(latitude) - np.sin(here) * np.cos(latitude) * np.cos(longitude - there),
    )
    chord = np.hypot(east, north)
    scale = radius * np.where(chord > 0, np.arctan2(chord, cos_distance) / np.where(chord > 0, chord, 1.0), 1.0)
    return scale * east, scale * north
