"""Values that all launches of a program share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from diffsim.engine import DeviceArray
from diffsim.stepping.run.pace import Pace
from diffsim.stepping.run.queue import Entries
from diffsim.typing import IntArray

Allocated: TypeAlias = npt.NDArray[Any] | DeviceArray
"""An array for kernels, in the memory of the host or of a GPU."""


@dataclass
class Launches:
    """Values that every launch of a program needs, looked up once.

    Attributes:
        control: the control array of its kernels, for any number of workers.
        pace: the measured pace of its launches.
        tables: array -> index of the first entry of its level table in the control array.
        most: most steps of a launch, whose levels fit into the tables.
        stepwise: whether host functions are called between its steps.
        unrolled: most steps of one call of a kernel of a GPU.
        entries: writes into `control` on a GPU.
        written: the level tables in `control`, if the next launch may have the same.
    """

    control: Allocated
    pace: Pace
    tables: dict[str, int]
    most: int
    stepwise: bool
    unrolled: int
    entries: Entries | None
    written: Mapping[str, IntArray] | None = None
