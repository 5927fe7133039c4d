"""Axes of a grid whose coordinates are degrees."""

from __future__ import annotations

from collections.abc import Sequence

LONGITUDES = ("lon", "longitude", "rlon", "grid_longitude")
LATITUDES = ("lat", "latitude", "rlat", "grid_latitude")
ANGLES = (*LONGITUDES, *LATITUDES)
"""Names of axes, in small letters, whose coordinates are degrees unless a grid says otherwise."""


def unit_of_axes(axes: Sequence[str]) -> str | None:
    """The unit of coordinates of a grid that states none: degrees where all axes are latitudes and longitudes, metres where none is.

    None: some axes are angles and others are not, so their names say no unit for all.
    """
    angles = [axis.lower() in ANGLES for axis in axes]
    return "degree" if all(angles) else None if any(angles) else "m"


def named_unit(axis: str, unit: str) -> str:
    """The unit of coordinates along an axis of a grid, by its name in the conventions of CF where it is a latitude or a longitude."""
    if axis.lower() not in ANGLES or not unit.lower().startswith("degree"):
        return unit
    if axis.lower().startswith(("r", "grid")):  # of a rotated pole
        return "degree"
    return "degrees_north" if axis.lower() in LATITUDES else "degrees_east"
