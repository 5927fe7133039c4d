"""Constants of the sea, distances on the plane and on the sphere, and a sea floor that rises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from diffsim.base.arguments import one_of
from diffsim.errors import ParameterError
from diffsim.expr.functions import clip
from diffsim.expr.symbol import Symbol
from diffsim.mesh.grid import Grid
from diffsim.solvers.parts.stability import check_sign
from diffsim.typing import Array

GRAVITY = 9.81
"""m/s²"""
EARTH_RADIUS = 6.371e6
"""Mean radius, m."""
UPLIFT = {"uplift": "m", "start": "s", "rise": "s"}
"""The inputs of a sea floor that rises, with their units."""
ROTATION = 7.292e-5
"""Angular velocity of the Earth, rad/s."""
Coordinates = Literal["plane", "sphere"]


@dataclass(frozen=True)
class Metric:
    """Distances on a grid: a plane in metres, or the sphere, with latitude along axis 0 and longitude along axis 1, in degrees.

    Attributes:
        grid: the grid.
        coordinates: "plane" or "sphere".

    Raises:
        ParameterError: unknown coordinates, or a sphere without two axes.
    """

    grid: Grid
    coordinates: Coordinates

    def __post_init__(self) -> None:
        one_of("coordinates", self.coordinates, ("plane", "sphere"))
        if self.sphere and self.grid.ndim != 2:
            raise ParameterError(f"coordinates = 'sphere' needs a grid of latitude and longitude, got {self.grid.ndim} axes")
        if self.sphere:
            furthest = float(np.abs(self.grid.coordinates(0)).max()) + 0.5 * self.grid.spacing[0]
            if furthest > 90 + 1e-9 * furthest:
                raise ParameterError(f"the grid reaches a latitude of {furthest:.6g} degrees, expected at most 90; give axis 0 latitudes")

    @property
    def sphere(self) -> bool:
        return self.coordinates == "sphere"

    @property
    def unit(self) -> float:
        """Metres in a unit of the grid: of a degree of latitude on the sphere."""
        return math.pi / 180 * EARTH_RADIUS if self.sphere else 1.0

    def smallest(self) -> tuple[float, ...]:
        """Distance of cells along each axis, m; on the sphere, of longitude, the smallest on the grid."""
        return self._at(float(np.abs(self.grid.coordinates(0)).max()))

    def middle(self) -> tuple[float, ...]:
        """Distance of cells along each axis in the middle of the grid, m."""
        return self._at(float(np.mean(self.grid.coordinates(0))))

    def _at(self, latitude: float) -> tuple[float, ...]:
        """At a latitude in degrees."""
        if not self.sphere:
            return self.grid.spacing
        return self.grid.spacing[0] * self.unit, float(self.grid.spacing[1] * self.unit * np.cos(np.radians(latitude)))


def risen(t: Symbol | float, times: Mapping[str, Symbol]) -> Symbol:
    """The share of an uplift that has risen at a time: from 0 at `start` to 1 at `start` + `rise`, with a continuous velocity."""
    share = clip((t - times["start"]) / times["rise"], 0.0, 1.0)
    return share * share * (3 - 2 * share)


def check_uplift(parameters: Mapping[str, Array]) -> None:
    """Raise unless a rise takes time."""
    check_sign("rise", parameters["rise"], "s")
