"""Named arrays of a NetCDF file, with the names of their dimensions and what their attributes say."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.errors import DataError
from diffsim.messages import name_shown, path_shown, reason_shown
from diffsim.records.packages import package
from diffsim.records.packing import unpacked
from diffsim.records.variables import ArrayFile, Variable, described, require_room

PURPOSE = "NetCDF files"
ABOUT_OTHERS = ("coordinates", "bounds", "grid_mapping", "climatology", "ancillary_variables")
"""Attributes that name variables which belong to another one."""


@dataclass(frozen=True)
class NetcdfFile(ArrayFile):
    """The variables of a NetCDF file. One in a group has the groups before its name, such as "gauges/eta".

    Attributes:
        fields: names of the variables that belong to no other one.
    """

    fields: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> NetcdfFile:
        """Read the names."""
        names: list[str] = []
        others: set[str] = set()
        with _opened(path) as file:
            for group, prefix in _groups(file, ""):
                for name, variable in group.variables.items():
                    names.append(prefix + name)
                    if name in variable.dimensions or not variable.ndim:
                        others.add(prefix + name)
                    for key in set(ABOUT_OTHERS) & set(variable.ncattrs()):
                        others |= {prefix + each.rstrip(":") for each in str(variable.getncattr(key)).split()}
        fields = tuple(name for name in names if name not in others)
        return cls(path, (*fields, *(name for name in names if name in others)), fields)

    def read(self, name: str) -> Variable:
        """The variable of that name, packed numbers unpacked and missing ones NaN."""
        what = f"{self.where}, {name_shown(name)}"
        with _opened(self.path) as file:
            variable = file[name] if "/" in name else file.variables[name]
            require_room(variable.shape, what)
            try:
                raw = np.asarray(variable[...])
                attributes = {key: variable.getncattr(key) for key in variable.ncattrs()}
            except (OSError, ValueError, RuntimeError, IndexError) as error:
                raise DataError(f"{what}: expected numbers, found damage ({reason_shown(error)}); copy the file again") from None
            return described(unpacked(raw, attributes, what, default_fill=True), tuple(map(str, variable.dimensions)), attributes)

    def belongings(self, name: str) -> tuple[str, ...]:
        """Names of the variables that the attribute `coordinates` of a variable names."""
        with _opened(self.path) as file:
            variable = file[name] if "/" in name else file.variables[name]
            named = str(variable.getncattr("coordinates")).split() if "coordinates" in variable.ncattrs() else []
        prefix = name[: name.rfind("/") + 1]
        return tuple(prefix + each for each in named if prefix + each in self.names)

    def along(self, name: str, axis: str) -> Variable | None:
        """The variable of the dimension's name, or one over it alone that the attribute `coordinates` names."""
        found = super().along(name, axis)
        if found is not None:
            return found
        for other in self.belongings(name):
            try:
                variable = self.read(other)
            except DataError:  # names, such as those of stations, are no coordinates
                continue
            if variable.axes == (axis,):
                return variable
        return None


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
