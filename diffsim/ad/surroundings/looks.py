"""Looks: values by which two numbers, arrays or records of numbers are compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from diffsim import engine
from diffsim.ad.arrays.guard import fingerprint


def look_of(value: Any) -> Any:
    """Type and digits of a number, a text, an array, or a record of them (tuple, list, dict, Taichi's matrix); None for anything else."""
    if isinstance(value, (int, float, complex, np.number, np.bool_)):
        return type(value), repr(value)
    if isinstance(value, np.ndarray):
        return None if value.dtype.hasobject else (value.shape, value.dtype.str, fingerprint(value))
    if isinstance(value, dict):
        return _looks(dict, [part for item in value.items() for part in item])
    if isinstance(value, (tuple, list)):
        return _looks(type(value), value)
    if isinstance(value, str):
        return str, value
    if engine.present().is_own(type(value).__module__) and isinstance(value, engine.language().Matrix):
        return _looks(type(value), value.to_list())
    return None


def _looks(kind: type, parts: Iterable[Any]) -> Any:
    looks = []
    for part in parts:
        looks.append(look_of(part))
        if looks[-1] is None:
            return None
    return kind, *looks
