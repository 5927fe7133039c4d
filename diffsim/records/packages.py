"""Import packages that only some formats need."""

from __future__ import annotations

import importlib
from typing import Any

from diffsim.errors import DataError

EXTRAS = {
    "h5py": "formats",
    "xarray": "formats",
    "netCDF4": "formats",
    "rasterio": "formats",
    "segyio": "formats",
}
"""Package -> the extra of diffsim that installs it."""


def package(name: str, purpose: str) -> Any:
    """Import a package.

    Args:
        name: the package.
        purpose: what it is needed for, such as "HDF5 files".

    Raises:
        DataError: it is not installed. The message has the command that installs it.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        extra = EXTRAS[name]
        raise DataError(
            f"expected the package {name}, which reads {purpose}, found none; install it: python -m pip install 'diffsim[{extra}]'"
        ) from None
