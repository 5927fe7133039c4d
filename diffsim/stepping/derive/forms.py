"""The form of the sums of an adjoint: each term apart, or what a cell gives to a neighbour as one value (see `Reverse`).

Sums in another order have other last bits. So the choice depends on the expressions alone: not on the sides of the grid, which a box of a
domain lacks, not on axes along which no cell reads another, of which a batch has one more, and not on threads and registers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TypeVar

from diffsim.boundary import zero_rules
from diffsim.expr.graph import Graph, Node, reads
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.ir.program import Program
from diffsim.stepping.passes.rolling import Rolling
from diffsim.stepping.trace.fields import Placed, Stage
from diffsim.stepping.trace.stages import StoredExpression
from diffsim.stepping.trace.trace import TracedStep

P = TypeVar("P", bound=Placed)


def whole_is_cheaper(step: TracedStep, receivers: Sequence[str], rolling: Rolling) -> bool:
    """Whether sums of what a cell gives at an offset as one value cost less, counted with all values that are kept for neighbours."""
    bare = without_sides(step)
    split = adjoint_program(bare, receivers)
    if not split.splits:
        return False
    whole = adjoint_program(bare, receivers, whole=True)
    return rolling.cost(nests_of(step.graph, whole.program)) < rolling.cost(nests_of(step.graph, split.program))


def without_sides(step: TracedStep) -> TracedStep:
    """The step with 0 beyond all sides but joined ends, which are never cut. Stages that are no expressions stay as they are: domains and
    batches have none."""
    rules = zero_rules(step.grid.ndim, step.joined)

    def bare(fields: Mapping[str, P]) -> dict[str, P]:
        return {name: dataclasses.replace(field, rules=rules) for name, field in fields.items()}

    stages: list[Stage] = [dataclasses.replace(each, rules=rules) if isinstance(each, StoredExpression) else each for each in step.stages]
    return dataclasses.replace(
        step, states=bare(step.states), coefficients=bare(step.coefficients), series=bare(step.series), stages=tuple(stages)
    )


def nests_of(graph: Graph, program: Program) -> list[list[Node]]:
    """The expressions of each nest of a program, on the axes from the first one along which a cell reads another."""
    nests = [[assign.node for assign in nest.assigns] for nest in program.nests if nest.assigns]
    offsets = [offset for nodes in nests for fields in reads(nodes).values() for offset in fields]
    if not offsets:
        return nests
    reaching = [any(offset[axis] for offset in offsets) for axis in range(len(offsets[0]))]
    first = min(len([*takewhile(lambda reaches: not reaches, reaching)]), len(reaching) - 1)
    if not first:
        return nests
    memo: dict[int, Node] = {}
    return [graph.replace(nodes, lambda read: graph.read(read.data[0], read.data[1][first:]), memo, graph.apply_exactly) for nodes in nests]
