"""Lower bounds of expressions, for all values of the fields that they read.

They tell that a quotient or a root is finite, together with its derivatives: x / sqrt(x² + 1e-8) needs no condition that keeps an infinite
factor from a cotangent that is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence

from diffsim.expr.graph import Node, is_scaled, ordered

UNKNOWN = -math.inf
"""The bound of an expression about which nothing is known."""
SAFE = 1e-13
"""Least divisor that counts as one."""
CLEAR = 1e-3
"""Least part of its operands that a difference of numbers keeps in f32, beyond rounding. A smaller one may be 0."""
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
            bound = _difference(node, lambda each: self._known[each.id])
        else:
            bound = _RULES[node.op](node, bounds) if node.op in _RULES else UNKNOWN
        return 0.0 if 0.0 < bound < NORMAL else bound if math.isfinite(bound) else UNKNOWN


def _sum(node: Node, bounds: Sequence[float]) -> float:
    """The bound of a sum. A positive and a negative bound that nearly cancel leave nothing in f32, where both are rounded."""
    total = sum(bounds)
    return UNKNOWN if min(bounds) < 0 < total < CLEAR * max(map(abs, bounds)) else total


def _product(node: Node, bounds: Sequence[float]) -> float:
    first, second = bounds
    if node.args[0] is node.args[1]:
        return max(first, 0.0) * max(first, 0.0)
    return first * second if min(bounds) >= 0 else UNKNOWN


def _difference(node: Node, bound: Callable[[Node], float]) -> float:
    """The bound of a difference, which rounding keeps in f32 too, however large its operands are.

    - That of a least value and an upper bound is theirs, since rounding is monotone.
    - max(w, ...) - min(w, ...) is at least 0, with w + c and w - c in place of w for c >= 0 as well. Not 2c: nothing of c is left beside a
      large w.
    - max(w + c, 0) - min(w - c, 0) is at least c, for one of w + c >= c and w - c <= -c holds. Of other numbers a and b in place of the
      zeros, one holds about the middle of a and b.
    """
    first, second = node.args
    larger, smaller = _operands(first, "max"), _operands(second, "min")
    lower, upper = bound(first), min((float(each.data) for each in smaller if each.op == "const"), default=math.inf)
    apart, clear = lower - upper, CLEAR * max(abs(lower), abs(upper))
    best = apart if apart >= clear else UNKNOWN
    falls: dict[int, float] = {}
    for each, fall in (end for node in smaller for end in _below(node, bound)):
        falls[each.id] = max(fall, falls.get(each.id, 0.0))
    for each, rise in (end for node in larger for end in _above(node, bound)):
        if each.id in falls:
            around = 0.5 * apart + min(rise, falls[each.id])
            best = max(best, around if around >= clear else 0.0)
    return best


def _above(node: Node, bound: Callable[[Node], float]) -> list[tuple[Node, float]]:
    """Nodes that are at most as large as a node, each with the least distance to it."""
    ends = [(node, 0.0)]
    if node.op == "add":
        ends += [(one, rise) for one, other in (node.args, node.args[::-1]) for rise in [bound(other)] if rise >= 0]
    return ends


def _below(node: Node, bound: Callable[[Node], float]) -> list[tuple[Node, float]]:
    """Nodes that are at least as large as a node, each with the least distance to it."""
    ends = [(node, 0.0)]
    if node.op == "sub" and bound(node.args[1]) >= 0:
        ends.append((node.args[0], bound(node.args[1])))
    elif node.op == "add":
        for one, other in (node.args, node.args[::-1]):
            if is_scaled(other) and other.args[0].data <= 0 and bound(other.args[1]) >= 0:
                ends.append((one, -other.args[0].data * bound(other.args[1])))
    return ends


def _operands(node: Node, extremum: str) -> list[Node]:
    """A node, and the operands of the extrema of one kind that it is made of: a maximum is at least each of them, a minimum at most."""
    nodes = [node]
    for each in nodes:
        nodes.extend(each.args if each.op == extremum and len(nodes) < OPERANDS else ())
    return nodes


_RULES: dict[str, Callable[[Node, Sequence[float]], float]] = {
    "add": _sum,
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
