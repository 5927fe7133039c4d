"""The one way by which an input of the library becomes plain: its unit is converted, its dimensions are put in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.quantities.given import Given, read
from diffsim.base.quantities.labels import arranged
from diffsim.base.quantities.meaning import ANYTHING, Meaning
from diffsim.base.quantities.units import conversion
from diffsim.errors import DataError, ParameterError


def plain(name: str, value: Any, meaning: Meaning = ANYTHING) -> Any:
    """An input without unit and labels: an array of NumPy's in the unit and order that its meaning says.

    What states neither a unit nor labels is returned as it is. A list may hold quantities, each with a unit of its own.

    Args:
        name: of the input, for messages.
        value: what a user gives.
        meaning: the unit and the dimensions of the input.

    Raises:
        ParameterError: the unit does not convert to that of the input, or the dimensions are not those of the input.
        ShapeError: the coordinates are not those of the input.
    """
    if type(value) is np.ndarray and value.dtype.kind != "O":
        return value
    given = read(name, value)
    if given is not None:
        return _in_unit(name, given, arranged(name, given, _numbers(name, given), meaning), meaning)
    if stated(value):
        listed = value.tolist() if isinstance(value, np.ndarray) else value
        entries = Meaning(meaning.unit, None, meaning.taken, meaning.difference)
        return [plain(f"{name}[{place}]", each, entries) for place, each in enumerate(listed)]
    return value


def stated(value: Any) -> bool:
    """Whether an object, or an entry of a list, states a unit or dimensions."""
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.ndim):
        return any(type(each) not in (float, int) and stated(each) for each in value)
    return read("a value", value) is not None


def bare(value: Any) -> Any:
    """The numbers of an object as they lie in memory, whatever they mean."""
    given = read("a value", value)
    return value if given is None else given.values


def _numbers(name: str, given: Given) -> npt.NDArray[Any]:
    values = given.values if isinstance(given.values, np.ndarray) else np.asarray(given.values)
    if np.any(getattr(values, "mask", False)):
        raise ParameterError(f"{name}: expected numbers everywhere, got an array with a mask; fill it, for example with .filled(0)")
    return np.asarray(values)


def _in_unit(name: str, given: Given, values: npt.NDArray[Any], meaning: Meaning) -> npt.NDArray[Any]:
    """Values in the unit of the input."""
    if given.unit is None:
        return values
    try:
        found = conversion(given.unit, meaning.unit)
    except DataError as error:
        wanted = f"one that converts to {meaning.unit}" if meaning.unit else "a pure number, since nothing states the unit of this input"
        raise ParameterError(
            f"{name} has the unit {given.stated}, expected {wanted}; convert it, or give its plain number by {given.bare} if it is in the "
            "right unit"
        ) from error
    factor, offset = found.scale * given.scale, 0.0 if meaning.difference else found.shift
    if (factor, offset) == (1.0, 0.0) or values.dtype.kind not in "fiu":
        return values
    return np.asarray(np.multiply(values, factor, dtype=np.float64) + offset)
