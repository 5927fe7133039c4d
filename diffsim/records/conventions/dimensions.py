"""Which dimension of an array of a file is which axis: by names that the user gives, the attributes of CF, and names.

Lengths and extents settle the rest where a single order fits. Where several fit, the user must state the order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diffsim.base.messages import name_shown
from diffsim.base.quantities.meaning import KINDS
from diffsim.base.quantities.named import require_stated
from diffsim.errors import DataError
from diffsim.records.conventions.places import in_unit
from diffsim.records.conventions.variables import Variable, Variables
from diffsim.typing import Array

DIRECTIONS = {"longitude": "x", "latitude": "y", "X": "x", "Y": "y", "Z": "z", "T": "t"}
"""Standard name or attribute `axis` of CF -> direction."""
DEGREES = {"degrees_east": "x", "degree_east": "x", "degrees_north": "y", "degree_north": "y"}
"""Units that CF has for longitudes and latitudes alone -> direction."""
UP, DOWN = ("height", "altitude", "elevation"), ("depth",)
"""Names of vertical axes that count upwards, and downwards. Standard names of CF begin with them."""
DOWNWARDS = ("z", "zc")
"""Names of axes of a grid that count downwards, as those of surveys do, whichever way a file counts."""
TRUE = ("lat", "latitude", "lon", "longitude")
"""Names of axes of a grid whose coordinates are latitudes and longitudes of the earth, not of a rotated pole."""


@dataclass(frozen=True, eq=False)
class FileDimension:
    """A dimension of an array of a file.

    Attributes:
        name: as the file has it; "": the file has no name for it.
        places: the coordinates along it; None: the file has none.
    """

    name: str
    places: Variable | None = None

    @property
    def on_earth(self) -> bool:
        """True if an attribute or a name says that the coordinates are latitudes or longitudes of the earth."""
        if self.places is not None and (self.places.standard_name in TRUE or _degrees(self.places)):
            return True
        return self.name.lower() in TRUE

    @property
    def sense(self) -> str:
        """Which way it counts if it is vertical: "up" or "down", by the attributes of CF, then by its name; "": nothing says."""
        stated, standard = ("", "") if self.places is None else (self.places.positive.lower(), self.places.standard_name.lower())
        if stated in ("up", "down"):
            return stated
        for text in (standard, self.name.lower()):
            for sense, words in (("up", UP), ("down", DOWN)):
                if text.startswith(words) if text == standard else text in words:
                    return sense
        return ""

    @property
    def direction(self) -> str:
        """Its direction: "x", "y", "z" or "t"; "": nothing says."""
        stated = "" if self.places is None else direction_of(self.places)
        return stated or by_name(self.name)


def sense_of(values: Variable, name: str) -> str:
    """The direction in which heights or depths count, "up" or "down": by the attributes of CF, then by their name; "": nothing says.

    Args:
        values: the heights.
        name: name of the variable in the file.
    """
    if values.positive.lower() in ("up", "down"):
        return values.positive.lower()
    words = values.standard_name.lower().split("_")
    for word in (*words, name.rpartition("/")[2].lower()):  # the first counts, as in sea_floor_depth_below_geoid
        if word in (*UP, *DOWN):
            return "up" if word in UP else "down"
    return ""


def by_name(name: str) -> str:
    """The direction that a name means; "": none."""
    return next((letter for letter, words in KINDS.items() if name.lower() in words), "")


def direction_of(variable: Variable) -> str:
    """The direction that the attributes of a variable of coordinates state; "": none."""
    return (
        DIRECTIONS.get(variable.axis.upper(), "")
        or DIRECTIONS.get(variable.standard_name, "")
        or by_name(variable.standard_name)
        or _degrees(variable)
    )


def _degrees(variable: Variable) -> str:
    """The direction that units such as "degrees_north" state; "": none."""
    return DEGREES.get(variable.unit.replace(" ", "_").lower(), "")


def dimensions_of(variables: Variables, name: str, variable: Variable) -> list[FileDimension]:
    """The dimensions of an array, with the one-dimensional coordinates that the file has along each."""
    return [FileDimension(dimension, variables.along(name, dimension) if dimension else None) for dimension in variable.axes]


def matched(
    dimensions: Sequence[FileDimension], axes: Sequence[str], coordinates: Sequence[str], order: Sequence[str] | None, where: str
) -> list[str]:
    """The axis of the grid that each dimension is; "" where nothing says.

    Args:
        dimensions: of the array.
        axes: names of the axes of the grid.
        coordinates: names of the file's coordinates, one for each axis of the grid; none: they are not given.
        order: names of the axes in the order of the file, as the user states it; None: not stated.
        where: the array, for messages.

    Raises:
        DataError: two dimensions are one axis, or the file contradicts the user.
    """
    matches = [_axis(dimension, axes, coordinates, where) for dimension in dimensions]
    for axis in set(matches) - {""}:
        if matches.count(axis) > 1:
            both = " and ".join(name_shown(d.name) for d, own in zip(dimensions, matches, strict=True) if own == axis)
            raise DataError(f"{where}: expected one dimension along {axis}, found {both}; say which is which by coordinates, or rename one")
    if order is not None and len(order) == len(dimensions):
        for dimension, own, stated in zip(dimensions, matches, order, strict=True):
            if own not in ("", stated):
                said = ", ".join(own or "?" for own in matches)
                raise DataError(
                    f"{where}: expected the order of the file, where {name_shown(dimension.name)} is {own} ({said}), found the order "
                    f"{listed_order(order)}; drop the order, or correct it"
                )
        return list(order)
    left = [axis for axis in axes if axis not in matches]
    if matches.count("") == 1 == len(left):
        matches[matches.index("")] = left[0]
    return matches


def _axis(dimension: FileDimension, axes: Sequence[str], coordinates: Sequence[str], where: str) -> str:
    """The axis that a dimension is by names and attributes; "": they do not say."""
    if dimension.name and dimension.name in coordinates:
        return axes[list(coordinates).index(dimension.name)]
    direction = dimension.direction
    for axis in axes:
        if direction and by_name(axis) == direction:
            _require_same_sense(dimension, axis, where)
            _require_lengths(dimension, axis, where)
            _require_true(dimension, axis, where)
            return axis
    return next((axis for axis in axes if axis.lower() == dimension.name.lower()), "")


def _require_same_sense(dimension: FileDimension, axis: str, where: str) -> None:
    """Refuse heights for depths, and depths for heights."""
    wanted = "up" if axis.lower() in UP else "down" if axis.lower() in DOWN else ""
    if dimension.places is not None and wanted and dimension.sense not in ("", wanted):
        raise DataError(
            f"{where}: expected coordinates along {axis}, found {name_shown(dimension.name)}, which counts the other way "
            f"({dimension.sense}); change their sign, or name the axis of the grid like them"
        )


def _require_lengths(dimension: FileDimension, axis: str, where: str) -> None:
    """Refuse vertical coordinates that stand for lengths which differ from place to place."""
    if dimension.places is not None and dimension.places.formula:
        raise DataError(
            f"{where}: expected lengths along {axis}, found {name_shown(dimension.name)}, whose heights follow by formula_terms and differ "
            f"from place to place; interpolate the field to levels of {axis}"
        )


def _require_true(dimension: FileDimension, axis: str, where: str) -> None:
    """Refuse coordinates of a rotated pole for latitudes and longitudes."""
    words = {dimension.name.lower(), "" if dimension.places is None else dimension.places.standard_name}
    if axis.lower() in TRUE and words & {"rlat", "rlon", "grid_latitude", "grid_longitude"}:
        raise DataError(
            f"{where}: expected {axis} of the earth, found {name_shown(dimension.name)} of a rotated pole; regrid the field first, for "
            "example with xESMF or CDO, or name the axes of the grid rlat and rlon"
        )


def along_axis(dimension: FileDimension, axis: str, unit: str, what: str) -> Array:
    """The coordinates of a dimension as an axis of a grid counts them.

    Args:
        dimension: with coordinates.
        axis: name of the axis. One that counts downwards has depths, where the file says that it has heights.
        unit: of the axis; "": that of the file.
        what: the coordinates, for messages.

    Raises:
        DataError: the unit of the file does not convert.
    """
    assert dimension.places is not None
    if not dimension.places.unit:
        remedy = 'give time_unit = "{own}", or "{wanted}"' if by_name(axis) == "t" else "write it beside them"
        require_stated(dimension.name, unit, what, f"{remedy}, or convert them to {{wanted}} under another name")
    places = in_unit(dimension.places, unit, what)
    return -places if axis.lower() in DOWNWARDS and dimension.sense == "up" else places


def settled(
    known: Sequence[str], axes: Sequence[str], fits: Callable[[tuple[str, ...]], bool], values: Array, where: str, remedy: str
) -> tuple[str, ...]:
    """The axis of each dimension, where lengths and extents leave one order.

    Args:
        known: the axis of each dimension, "" where names do not say; as many as `axes`.
        axes: names of the axes of the grid.
        fits: whether an order fits.
        values: the array.
        where: the array, for messages.
        remedy: says how to state an order, with {} for it.

    Raises:
        DataError: several orders fit, and the values differ between them.
    """
    orders = [order for order in orders_of(known, axes) if fits(order)]
    if not orders:  # the order of the grid; a later check names the misfit
        return next(orders_of(known, axes))
    first = np.transpose(values, [orders[0].index(axis) for axis in axes])
    for other in orders[1:]:
        turned = np.transpose(values, [other.index(axis) for axis in axes])
        if not np.array_equal(first, turned, equal_nan=True):
            both = " and ".join(f"({', '.join(order)})" for order in (orders[0], other))
            raise DataError(
                f"{where}: expected names of the dimensions of its numbers of shape {values.shape}, found none, and the orders {both} both "
                f"fit; {remedy.format(listed_order(orders[0]))} or {listed_order(other)}"
            )
    return orders[0]


def orders_of(known: Sequence[str], axes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All orders of the axes that agree with the known ones, that of the grid first."""
    left = [axis for axis in axes if axis not in known]
    for others in itertools.permutations(left):
        rest = iter(others)
        yield tuple(own or next(rest) for own in known)


def listed_order(order: Sequence[str]) -> str:
    """An order of names as a scene or a program states it."""
    return "[" + ", ".join(f'"{axis}"' for axis in order) + "]"
