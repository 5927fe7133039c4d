"""Sums, and largest values, of all cells of a grid in domains, with the bits of one process.

One process adds up the cells of each row (each plane in three dimensions), and then the rows in the order of the first axis. A rank that
owns whole rows computes their totals as one process does. All ranks get those of all rows, and add them up in the order of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from diffsim.stepping.ir.program import HostCall, Operation, Program, Total, rows_of
from diffsim.typing import Array

OfRows = Callable[[Array, Literal["sum", "max"]], Array]
"""(totals of the rows of a box, how) -> the total of the grid."""


@dataclass(frozen=True)
class TotalOfRanks:
    """The host function of a total: from the totals of the rows of a box.

    Attributes:
        how: "sum" or "max".
        of_rows: gathers the rows of all ranks.
    """

    how: Literal["sum", "max"]
    of_rows: OfRows

    def __call__(self, *rows: Array) -> Sequence[Array]:
        return (self.of_rows(rows[0], self.how),)

    def identity(self) -> str:
        """A text that identifies it."""
        return f"{self.how} of the rows of all ranks"

    def room(self, cells: int) -> int:
        """Bytes that it keeps between calls."""
        return 0


def with_totals_of_ranks(program: Program, of_rows: OfRows) -> Program:
    """A program in which numbers are totals of the rows of all ranks."""

    def shared(operation: Operation) -> Operation:
        if isinstance(operation, Total) and operation.source == rows_of(operation.target):
            return HostCall(TotalOfRanks(operation.how, of_rows), (), (), operation)
        return operation

    return replace(program, operations=tuple(map(shared, program.operations)))


def total_of_rows(rows: Array, how: Literal["sum", "max"]) -> Array:
    """The sum of rows in their order, or the largest one, as a kernel computes it.

    Args:
        rows: totals of all rows, shape (rows,).
        how: "sum" or "max".
    """
    if how == "max":
        return np.asarray(rows[np.argmax(rows)])  # the first of several; NaN if there is one
    return np.asarray(np.add.accumulate(np.concatenate([np.zeros(1, rows.dtype), rows]))[-1])
