"""Checks of arguments that may be differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from diffsim.ad.arrays.array import Array, wrap
from diffsim.ad.ops.structure import astype
from diffsim.base.arguments import real_array
from diffsim.errors import ParameterError


def real_values(name: str, value: Any, dtype: npt.DTypeLike | None = None) -> Any:
    """An array of real numbers in a type, or its own; one that is differentiated stays so.

    Raises:
        ParameterError: these are no real numbers.
    """
    if not isinstance(value, Array):
        return real_array(name, value, dtype)
    if value.dtype.kind not in "fiu":
        raise ParameterError(f"{name}: expected an array of real numbers, got one of type {value.dtype}; convert it")
    return value if dtype is None or value.dtype == np.dtype(dtype) else wrap(astype(value.core(), dtype=np.dtype(dtype)))
