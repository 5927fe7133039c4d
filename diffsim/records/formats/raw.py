"""Files of bare numbers: `.bin`, f32 in the order of little-endian machines, the last axis contiguous, without a header."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from diffsim.base.messages import path_shown
from diffsim.errors import DataError
from diffsim.records.conventions.variables import ArrayFile, Variable, require_room

NUMBER = np.dtype("<f4")


@dataclass(frozen=True)
class RawFile(ArrayFile):
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
        return Variable(np.fromfile(self.path, NUMBER).astype(float).reshape(self.shape), "", ("",) * len(self.shape))
