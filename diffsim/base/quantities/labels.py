"""Puts an array with named dimensions in the order that an input has, by names, the conventions of CF, and coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import shown
from diffsim.base.quantities.given import Given
from diffsim.base.quantities.meaning import KINDS, STEPS, Dimension, Dimensions, Meaning
from diffsim.base.quantities.units import conversion
from diffsim.errors import DataError, ParameterError, ShapeError

TOLERANCE = 1e-3
"""By how much of the distance to the next cell a coordinate may differ from that of a cell."""
_SECOND = np.timedelta64(1, "s")


def arranged(name: str, given: Given, values: npt.NDArray[Any], meaning: Meaning) -> npt.NDArray[Any]:
    """A view of the values in the order of the input's dimensions, each in the direction of its coordinates.

    Raises:
        ParameterError: the dimensions are not those of the input, or may be them in several ways.
        ShapeError: the coordinates are not those of the input.
    """
    dims = given.dims
    if dims is None or not given.named:
        return values
    wanted = _chosen(name, given, meaning)
    if wanted is None:
        return values
    order = [dims.index(dim) for dim in _matched(name, given, wanted, meaning)]
    array = values.transpose(order)
    for axis, (place, each) in enumerate(zip(order, wanted, strict=True)):
        if each.labels:
            array = array.take(_columns(name, given, dims[place], each), axis)
        elif _step(name, given, dims[place], each) == -1:
            array = np.flip(array, axis)
    return array


def _chosen(name: str, given: Given, meaning: Meaning) -> Dimensions | None:
    """The row of dimensions that an array of this many has; None if there is only one order."""
    dims = given.dims or ()
    if not dims:
        return None
    if meaning.dimensions is None:
        if len(dims) == 1:
            return None
        raise ParameterError(
            f"{name} has the dimensions {_listed(dims)}, expected an array without labels, since nothing says in which order they belong "
            f"here; put them in the order of a plain array by .transpose(...), and give its {given.bare}"
        )
    matching = [row for row in meaning.dimensions if len(row) == len(dims)]
    if not matching:
        rows = " or ".join(_listed(d.name for d in row) for row in meaning.dimensions)
        raise ShapeError(f"{name} has the dimensions {_listed(dims)}, expected {rows}; select, sum or broadcast along the others")
    return matching[0]


def _matched(name: str, given: Given, wanted: Dimensions, meaning: Meaning) -> list[str]:
    """The array's dimension for each wanted one: by its name, by its meaning in CF's conventions, by its coordinates."""
    dims = given.dims or ()
    left = list(dims)
    matches: dict[Dimension, str] = {}
    ways: tuple[Callable[[str, Dimension], bool], ...] = (
        lambda dim, each: dim.lower() in each.names,
        lambda dim, each: each.kind in _kinds(given, dim),
        lambda dim, each: _lies_at(given, dim, each),
    )
    for fits in ways:
        pairs = [(dim, each) for dim in left for each in wanted if each not in matches and fits(dim, each)]
        for dim, each in pairs:
            if sum(dim == other for other, _ in pairs) == 1 and sum(each is other for _, other in pairs) == 1:
                matches[each] = dim
                left.remove(dim)
    open_ = [each for each in wanted if each not in matches]
    if len(left) == len(open_) == 1 and _may_be(given, left[0], open_[0], meaning, alone=len(wanted) == 1):
        matches[open_[0]] = left.pop()
    if left or len(matches) < len(wanted):
        raise ParameterError(
            f"{name} has the dimensions {_listed(dims)}, expected {_listed(d.name for d in wanted)} in any order; rename them by .rename, "
            f"or put them in this order and give {given.bare}"
        )
    return [matches[each] for each in wanted]


def _may_be(given: Given, dim: str, each: Dimension, meaning: Meaning, alone: bool) -> bool:
    """True if the last dimension of an array may be the last one that is wanted, though its name is another."""
    kinds = _kinds(given, dim)
    return (each.any_name or alone) and dim.lower() not in meaning.taken and (not kinds or kinds == {each.kind})


def _kinds(given: Given, dim: str) -> set[str]:
    """The directions that a dimension's name and the attributes of its coordinate mean."""
    words = {dim.lower(), *given.words.get(dim, ())}
    return {letter for letter, names in KINDS.items() if words & names}


