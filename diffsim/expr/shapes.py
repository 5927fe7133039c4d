"""Expressions that are the same but for their fields, numbers, and the order of operands."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence

from diffsim.expr.graph import Node, ordered

COMMUTATIVE = ("add", "mul")
"""Operations whose operands may change places, without another bit."""
LARGEST = 10**9
"""Sizes beyond count as this."""

Shape = tuple[int, int]


def shapes(roots: Iterable[Node]) -> dict[int, Shape]:
    """Node -> its size as a tree, negative, and a digest of its operations and offsets, the same in each process."""
    out: dict[int, Shape] = {}
    for node in ordered(roots):
        parts = [out[a.id] for a in node.args]
        if node.op in COMMUTATIVE:
            parts.sort()
        about = node.data[1] if node.op == "read" else None
        size = min(LARGEST, 1 - sum(size for size, _ in parts))
        out[node.id] = -size, zlib.crc32(repr((node.op, about, parts)).encode())
    return out


def repeated(bodies: Iterable[Sequence[Node]], least: int) -> set[tuple[Shape, ...]]:
    """The shapes that several bodies of at least so many nodes have, each in order."""
    seen, out = set[tuple[Shape, ...]](), set[tuple[Shape, ...]]()
    for body in bodies:
        known = shapes(body)
        if len(known) >= least:
            shape = tuple(sorted(known[node.id] for node in body))
            (out if shape in seen else seen).add(shape)
    return out


def arguments(node: Node, order: Mapping[int, Shape]) -> tuple[Node, ...]:
    """The operands of a node, those that may change places in the order of their shapes, the largest first."""
    if node.op in COMMUTATIVE and node.id in order:
        return tuple(sorted(node.args, key=lambda argument: order[argument.id]))
    return node.args


def in_order(values: Mapping[str, Node]) -> dict[str, Node]:
    """Expressions by name, in the order of their shapes."""
    known = shapes(values.values())
    return dict(sorted(values.items(), key=lambda item: known[item[1].id]))
