"""Derivatives of expressions, as expressions.

Both transformations take graph nodes and give graph nodes of the same graph, so they can be applied to their own
results: a Hessian-vector product is `jvp` of `vjp`.

A value that a condition does not choose has the derivative 0, even if its partial derivatives are infinite: 0 times infinity would be NaN.
So where a factor may be infinite, the condition selects the whole product.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from types import MappingProxyType

from diffsim.elementwise.table import FUNCTIONS
from diffsim.expr import roots
from diffsim.expr.bounds import Finite
from diffsim.expr.graph import CONDITIONS, OPERATIONS, Graph, Node, Offset, is_const, is_scaled, ordered

SINGULAR = {"div", "pow", "power", "power_log"} | {name for name, each in FUNCTIONS.items() if not each.finite}
"""Operations that may be infinite or NaN where their arguments are finite."""
CHOICES = {"select", "min", "max"}
"""Operations that take one of their last two arguments."""
PIECEWISE_CONSTANT = {"floor", *CONDITIONS}
"""Operations that are constant but for jumps."""
CHOSEN, OUTSIDE = 1e13, 1e30
"""Largest size of values that are finite without doubt: in branches that are not chosen, which further derivatives go through without a
condition, and in cells outside of the grid."""


class Singular:
    """Tests whether expressions of a graph may be infinite or NaN, or larger than `most`, although the fields that they read are finite.
    Those that are `unbounded` need not be."""

    def __init__(self, most: float = CHOSEN, unbounded: Container[str] = ()) -> None:
        self._finite = Finite(SINGULAR, most, unbounded)

    def __call__(self, root: Node) -> bool:
        return not self._finite(root)


class Divides:
    """Tests whether expressions have an operation that may be infinite or NaN, whatever its arguments are here. Each node is asked once."""

    def __init__(self) -> None:
        self._known: dict[int, bool] = {}

    def __call__(self, root: Node) -> bool:
        known = self._known
        for node in ordered([root], known=known):
            known[node.id] = node.op in SINGULAR or any(known[each.id] for each in node.args)
        return known[root.id]


def varies(root: Node) -> bool:
    """False if the derivative of an expression is 0 wherever it has one: it takes fields by rounding and conditions alone."""
    varying: dict[int, bool] = {}
    for node in ordered([root]):
        arguments = () if node.op in PIECEWISE_CONSTANT else node.args[1:] if node.op == "select" else node.args
        varying[node.id] = node.op == "read" or any(varying[each.id] for each in arguments)
    return varying[root.id]


def in_choices(roots: Iterable[Node]) -> set[str]:
    """The fields that expressions read for an operand of a choice."""
    inside, names = set[int](), set[str]()
    for node in reversed(ordered(roots)):
        inside.update(each.id for each in (node.args if node.id in inside else node.args[-2:] if node.op in CHOICES else ()))
        if node.op == "read" and node.id in inside:
            names.add(node.data[0])
    return names


def singular(node: Node) -> bool:
    """True if an expression may be infinite or NaN although the fields that it reads are finite."""
    return Singular()(node)


def _condition(graph: Graph, node: Node) -> Node:
    """The condition under which a choice takes the first of its last two arguments."""
    first = node.args[0]
    if node.op == "select":
        return first
    return graph.apply("le", *(node.args if node.op == "min" else node.args[::-1]))


def _selected(graph: Graph, where: Node, node: Node) -> Node:
    """`node` where a condition holds, else 0; constant factors stay outside."""
    if is_scaled(node):
        return graph.mul(node.args[0], _selected(graph, where, node.args[1]))
    if where.op == "not":
        return graph.apply("select", where.args[0], graph.const(0), node)
    return graph.apply("select", where, node, graph.const(0))


def _or(graph: Graph, a: Node | None, b: Node | None) -> Node | None:
    """Either condition; None stands for everywhere."""
    return a if a is b else None if a is None or b is None else graph.apply("or", a, b)


def _and(graph: Graph, a: Node | None, b: Node) -> Node:
    return b if a is None else graph.apply("and", a, b)


Masked = tuple[Node, Node | None]
"""A derivative, and a condition without which it is 0 (None: there is no such condition)."""


def _product(graph: Graph, masked: Masked, partial: Node, singular: Callable[[Node], bool]) -> Node:
    value, where = masked
    product = graph.mul(value, partial)
    return _selected(graph, where, product) if where is not None and singular(partial) else product


def _rule(graph: Graph, node: Node) -> tuple[tuple[Node, ...], Callable[[], tuple[Node | None, ...]]]:
    """The arguments for which an operation is differentiated, and a function that gives the partial derivatives."""
    if node.op == "read":
        return (), tuple
    simplified = roots.arguments(graph, node)
    if simplified is not None:
        return simplified[0], lambda: simplified[1]
    return node.args, lambda: OPERATIONS[node.op].partials(graph, node)


def jvp(
    graph: Graph, roots: list[Node], tangent_of: Callable[[Node], Node | None], singular: Callable[[Node], bool] | None = None
) -> list[Node]:
    """Tangents of the roots, given the tangent of each read (None: it has none). For `singular` see `vjp`."""
    zero = graph.const(0)
    tangents: dict[int, Masked] = {}
    singular = singular or Singular()
    for node in ordered(roots):
        total, where = zero, None
        arguments, partials = _rule(graph, node)
        moving = [a for a in arguments if not is_const(tangents[a.id][0], 0)]
        if node.op == "read":
            total = tangent_of(node) or zero
        elif node.op in CHOICES and moving:
            total, where = _chosen(graph, node, [tangents[a.id] for a in node.args[-2:]], singular)
        elif moving:
            for argument, partial in zip(arguments, partials(), strict=False):
                masked = tangents[argument.id]
                if partial is None or is_const(masked[0], 0):
                    continue
                where = masked[1] if total is zero else _or(graph, where, masked[1])
                total = graph.add(total, _product(graph, masked, partial, singular))
        tangents[node.id] = total, where
    return [tangents[root.id][0] for root in roots]


def _chosen(graph: Graph, node: Node, tangents: list[Masked], singular: Callable[[Node], bool]) -> Masked:
    """The tangent of a choice."""
    (first, of_first), (second, of_second) = tangents
    taken = _condition(graph, node)
    where: Node | None
    if is_const(second, 0):
        where = _and(graph, of_first, taken)
    elif is_const(first, 0):
        where = _and(graph, of_second, graph.apply("not", taken))
    else:
        where = _or(graph, of_first, of_second)
    if singular(first) or singular(second):
        return graph.apply("select", taken, first, second), where
    partials = OPERATIONS[node.op].partials(graph, node)[-2:]
    return graph.sum(graph.mul(p, t) for p, t in zip(partials, (first, second), strict=True) if p is not None), where


def vjp(
    graph: Graph,
    cotangents: Mapping[Node, Node],
    wanted: Callable[[str], bool],
    chosen: Mapping[Node, Node] = MappingProxyType({}),
    singular: Callable[[Node], bool] | None = None,
) -> dict[str, dict[Offset, Node]]:
    """Cotangents of every wanted read, from those of the roots: field -> offset -> expression.

    The expression is evaluated at the reading cell, not at the cell that is read: the gather adjoint of a field is the
    sum over offsets o of the expression shifted by -o (see `diffsim.stepping.derive.adjoint`).

    Args:
        graph: of the expressions.
        cotangents: those of the roots.
        wanted: tests whether a field gets a cotangent.
        chosen: conditions without which the cotangents of some roots are 0, since a condition does not choose them.
        singular: tests whether an expression may be infinite or NaN; `Singular` by default.
    """
    zero = graph.const(0)
    needed = ordered(cotangents)
    active: set[int] = set()
    for node in needed:
        if (node.op == "read" and wanted(node.data[0])) or any(a.id in active for a in node.args):
            active.add(node.id)
    singular = singular or Singular()
    bars: dict[int, Masked] = {}

    def add(node: Node, bar: Node, where: Node | None) -> None:
        if is_const(bar, 0):
            return
        if node.id in bars:
            before, other = bars[node.id]
            bar, where = graph.add(before, bar), _or(graph, other, where)
        bars[node.id] = bar, where

    for root, bar in cotangents.items():
        add(root, bar, chosen.get(root))
    out: dict[str, dict[Offset, Node]] = {}
    for node in reversed(needed):
        bar, where = bars.pop(node.id, (zero, None))
        if node.id not in active or is_const(bar, 0):
            continue
        if node.op == "read":
            name, offset = node.data
            out.setdefault(name, {})[offset] = bar
            continue
        if node.op in CHOICES:
            first = _condition(graph, node)
            sides = (first, graph.apply("not", first))
            for argument, side, partial in zip(node.args[-2:], sides, OPERATIONS[node.op].partials(graph, node)[-2:], strict=True):
                if argument.id in active:
                    assert partial is not None
                    part = _selected(graph, side, bar) if singular(bar) else graph.mul(bar, partial)
                    add(argument, part, _and(graph, where, side))
            continue
        arguments, partials = _rule(graph, node)
        for argument, partial in zip(arguments, partials(), strict=False):
            if partial is not None and argument.id in active:
                add(argument, _product(graph, (bar, where), partial, singular), where)
    return out