def _step(name: str, given: Given, dim: str, each: Dimension) -> int:
    """1 if the coordinates are those of the input, -1 if they are these backwards. 1 if there is nothing to compare."""
    coordinate = given.coordinates.get(dim)
    if coordinate is None or each.at is None:
        return 1
    try:
        own, wanted = _numbers(coordinate, dim, each)
    except DataError as error:
        raise ParameterError(
            f"{name} has coordinates along {dim}, expected some that compare with those of the input, but {error}; convert them, or "
            f"leave them out by .drop_vars({shown(dim)})"
        ) from error
    if len(own) != len(wanted):
        return 1  # its shape is refused
    step = _direction(own, wanted)
    if step == 0:
        raise ShapeError(
            f"{name} has coordinates along {dim} from {own[0]:g} to {own[-1]:g}, expected {wanted[0]:g} to {wanted[-1]:g}"
            f"{_in(each, dim)}, at which the values of the input lie; interpolate to them by .interp, or leave the coordinates out by "
            f".drop_vars({shown(dim)}) if the values belong there"
        )
    return step


def _lies_at(given: Given, dim: str, each: Dimension) -> bool:
    """True if a dimension has the coordinates, or the labels, of one that is wanted."""
    if each.labels:
        return sorted(_texts(given, dim)) == sorted(label.lower() for label in each.labels)
    if dim not in given.coordinates or each.at is None:
        return False
    try:
        own, wanted = _numbers(given.coordinates[dim], dim, each)
    except DataError:
        return False
    return len(own) == len(wanted) and _direction(own, wanted) != 0


def _texts(given: Given, dim: str) -> list[str]:
    """The labels of a dimension's entries, in small letters; none if they are numbers."""
    values = np.asarray(given.coordinates[dim].values) if dim in given.coordinates else np.zeros(0)
    return [str(each).lower() for each in values] if values.dtype.kind in "OUT" else []


def _columns(name: str, given: Given, dim: str, each: Dimension) -> list[int]:
    """The order of entries with labels. Without labels they are in the order that is wanted."""
    texts = _texts(given, dim)
    wanted = [label.lower() for label in each.labels]
    if texts and sorted(texts) != sorted(wanted):
        raise ParameterError(f"{name} has the labels {_listed(texts)} along {dim}, expected {_listed(each.labels)}; rename or leave out")
    return [texts.index(label) for label in wanted] if texts else list(range(given.values.shape[(given.dims or ()).index(dim)]))


def _numbers(coordinate: Given, dim: str, each: Dimension) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The coordinates of an array in the unit of the input's, and those of the input."""
    values = np.asarray(coordinate.values)
    if dim.lower() in STEPS and each.kind == "t":
        return values, np.arange(len(values))
    assert each.at is not None
    unit = coordinate.unit
    if values.dtype.kind in "mM" and each.kind == "t":
        values, unit = (values - values[0] if values.dtype.kind == "M" else values) / _SECOND, "s"
    if values.dtype.kind not in "fiu":
        raise DataError(f"they are of type {values.dtype}")
    if unit is not None and each.unit:
        factor = conversion(unit, each.unit)
        values = values * (coordinate.scale * factor.scale) + factor.shift
    return values, each.at(len(values))


def _direction(own: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> int:
    """1 if numbers are those that are wanted, -1 if they are these backwards, 0 otherwise."""
    apart = float(np.abs(np.diff(wanted)).min(initial=np.inf))
    largest = float(np.abs(wanted).max(initial=0.0))
    rounding = 4 * np.finfo(own.dtype if own.dtype == np.float32 else np.float64).eps * largest
    tolerance = (TOLERANCE * apart if np.isfinite(apart) else TOLERANCE * largest) + rounding
    for step in (1, -1):
        if np.abs(own[::step] - wanted).max(initial=0.0) <= tolerance:
            return step
    return 0


def _in(each: Dimension, dim: str) -> str:
    return "" if dim.lower() in STEPS or not each.unit else f" {each.unit}"


def _listed(names: Iterable[str]) -> str:
    return f"({', '.join(names)})"
