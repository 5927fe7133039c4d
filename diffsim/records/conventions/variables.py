"""Files that hold named arrays: NPZ, HDF5 and NetCDF. Each gives its arrays as `Variables`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import name_shown, path_shown, shown
from diffsim.base.quantities.units import factor
from diffsim.base.system import available_memory
from diffsim.checkpoint.planning.memory import memory_text
from diffsim.errors import DataError
from diffsim.records.conventions.clock import SINCE, of_dates
from diffsim.typing import Array

NUMBER = 8
"""Bytes of a number in f64."""
NAMES = 10
"""Most names in a message."""
DESCRIPTIONS = ("units", "unit", "standard_name", "axis", "positive", "calendar", "formula_terms")
"""Attributes, of the conventions of NetCDF and CF, that describe numbers."""
ABOUT_OTHERS = ("coordinates", "bounds", "grid_mapping", "climatology", "ancillary_variables")
"""Attributes of CF that name variables which belong to another one."""
MAPPING = "grid_mapping_name"
"""Attribute of CF of a variable that has no numbers of its own, and describes a system of coordinates."""


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
        formula: formula of a vertical coordinate without a length of its own, such as levels along the ground.
        epoch: the date of time 0 of an array of dates, whose values are then seconds; None: it has no dates.
        typed: whether the type of its entries has the unit, as timedelta64[ms] has. The values are then in seconds.
        counted: whether its times count from a date, as in "hours since 2011-03-11", and are in seconds by now.
    """

    values: Array
    unit: str
    axes: tuple[str, ...]
    standard_name: str = ""
    axis: str = ""
    positive: str = ""
    calendar: str = ""
    formula: str = ""
    epoch: np.datetime64 | None = None
    typed: bool = False
    counted: bool = False


def require_no_other_unit(typed: bool, key: str, stated: str | None, what: str, dates: bool = False) -> None:
    """Refuse a unit that the user states by a key for entries that need none: they are dates, or their type has a unit.

    Raises:
        DataError: a unit is stated, and the entries are of such a kind.
    """
    if stated is None or not (typed or dates):
        return
    kind = "dates, which have no unit" if dates else "timedelta64, whose type has the unit"
    raise DataError(f"{what}: expected no {key} for {kind}, found {shown(stated)}; drop it")


def described(values: Array, axes: tuple[str, ...], attributes: Mapping[str, Any]) -> Variable:
    """An array with its description by attributes of the NetCDF and CF conventions."""
    lowered = {key.lower(): value for key, value in attributes.items()}
    texts = {key: _text(lowered.get(key, "")).strip() for key in DESCRIPTIONS}
    stated, formula = texts["units"] or texts["unit"], texts["formula_terms"]
    return Variable(values, stated, axes, texts["standard_name"], texts["axis"], texts["positive"], texts["calendar"], formula)


def dated(values: npt.NDArray[np.generic], axes: tuple[str, ...], what: str, names: Sequence[str] = ()) -> Variable:
    """An array of dates, as seconds. Its names may say their zone."""
    clock = of_dates(values, what, names)
    return Variable(clock.times, "s", axes, epoch=clock.epoch)


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = value.ravel()[0] if value.size == 1 else ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@dataclass(frozen=True)
class Labels:
    """Texts of a file, such as the names of stations.

    Attributes:
        texts: the texts.
        axis: name of the dimension along which they are; "": it has none.
    """

    texts: tuple[str, ...]
    axis: str = ""

    @classmethod
    def of(cls, raw: npt.NDArray[np.generic], axes: tuple[str, ...]) -> Labels | None:
        """The texts of an array, whole ones or single characters along its last axis; None: there are none."""
        if raw.dtype == np.dtype("S1") and raw.ndim == 2:
            raw = np.array([b"".join(row) for row in raw])
        if raw.ndim != 1 or raw.dtype.kind not in "OSU":
            return None
        return cls(tuple(_text(value).strip("\0 ") for value in raw.tolist()), axes[0])


