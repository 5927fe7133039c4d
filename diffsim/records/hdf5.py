"""Named arrays of an HDF5 file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from diffsim.errors import DataError
from diffsim.messages import cut, name_shown, path_shown, printable
from diffsim.records.packages import package
from diffsim.records.variables import MISSING, PACKING, UNSIGNED, ArrayFile, Variable, require_room, unpacked


class Hdf5File(ArrayFile):
    """The data sets of an HDF5 file. A name has the groups before it, such as "shot1/values".

    Data sets that lie in other files are left out, since a file must not lead to others.
    """

    @classmethod
    def open(cls, path: Path) -> Hdf5File:
        """Read the names."""
        found: list[str] = []
        h5py = package("h5py", "HDF5 files")

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and not item.is_virtual and item.external is None:
                found.append(name)

        with _opened(path) as file:
            file.visititems(visit)
        return cls(path, tuple(found))

    def read(self, name: str) -> Variable:
        """The data set of that name, packed numbers unpacked and missing ones NaN. The attribute "units" has its unit."""
        what = f"{self.where}, {name_shown(name)}"
        with _opened(self.path) as file:
            item = file[name]
            require_room(item.shape, what)
            try:
                raw = np.asarray(item[()])
                attributes = {key: item.attrs[key] for key in (*MISSING, *PACKING, UNSIGNED) if key in item.attrs}
            except (OSError, ValueError, TypeError, RuntimeError) as error:
                raise DataError(f"{what}: expected numbers, found damage ({_told(error)}); copy the file again") from None
            values = unpacked(raw, attributes, what)
            return Variable(values, _text(item.attrs.get("units", item.attrs.get("unit", ""))), ("",) * values.ndim)


def _opened(path: Path) -> Any:
    try:
        return package("h5py", "HDF5 files").File(path, "r")
    except OSError as error:
        raise DataError(f"expected an HDF5 file, found {path_shown(path)}, unreadable ({_told(error)}); write it again") from None


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        value = value.ravel()[0] if value.size == 1 else ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _told(error: Exception) -> str:
    return cut(printable(str(error)), 200)
