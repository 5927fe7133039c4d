"""The magnitude of the terms of an expression, which its rounding errors are relative to."""

from __future__ import annotations

from diffsim.expr.graph import CONDITIONS, Graph, Node, ordered


def magnitude(graph: Graph, node: Node) -> Node:
    """The expression with its terms added up without their signs.

    The rounding error of a sum is relative to this, not to the sum, which may cancel. Functions other than sums, products and quotients
    count by their value.
    """
    sizes: dict[int, Node] = {}
    for each in ordered([node]):
        sizes[each.id] = _size(graph, each, [sizes[a.id] for a in each.args])
    return sizes[node.id]


def _size(graph: Graph, node: Node, sizes: list[Node]) -> Node:
    if node.op in CONDITIONS:
        return node
    match node.op:
        case "add" | "sub":
            return graph.add(*sizes)
        case "mul":
            return graph.mul(*sizes)
        case "div":
            return graph.div(sizes[0], graph.apply("abs", node.args[1]))
        case "select":
            return graph.apply("select", node.args[0], *sizes[1:])
    return graph.apply("abs", node)
