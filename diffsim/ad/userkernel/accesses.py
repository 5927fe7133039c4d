"""Rules for reads of an array that the kernel also writes: which of them leave Taichi's derivative right.

The reverse kernel reads primal values again from the arrays, after the forward kernel has finished. An array that is
updated in place is put back to its values from before, and a new output keeps its final values. So each must be read only
where that value is the one that the forward kernel read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["read", "write", "add"]


@dataclass(frozen=True)
class Access:
    """One access to an array.

    Attributes:
        segment: number of the top-level loop around it.
        own: it touches the cell of the loop's own indices, once in an iteration, and no other.
        apart: the part of the index that differs between iterations of the top-level loop, None if there is none: then two of
            them may meet in a cell.
    """

    array: str
    mode: Mode
    segment: int
    own: bool
    apart: str | None
    node: ast.AST
    flag: Callable[[ast.AST, str, str], None]


def judge(accesses: Sequence[Access], in_place: frozenset[str], integers: frozenset[str]) -> None:
    """Flag every read of a written array that would give another value in reverse. `accesses` are in source order."""
    for array in dict.fromkeys(a.array for a in accesses):
        mine = [a for a in accesses if a.array == array]
        reads = [a for a in mine if a.mode == "read"]
        writes = [a for a in mine if a.mode != "read"]
        if array not in integers:
            _judge_meetings(array, writes)
        if not reads or not writes:
            continue
        if array in integers:
            _flag(reads[0], f"{array} holds integers, is read and written, and is written a second time in reverse", array)
        elif array in in_place and not _cell_by_cell(mine, reads, writes, last=True):
            _flag(reads[0], f"{array} is overwritten with values of it; reverse reads other values than forward, silently", array)
        elif array not in in_place and not (_before(writes, reads) or _cell_by_cell(mine, reads, writes, last=False)):
            _flag(reads[0], f"{array} is read before its last write; reverse reads other values than forward, silently", array)


def _judge_meetings(array: str, writes: Sequence[Access]) -> None:
    """Flag an array that is assigned where another iteration writes too: reverse does not go through them backwards."""
    for segment in dict.fromkeys(w.segment for w in writes if w.mode == "write"):
        mine = [w for w in writes if w.segment == segment]
        if len({w.apart for w in mine}) == 1 and mine[0].apart is not None:
            continue
        first = next(w for w in mine if w.mode == "write")
        first.flag(
            first.node,
            f"another iteration of the top-level loop may write to this cell of {array}, and the order of iterations is not kept",
            "assign only at the loop's own indices, the same way each time, or add with +=",
        )


def _before(writes: Sequence[Access], reads: Sequence[Access]) -> bool:
    """True if every write is in an earlier top-level loop than every read."""
    return max(w.segment for w in writes) < min(r.segment for r in reads)


def _cell_by_cell(mine: Sequence[Access], reads: Sequence[Access], writes: Sequence[Access], last: bool) -> bool:
    """True if each iteration touches its own cell only and writes it once, after (`last`) or before all its reads."""
    if len(writes) != 1 or any(not a.own or a.segment != mine[0].segment for a in mine):
        return False
    if last:
        return mine[-1] is writes[0]
    return mine[0] is writes[0] and writes[0].mode == "write"


def _flag(access: Access, wrong: str, array: str) -> None:
    access.flag(access.node, wrong, f"write to another array than {array}, in a kernel or a top-level loop of its own")
