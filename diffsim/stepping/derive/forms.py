"""The form of the sums of an adjoint: each term apart, or the terms that a cell gives to a neighbour as one value (see `Reverse`).

Sums in another order have other last bits. So the choice depends on the expressions alone: not on the sides of the grid, which a box of a
domain lacks, not on axes along which no cell reads another, of which a batch has one more, and not on threads and registers.
"""

from __future__ import annotations

from itertools import takewhile

from diffsim.expr.graph import Graph, Node, reads
from diffsim.stepping.derive.adjoint import Adjoint
from diffsim.stepping.ir.program import Program
from diffsim.stepping.passes.rolling import Rolling
from diffsim.stepping.trace.trace import TracedStep


def alternative_is_cheaper(step: TracedStep, adjoint: Adjoint, rolling: Rolling) -> bool:
    """True if the alternative program of an adjoint costs less, counted with all values that are kept for neighbours."""
    if adjoint.alternative is None:
        return False
    return rolling.cost(nests_of(step.graph, adjoint.alternative)) < rolling.cost(nests_of(step.graph, adjoint.program))


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
