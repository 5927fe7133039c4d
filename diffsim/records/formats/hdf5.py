"""Named arrays of an HDF5 file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffsim.base.messages import name_shown, path_shown, reason_shown
from diffsim.errors import DataError
from diffsim.records.conventions.clock import date_remedy, is_date
from diffsim.records.conventions.packing import USED, unpacked
from diffsim.records.conventions.variables import (
    ABOUT_OTHERS,
    DESCRIPTIONS,
    MAPPING,
    Labels,
    Variable,
    Variables,
    dated,
    described,
    require_room,
    that_belong,
)
from diffsim.records.formats.packages import package

NETCDF = "_NCProperties"
"""Attribute of the root of files that the NetCDF library wrote."""


class Hdf5File(Variables):
    """The data sets of an HDF5 file. A name has the groups before it, such as "shot1/values".

    Data sets that lie in other files are left out, since a file must not lead to others.
    """

    @classmethod
    def open(cls, path: Path) -> Hdf5File:
        """Read the names."""
        datasets: dict[str, Any] = {}
        h5py = package("h5py", "HDF5 files")

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and not item.is_virtual and item.external is None:
                datasets[name] = item

        with _opened(path) as file:
            file.visititems(visit)
            others = {name for name, item in datasets.items() if not item.shape or item.dtype.kind not in "iuf" or item.is_scale}
            others |= {name for name, item in datasets.items() if MAPPING in item.attrs}
            for name, item in datasets.items():
                others |= set(that_belong(tuple(datasets), name, _attributes(item, ABOUT_OTHERS), ABOUT_OTHERS))
        return cls(path, tuple(datasets), tuple(name for name in datasets if name not in others))

    def read(self, name: str) -> Variable:
        """The data set of that name, packed numbers unpacked and missing ones NaN, dates as seconds.

        The attributes are those of NetCDF; names of dimensions are their labels, or the names of the scales that are attached to them.
        """
        what = f"{self.where}, {name_shown(name)}"
        with _opened(self.path) as file:
            item = file[name]
            if item.shape is None:
                raise DataError(f"{what}: expected numbers, found an empty data set; write them")
            require_room(item.shape, what)
            try:
                raw = np.asarray(item[()])
                attributes = {key: item.attrs[key] for key in item.attrs if key in USED or key.lower() in DESCRIPTIONS}
                axes = tuple(_label(item, axis) for axis in range(raw.ndim))
                if raw.dtype.kind in "OSU" and raw.size and all(_may_be_date(value) for value in raw.ravel()):
                    return dated(raw, axes, what, (name,))
                fill = _own_fill(item, raw)
                values = unpacked(raw, attributes, what, default_fill=NETCDF in file.attrs)
            except (OSError, ValueError, TypeError, RuntimeError) as error:
                if isinstance(error, DataError):
                    raise
                raise DataError(f"{what}: expected numbers, found damage ({reason_shown(error)}); copy the file again") from None
            if fill is not None:
                values[raw == fill] = np.nan
            return described(values, axes, attributes)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape of the data set; None: it has none."""
        with _opened(self.path) as file:
            shape = file[name].shape
            return None if shape is None else tuple(int(n) for n in shape)

    def belongings(self, name: str) -> tuple[str, ...]:
        """Names of the data sets that the attribute `coordinates` of a data set names, as NetCDF writes it."""
        with _opened(self.path) as file:
            return that_belong(self.names, name, _attributes(file[name], ("coordinates",)), ("coordinates",))

    def labels(self, name: str) -> Labels | None:
        """The texts of a data set."""
        with _opened(self.path) as file:
            item = file[name]
            if not item.shape or item.dtype.kind not in "OSU":
                return None
            require_room(item.shape, f"{self.where}, {name_shown(name)}")
            return Labels.of(np.asarray(item[()]), tuple(_label(item, axis) for axis in range(item.ndim)))


def _attributes(item: Any, keys: Sequence[str]) -> dict[str, Any]:
    """Those of the attributes that are texts; others, such as references to data sets, name nothing here."""
    present = {key: item.attrs[key] for key in keys if key in item.attrs}
    return {key: value for key, value in present.items() if isinstance(value, (str, bytes, np.ndarray))}


def _label(item: Any, axis: int) -> str:
    """The name of a dimension; "": it has none."""
    dimension = item.dims[axis]
    scales = [key for key in dimension.keys() if key] or [each.name.rpartition("/")[2] for each in dimension.values() if each.name]  # noqa: SIM118
    return str(dimension.label or (scales[0] if scales else "")).rpartition("/")[2]


def _own_fill(item: Any, raw: np.ndarray) -> Any:
    """The value that stands where nothing was written, if the writer chose one other than 0; None: it did not."""
    h5py = package("h5py", "HDF5 files")
    if item.id.get_create_plist().fill_value_defined() != h5py.h5d.FILL_VALUE_USER_DEFINED or raw.dtype.kind not in "iuf":
        return None
    return item.fillvalue if item.fillvalue and np.isfinite(item.fillvalue) else None


def _opened(path: Path) -> Any:
    try:
        return package("h5py", "HDF5 files").File(path, "r")
    except OSError as error:
        raise DataError(f"expected an HDF5 file, found {path_shown(path)}, unreadable ({reason_shown(error)}); write it again") from None


def _may_be_date(value: Any) -> bool:
    """True if a text is a date, or one in a form that is refused."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return is_date(text) or bool(date_remedy(text))
