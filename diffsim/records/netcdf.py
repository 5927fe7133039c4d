"""Named arrays of a NetCDF file, with the names of their axes and their units."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.errors import DataError
from diffsim.messages import cut, name_shown, path_shown, printable
from diffsim.records.packages import package
from diffsim.records.variables import ArrayFile, Variable, require_room, unpacked

PURPOSE = "NetCDF files"


@dataclass(frozen=True)
class NetcdfFile(ArrayFile):
    """The variables and coordinates of a NetCDF file.

    Attributes:
        fields: names of the variables that are no coordinates.
    """

    fields: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> NetcdfFile:
        """Read the names."""
        with _opened(path) as found:
            fields = tuple(map(str, found.data_vars))
            return cls(path, (*fields, *map(str, found.coords)), fields)

    def read(self, name: str) -> Variable:
        """The variable of that name, packed numbers unpacked and missing ones NaN."""
        what = f"{self.where}, {name_shown(name)}"
        with _opened(self.path) as found:
            variable = found[name]
            require_room(variable.shape, what)
            try:
                raw = np.asarray(variable.values)
            except (OSError, ValueError, RuntimeError, IndexError) as error:
                raise DataError(f"{what}: expected numbers, found damage ({_told(error)}); copy the file again") from None
            values = unpacked(raw, variable.attrs, what)
            return Variable(values, str(variable.attrs.get("units", "")), tuple(map(str, variable.dims)))


def _opened(path: Path) -> Any:
    package("netCDF4", PURPOSE)
    xarray = package("xarray", PURPOSE)
    try:
        return xarray.open_dataset(path, engine="netcdf4", decode_times=False, mask_and_scale=False, cache=False)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise DataError(f"expected a NetCDF file, found {path_shown(path)}, unreadable ({_told(error)}); write it again") from None


def _told(error: Exception) -> str:
    return cut(printable(str(error)), 200)
