"""Files of bare numbers: `.bin`, f32 in the order of little-endian machines, the last axis contiguous, without a header."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import path_shown
from diffsim.errors import DataError
from diffsim.records.conventions.variables import Variable, Variables, require_room
from diffsim.typing import Array

NUMBER = np.dtype("<f4")
OTHERS: dict[str, np.dtype[np.floating]] = {
    "float32, big-endian": np.dtype(">f4"),
    "float64": np.dtype("<f8"),
    "float64, big-endian": np.dtype(">f8"),
}
TINY, SPREAD, ALIKE, JUMP = -30.0, 6.0, 3.0, 2.0
"""Decimal exponents: measured numbers are not all, or for the most part, as small as the first; their standard deviation is less than the
second in the right type, except for tails of a formula, and less than the third in a type that is likelier. From one number to the next, in
such tails too, they change by less than the last."""


@dataclass(frozen=True)
class RawFile(Variables):
    """The numbers of a `.bin` file, under the name "values".

    Attributes:
        shape: of the numbers; None: it is not given.
    """

    names: tuple[str, ...] = ("values",)
    shape: tuple[int, ...] | None = None

    def read(self, name: str) -> Variable:
        """The numbers.

        Raises:
            DataError: no shape is given, or the file has another count of numbers.
        """
        where, size = path_shown(self.path), self.path.stat().st_size
        if self.shape is None:
            raise DataError(f"{where}: expected the shape of its {size // NUMBER.itemsize} numbers of 4 bytes, found none; give shape")
        if size != NUMBER.itemsize * math.prod(self.shape):
            raise DataError(
                f"{where}: expected {math.prod(self.shape)} numbers of 4 bytes for the shape {self.shape}, found "
                f"{size / NUMBER.itemsize:g}; give the shape that the file has, or save it as float32"
            )
        require_room(self.shape, where)
        values = np.fromfile(self.path, NUMBER)
        other = _likelier(values)
        if other:
            raise DataError(
                f"{where}: expected numbers of type float32, little-endian, found bytes that look like {other}; save it by "
                "array.astype('<f4').tofile(path)"
            )
        return Variable(values.astype(float).reshape(self.shape), "", ("",) * len(self.shape))


def count_in(path: Path) -> int:
    """How many numbers a file has."""
    return path.stat().st_size // NUMBER.itemsize


def _likelier(values: npt.NDArray[np.float32]) -> str:
    """The type of which the bytes of a file are much more likely than of f32; "": none.

    Bytes in another order, or of another type, have exponents all over. Integers are tiny numbers, or have exponents all over if they are
    large.
    """
    own = _exponents(values)
    if not len(own) or (own.std() < SPREAD and np.median(own) > TINY):
        return ""
    raw = values.tobytes()
    for name, other in OTHERS.items():
        if len(raw) % other.itemsize == 0:
            read = np.frombuffer(raw, other)
            if np.isfinite(read).all() and len(exponents := _exponents(read)) and exponents.std() < ALIKE and np.median(exponents) > TINY:
                return name
    jumps = len(own) > 1 and np.median(np.abs(np.diff(own))) > JUMP
    return "integers" if jumps or own.max() < TINY else ""


def _exponents(values: npt.NDArray[np.floating]) -> Array:
    """Decimal exponents of the sizes of finite numbers other than 0."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)].astype(float))
    return np.log10(sizes)
