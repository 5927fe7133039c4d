"""Powers of roots and of absolute values: their derivatives for the argument of the root.

At 0 the derivative of sqrt(x) is infinite, that of r² is 0, and the chain rule multiplies both. But sqrt(x)² is smooth, and so is an even
power of |x|. So where a power is computed of the value of a root, its derivative is taken by one expression. The value does not change.
"""

from __future__ import annotations

from diffsim.expr.graph import Graph, Node


def arguments(graph: Graph, node: Node) -> tuple[tuple[Node, ...], tuple[Node | None, ...]] | None:
    """The arguments of a power of a root, which are those of the root, and its partial derivatives; None for another expression."""
    if node.op == "exp" and node.args[0].op == "log":
        return node.args[0].args, (graph.const(1),)
    root = _power(node)
    if root is None:
        return None
    r, n = root
    if r.op == "abs":
        x = r.args[0]
        return ((x,), (graph.mul(graph.const(n), graph.mul(_raised(graph, r, n - 2), x)),)) if n >= 2 else None
    e = 0.5 if r.op == "sqrt" else r.data if r.op == "pow" and 0 < r.data < 1 else None
    return None if e is None else (r.args, (graph.mul(graph.const(n * e), _raised(graph, r, n - 1 / e)),))


def _power(node: Node) -> tuple[Node, float] | None:
    """The base and the exponent of a power of at least 2, which for 2 and 3 is a product."""
    if node.op == "pow" and node.data > 0:
        return node.args[0], node.data
    if node.op != "mul":
        return None
    first, second = node.args
    if first is second:
        return first, 2
    if second.op == "mul" and second.args[0] is second.args[1] is first:
        return first, 3
    return (second, 3) if first.op == "mul" and first.args[0] is first.args[1] is second else None


def _raised(graph: Graph, r: Node, exponent: float) -> Node:
    return graph.apply("pow", r, data=exponent)
