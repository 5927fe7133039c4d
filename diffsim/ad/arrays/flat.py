"""The entries of an array in row-major order, as `numpy.ndarray.flat` has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diffsim.ad.arrays.views import ReshapeView


class Flat:
    """The value of `x.flat`: the entries in row-major order, as of NumPy's iterator."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        entries = self._all()[index]
        return entries.copy() if isinstance(entries, type(self._array)) else entries

    def __setitem__(self, index: Any, value: Any) -> None:
        self._all()[index] = value

    def _all(self) -> Any:
        return self._array.linked(ReshapeView((self._array.size,)))
