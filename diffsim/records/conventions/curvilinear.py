"""Coordinates over two or more dimensions of a field: latitudes and longitudes of the cells of a curvilinear grid.

Where each of them changes along one dimension alone, the grid is regular, and they become coordinates of one dimension. Others are refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from diffsim.base.messages import name_shown
from diffsim.errors import DataError
from diffsim.records.conventions.dimensions import by_name, direction_of
from diffsim.records.conventions.variables import Variable, Variables
from diffsim.typing import Array

STRAIGHT = 1e-3
"""A coordinate does not change along a dimension if it differs by less than this part of its steps along another one."""
ROUNDING = 4 * float(np.finfo(np.float32).eps)
"""Relative difference that storing a coordinate in f32 may make, which many files of f64 went through."""
CURVED = 0.05
"""It is no rounding if it is more than this part of a step: places would be off by so much of a cell."""


def over_several(variables: Variables, name: str, names: Sequence[str], asked: Sequence[str]) -> dict[str, Variable]:
    """The coordinates of a field that have two or more dimensions, by their names.

    They are those that are asked for, else those that the field names in its attribute `coordinates`, else those whose names say that they
    are coordinates, such as "lat".

    Args:
        variables: of the file.
        name: of the field.
        names: of its dimensions.
        asked: names of coordinates that the user gives; none: not given.
    """
    group = name.rpartition("/")[0]
    likely = [each for each in variables.names if each.rpartition("/")[0] == group and by_name(each.rpartition("/")[2]) in ("x", "y")]
    chosen = {}
    for each in asked or variables.belongings(name) or likely:
        if each == name or each not in variables.names:
            continue
        try:
            variable = _without_others(variables.read(each), names)
        except DataError:  # texts
            continue
        if variable.values.ndim > 1 and set(variable.axes) <= set(names):
            chosen[each] = variable
    return chosen


def straightened(
    several: Mapping[str, Variable],
    axes: Sequence[str],
    names: Sequence[str],
    places: Sequence[Variable | None],
    asked: Sequence[str],
    where: str,
) -> tuple[list[str], list[Variable | None]]:
    """The name and the coordinates of each dimension of a field, of which some are given over several dimensions.

    Args:
        several: these coordinates by their names.
        axes: the dimensions.
        names: of the coordinates along each dimension, or of the dimension.
        places: coordinates of one dimension along each; None: the file has none.
        asked: names of coordinates that the user gives, which replace those of a dimension.
        where: the field, for messages.

    Raises:
        DataError: a coordinate changes along several dimensions.
    """
    used = {name: each for name, each in several.items() if name in asked or any(places[axes.index(axis)] is None for axis in each.axes)}
    chosen = next(_choices(used), None)
    if chosen is None:
        listed = " and ".join(map(name_shown, used))
        raise DataError(
            f"{where}: expected coordinates that change along one dimension each, found {listed} over several or with gaps, as on a "
            "curvilinear grid; regrid the field first, for example with xESMF or GDAL, or give spacing in place of them where its cells "
            "are evenly spaced"
        )
    names, places = list(names), list(places)
    for (name, variable), axis in zip(used.items(), chosen, strict=True):
        number, place = axes.index(axis), _profile(variable.values, variable.axes.index(axis))
        direction = direction_of(variable) or by_name(name.rpartition("/")[2])
        if places[number] is None or name in asked:
            names[number] = name if name in asked else axis
            places[number] = replace(variable, values=place, axes=(axis,), axis=direction.upper() or variable.axis)
    return names, places


def _choices(used: Mapping[str, Variable]) -> Iterator[tuple[str, ...]]:
    """Dimensions along which the coordinates change, one for each, none twice."""
    for chosen in itertools.product(*(_straight(each) for each in used.values())):
        if len(set(chosen)) == len(chosen):
            yield chosen


def _straight(variable: Variable) -> list[str]:
    """The dimensions along which alone a coordinate may change. Those along which it does come first."""
    values, directions = variable.values, []
    for number, axis in enumerate(variable.axes):
        profile = _profile(values, number)
        apart = np.abs(values - np.expand_dims(profile, tuple(k for k in range(values.ndim) if k != number))).max()
        steps = np.abs(np.diff(profile))
        step, rounding = float(np.median(steps)) if len(steps) else 0.0, ROUNDING * float(np.abs(values).max())
        if values.dtype.itemsize > 4 and step:
            rounding = min(rounding, CURVED * step)
        if apart <= max(STRAIGHT * step, rounding):  # never true of NaN
            directions.append((not np.any(steps), axis))
    return [axis for _, axis in sorted(directions, key=lambda each: each[0])]


def _profile(values: Array, number: int) -> Array:
    """Values along a dimension, at the first entry of all others."""
    return np.moveaxis(values, number, 0).reshape(values.shape[number], -1)[:, 0]


def _without_others(variable: Variable, names: Sequence[str]) -> Variable:
    """The variable without dimensions of one entry that the field does not have, such as a time."""
    extra = tuple(k for k, (axis, n) in enumerate(zip(variable.axes, variable.values.shape, strict=True)) if n == 1 and axis not in names)
    axes = tuple(axis for k, axis in enumerate(variable.axes) if k not in extra)
    return replace(variable, values=np.squeeze(variable.values, extra), axes=axes)
