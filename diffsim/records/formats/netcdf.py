"""Named arrays of a NetCDF file, with the names of their dimensions and the description by their attributes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.base.messages import name_shown, path_shown, reason_shown
from diffsim.errors import DataError
from diffsim.records.conventions.packing import unpacked
from diffsim.records.conventions.variables import ABOUT_OTHERS, MAPPING, Labels, Variable, Variables, described, require_room, that_belong
from diffsim.records.formats.packages import package

PURPOSE = "NetCDF files"


class NetcdfFile(Variables):
    """The variables of a NetCDF file. One in a group has the groups before its name, such as "gauges/eta"."""

    @classmethod
    def open(cls, path: Path) -> NetcdfFile:
        """Read the names."""
        with _opened(path) as file:
            every = {prefix + name: each for group, prefix in _groups(file, "") for name, each in group.variables.items()}
            names, others = tuple(every), set[str]()
            for name, variable in every.items():
                attributes = {key: variable.getncattr(key) for key in (*ABOUT_OTHERS, MAPPING) if key in variable.ncattrs()}
                if name.rpartition("/")[2] in variable.dimensions or not variable.ndim or not _is_number(variable) or MAPPING in attributes:
                    others.add(name)
                others |= set(that_belong(names, name, attributes, ABOUT_OTHERS))
        fields = tuple(name for name in names if name not in others)
        return cls(path, (*fields, *(name for name in names if name in others)), fields)

    def read(self, name: str) -> Variable:
        """The variable of that name, packed numbers unpacked and missing ones NaN."""
        what = f"{self.where}, {name_shown(name)}"
        with _opened(self.path) as file:
            variable = _variable(file, name)
            require_room(variable.shape, what)
            try:
                raw = np.asarray(variable[...])
                attributes = {key: variable.getncattr(key) for key in variable.ncattrs()}
            except (OSError, ValueError, RuntimeError, IndexError) as error:
                raise DataError(f"{what}: expected numbers, found damage ({reason_shown(error)}); copy the file again") from None
            return described(unpacked(raw, attributes, what, default_fill=True), tuple(map(str, variable.dimensions)), attributes)

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of the variable."""
        with _opened(self.path) as file:
            return tuple(int(n) for n in _variable(file, name).shape)

    def belongings(self, name: str) -> tuple[str, ...]:
        """Names of the variables that the attribute `coordinates` of a variable names."""
        with _opened(self.path) as file:
            variable = _variable(file, name)
            stated = variable.getncattr("coordinates") if "coordinates" in variable.ncattrs() else ""
        return that_belong(self.names, name, {"coordinates": stated}, ("coordinates",))

    def labels(self, name: str) -> Labels | None:
        """The texts of a variable, or of characters along its last dimension."""
        with _opened(self.path) as file:
            variable = _variable(file, name)
            if _is_number(variable):
                return None
            require_room(variable.shape, f"{self.where}, {name_shown(name)}")
            return Labels.of(np.asarray(variable[...]), tuple(map(str, variable.dimensions)) or ("",))

    def along(self, name: str, axis: str) -> Variable | None:
        """The variable of the dimension's name, or one over it alone that the attribute `coordinates` names."""
        own = super().along(name, axis)
        if own is not None:
            return own
        for other in self.belongings(name):
            try:
                variable = self.read(other)
            except DataError:  # names, such as those of stations, are no coordinates
                continue
            if variable.axes == (axis,):
                return variable
        return None


def _variable(file: Any, name: str) -> Any:
    return file[name] if "/" in name else file.variables[name]


def _is_number(variable: Any) -> bool:
    return variable.dtype is not str and np.dtype(variable.dtype).kind in "iuf"


def _groups(group: Any, prefix: str) -> Iterator[tuple[Any, str]]:
    yield group, prefix
    for name, inner in group.groups.items():
        yield from _groups(inner, f"{prefix}{name}/")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    netcdf = package("netCDF4", PURPOSE)
    try:
        file = netcdf.Dataset(path)
        file.set_auto_maskandscale(False)
        file.set_auto_chartostring(False)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise DataError(f"expected a NetCDF file, found {path_shown(path)}, unreadable ({reason_shown(error)}); write it again") from None
    with file:
        yield file
