"""Values that all launches of a program share, and launches that are done again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.boundary import Rules
from diffsim.engine import DeviceArray
from diffsim.stepping.ir.program import Program
from diffsim.stepping.run.pace import Pace
from diffsim.stepping.run.queue import Entries
from diffsim.typing import Array, IntArray

Allocated: TypeAlias = npt.NDArray[Any] | DeviceArray
"""An array for kernels, in the memory of the host or of a GPU."""
Tables: TypeAlias = Callable[[int, int], Mapping[str, IntArray]]
"""(steps done, steps of the coming launch) -> the level table of each ring."""
Launch: TypeAlias = tuple[Program, int, int, Mapping[str, IntArray]]
"""A program, the index of its first step, the number of steps, and the levels."""


@dataclass(frozen=True)
class Packed:
    """Levels of a field that are kept as cells alone. Kernels see them one after the other, in the place of level 0.

    Attributes:
        rows: the cells, shape (levels, ...).
        rules: of the halo.
    """

    rows: Array
    rules: Rules


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


def merged(launches: Sequence[Launch], most: Mapping[str, int]) -> list[Launch]:
    """Launches with those joined that go on where the one before ended.

    The levels at the end of a launch, as many as its steps read beyond their own, are those at which the next begins.

    Args:
        launches: in order, with nothing between.
        most: steps of a launch, by the name of the program.
    """
    out: list[Launch] = []
    for program, first, steps, levels in launches:
        if out and out[-1][0] is program and out[-1][1] + program.direction * out[-1][2] == first:
            _, begin, before, earlier = out[-1]
            joined = {name: _joined(earlier[name], before, table, steps) for name, table in levels.items()}
            tables = {name: table for name, table in joined.items() if table is not None}
            if len(tables) == len(joined) and before + steps <= most[program.name]:
                out[-1] = program, begin, before + steps, tables
                continue
        out.append((program, first, steps, levels))
    return out


def _joined(before: IntArray, steps: int, after: IntArray, more: int) -> IntArray | None:
    """The level table of two launches, one after the other; None if the second does not begin where the first ends."""
    common = len(before) - steps
    if common != len(after) - more or not np.array_equal(before[steps:], after[:common]):
        return None
    return np.concatenate([before, after[common:]])
