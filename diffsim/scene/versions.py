"""What this run stands on: versions of diffsim, Python and the libraries."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

LIBRARIES = ("taichi", "numpy", "scipy", "matplotlib", "pydantic")


@cache
def versions() -> dict[str, str]:
    """Name -> version."""
    return {"diffsim": _version("diffsim"), "python": platform.python_version()} | {name: _version(name) for name in LIBRARIES}


def _version(name: str) -> str:
    if name == "diffsim":
        from diffsim import __version__

        return __version__
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"
