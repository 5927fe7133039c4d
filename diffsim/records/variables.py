"""Files that hold named arrays: NPZ, HDF5 and NetCDF. Each gives its arrays as `Variables`."""

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
from diffsim.messages import name_shown, path_shown
from diffsim.records.clock import of_dates
from diffsim.system import available_memory
from diffsim.typing import Array

NUMBER = 8
"""Bytes of a number in f64."""
NAMES = 10
"""Most names in a message."""
DESCRIPTIONS = ("units", "unit", "standard_name", "axis", "positive", "calendar")
"""Attributes, of the conventions of NetCDF and CF, that say what numbers are."""


@dataclass(frozen=True, eq=False)
class Variable:
    """An array of a file.

    Attributes:
        values: its numbers in f64; NaN where the file has none.
        unit: its unit; "" if the file does not say.
        axes: name of each axis, if the file names them, else "".
        standard_name: of CF, such as "projection_x_coordinate".
        axis: the attribute of CF, "X", "Y", "Z" or "T".
        positive: of a vertical coordinate, "up" or "down".
        calendar: of times.
        epoch: the date of time 0 of an array of dates, whose values are then seconds; None: it has no dates.
    """

    values: Array
    unit: str
    axes: tuple[str, ...]
    standard_name: str = ""
    axis: str = ""
    positive: str = ""
    calendar: str = ""
    epoch: np.datetime64 | None = None


def described(values: Array, axes: tuple[str, ...], attributes: Mapping[str, Any]) -> Variable:
    """An array with what its attributes say, those of the conventions of NetCDF and CF."""
    given = {key.lower(): value for key, value in attributes.items()}
    texts = {key: _text(given.get(key, "")).strip() for key in DESCRIPTIONS}
    return Variable(
        values, texts["units"] or texts["unit"], axes, texts["standard_name"], texts["axis"], texts["positive"], texts["calendar"]
    )


def dated(values: npt.NDArray[np.generic], axes: tuple[str, ...], what: str) -> Variable:
    """An array of dates, as seconds."""
    clock = of_dates(values, what)
    return Variable(clock.times, "s", axes, epoch=clock.epoch)


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = value.ravel()[0] if value.size == 1 else ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


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

    def along(self, name: str, axis: str) -> Variable | None:
        """The coordinates of an array along one of its axes, of one dimension; None: the file has none."""


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

    def read(self, name: str) -> Variable:
        raise NotImplementedError

    def along(self, name: str, axis: str) -> Variable | None:
        """The array of the axis's name, in the group of the array or in one around it."""
        group = name.rpartition("/")[0]
        while True:
            own = f"{group}/{axis}" if group else axis
            if own in self.names:
                try:
                    found = self.read(own)
                except DataError:  # names, such as those of stations, are no coordinates
                    return None
                return found if found.values.ndim == 1 else None
            if not group:
                return None
            group = group.rpartition("/")[0]


def pick(variables: Variables, name: str) -> Variable:
    """The array of that name.

    Raises:
        DataError: there is none. The message lists those that exist.
    """
    if name not in variables.names:
        raise DataError(
            f"{variables.where}: expected one of the variables {listed(variables.names)}, found no {name_shown(name)}; name one of them"
        )
    return variables.read(name)


def listed(names: Sequence[str]) -> str:
    """The first of the names that a file has, for a message."""
    return ", ".join([name_shown(name) for name in names[:NAMES]] + ["..."] * (len(names) > NAMES)) or "(none)"


def require_room(shape: tuple[int, ...], what: str) -> None:
    """Refuse an array that does not fit into memory before it is read."""
    size, free = NUMBER * math.prod(int(n) for n in shape), available_memory()
    if size > free:
        raise DataError(
            f"{what}: expected numbers that fit into the {memory_text(free)} of available memory, found {memory_text(size)}; cut the file"
        )
