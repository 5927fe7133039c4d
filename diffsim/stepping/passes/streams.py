"""Loop nests of a CPU: how many rows of arrays they read and write at once.

A processor fetches values from memory before they are needed, but only along a limited number of rows. Residuals of a run do not fit into
caches, so a nest that reads them among many other rows waits for each.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Container, Iterator, Sequence

from diffsim.engine import reads_unaligned
from diffsim.expr.graph import operations
from diffsim.stepping.ir.program import Assign, Loop, Nest, Operation, Place, Program
from diffsim.stepping.passes.sharing import cost

LONGEST_BODY = 200
"""Operations in a loop body above which fewer rows are computed together."""
SHARED = 40
"""Cost of the operations in common from which on values have no nest of their own."""
MOST_STREAMS = 16
"""Rows of arrays that a loop body reads or writes, above which fewer rows are computed together."""


def rows_together(program: Program, nest: Nest) -> int:
    """Rows that a nest without kept values computes together on a CPU, so that shared rows are loaded once.

    More rows save loads and cost registers. Measured on acoustics at 1024 x 1024, one thread, Gpoints/s with blocks of 1, 2
    and 4 rows: order 4 (reach 2) 2.7, 3.6, 4.2; order 8 (reach 4) 2.0, 2.1, 1.8. Unaligned reads come from memory and need no registers:
    order 8 with 2 and 4 rows 2.4, 2.5.

    A processor fetches ahead along few rows. Elastic waves at 200 x 200, 4 rows and 1 row, us a step: forward 57 and 57, with residuals of
    5 fields 165 and 110, adjoint 290 and 185. In three dimensions each plane that is read counts.
    """
    nodes = [a.node for a in nest.assigns]
    reads = program.reads(nodes)
    far = max((abs(o[-2]) for offsets in reads.values() for o in offsets if len(o) > 1), default=0)
    block = 1 if far == 0 else 4 if far <= 2 or reads_unaligned() else 2
    planes = {(program.places[name], o[:-2]) for name, offsets in reads.items() for o in offsets}
    streams = len(planes) + len({a.target for a in nest.assigns}.difference(place for place, _ in planes))
    while block > 1 and (block * operations(nodes) > LONGEST_BODY or block * streams > MOST_STREAMS):
        block //= 2
    return block


def with_sums_apart(program: Program) -> Program:
    """The program, where values that are only added to sums have nests of their own, before what else is computed then, unless both need
    the same costly operations: those of `ShallowWater` for slopes of the bed took 3 % of its adjoint.

    Cotangents of coefficients are such sums: products of residuals and of cotangents that other expressions read at neighbours. Adjoint
    steps at 200 x 200, in one nest and apart, us: acoustic waves of order 4 48 and 28, with a layer 74 and 58; Maxwell 95 and 69, elastic
    waves 185 and 128. At 1000 x 1000, acoustic waves of order 8 1350 and 890.
    """
    return dataclasses.replace(program, operations=tuple(_apart(program, program.operations)))


def _apart(program: Program, operations: Sequence[Operation]) -> Iterator[Operation]:
    for operation in operations:
        if isinstance(operation, Loop):
            yield dataclasses.replace(operation, operations=tuple(_apart(program, operation.operations)))
            continue
        sums = {a.target for a in operation.assigns if _is_local_sum(program, a)} if isinstance(operation, Nest) else set()
        if isinstance(operation, Nest) and sums and _in_common(operation.assigns, sums) < SHARED:
            yield Nest(tuple(a for a in operation.assigns if a.target in sums), tuple(s for s in operation.scatters if s.target in sums))
            yield dataclasses.replace(
                operation,
                assigns=tuple(a for a in operation.assigns if a.target not in sums),
                scatters=tuple(s for s in operation.scatters if s.target not in sums),
            )
        else:
            yield operation


def _in_common(assigns: Sequence[Assign], sums: Container[Place]) -> float:
    """Cost of what both the sums and the other assignments compute; infinite if there are no others."""
    mine, others = ([a.node for a in assigns if (a.target in sums) == which] for which in (True, False))
    return cost(mine) + cost(others) - cost([*mine, *others]) if others else math.inf


def _is_local_sum(program: Program, assign: Assign) -> bool:
    """Whether an assignment adds what it reads at the same cell."""
    return assign.accumulate and not assign.fold and not any(any(o) for found in program.reads([assign.node]).values() for o in found)
