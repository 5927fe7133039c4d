"""Packages that only some parts of diffsim need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from diffsim.errors import MissingPackageError


@contextmanager
def needed_by(purpose: str) -> Iterator[None]:
    """Stands around the import of a package that diffsim does not always need.

    Args:
        purpose: the part that needs the package, for the message.

    Raises:
        MissingPackageError: the package is not installed. The message has the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"{purpose} expected the package {error.name}, found none; install it: python -m pip install {error.name}",
            name=error.name,
        ) from None
