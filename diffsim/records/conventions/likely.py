"""Coordinates that a file has beside a field, though nothing but their names says so: arrays such as "northing" or "lat"."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from diffsim.base.messages import name_shown
from diffsim.base.quantities.named import is_times
from diffsim.errors import DataError
from diffsim.records.conventions.dimensions import by_name, direction_of
from diffsim.records.conventions.records import even_spacing
from diffsim.records.conventions.variables import Variable, Variables, is_count, is_of_time
from diffsim.typing import Array

EVENLY = 1e-3
"""Numbers rise evenly if no step is off the mean by more than this part of it: files have times of few digits."""


def named_alike(variables: Variables, name: str, axes: Sequence[str]) -> dict[str, list[str]]:
    """The arrays beside a field, in its group or in one around it, whose names mean an axis: the nearest group that has any, for each axis.

    Args:
        variables: of the file.
        name: of the field.
        axes: names of the axes of the grid.
    """
    out: dict[str, list[str]] = {}
    for axis in axes:
        group = name.rpartition("/")[0]
        while True:
            inside = [each for each in variables.names if each != name and each.rpartition("/")[0] == group]
            alike = [each for each in inside if _means(each.rpartition("/")[2], axis)]
            if alike or not group:
                break
            group = group.rpartition("/")[0]
        if not alike and by_name(axis) == "t":
            alike = [each for each in variables.names if each != name and is_times(each)]  # "t/ms" has no group
            alike = alike or [each for each in variables.names if each != name and _has_times(variables, each)]
        own = [each for each in alike if each.rpartition("/")[2] == axis]
        if own or alike:
            out[axis] = own or alike
    return out


def unnamed_coordinates(variables: Variables, name: str, axes: Sequence[str]) -> tuple[str, ...]:
    """The arrays beside a field, or a series, that may be its coordinates, though neither name nor unit says so: one along each dimension.

    They are lists whose numbers rise or fall evenly, but for numbers of cells or rows from 0 or 1.

    Args:
        variables: of the file.
        name: of the field.
        axes: names of the axes of the grid.
    """
    field = _read(variables, name)
    if field is None or field.values.ndim != len(axes):
        return ()
    lengths: dict[str, int] = {}
    for each in variables.names:
        place = None if each == name else _list(variables, each)
        if place is None or len(place.values) < 3 or place.unit or is_count(place):
            continue
        rising = place.values if len(axes) == 1 or place.values[-1] > place.values[0] else place.values[::-1]
        if even_spacing(rising, EVENLY) is not None:
            lengths[each] = len(place.values)
    out: list[str] = []
    for n in field.values.shape:
        own = next((each for each, length in lengths.items() if length == n and each not in out), None)
        if own is None:
            return ()
        out.append(own)
    return tuple(out)


def likely_coordinates(variables: Variables, name: str, values: Array, axes: Sequence[str]) -> tuple[str, ...]:
    """The names of the coordinates of a field whose dimensions have no names, one for each axis of the grid; none: the file has none.

    They are lists of the lengths of the field, or arrays of its shape.

    Args:
        variables: of the file.
        name: of the field.
        values: of the field.
        axes: names of the axes of the grid.

    Raises:
        DataError: several arrays may be the coordinates of an axis, or some axes have none, or arrays of other names may be coordinates.
    """
    where, alike = f"{variables.where}, {name_shown(name)}", named_alike(variables, name, axes)
    if not alike and (unnamed := unnamed_coordinates(variables, name, axes)):
        which, series = " and ".join(map(name_shown, unnamed)), by_name(axes[0]) == "t"
        what, run = ("times", "rise") if series else ("coordinates", "rise or fall")
        remedy = f'give coordinates = ["{unnamed[0]}"]' if len(axes) == 1 else f"name those along {', '.join(axes)} by coordinates"
        raise DataError(
            f"{where}: expected {what} under names that mean them, or none, found {which}, whose numbers {run} evenly as {what} do; "
            f"if they are, {remedy}, else leave {which} out of the file"
        )
    if not alike or values.ndim != len(axes):
        return ()
    read = {each: place for each in itertools.chain(*alike.values()) if (place := _read(variables, each)) is not None}
    fitting = {axis: [each for each in names if each in read and _fits(read[each].values, values)] for axis, names in alike.items()}
    fitting = {axis: names for axis, names in fitting.items() if names}
    if not fitting or all(_is_number_of_cells(read[each], axis) for axis, names in fitting.items() for each in names):
        return ()
    for axis, names in fitting.items():
        if len(names) > 1:
            listed = " and ".join(map(name_shown, names))
            raise DataError(
                f"{where}: expected one array of coordinates along {axis}, found {listed}; name one for each axis by coordinates"
            )
    lacking = [axis for axis in axes if axis not in fitting]
    if lacking and all(axis in variables.names for axis in axes):
        return ()  # whoever takes these says which lengths they have
    if lacking:
        has = ", ".join(name_shown(names[0]) for names in fitting.values())
        raise DataError(
            f"{where}: expected coordinates, or none at all, found {has} and none along {lacking[0]}; add them, or give spacing and "
            "origin in place of them"
        )
    return tuple(fitting[axis][0] for axis in axes)


def over_dimension(variables: Variables, name: str, dimension: str, axes: Sequence[str]) -> Variable | None:
    """The coordinates along a named dimension of a field that lie in an array of another name; None: there are none.

    Args:
        variables: of the file.
        name: of the field.
        dimension: its dimension.
        axes: names of the axes of the grid.

    Raises:
        DataError: several arrays may be the coordinates.
    """
    group = name.rpartition("/")[0]
    along: dict[str, Variable] = {}
    for each in variables.names:
        last = each.rpartition("/")[2]
        if each == name or each.rpartition("/")[0] != group:
            continue
        meant = next((axis for axis in axes if _means(last, axis)), None)
        meant = meant or next((axis for axis in axes if by_name(axis) == "t" and _has_times(variables, each)), None)
        place = None if meant is None else _read(variables, each)  # a file may have fields that are too large to read them all
        if meant is None or place is None:
            continue
        if place.axes == (dimension,) and len(place.values) > 1 and not _is_number_of_cells(place, meant):
            along[each] = replace(place, axis=place.axis or (direction_of(place) or by_name(last)).upper())
    own = [each for each in along if each.rpartition("/")[2] in axes]
    if len(along) > 1 and len(own) != 1:
        listed = " and ".join(map(name_shown, along))
        raise DataError(
            f"{variables.where}, {name_shown(name)}: expected one array of coordinates along the dimension {name_shown(dimension)}, found "
            f"{listed}; name one for each axis by coordinates"
        )
    return along[own[0]] if own else next(iter(along.values()), None)


def _means(name: str, axis: str) -> bool:
    if by_name(axis) == "t" and is_times(name):
        return True
    return name.lower() == axis.lower() or (by_name(name) != "" and by_name(name) == by_name(axis))


def _has_times(variables: Variables, name: str) -> bool:
    """True if an array has times by what it holds, whatever its name: a list of dates, or of numbers with a unit of time."""
    place = _list(variables, name)
    return place is not None and is_of_time(place)


def _is_number_of_cells(place: Variable, axis: str) -> bool:
    """True if numbers are those of cells. Times from 0 or 1 are times, even if they are whole: a run has its own steps."""
    return by_name(axis) != "t" and is_count(place)


def _list(variables: Variables, name: str) -> Variable | None:
    """An array of numbers in a row; None: it is none. Others, which may be too large to read them all, are not read where a format tells
    shapes."""
    if sum(n > 1 for n in variables.shape_of(name) or ()) > 1:
        return None
    place = _read(variables, name)
    return place if place is not None and place.values.ndim == 1 else None


def _read(variables: Variables, name: str) -> Variable | None:
    try:
        return as_list(variables.read(name))
    except DataError:  # texts
        return None


def as_list(place: Variable) -> Variable:
    """Coordinates of shape (n, 1) or (1, n), as of an open mesh or of MATLAB, as a list."""
    long = [axis for axis, n in enumerate(place.values.shape) if n > 1]
    if place.values.ndim < 2 or len(long) != 1:
        return place
    return replace(place, values=place.values.ravel(), axes=(place.axes[long[0]],))


def _fits(places: Array, values: Array) -> bool:
    """True if numbers may be the coordinates of values: one for each, or a list of the length of an axis that rises or falls."""
    if places.ndim != 1:
        return places.shape == values.shape
    steps = np.diff(places)
    return len(places) in values.shape and len(places) > 1 and bool((steps > 0).all() or (steps < 0).all())
