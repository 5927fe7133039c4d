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

DEEPEST = 64
"""As many lists inside of each other as an array of NumPy has axes."""


def plain(name: str, value: Any, meaning: Meaning = ANYTHING) -> Any:
    """An input without unit and labels: an array of NumPy's in the unit and order that its meaning says.

    A value that states neither a unit nor labels is returned as it is. A list may hold quantities, each with a unit of its own.

    Args:
        name: of the input, for messages.
        value: the argument of a user.
        meaning: the unit and the dimensions of the input.

    Raises:
        ParameterError: the unit does not convert to that of the input, or the dimensions are not those of the input.
        ShapeError: the coordinates are not those of the input.
    """
    if is_bare(value):
        return value
    read_value = read(name, value)
    if read_value is not None:
        return _in_unit(name, read_value, arranged(name, read_value, _numbers(name, read_value), meaning), meaning)
    if stated(value):
        listed = value.tolist() if isinstance(value, np.ndarray) else value
        entries = Meaning(meaning.unit, None, meaning.taken, meaning.difference)
        return [plain(f"{name}[{place}]", each, entries) for place, each in enumerate(listed)]
    return value


def is_bare(value: object) -> bool:
    """True for a number of Python's, and an array of NumPy's own, which state nothing."""
    return type(value) in (float, int) or (type(value) is np.ndarray and value.dtype.kind != "O")


def stated(value: object, levels: int = DEEPEST) -> bool:
    """True if an object, or an entry of a list, states a unit or dimensions. Lists inside of more `levels` of lists are no arrays."""
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.ndim):
        return levels > 0 and any(type(each) not in (float, int) and stated(each, levels - 1) for each in value)
    return read("a value", value) is not None


def bare(value: object) -> Any:
    """The numbers of an object as they lie in memory, whatever they mean."""
    read_value = read("a value", value)
    return value if read_value is None else read_value.values


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
        converted = conversion(given.unit, meaning.unit)
    except DataError as error:
        wanted = f"one that converts to {meaning.unit}" if meaning.unit else "a pure number, since nothing states the unit of this input"
        raise ParameterError(
            f"{name} has the unit {given.stated}, expected {wanted}; convert it, or give its plain number by {given.bare} if it is in the "
            "right unit"
        ) from error
    factor, offset = converted.scale * given.scale, 0.0 if meaning.difference else converted.shift
    if (factor, offset) == (1.0, 0.0) or values.dtype.kind not in "fiu":
        return values
    return np.asarray(np.multiply(values, factor, dtype=np.float64) + offset)
