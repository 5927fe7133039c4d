"""Lower bounds of expressions, for all values of the fields that they read.

They tell that a quotient or a root is finite, together with its derivatives: x / sqrt(x² + 1e-8) needs no condition that keeps an infinite
factor from a cotangent that is 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Sequence

from diffsim.expr.graph import Node, ordered, weighted_terms

UNKNOWN = -math.inf
"""The bound of an expression about which nothing is known."""
SAFE = 1e-13
"""Least divisor that counts as one."""
CLEAR = 1e-3
"""Least difference that rounding leaves in f32, of values up to 1e3. A smaller one may be 0."""
OPERANDS = 8
"""Most operands of an extremum that are looked at."""
NORMAL = 1.2e-38
"""Smaller numbers may be 0 in f32."""


class LowerBounds:
    """Lower bounds of nodes of a graph, each computed once."""

    def __init__(self) -> None:
        self._known: dict[int, float] = {}

    def __call__(self, node: Node) -> float:
        """A number that no value of the node is below; `UNKNOWN` if there is none."""
        if node.id not in self._known:
            for each in ordered([node], known=self._known):
                self._known[each.id] = self._of(each)
        return self._known[node.id]

    def _of(self, node: Node) -> float:
        if node.op == "const":
            return float(node.data) if math.isfinite(node.data) else UNKNOWN
        bounds = [self._known[each.id] for each in node.args]
        if node.op == "sub":
            bound = _difference(node, self._known.__getitem__)
        else:
            bound = _RULES[node.op](node, bounds) if node.op in _RULES else UNKNOWN
        return 0.0 if 0.0 < bound < NORMAL else bound if math.isfinite(bound) else UNKNOWN


def _product(node: Node, bounds: Sequence[float]) -> float:
    first, second = bounds
    if node.args[0] is node.args[1]:
        return max(first, 0.0) * max(first, 0.0)
    return first * second if min(bounds) >= 0 else UNKNOWN


def _difference(node: Node, bound: Callable[[int], float]) -> float:
    """The bound of a difference: max(a, ...) - min(b, ...) is at least a - b, of which terms of both cancel. That of max(a, b) - b is 0."""
    (first, second), best = node.args, UNKNOWN
    for larger, smaller in itertools.product(_operands(first, "max"), _operands(second, "min")):
        (terms, constant), (taken, less) = weighted_terms(larger), weighted_terms(smaller)
        rest = {number: weight for number, (_, weight) in terms.items()}
        for number, (_, weight) in taken.items():
            rest[number] = rest.get(number, 0.0) - weight
        if all(weight >= 0 for weight in rest.values()):
            best = max(best, (constant or 0.0) - (less or 0.0) + sum(weight * bound(number) for number, weight in rest.items() if weight))
    return best if best > CLEAR else min(best, 0.0)


def _operands(node: Node, extremum: str) -> list[Node]:
    """A node, and the operands of the extrema of one kind that it is made of: a maximum is at least each of them, a minimum at most."""
    nodes = [node]
    for each in nodes:
        nodes.extend(each.args if each.op == extremum and len(nodes) < OPERANDS else ())
    return nodes


_RULES: dict[str, Callable[[Node, Sequence[float]], float]] = {
    "add": lambda node, bounds: sum(bounds),
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
    """Tests whether expressions are finite wherever the fields that they read are, in f32 too.

    Args:
        singular: operations that may be infinite or NaN.
        most: largest number that fields of the size 1 may become by divisions and constants. Chains of them overflow though no divisor
            alone is too small.
        unbounded: fields that may be infinite or NaN.
    """

    def __init__(self, singular: set[str], most: float, unbounded: Container[str] = ()) -> None:
        self._singular, self._most, self._unbounded = singular, most, unbounded
        self._bounds, self._known = LowerBounds(), dict[int, float]()

    def __call__(self, root: Node) -> bool:
        for node in ordered([root], known=self._known):
            size = self._size(node)
            self._known[node.id] = size if size <= self._most else math.inf
        return math.isfinite(self._known[root.id])

    def _size(self, node: Node) -> float:
        """A number of the size of the largest values, infinite where nothing is known."""
        sizes = [self._known[each.id] for each in node.args]
        largest = max(sizes, default=1.0)
        if node.op == "const":
            return max(abs(float(node.data)), 1.0)
        if node.op == "read" and node.data[0] in self._unbounded:
            return math.inf
        if node.op == "mul":
            return sizes[0] * sizes[1]
        if node.op not in self._singular or math.isinf(largest):
            return largest
        if node.op in ("sqrt", "cbrt"):
            return largest if self._bounds(node.args[0]) >= 0 else math.inf
        least = self._bounds(node.args[1]) if node.op == "div" else UNKNOWN
        return sizes[0] / min(least, 1.0) if least > SAFE else math.inf
