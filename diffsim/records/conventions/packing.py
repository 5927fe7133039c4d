"""The numbers that an array of a file packs, and which of them are missing, by the conventions of NetCDF and CF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import shown
from diffsim.errors import DataError
from diffsim.typing import Array

MARKS, PACKING, UNSIGNED = ("_FillValue", "missing_value"), ("scale_factor", "add_offset"), "_Unsigned"
"""Attributes of packed numbers: marks of missing ones, factor and sum, and the sign of integers."""
LIMITS = ("valid_range", "valid_min", "valid_max")
"""Attributes of the range beyond which a number is missing."""
USED = (*MARKS, *PACKING, UNSIGNED, *LIMITS)
DEFAULT_FILLS = {
    **{"i2": -32767, "u2": 65535, "i4": -2147483647, "u4": 4294967295, "i8": -9223372036854775806, "u8": 18446744073709551614},
    **{"f4": 9.969209968386869e36, "f8": 9.969209968386869e36},
}
"""Type -> the number that NetCDF writes where nobody wrote one. Bytes have none, since each of their values may be meant."""


def numbers(values: npt.NDArray[np.generic], what: str) -> Array:
    """The values in f64.

    Raises:
        DataError: they are no real numbers.
    """
    if values.dtype.kind not in "iuf":
        remedy = "save real and imaginary part apart" if values.dtype.kind == "c" else "save them as float64"
        raise DataError(f"{what}: expected numbers, found dtype {values.dtype}; {remedy}")
    with np.errstate(over="ignore"):  # from extended precision
        return values.astype(float)


def unpacked(values: npt.NDArray[np.generic], attributes: Mapping[str, Any], what: str, default_fill: bool = False) -> Array:
    """The numbers that an array packs: value * scale_factor + add_offset, NaN where the value is missing.

    A value is missing if it is `_FillValue` or a `missing_value`, or lies outside of `valid_range`, or of `valid_min` and `valid_max`.
    All of these are in the numbers as they are stored.

    Args:
        values: as the file has them.
        attributes: of the array, by name.
        what: the array, for messages.
        default_fill: whether the library's own fill value is missing where the array has no `_FillValue`, as in NetCDF.

    Raises:
        DataError: values or attributes are no numbers.

    Reference: Eaton et al. (2023), "NetCDF Climate and Forecast (CF) Metadata Conventions", version 1.11, sections 2.5.1 and 8.1.
    """
    numbers(np.empty(0, values.dtype), what)
    unsigned = np.ravel(np.asarray(attributes.get(UNSIGNED, "")).astype(str))
    counted = values.dtype.kind == "i" and "".join(unsigned).lower() == "true"
    read = values.view(values.dtype.str.replace("i", "u")) if counted else values
    array = numbers(read, what)
    scale, offset = (_attribute(attributes, key, what) for key in PACKING)
    if scale.size > 1 or offset.size > 1:
        raise DataError(f"{what}: expected one number as {' and '.join(PACKING)}, found several; write one")
    missing = _marked(values, read, attributes, what, default_fill) | _beyond(read, attributes, what, counted)
    array = array * float(scale[0]) if scale.size else array
    array = np.asarray(array + float(offset[0]) if offset.size else array)
    array[missing] = np.nan
    return array


def _marked(
    values: npt.NDArray[np.generic], read: npt.NDArray[np.generic], attributes: Mapping[str, Any], what: str, default_fill: bool
) -> npt.NDArray[np.bool_]:
    """Where a value is one that stands for a missing one."""
    missing = np.zeros(values.shape, bool)
    for key in MARKS:
        for mark in _attribute(attributes, key, what):
            with np.errstate(over="ignore"):  # a mark in f64 is converted to the type of the values
                missing |= values == (mark.astype(values.dtype) if values.dtype.kind == "f" else mark)
                missing |= read == mark  # writers give marks of unsigned numbers in either type
    fill = DEFAULT_FILLS.get(values.dtype.str[1:])
    if default_fill and "_FillValue" not in attributes and fill is not None:
        missing |= values == values.dtype.type(fill)
    return missing


def _beyond(read: npt.NDArray[np.generic], attributes: Mapping[str, Any], what: str, counted: bool) -> npt.NDArray[np.bool_]:
    """Where a value lies outside of the valid range."""
    both, least, most = (_attribute(attributes, key, what) for key in LIMITS)
    if both.size not in (0, 2) or least.size > 1 or most.size > 1:
        raise DataError(f"{what}: expected two numbers as valid_range, and one as valid_min and valid_max, found others; correct them")
    low, high = (both[:1], both[1:]) if both.size else (least, most)
    missing = np.zeros(read.shape, bool)
    for bound, outside in ((low, np.less), (high, np.greater)):
        if bound.size:
            limit = bound.view(bound.dtype.str.replace("i", "u")) if counted and bound.dtype.kind == "i" else bound
            missing |= outside(read, limit[0])
    return missing


def _attribute(attributes: Mapping[str, Any], key: str, what: str) -> npt.NDArray[np.generic]:
    """The numbers of an attribute; none if there is no such attribute."""
    entries = np.ravel(np.asarray(attributes.get(key, [])))
    if entries.dtype.kind not in "iuf":
        raise DataError(f"{what}: expected a number as the attribute {key}, found {shown(attributes[key])}; write a number")
    return entries
