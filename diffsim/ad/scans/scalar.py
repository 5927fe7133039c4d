"""Python functions of scalars as expressions: the operator of a scan, traced once and run anywhere.

The function is called with symbols. A condition that it branches on makes two calls, whose results are joined by a select.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array, core
from diffsim.ad.core import Primitive, Trace, Tracer
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.tree import Tree, flatten, unflatten
from diffsim.elementwise.table import FUNCTIONS
from diffsim.expr.graph import Graph, Node, ordered

PATHS = 64
"""Ways through a function's branches that are followed."""


class NotScalarError(Exception):
    """A function does more than arithmetic on its scalars; it is called as it stands instead."""


class _Fork(Exception):  # noqa: N818 -- it is caught at once
    def __init__(self, condition: Node) -> None:
        self.condition = condition


class _Unknown:
    """The value of a symbol: of a shape and a type only."""

    shape, ndim, size = (), 0, 1
    __slots__ = ("dtype", "node", "trace")

    def __init__(self, trace: _ScalarTrace, node: Node, dtype: np.dtype[Any]) -> None:
        self.trace, self.node, self.dtype = trace, node, dtype

    def __bool__(self) -> bool:
        return self.trace.decide(self.node)

    def _no_value(self, *_: Any) -> Any:
        raise NotScalarError

    __int__ = __index__ = __float__ = __floor__ = __ceil__ = __trunc__ = item = _no_value


class _Symbol(Tracer):
    __slots__ = ("node",)

    def __init__(self, trace: _ScalarTrace, node: Node, dtype: Any) -> None:
        self.trace = trace
        self.node = node
        self.primal = _Unknown(trace, node, np.dtype(dtype))


Rule = Callable[[Graph, list[Node]], Node]


def _plain(op: str) -> Rule:
    return lambda g, a: g.apply(op, *a)


def _swapped(op: str) -> Rule:
    return lambda g, a: g.apply(op, a[1], a[0])


def _power(g: Graph, a: list[Node]) -> Node:
    if a[1].op != "const":
        raise NotScalarError
    return g.apply("pow", a[0], data=a[1].data)


_RULES: dict[str, Rule] = {
    "add": _plain("add"), "subtract": _plain("sub"), "multiply": _plain("mul"), "divide": _plain("div"), "power": _power,
    "negative": lambda g, a: g.negative(a[0]), "positive": lambda g, a: a[0], "square": lambda g, a: g.mul(a[0], a[0]),
    "reciprocal": lambda g, a: g.div(g.const(1), a[0]), "absolute": _plain("abs"), "maximum": _plain("max"), "minimum": _plain("min"),
    "less": _plain("lt"), "less_equal": _plain("le"), "greater": _swapped("lt"), "greater_equal": _swapped("le"), "equal": _plain("eq"),
    "where": _plain("select"), "logical_and": _plain("and"), "logical_or": _plain("or"), "logical_not": _plain("not"),
    "not_equal": lambda g, a: g.apply("not", g.apply("eq", *a)),
} | {name: _plain(name) for name in FUNCTIONS}  # fmt: skip


class _ScalarTrace(Trace):
    """Writes operations on symbols into a graph, along one way through the function's branches."""

    def __init__(self, graph: Graph, decisions: Sequence[bool]) -> None:
        super().__init__()
        self.graph = graph
        self.decisions = list(decisions)
        self.taken = 0

    def decide(self, condition: Node) -> bool:
        if condition.op == "const":
            return bool(condition.data)
        if self.taken == len(self.decisions):
            raise _Fork(condition)
        self.taken += 1
        return self.decisions[self.taken - 1]

    def node(self, x: Any) -> Node:
        if isinstance(x, _Symbol) and x.trace is self:
            return x.node
        if isinstance(x, (Tracer, _Unknown)) or np.ndim(x) or np.asarray(x).dtype.kind not in "fiub" or not np.isfinite(x):
            raise NotScalarError
        return self.graph.const(float(x))

    def apply(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.name == "astype" and np.dtype(params["dtype"]).kind == "f":
            return _Symbol(self, self.node(args[0]), params["dtype"])
        rule = _RULES.get(primitive.name)
        if rule is None or params:
            raise NotScalarError
        nodes = [self.node(a) for a in args]
        dummies = [np.ones((), a.dtype) if isinstance(a, _Symbol) else a for a in args]
        with np.errstate(all="ignore"):
            dtype = np.asarray(primitive.evaluate(*dummies)).dtype
        return _Symbol(self, rule(self.graph, nodes), dtype)


def trace_scalars(
    function: Callable[..., Any], trees: Sequence[Tree], names: Sequence[Sequence[str]], dtypes: Sequence[Sequence[Any]], graph: Graph
) -> tuple[list[Node], Tree]:
    """The results of a function of pytrees of scalars, as expressions of reads.

    Args:
        function: of one pytree an argument.
        trees: their shapes.
        names: of the leaves of each, as they are read in the expressions.
        dtypes: of the leaves.
        graph: where the expressions are made.

    Raises:
        NotScalarError: it cannot be expressed.
    """
    paths = 0

    def follow(decisions: tuple[bool, ...]) -> tuple[list[Node], Tree]:
        nonlocal paths
        paths += 1
        if paths > PATHS:
            raise NotScalarError
        trace = _ScalarTrace(graph, decisions)
        args = [
            unflatten(tree, [Array(_Symbol(trace, graph.read(n, ()), d), scalar=True) for n, d in zip(ns, ds, strict=True)])
            for tree, ns, ds in zip(trees, names, dtypes, strict=True)
        ]
        try:
            leaves, tree = flatten(function(*args))
            return [trace.node(core(leaf)) for leaf in leaves], tree
        except _Fork as fork:
            condition = fork.condition
        yes, tree = follow((*decisions, True))
        no, other = follow((*decisions, False))
        if other != tree:
            raise NotScalarError
        return [graph.apply("select", condition, a, b) for a, b in zip(yes, no, strict=True)], tree

    return follow(())


_MEANING: dict[str, Callable[..., Any]] = {
    "add": ew.add, "sub": ew.subtract, "mul": ew.multiply, "div": ew.divide, "abs": ew.absolute, "max": ew.maximum, "min": ew.minimum,
    "lt": ew.less, "le": ew.less_equal, "eq": ew.equal, "select": ew.where, "and": ew.TABLE["logical_and"], "or": ew.logical_or,
    "not": ew.TABLE["logical_not"], **{name: ew.TABLE[name] for name in FUNCTIONS},
}  # fmt: skip


def evaluate(roots: Sequence[Node], values: dict[str, Any]) -> list[Any]:
    """Expressions of arrays, by differentiable operations; a constant stays a number."""
    values_at: dict[int, Any] = {}
    with np.errstate(all="ignore"):  # both sides of a branch are evaluated
        for node in ordered(roots):
            if node.op == "const":
                values_at[node.id] = node.data
            elif node.op == "read":
                values_at[node.id] = values[node.data[0]]
            elif node.op == "pow":
                values_at[node.id] = ew.power(values_at[node.args[0].id], node.data)
            else:
                values_at[node.id] = _MEANING[node.op](*(values_at[a.id] for a in node.args))
    return [values_at[root.id] for root in roots]
