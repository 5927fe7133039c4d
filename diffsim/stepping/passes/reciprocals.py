"""Divide once by each divisor of a cotangent, and multiply by its reciprocal.

The derivatives of a quotient n / d are s / d and -s (n / d) / d, so an adjoint divides by d three times. With r = 1 / d these are r,
n r and (n r) r: a division takes as long as twenty products of the same registers on CPUs whose divider is not pipelined. Results change by
rounding. So values of the forward run, which an adjoint computes again, keep their divisions: they have the bits of that run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from diffsim.expr.bounds import SAFE, LowerBounds
from diffsim.expr.graph import Graph, ordered
from diffsim.stepping.ir.program import Assign, Nest, Operation
from diffsim.stepping.passes.sharing import Classes


def with_reciprocals(operations: Sequence[Operation], graph: Graph, exact: Callable[[Assign], bool]) -> list[Operation]:
    """The operations, whose nests divide once by each divisor that is never near 0: its reciprocal is finite in f32 as well.

    Args:
        operations: those of an adjoint step.
        graph: graph of their expressions.
        exact: tests whether an assignment keeps its bits.
    """
    classes, least = Classes(graph), LowerBounds()
    return [_divided_once(each, graph, classes, least, exact) if isinstance(each, Nest) else each for each in operations]


def _divided_once(nest: Nest, graph: Graph, classes: Classes, least: LowerBounds, exact: Callable[[Assign], bool]) -> Nest:
    kept = {node.id: node for node in ordered([a.node for a in nest.assigns if exact(a)])}
    quotients: dict[int, set[int]] = {}  # class of a divisor -> classes of quotients
    divisions = [n for n in ordered([a.node for a in nest.assigns]) if n.op == "div" and n.args[1].args and n.id not in kept]
    for node in divisions:
        quotients.setdefault(classes.of(node.args[1])[0], set()).add(classes.of(node)[0])
    several = {node.args[1].id for node in divisions if len(quotients[classes.of(node.args[1])[0]]) > 1 and least(node.args[1]) > SAFE}
    if not several:
        return nest
    ids = {node.id: node.args[1].id for node in divisions}
    memo = dict(kept)
    for node in ordered([a.node for a in nest.assigns], known=memo):
        arguments = [memo[each.id] for each in node.args]
        if ids.get(node.id) in several:
            memo[node.id] = graph.apply_exactly("mul", arguments[0], graph.apply_exactly("div", graph.const(1), arguments[1]))
        else:
            memo[node.id] = graph.apply_exactly(node.op, *arguments, data=node.data) if node.args else node
    return dataclasses.replace(nest, assigns=tuple(dataclasses.replace(a, node=memo[a.node.id]) for a in nest.assigns))
