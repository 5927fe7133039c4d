"""Cheaper arithmetic of cotangents.

- The derivatives of a quotient n / d are s / d and -s (n / d) / d, so an adjoint divides by d three times. With r = 1 / d these are s r and
  -(s r) (n / d): a division takes as long as twenty products of the same registers on CPUs whose divider is not pipelined. Cotangents
  change by rounding. Quotients of the forward run keep their divisions, and so their bits: with 49 (1 / 49) < 1 a condition of an adjoint
  would choose another branch than the run, and 1 - n / d would be rounding where the run has 0.
- The derivatives of extrema and choices are 1 where they choose an operand and 0 elsewhere. The product of such a mask with a cotangent is
  a choice between the cotangent and 0: one operation in place of two. Products of the forward run stay, for 0 times infinity is NaN.
- A sum with a negative is a difference, with the same bits, since products and sums are not contracted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from diffsim.expr.bounds import SAFE, LowerBounds
from diffsim.expr.graph import Graph, Node, is_const, ordered
from diffsim.stepping.ir.program import Nest, Operation
from diffsim.stepping.passes.sharing import Classes


def with_cheaper_arithmetic(operations: Sequence[Operation], graph: Graph, run: Iterable[Node]) -> list[Operation]:
    """The operations with cheaper arithmetic. 1 is not divided by a divisor that may be near 0, unless a cotangent at the same
    cell does that anyway: so reciprocals are finite in f32 as well.

    Args:
        operations: those of an adjoint step.
        graph: graph of their expressions.
        run: the expressions of the forward run, whose quotients and products keep their bits at all cells.
    """
    classes, least = Classes(graph), LowerBounds()
    nodes = ordered(list(run))
    kept = {classes.of(node)[0] for node in (*_divisions(nodes), *_masked(nodes))}
    same = {node.id: node for node in nodes}
    return [_cheaper(each, graph, classes, least, kept, same) if isinstance(each, Nest) else each for each in operations]


def _divisions(nodes: Iterable[Node]) -> list[Node]:
    """The divisions by fields among some nodes."""
    return [node for node in nodes if node.op == "div" and node.args[1].args]


def _masked(nodes: Iterable[Node]) -> list[Node]:
    """The products of fields with masks among some nodes."""
    return [node for node in nodes if node.op == "mul" and node.args[0].op != "const" and any(map(_is_mask, node.args))]


def _is_mask(node: Node) -> bool:
    """True for a choice between 0 and 1."""
    return node.op == "select" and any(is_const(node.args[a], 1) and is_const(node.args[b], 0) for a, b in ((1, 2), (2, 1)))


def _cheaper(nest: Nest, graph: Graph, classes: Classes, least: LowerBounds, kept: Collection[int], same: Mapping[int, Node]) -> Nest:
    """A nest with cheaper arithmetic, but for nodes of the classes that are kept, and for those that stay the same."""
    nodes = ordered([assign.node for assign in nest.assigns], known=same)
    divisions, masked = ([node for node in each if classes.of(node)[0] not in kept] for each in (_divisions(nodes), _masked(nodes)))
    quotients: dict[int, set[int]] = {}  # class of a divisor -> classes of quotients
    for node in divisions:
        quotients.setdefault(classes.of(node.args[1])[0], set()).add(classes.of(node)[0])
    inverted = {node.args[1].id for node in divisions if is_const(node.args[0], 1)}
    several = {
        node.args[1].id
        for node in divisions
        if len(quotients[classes.of(node.args[1])[0]]) > 1 and (node.args[1].id in inverted or least(node.args[1]) > SAFE)
    }
    rules: dict[int, Callable[[Graph, Sequence[Node]], Node]] = dict.fromkeys((node.id for node in masked), _choice)
    rules |= {node.id: _by_reciprocal for node in divisions if node.args[1].id in several}
    memo = dict(same)
    for node in nodes:
        arguments = [memo[each.id] for each in node.args]
        if node.id in rules:
            memo[node.id] = rules[node.id](graph, arguments)
        elif node.op in ("add", "sub"):
            memo[node.id] = _sum(graph, node.op, arguments)
        else:
            memo[node.id] = graph.apply_exactly(node.op, *arguments, data=node.data) if arguments else node
    return dataclasses.replace(nest, assigns=tuple(dataclasses.replace(a, node=memo[a.node.id]) for a in nest.assigns))


def _by_reciprocal(graph: Graph, arguments: Sequence[Node]) -> Node:
    """The quotient of two nodes."""
    return graph.apply_exactly("mul", arguments[0], graph.apply_exactly("div", graph.const(1), arguments[1]))


def _choice(graph: Graph, arguments: Sequence[Node]) -> Node:
    """The product of two nodes, one of which is a mask."""
    mask, value = arguments if _is_mask(arguments[0]) else reversed(arguments)
    condition, *ends = mask.args
    return graph.apply_exactly("select", condition, *[value if is_const(end, 1) else end for end in ends])


def _sum(graph: Graph, op: str, arguments: Sequence[Node]) -> Node:
    """The sum or the difference of two nodes."""
    first, second = arguments
    if op == "add" and _is_negative(first):
        first, second = second, first
    if _is_negative(second):
        op, second = "sub" if op == "add" else "add", second.args[1]
    return graph.apply_exactly(op, first, second)


def _is_negative(node: Node) -> bool:
    return node.op == "mul" and is_const(node.args[0], -1)
