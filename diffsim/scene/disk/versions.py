"""Versions of diffsim, Python and the libraries."""

from __future__ import annotations

import platform
from functools import cache
from importlib import metadata

from diffsim.engine import chosen
from diffsim.version import __version__

LIBRARIES = ("numpy", "scipy", "matplotlib", "pydantic")


def versions(engine: str | None = None) -> dict[str, str]:
    """Name -> version. The engine is that of this name, else the present one."""
    return _versions(engine or chosen())


@cache
def _versions(engine: str) -> dict[str, str]:
    return {"diffsim": __version__, "python": platform.python_version()} | {name: _version(name) for name in (engine, *LIBRARIES)}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"
