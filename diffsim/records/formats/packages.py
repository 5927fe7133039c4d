"""Import packages that only some formats need."""

from __future__ import annotations

import importlib
from typing import Any

from diffsim.base.packages import needed_by
from diffsim.errors import DataError, MissingPackageError


def package(name: str, purpose: str) -> Any:
    """Import a package of the extra `formats`.

    Args:
        name: the package.
        purpose: the need for it, such as "HDF5 files".

    Raises:
        DataError: it is not installed. The message has the command that installs it.
    """
    try:
        with needed_by(purpose):
            return importlib.import_module(name)
    except MissingPackageError as error:
        raise DataError(str(error)) from None
