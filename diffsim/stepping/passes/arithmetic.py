"""Divide once by each divisor of a cotangent, and multiply by its reciprocal.

The derivatives of a quotient n / d are s / d and -s (n / d) / d, so an adjoint divides by d three times. With r = 1 / d these are s r and
-(s r) (n / d): a division takes as long as twenty products of the same registers on CPUs whose divider is not pipelined. Cotangents
change by rounding. Quotients of the forward run keep their divisions, and so their bits: with 49 (1 / 49) < 1 a condition of an adjoint
would choose another branch than the run, and 1 - n / d would be rounding where the run has 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from diffsim.expr.bounds import SAFE, LowerBounds
from diffsim.expr.graph import Graph, Node, ordered
from diffsim.stepping.ir.program import Nest, Operation
from diffsim.stepping.passes.sharing import Classes


def with_reciprocals(operations: Sequence[Operation], graph: Graph, run: Iterable[Node]) -> list[Operation]:
    """The operations, whose nests divide once by each divisor that is never near 0: its reciprocal is finite in f32 as well.

    Args:
        operations: those of an adjoint step.
        graph: graph of their expressions.
        run: the expressions of the forward run, whose quotients keep their bits at all cells.
    """
    classes, least = Classes(graph), LowerBounds()
    kept = {classes.of(node)[0] for node in _divisions(run)}
    return [_divided_once(each, graph, classes, least, kept) if isinstance(each, Nest) else each for each in operations]


def _divisions(roots: Iterable[Node]) -> list[Node]:
    """The divisions by what is no number."""
    return [node for node in ordered(list(roots)) if node.op == "div" and node.args[1].args]


def _divided_once(nest: Nest, graph: Graph, classes: Classes, least: LowerBounds, kept: Collection[int]) -> Nest:
    """A nest with one division by each divisor, but for quotients of the classes that are kept."""
    quotients: dict[int, set[int]] = {}  # class of a divisor -> classes of quotients
    divisions = [node for node in _divisions(assign.node for assign in nest.assigns) if classes.of(node)[0] not in kept]
    for node in divisions:
        quotients.setdefault(classes.of(node.args[1])[0], set()).add(classes.of(node)[0])
    several = {node.args[1].id for node in divisions if len(quotients[classes.of(node.args[1])[0]]) > 1 and least(node.args[1]) > SAFE}
    if not several:
        return nest
    changed = {node.id for node in divisions if node.args[1].id in several}
    memo: dict[int, Node] = {}
    for node in ordered([assign.node for assign in nest.assigns]):
        arguments = [memo[each.id] for each in node.args]
        if node.id in changed:
            memo[node.id] = graph.apply_exactly("mul", arguments[0], graph.apply_exactly("div", graph.const(1), arguments[1]))
        else:
            memo[node.id] = graph.apply_exactly(node.op, *arguments, data=node.data) if node.args else node
    return dataclasses.replace(nest, assigns=tuple(dataclasses.replace(a, node=memo[a.node.id]) for a in nest.assigns))
