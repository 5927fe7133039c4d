"""Derivatives of expressions, as expressions.

Both transformations take graph nodes and give graph nodes of the same graph, so they can be applied to their own
results: a Hessian-vector product is `jvp` of `vjp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from diffsim.expr.graph import OPERATIONS, Graph, Node, Offset, is_const, ordered


def jvp(graph: Graph, roots: list[Node], tangent_of: Callable[[Node], Node | None]) -> list[Node]:
    """Tangents of the roots, given the tangent of each read (None: it has none)."""
    zero = graph.const(0)
    tangents: dict[int, Node] = {}
    for node in ordered(roots):
        if node.op == "read":
            tangents[node.id] = tangent_of(node) or zero
            continue
        total = zero
        if any(not is_const(tangents[a.id], 0) for a in node.args):
            for argument, partial in zip(node.args, OPERATIONS[node.op].partials(graph, node), strict=False):
                if partial is not None and not is_const(tangents[argument.id], 0):
                    total = graph.add(total, graph.mul(partial, tangents[argument.id]))
        tangents[node.id] = total
    return [tangents[root.id] for root in roots]


def vjp(graph: Graph, cotangents: Mapping[Node, Node], wanted: Callable[[str], bool]) -> dict[str, dict[Offset, Node]]:
    """Cotangents of every wanted read, given those of the roots: field -> offset -> expression.

    The expression is taken at the cell that reads, not at the one that is read: the gather adjoint of a field is the
    sum over offsets o of the expression shifted by -o (see `diffsim.stepping.adjoint`).
    """
    zero = graph.const(0)
    needed = ordered(cotangents)
    active: set[int] = set()
    for node in needed:
        if (node.op == "read" and wanted(node.data[0])) or any(a.id in active for a in node.args):
            active.add(node.id)
    bars: dict[int, Node] = {}
    for root, bar in cotangents.items():
        bars[root.id] = graph.add(bars.get(root.id, zero), bar)
    out: dict[str, dict[Offset, Node]] = {}
    for node in reversed(needed):
        bar = bars.pop(node.id, zero)
        if node.id not in active or is_const(bar, 0):
            continue
        if node.op == "read":
            name, offset = node.data
            out.setdefault(name, {})[offset] = bar
            continue
        for argument, partial in zip(node.args, OPERATIONS[node.op].partials(graph, node), strict=False):
            if partial is not None and argument.id in active:
                bars[argument.id] = graph.add(bars.get(argument.id, zero), graph.mul(bar, partial))
    return out
