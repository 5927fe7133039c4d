"""Files that hold named arrays: NPZ, HDF5 and NetCDF. Each gives its arrays as `Variables`; here they become records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from diffsim.checkpoint.planning.memory import memory_text
from diffsim.errors import DataError
from diffsim.messages import name_shown, path_shown, shown
from diffsim.records.records import Layout, Records
from diffsim.system import available_memory
from diffsim.typing import Array
from diffsim.units import factor

NUMBER = 8
"""Bytes of a number in f64."""
NAMES = 10
"""Most names in a message."""
MISSING, PACKING, UNSIGNED = ("_FillValue", "missing_value"), ("scale_factor", "add_offset"), "_Unsigned"
"""Attributes of packed numbers: those that stand for a missing one, factor and sum, and whether integers are unsigned."""
ORDER = ("shot", "time", "receiver")
"""Axes of records."""


@dataclass(frozen=True, eq=False)
class Variable:
    """An array of a file.

    Attributes:
        values: its numbers in f64; NaN where the file has none.
        unit: its unit; "" if the file does not say.
        axes: name of each axis, if the file names them, else "".
    """

    values: Array
    unit: str
    axes: tuple[str, ...]


class Variables(Protocol):
    """The named arrays of a file."""

    @property
    def where(self) -> str:
        """The file, for messages."""

    @property
    def names(self) -> Sequence[str]:
        """Names of the arrays."""

    def read(self, name: str) -> Variable:
        """The array of that name, one of `names`."""


@dataclass(frozen=True)
class ArrayFile:
    """A file of named arrays.

    Attributes:
        path: the file.
        names: of its arrays.
    """

    path: Path
    names: tuple[str, ...]

    @property
    def where(self) -> str:
        return path_shown(self.path)


def pick(variables: Variables, name: str) -> Variable:
    """The array of that name.

    Raises:
        DataError: there is none. The message lists those that exist.
    """
    if name not in variables.names:
        raise DataError(
            f"{variables.where}: expected one of the variables {known(variables)}, found no {name_shown(name)}; name one of them"
        )
    return variables.read(name)


def known(variables: Variables) -> str:
    """Names of the arrays, for a message."""
    names = [name_shown(name) for name in variables.names[:NAMES]]
    return ", ".join(names + ["..."] * (len(variables.names) > NAMES)) or "(none)"


def numbers(values: npt.NDArray[np.generic], what: str) -> Array:
    """The values in f64.

    Raises:
        DataError: they are no real numbers.
    """
    if values.dtype.kind not in "iuf":
        raise DataError(f"{what}: expected numbers, found dtype {values.dtype}; save them as float64")
    with np.errstate(over="ignore"):  # from extended precision
        return values.astype(float)


def unpacked(values: npt.NDArray[np.generic], attributes: Mapping[str, Any], what: str) -> Array:
    """The numbers that an array packs: value * scale_factor + add_offset, NaN where it is `_FillValue` or a `missing_value`.

    Args:
        values: as the file has them.
        attributes: of the array, by name.
        what: the array, for messages.

    Raises:
        DataError: values or attributes are no numbers.

    Reference: Eaton et al. (2023), "NetCDF Climate and Forecast (CF) Metadata Conventions", version 1.11, sections 2.5.1 and 8.1.
    """
    numbers(np.empty(0, values.dtype), what)
    missing = np.zeros(values.shape, bool)
    unsigned = np.ravel(np.asarray(attributes.get(UNSIGNED, "")).astype(str))
    counted = values.dtype.kind == "i" and "".join(unsigned).lower() == "true"
    read = values.view(values.dtype.str.replace("i", "u")) if counted else values
    for key in MISSING:
        for mark in _attribute(attributes, key, what):
            with np.errstate(over="ignore"):  # a mark in f64 stands for what the values' own type makes of it
                missing |= values == (mark.astype(values.dtype) if values.dtype.kind == "f" else mark)
                missing |= read == mark  # writers give marks of unsigned numbers in either type
    values = read
    found = numbers(values, what)
    scale, offset = (_attribute(attributes, key, what) for key in PACKING)
    if scale.size > 1 or offset.size > 1:
        raise DataError(f"{what}: expected one number as {' and '.join(PACKING)}, found several; write one")
    found = found * float(scale[0]) if scale.size else found
    found = found + float(offset[0]) if offset.size else found
    found[missing] = np.nan
    return found


def _attribute(attributes: Mapping[str, Any], key: str, what: str) -> npt.NDArray[np.generic]:
    """The numbers of an attribute; none if there is no such attribute."""
    found = np.ravel(np.asarray(attributes.get(key, [])))
    if found.dtype.kind not in "iuf":
        raise DataError(f"{what}: expected a number as the attribute {key}, found {shown(attributes[key])}; write a number")
    return found


def require_room(shape: tuple[int, ...], what: str) -> None:
    """Refuse an array that does not fit into memory before it is read."""
    size, free = NUMBER * math.prod(int(n) for n in shape), available_memory()
    if size > free:
        raise DataError(
            f"{what}: expected numbers that fit into the {memory_text(free)} of available memory, found {memory_text(size)}; cut the file"
        )


def records_of(variables: Variables, layout: Layout) -> tuple[Records, ...]:
    """The records of each shot.

    Values have the axes (samples, receivers), or (shots, samples, receivers). Where the file names its axes, the axis of times may be
    the last.
    """
    where = variables.where
    values_name = layout.values or "values"
    found = pick(variables, values_name)
    times, clock = _times(variables, layout)
    values = _samples_first(found, clock, f"{where}, {name_shown(values_name)}", order=layout.order)
    if times is None:
        assert layout.dt is not None
        times = layout.dt * np.arange(values.shape[1])
    shots, samples, receivers = values.shape
    if samples != len(times):
        raise DataError(
            f"{where}: expected {len(times)} samples, one for each time, found values of shape {found.values.shape}, which should be "
            "(samples, receivers) or (shots, samples, receivers); say another order by axes, or crop them"
        )
    spread = {
        what: None if name is None else _spread(_samples_first(pick(variables, name), clock, name, values.shape), values.shape, where, name)
        for what, name in (("deviation", layout.deviations), ("weight", layout.weights))
    }
    return tuple(
        Records(
            values[shot],
            times,
            tuple(map(str, range(receivers))),
            _coordinates(variables, layout.axes),
            found.unit if layout.unit is None else layout.unit,
            _of_shot(spread["deviation"], shot),
            _of_shot(spread["weight"], shot),
            where=where if shots == 1 else f"{where}, shot {shot}",
        )
        for shot in range(shots)
    )


def _of_shot(numbers: Array | None, shot: int) -> Array | None:
    return None if numbers is None else numbers[shot]


def _times(variables: Variables, layout: Layout) -> tuple[Array | None, str]:
    """Times in s, and the name of their axis; None where `dt` stands in for them."""
    name = layout.times or next((name for name in ("times", "time") if name in variables.names), None)
    if name is None:
        if layout.dt is None:
            raise DataError(
                f"{variables.where}: expected the times of the samples among its variables {known(variables)}, found no times; "
                "name them, or give dt"
            )
        return None, "time"
    found = pick(variables, name)
    unit = found.unit.split(" since ")[0] if layout.time_unit is None else layout.time_unit
    try:
        return found.values * factor(unit or "s", "s"), (found.axes or ("",))[0]
    except DataError as error:
        raise DataError(f"{variables.where}, {name_shown(name)}: {error}") from None


def _ordered(values: Array, order: tuple[str, ...], what: str) -> Array:
    """Values with the axes (shots, samples, receivers), or (samples, receivers), from those in another order."""
    if sorted(order) not in (sorted(ORDER), sorted(ORDER[1:])):
        raise DataError(
            f"{what}: expected axes with {', '.join(ORDER)}, found {', '.join(order)}; name each once, shot only if there are some"
        )
    if values.ndim != len(order) or 0 in values.shape:
        raise DataError(f"{what}: expected {len(order)} axes ({', '.join(order)}), found {values.shape}; correct axes")
    return np.transpose(values, [order.index(name) for name in ORDER if name in order])


def _samples_first(
    found: Variable, clock: str, what: str, shape: tuple[int, ...] | None = None, order: tuple[str, ...] | None = None
) -> Array:
    """Values with the axes (shots, samples, receivers)."""
    values = found.values
    if shape is not None and values.ndim < 2:  # one number for each receiver
        return values.reshape(1, 1, -1)
    if order is not None and shape is None:
        values = _ordered(values, order, what)
    elif values.ndim not in (1, 2, 3) or 0 in values.shape:
        raise DataError(f"{what}: expected the axes (samples, receivers) or (shots, samples, receivers), found {values.shape}; reshape it")
    if values.ndim == 1:
        values = values[:, None]
    elif clock and found.axes and found.axes[-1] == clock:
        values = np.swapaxes(values, -1, -2)
    return values[None] if values.ndim == 2 else values


def _spread(numbers: Array, shape: tuple[int, ...], where: str, name: str) -> Array:
    try:
        return np.broadcast_to(numbers, shape)
    except ValueError:
        raise DataError(
            f"{where}, {name_shown(name)}: expected one number for each receiver or sample of the shape {shape}, found {numbers.shape}; "
            "reshape it"
        ) from None


def _coordinates(variables: Variables, axes: tuple[str, ...]) -> Array | None:
    """Coordinates of the receivers: an array for each axis, or one array `coordinates`."""
    if axes and all(axis in variables.names for axis in axes):
        columns = [variables.read(axis).values for axis in axes]
        if any(column.ndim != 1 for column in columns) or len({len(column) for column in columns}) > 1:
            return None  # coordinates of something else
        return np.stack(columns, axis=1)
    if "coordinates" not in variables.names:
        return None
    found = variables.read("coordinates").values
    if found.ndim != 2 or (axes and found.shape[1] != len(axes)):
        raise DataError(
            f"{variables.where}, coordinates: expected the shape (receivers, {len(axes) or 'axes'}), found {found.shape}; reshape them"
        )
    return found
