"""Looks at levels of rings where they are: on the host, or on a GPU, whose memory is slow to copy."""

from __future__ import annotations

import numpy as np

from diffsim.engine import DeviceArray
from diffsim.engine.reductions import Cells, bit_sums, largest
from diffsim.stepping.run.launcher import Launcher
from diffsim.typing import Array, IntArray


def size_of(launcher: Launcher, name: str, level: int) -> float:
    """The largest magnitude of the cells; NaN if one is NaN."""
    array = launcher.field(name)
    if isinstance(array, DeviceArray):
        return largest(launcher.memory, array, _cells(launcher, name), level)
    values = launcher.cells(name, level)
    return max(float(values.max()), -float(values.min()))


def bits_of(launcher: Launcher, name: str, level: int) -> Array | IntArray:
    """An array on the host that changes if a bit of a cell does: `Launcher.kept`, or sums of its bits."""
    array = launcher.field(name)
    if isinstance(array, DeviceArray):
        return bit_sums(launcher.memory, array, _cells(launcher, name), level)
    return launcher.kept(name, level)


def _cells(launcher: Launcher, name: str) -> Cells:
    """The places of the cells in their storage, or of all that a sparse field stores."""
    storage = np.empty(launcher.storage(name), launcher.layout.dtype)  # its memory is not touched
    return Cells.of(storage.reshape(-1) if name in launcher.sparse else launcher.layout.cells(storage), storage)
