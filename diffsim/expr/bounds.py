"""Lower bounds of expressions, for all values of the fields that they read.

They tell that a quotient or a root is finite, together with its derivatives: x / sqrt(x² + 1e-8) needs no condition that keeps an infinite
factor from a cotangent that is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from diffsim.expr.graph import Node, ordered

UNKNOWN = -math.inf
"""The bound of an expression about which nothing is known."""
SAFE = 1e-13
"""Least value by which numbers in f32 may be divided twice and stay finite."""


class LowerBounds:
    """Lower bounds of nodes of a graph, each computed once."""

    def __init__(self) -> None:
        self._known: dict[int, float] = {}

    def __call__(self, node: Node) -> float:
        """A number that no value of the node is below; `UNKNOWN` if there is none."""
        for each in ordered([node], known=self._known):
            self._known[each.id] = self._of(each)
        return self._known[node.id]

    def _of(self, node: Node) -> float:
        if node.op == "const":
            return float(node.data) if math.isfinite(node.data) else UNKNOWN
        bounds = [self._known[each.id] for each in node.args]
        if node.op in _RULES:
            return _RULES[node.op](node, bounds)
        return UNKNOWN


def _product(node: Node, bounds: Sequence[float]) -> float:
    first, second = bounds
    if node.args[0] is node.args[1]:
        return max(first, 0.0) ** 2
    return first * second if min(bounds) >= 0 else UNKNOWN


def _difference(node: Node, bounds: Sequence[float]) -> float:
    """That of max(a, b) - b is 0."""
    first, second = node.args
    return 0.0 if first.op == "max" and any(each is second for each in first.args) else UNKNOWN


_RULES: dict[str, Callable[[Node, Sequence[float]], float]] = {
    "add": lambda node, bounds: sum(bounds),
    "sub": _difference,
    "mul": _product,
    "div": lambda node, bounds: 0.0 if bounds[0] >= 0 and bounds[1] > 0 else UNKNOWN,
    "max": lambda node, bounds: max(bounds),
    "min": lambda node, bounds: min(bounds),
    "select": lambda node, bounds: min(bounds[1:]),
    "abs": lambda node, bounds: max(bounds[0], 0.0),
    "exp": lambda node, bounds: 0.0,
    "sqrt": lambda node, bounds: math.sqrt(max(bounds[0], 0.0)),
    "cbrt": lambda node, bounds: math.cbrt(bounds[0]) if bounds[0] >= 0 else UNKNOWN,
}
"""Operation -> its bound from those of its arguments."""


class Finite:
    """Tests whether expressions are finite wherever the fields that they read are."""

    def __init__(self, singular: set[str]) -> None:
        self._singular, self._bounds, self._known = singular, LowerBounds(), dict[int, bool]()

    def __call__(self, root: Node) -> bool:
        for node in ordered([root], known=self._known):
            self._known[node.id] = all(self._known[each.id] for each in node.args) and (node.op not in self._singular or self._safe(node))
        return self._known[root.id]

    def _safe(self, node: Node) -> bool:
        """True if an operation that may be infinite or NaN is finite for its arguments."""
        if node.op in ("sqrt", "cbrt"):
            return self._bounds(node.args[0]) >= 0
        return node.op == "div" and self._bounds(node.args[1]) > SAFE
