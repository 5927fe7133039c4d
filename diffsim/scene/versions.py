"""Versions of diffsim, Python and the libraries."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

from diffsim.version import __version__

LIBRARIES = ("taichi", "numpy", "scipy", "matplotlib", "pydantic")


@cache
def versions() -> dict[str, str]:
    """Name -> version."""
    return {"diffsim": __version__, "python": platform.python_version()} | {name: _version(name) for name in LIBRARIES}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"
