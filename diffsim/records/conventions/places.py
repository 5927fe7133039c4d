"""Coordinates of files in the unit of a grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffsim.base.quantities.units import conversion
from diffsim.errors import DataError
from diffsim.mesh.angles import ANGLES, LONGITUDES
from diffsim.records.conventions.variables import Variable
from diffsim.typing import Array

TURN = 360.0
"""Degrees after which longitudes repeat."""


def units_of(axes: Sequence[str], unit: str | Sequence[str] | None = None) -> tuple[str, ...]:
    """The unit of coordinates along each axis: the one that is given, else degrees along longitudes and latitudes, s along times, and
    metres.

    Raises:
        DataError: there are not as many units as axes.
    """
    if unit is None or unit == ():
        return tuple("degree" if axis.lower() in ANGLES else "s" if axis.lower() == "time" else "m" for axis in axes)
    if not isinstance(unit, str) and len(unit) != len(axes):
        raise DataError(f"units of coordinates: expected {len(axes)}, one for each axis, found {len(unit)}; give those, and the axes")
    return (unit,) * len(axes) if isinstance(unit, str) else tuple(unit)


def in_unit(places: Variable, wanted: str, what: str) -> Array:
    """Coordinates in a unit; those of which the file states none are in it.

    Raises:
        DataError: the unit of the file does not convert.
    """
    if not places.unit or not wanted:
        return places.values
    try:
        return np.asarray(conversion(places.unit, wanted)(places.values))
    except DataError as error:
        reason = str(error).partition("; ")[0]
        raise DataError(f"{what}: {reason}; state the unit of the grid, or convert the coordinates of the file") from None


def usual_unit(unit: str) -> str:
    """The unit in which coordinates of a unit are usual: metres, degrees or seconds; another one that converts to none of these stays."""
    for wanted in ("m", "degree", "s"):
        try:
            conversion(unit, wanted)
        except DataError:
            continue
        return wanted
    return unit


def wrapped_places(places: Array, axis: str, low: float, high: float) -> Array:
    """Longitudes on the turn of a grid: 359 is -1 where the grid has longitudes around 0.

    Args:
        places: coordinates of points along the axis.
        axis: its name. Only longitudes turn.
        low: least coordinate of the grid.
        high: the greatest one.
    """
    if axis.lower() not in LONGITUDES or high - low > TURN:
        return places
    out = np.array(places, float)
    for turns in (TURN, -TURN):
        there = (out < low) | (out > high)
        moved = out + turns
        out = np.where(there & (moved >= low) & (moved <= high), moved, out)
    return out


def wrapped_field(places: Array, values: Array, number: int, axis: str, low: float, high: float) -> tuple[Array, Array]:
    """Longitudes of a field, and its values, on the turn of a grid.

    A file around the whole globe is cut where the grid ends; another one is moved by a turn as a whole.

    Args:
        places: rising coordinates along the axis.
        values: the field.
        number: of the axis.
        axis: its name. Only longitudes turn.
        low: least coordinate of the grid.
        high: the greatest one.
    """
    if axis.lower() not in LONGITUDES or len(places) < 2 or (places[0] <= low and places[-1] >= high):
        return places, values
    step = float(np.mean(np.diff(places)))
    span = float(places[-1] - places[0])
    if span > TURN - 1.5 * step and high - low <= TURN:
        own = np.flatnonzero(places < places[0] + TURN - 0.5 * step)  # without a last column that repeats the first
        turns = np.floor((low - places[own] + TURN) / TURN - 1e-12) * TURN  # the first turn at or beyond low
        moved = places[own] + turns
        order = np.argsort(moved, kind="stable")
        before, after = order[-2:], order[:2]  # neighbours on both sides, for interpolation
        index = np.concatenate([before, order, after])
        at = np.concatenate([moved[before] - TURN, moved[order], moved[after] + TURN])
        return at, np.take(values, own[index], axis=number)
    middle = 0.5 * (low + high)
    turns = TURN * round((middle - 0.5 * (places[0] + places[-1])) / TURN)
    return places + turns, values
