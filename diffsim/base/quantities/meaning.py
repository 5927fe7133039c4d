"""The meaning of an input: the unit of its values, and its dimensions in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from diffsim.typing import Array

KINDS = {
    "x": {"x", "xc", "lon", "longitude", "easting", "east", "rlon", "grid_longitude", "projection_x_coordinate"},
    "y": {"y", "yc", "lat", "latitude", "northing", "north", "rlat", "grid_latitude", "projection_y_coordinate"},
    "z": {"z", "zc", "depth", "height", "altitude", "elevation", "lev", "level"},
    "t": {"t", "time", "times"},
}
"""Direction -> the names of axes and the standard names of CF that mean it; the key is the letter of CF's attribute `axis`."""
STEPS = {"step", "steps"}
"""Names of a dimension whose coordinates are the numbers of time steps."""


@dataclass(frozen=True)
class Dimension:
    """A dimension of an input.

    Attributes:
        name: its name in messages.
        names: the names that a label may have, in small letters.
        kind: the direction that it has in `KINDS`; "": none.
        at: number of entries -> their coordinates; None: it has none.
        unit: of the coordinates.
        labels: names of its entries in their order, such as those of the axes for the columns of a table of places; empty: none.
        any_name: whether a dimension of any other name may be it.
    """

    name: str
    names: frozenset[str]
    kind: str = ""
    at: Callable[[int], Array] | None = None
    unit: str = ""
    labels: tuple[str, ...] = ()
    any_name: bool = False


Dimensions: TypeAlias = tuple[Dimension, ...]


@dataclass(frozen=True)
class Meaning:
    """The unit and the dimensions that an input has.

    Attributes:
        unit: of its values; "" for pure numbers, and where nobody states it.
        dimensions: in their order. Where there are several such rows, the number of dimensions of an array chooses one. None: they are
            not known.
        taken: names of axes along which the input is constant: an array with such a dimension is refused.
        difference: whether the values are differences, for which degrees Celsius are kelvins.
    """

    unit: str = ""
    dimensions: tuple[Dimensions, ...] | None = None
    taken: frozenset[str] = frozenset()
    difference: bool = False


ANYTHING = Meaning()
"""Pure numbers without labels."""


def along_axis(name: str, coordinates: Array, unit: str, face: bool = False) -> Dimension:
    """The dimension of cells along an axis of a grid.

    Args:
        name: of the axis.
        coordinates: where the values lie along it.
        unit: of the coordinates.
        face: whether the values lie on upper faces.
    """
    small = name.lower()
    names = {small, f"{small}_face"} if face else {small}
    kind = next((letter for letter, words in KINDS.items() if small in words), "")
    return Dimension(name, frozenset(names), kind, lambda count: coordinates, unit)


def times(dt: float | None) -> Dimension:
    """The dimension of time steps; dt: the time between them in seconds, if it is known."""
    return Dimension("time", frozenset(KINDS["t"] | STEPS), "t", None if dt is None else lambda count: dt * np.arange(count), "s")


RUNS = frozenset({"run", "shot", "member", "ensemble", "realization", "realisation", "batch"})
POINTS = frozenset({"point", "source", "receiver", "station", "gauge", "sensor", "detector", "trace", "channel"})
COLUMNS = frozenset({"axis", "axes", "coordinate", "coordinates", "component", "direction"})


def counted(name: str, words: frozenset[str]) -> Dimension:
    """A dimension of things that are counted, such as points and runs. A label may have other names than the words."""
    return Dimension(name, words | {f"{word}s" for word in words}, any_name=True)


def columns(axes: tuple[str, ...]) -> Dimension:
    """The columns of a table of places, one for each axis of a grid."""
    return Dimension("axis", COLUMNS, labels=axes)


def places_on(axes: tuple[str, ...], unit: str, runs: bool = False) -> Meaning:
    """Places of points on a grid: one point, a row of points, or such a row for each run."""
    row = counted("point", POINTS), columns(axes)
    rows = row[1:], row, (counted("run", RUNS), *row)
    return Meaning(unit, rows if runs else rows[:2], frozenset(axis.lower() for axis in axes))
