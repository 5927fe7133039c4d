"""NumPy's names for arrays: the module `diffsim.numpy`, which is on a higher floor and registers itself here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_namespace: list[Any] = [None]
"""The module `diffsim.numpy`, once it is there."""


def set_namespace(module: Any) -> None:
    """Make a module the one in which arrays look NumPy's functions up."""
    _namespace[0] = module


def namespace() -> Any:
    """The module `diffsim.numpy`."""
    return _namespace[0]


def method(name: str) -> Callable[..., Any]:
    """A function of the namespace."""
    return getattr(_namespace[0], name)


@functools.lru_cache(1024)
def named(function: Any) -> Any:
    """The function of the namespace of the same name as one of NumPy's, or of SciPy's special ones; None if there is none."""
    space = _namespace[0]
    module = (getattr(function, "__module__", None) or "numpy").removeprefix("numpy").strip(".")
    for part in module.split("."):
        if part and not part.startswith("_"):
            space = getattr(space, part, space)
    own = getattr(space, function.__name__, None) or getattr(_namespace[0].special, function.__name__, None)
    return None if own is function else own


def own(function: Any) -> Any:
    """A function of the namespace past its choice to be NumPy's own outside of a derivative, which would lead back here."""
    return getattr(function, "own", function)
