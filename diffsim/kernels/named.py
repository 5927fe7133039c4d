"""Named operators."""

from __future__ import annotations

from diffsim.expr.graph import Graph, Node
from diffsim.kernels.operator import Operator


def _operators() -> dict[str, Operator]:
    graph = Graph()
    a, b = graph.read("a0", ()), graph.read("b0", ())
    better = {kind: _better(graph, kind, a, b) for kind in ("min", "max")}
    expressions = {"+": graph.add(a, b), "*": graph.mul(a, b)} | {kind: graph.apply("select", wins, b, a) for kind, wins in better.items()}
    return {kind: Operator(graph, (expression,)) for kind, expression in expressions.items()}


def _better(graph: Graph, kind: str, a: Node, b: Node) -> Node:
    """True if b beats a, which a NaN does against all but a NaN."""
    beats = graph.apply("lt", b, a) if kind == "min" else graph.apply("lt", a, b)
    first_nan = graph.apply("and", graph.apply("eq", a, a), graph.apply("not", graph.apply("eq", b, b)))
    return graph.apply("or", beats, first_nan)


def _placed(kind: str) -> Operator:
    """The extremum together with its place."""
    graph = Graph()
    a0, a1, b0, b1 = (graph.read(name, ()) for name in ("a0", "a1", "b0", "b1"))
    wins = _better(graph, kind, a0, b0)
    return Operator(graph, (graph.apply("select", wins, b0, a0), graph.apply("select", wins, b1, a1)))


def _affine() -> Operator:
    graph = Graph()
    a0, a1, b0, b1 = (graph.read(name, ()) for name in ("a0", "a1", "b0", "b1"))
    return Operator(graph, (graph.mul(a0, b0), graph.add(graph.mul(a1, b0), b1)))


OPERATORS = _operators()
"""By the sign or name that histograms use."""
PLACED = {kind: _placed(kind) for kind in ("min", "max")}
"""(value, place): the extremum and where it is; the left one on a tie."""
AFFINE = _affine()
"""(a, c) stands for y -> a y + c; the right operand is applied after the left one."""
