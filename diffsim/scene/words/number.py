"""The value of a misfit or a penalty, whose class may be a user's own."""

from __future__ import annotations

from typing import TypeVar

from diffsim.base.messages import shown
from diffsim.errors import ParameterError

T = TypeVar("T")


def one_number(value: T) -> T:
    """The value of a misfit or a penalty.

    Raises:
        ParameterError: it is no number.
    """
    shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", None)
    if shape != () or not (isinstance(value, (int, float)) if dtype is None else dtype.kind in "fiu"):
        seen = f"an array of shape {shape}" if shape != () else shown(value)
        raise ParameterError(f"expected one number from __call__, got {seen}; let it return one, as by diffsim.numpy.sum")
    return value
