"""Sums of products with common factors taken out: k a - k b becomes k (a - b).

In a conservation law a cell exchanges with its neighbours the flux through the faces between them, so the cotangents of both sides have
the same factors. Signs and order follow from the relative positions of the terms, so two cells write shared expressions in the same form.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffsim.expr.graph import Graph, Node, reads

Term = tuple[float, list[Node]]
"""A weight, and the factors of a product."""


def factored(graph: Graph, terms: Sequence[tuple[float, Node]]) -> Node:
    """The sum of the terms, weight times expression."""
    return _sum(graph, [(weight, _factors(node)) for weight, node in terms])


def unfactored(graph: Graph, terms: Sequence[tuple[float, Node]]) -> Node:
    """The sum of the terms without factored products, grouped by weights."""
    return _by_weight(graph, [(weight, [node]) for weight, node in terms])


def _factors(node: Node) -> list[Node]:
    """The factors of a product, without numbers."""
    factors, stack = [], [node]
    while stack:
        each = stack.pop()
        if each.op == "mul" and each.args[0].op != "const":
            stack.extend(reversed(each.args))
        else:
            factors.append(each)
    return factors


def _sum(graph: Graph, terms: list[Term]) -> Node:
    """Factor the most common factor out of its terms, then continue with the others. Terms without a common factor are grouped by
    weights."""
    total, rest = graph.const(0), terms
    while True:
        counts: dict[int, int] = {}
        for _, factors in rest:
            for number in {factor.id for factor in factors}:
                counts[number] = counts.get(number, 0) + 1
        best = max(counts, key=lambda number: (counts[number], -number), default=0)
        if counts.get(best, 0) < 2:
            break
        common = next(factor for _, factors in rest for factor in factors if factor.id == best)
        inner = [(weight, _without(factors, common)) for weight, factors in rest if common in factors]
        rest = [(weight, factors) for weight, factors in rest if common not in factors]
        scale, inner = _scaled(inner)
        total = graph.add(total, graph.mul(graph.const(scale), graph.mul(common, _sum(graph, inner))))
    return graph.add(total, _by_weight(graph, rest))


def _without(factors: list[Node], common: Node) -> list[Node]:
    place = factors.index(common)
    return factors[:place] + factors[place + 1 :]


def _scaled(terms: list[Term]) -> tuple[float, list[Term]]:
    """A number that all terms are divided by, and the terms in an order that depends on their positions relative to each other."""
    placed = sorted(terms, key=lambda term: _position(term[1]))
    scale = placed[0][0]
    return scale, [(weight / scale, factors) for weight, factors in placed]


def _position(factors: list[Node]) -> tuple[object, ...]:
    offsets_of = reads(factors)
    return (min((offset for offsets in offsets_of.values() for offset in offsets), default=()), sorted(offsets_of), len(factors))


def _by_weight(graph: Graph, terms: list[Term]) -> Node:
    """Terms of one weight, or of its opposite, are added before they are multiplied."""
    groups: dict[float, list[tuple[bool, Node]]] = {}
    for weight, factors in terms:
        product = factors[0] if factors else graph.const(1)
        for factor in factors[1:]:
            product = graph.mul(product, factor)
        known = weight if weight in groups or -weight not in groups else -weight
        groups.setdefault(known, []).append((known == weight, product))
    total = graph.const(0)
    for weight, members in groups.items():
        inner = graph.const(0)
        for plus, product in members:
            inner = graph.add(inner, product) if plus else graph.sub(inner, product)
        total = graph.add(total, graph.mul(graph.const(weight), inner))
    return total