@dataclass(frozen=True)
class Variables:
    """The named arrays of a file.

    Attributes:
        path: the file.
        names: of its arrays.
        fields: names of those of numbers that belong to no other; None: nothing says which these are.
    """

    path: Path
    names: tuple[str, ...]
    fields: tuple[str, ...] | None = None

    @property
    def where(self) -> str:
        """The file, for messages."""
        return path_shown(self.path)

    def read(self, name: str) -> Variable:
        """The array of that name, one of `names`."""
        raise NotImplementedError

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array without its values; None: only values tell it."""
        return None

    def may_be_list(self, name: str) -> bool:
        """False if an array certainly has several dimensions. It may be too large to read."""
        return len(self.shape_of(name) or ()) < 2

    def along(self, name: str, axis: str) -> Variable | None:
        """The coordinates of an array along one of its axes, of one dimension; None: the file has none.

        They are the array of the axis's name, in the group of the array or in one around it.
        """
        own = in_scope(self.names, name, axis)
        if own is None:
            return None
        try:
            variable = self.read(own)
        except DataError:  # names, such as those of stations, are no coordinates
            return None
        return variable if variable.values.ndim == 1 else None

    def belongings(self, name: str) -> tuple[str, ...]:
        """Names of the arrays that an array names as its coordinates: none, in a format without attributes."""
        return ()

    def labels(self, name: str) -> Labels | None:
        """The texts of an array; None: it has none."""
        return None


def in_scope(names: Sequence[str], name: str, other: str) -> str | None:
    """The array that another one names: in its group, or in the next one around it; None: there is none.

    Args:
        names: of all arrays.
        name: the array that names another.
        other: the name that it gives.
    """
    if other.startswith("/"):
        return other[1:] if other[1:] in names else None
    group = name.rpartition("/")[0]
    while True:
        own = f"{group}/{other}" if group else other
        if own in names:
            return own
        if not group:
            return None
        group = group.rpartition("/")[0]


def that_belong(names: Sequence[str], name: str, attributes: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, ...]:
    """The arrays that attributes of an array name.

    Args:
        names: of all arrays.
        name: the array.
        attributes: of it.
        keys: those of the attributes, as in `ABOUT_OTHERS`.
    """
    words = [word.rstrip(":") for key in keys for word in _text(attributes.get(key, "")).split()]
    belonging = [in_scope(names, name, word) for word in words]
    return tuple(dict.fromkeys(each for each in belonging if each is not None))


def pick(variables: Variables, name: str, key: str) -> Variable:
    """The array of that name, which the user may name by a key.

    Raises:
        DataError: there is none. The message lists those that exist.
    """
    if name not in variables.names:
        raise DataError(
            f"{variables.where}: expected one of the variables {listed(variables.names)}, found no {name_shown(name)}; "
            f"{_alike(variables.names, name) or f'name one of them by {key}'}"
        )
    return variables.read(name)


def _alike(names: Sequence[str], name: str) -> str:
    """A question for names that differ in their group or in capitals; "": there are none."""
    last = name.rpartition("/")[2].lower()
    alike = [name_shown(each) for each in names if each.rpartition("/")[2].lower() == last]
    return f"did you mean {' or '.join(alike[:3])}?" if alike else ""


def is_count(variable: Variable) -> bool:
    """True if numbers without a unit are those of entries, from 0 or 1."""
    at = variable.values
    return not variable.unit and at.ndim == 1 and at[:1].tolist() in ([0.0], [1.0]) and bool((np.diff(at) == 1).all())


def is_of_time(variable: Variable) -> bool:
    """True if numbers are times by their type or their unit: dates, timedelta64, "hours since 2011-03-11", or seconds."""
    unit = variable.unit.partition(SINCE)[0].strip()
    if variable.epoch is not None or variable.typed or not unit:
        return variable.epoch is not None or variable.typed
    try:
        return factor(unit, "s") > 0
    except DataError:  # a unit of something else
        return False


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
