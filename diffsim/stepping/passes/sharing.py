"""Values that a step uses at several cells, such as a flux through a face.

A step that writes `flux - flux.shifted(axis, -1)` has the flux in its graph twice. Both are the same function of the cell, so reverse mode
should differentiate it once: the cotangents of both uses are added first, and the rest is computed once a face instead of twice.
(In a chain of such values, that saves a power of two.) This module finds these values and names them.

Expressions that are linear with constant weights are not changed, because sharing gains nothing there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from diffsim.elementwise.table import FUNCTIONS
from diffsim.expr.graph import COMMUTATIVE, CONDITIONS, OPERATIONS, Graph, Node, Offset, is_weighted_sum, once_for, ordered, reads

COSTLY = 32
"""Least cost that a shared value must save. Cheaper values are differentiated at each use, which needs fewer sums over neighbours."""
CONSIDERABLE, FLUX = 0.2, 0.12
"""Least part of the cost of an expression that a shared value must save, and that of one that saves at least `LARGE`: in three dimensions a
flux through faces saves a sixth."""
LARGE = 64
"""A cheap flux, such as one with a MUSCL slope, gains nothing in three dimensions: its cotangents lie in planes of more arrays."""


def operation_cost(node: Node) -> int:
    """Approximate cycles of an operation on a tile. A sum takes 2."""
    return COSTS[node.op]


COSTS = {
    name: 16 if name in ("div", "sqrt") else 60 if name in FUNCTIONS or "{call}" in each.source else 2 for name, each in OPERATIONS.items()
}


@once_for
def cost(roots: Sequence[Node]) -> int:
    """Cost of all operations in the roots."""
    return sum(COSTS[node.op] for node in ordered(roots) if node.args)


SHARED = "shared "
"""Begins the names of values that a step uses more than once. No field has a space in its name."""


@dataclass(frozen=True)
class Shared:
    """Expressions that read values used at several cells from separate fields, and those values.

    Attributes:
        bodies: the expressions by name.
        values: name -> expression. It may read other fields of `values` at offsets.
    """

    bodies: dict[str, Node]
    values: dict[str, Node]


def alike(values: Sequence[Node]) -> list[list[int]]:
    """The numbers of some values, in parts that share nothing costly. Cheap values are one part."""
    costly, cheap = costly_parts(values)
    return sorted([*costly, cheap] if cheap else costly)


def costly_parts(values: Sequence[Node]) -> tuple[list[list[int]], list[int]]:
    """The numbers of costly values, in parts that share nothing costly, and those of cheap ones."""
    part = list(range(len(values)))

    def of(number: int) -> int:
        while part[number] != number:
            number = part[number]
        return number

    nodes, weight = ordered(values), dict[int, int]()  # of a node and all that it needs, until it is costly
    for node in nodes:
        weight[node.id] = min(COSTLY, COSTS[node.op] + sum([weight[each.id] for each in node.args])) if node.args else 0
    owner = dict[int, int]()
    for number, value in enumerate(values):
        part[number] = of(owner.setdefault(value.id, number))
    for node in reversed(nodes):
        for each in node.args:
            if weight[each.id] == COSTLY:
                part[of(owner.setdefault(each.id, owner[node.id]))] = of(owner[node.id])
    parts: dict[int, list[int]] = {}
    cheap = list[int]()
    for number, value in enumerate(values):
        (parts.setdefault(of(number), []) if weight[value.id] == COSTLY else cheap).append(number)
    return list(parts.values()), cheap


class Classes:
    """Classes of nodes that are the same function of the cell, evaluated at different cells."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._numbers: dict[Hashable, int] = {}
        self._first: list[tuple[Node, Offset | None]] = []
        self._found: dict[int, tuple[int, Offset | None]] = {}  # node -> class, anchor

    def anchor(self, node: Node) -> Offset | None:
        """The smallest offset along each axis at which the node reads; None for a constant."""
        return (self._found.get(node.id) or self._of(node))[1]

    def of(self, node: Node) -> tuple[int, Offset]:
        """The number of the node's class, and the cell at which it is evaluated. The node must read a field."""
        number, anchor = self._found.get(node.id) or self._of(node)
        assert anchor is not None
        return number, anchor

    def varying(self, nodes: Iterable[Node]) -> Iterator[tuple[Node, int, Offset]]:
        """Operations among some nodes that read a field, each with the number of its class and its cell."""
        found = self._found
        for node in nodes:
            if node.args:
                number, anchor = found.get(node.id) or self._of(node)
                if anchor is not None:
                    yield node, number, anchor

    def representative(self, number: int) -> Node:
        """The expression of a class at the present cell."""
        node, anchor = self._first[number]
        return node if anchor is None else self.graph.shift(node, tuple(-a for a in anchor))

    def _of(self, node: Node) -> tuple[int, Offset | None]:
        found = self._found
        for argument in node.args:
            if argument.id not in found:
                for inner in ordered(node.args, known=found):
                    found[inner.id] = self._new(inner)
                break
        found[node.id] = new = self._new(node)
        return new

    def _new(self, node: Node) -> tuple[int, Offset | None]:
        """The class of a node whose arguments have one."""
        if node.op == "read":
            name, anchor = node.data
            return self._number(("read", name), node, anchor), anchor
        arguments = [self._found[a.id] for a in node.args]
        offsets = {offset for _, offset in arguments if offset is not None}
        anchor = tuple(map(min, *offsets)) if len(offsets) > 1 else next(iter(offsets), None)
        parts = [(number, () if at is None else tuple(map(operator.sub, at, anchor))) for number, at in arguments]  # type: ignore[arg-type]
        if node.op in COMMUTATIVE:
            parts.sort()
        return self._number((node.op, node.data, *parts), node, anchor), anchor

    def _number(self, key: Hashable, node: Node, anchor: Offset | None) -> int:
        number = self._numbers.setdefault(key, len(self._first))
        if number == len(self._first):
            self._first.append((node, anchor))
        return number


def shared_values(graph: Graph, bodies: Mapping[str, Node], active: Callable[[str], bool]) -> Shared:
    """Name the values that the bodies use at several cells.

    Args:
        graph: graph of the expressions.
        bodies: expressions by name.
        active: tests whether a field is differentiated for. Values that depend on no such field are not named.
    """
    found, classes = dict(bodies), Classes(graph)
    values: dict[str, Node] = {}
    largest: dict[int, tuple[int, dict[Offset, list[Node]]] | None] = {}  # body -> what may be shared of it
    rebuilt: set[int] = set()  # nodes that the graph would build of their arguments again
    while True:
        for body in found.values():
            if body.id not in largest:
                largest[body.id] = _largest(classes, body, active)
        best = max(filter(None, (largest[body.id] for body in found.values())), key=lambda each: each[0], default=None)
        if best is None:
            break
        number, _ = classes.of(next(iter(best[1].values()))[0])
        value = classes.representative(number)
        name = shared_name(value)
        nodes = ordered(found.values())
        named = {node.id: graph.read(name, at) for node, key, at in classes.varying(nodes) if key == number}
        _without_change(nodes, rebuilt, named)
        found = dict(zip(found, graph.replace(found.values(), lambda read: read, named), strict=True))
        rebuilt = {node.id for node in named.values()}
        found[name], values[name] = value, value
    while cheap := [name for name, users in _users(found, values).items() if cost([found[name]]) * (users - 1) < COSTLY]:
        # its parts are shared as well, and little is left
        name = cheap[0]
        del values[name]
        little = {name: found.pop(name)}
        found = dict(zip(found, inlined(graph, found.values(), little), strict=True))
    return Shared({name: found[name] for name in bodies}, {name: found[name] for name in values})


def _without_change(nodes: Iterable[Node], rebuilt: Container[int], replaced: dict[int, Node]) -> None:
    """Add the nodes that stay as they are to those that are replaced: nodes that need none of these, and whose operations, and those of all
    that they need, are `rebuilt`. The nodes come after their arguments."""
    for node in nodes:
        if node.id in rebuilt and node.id not in replaced and all(replaced.get(each.id) is each for each in node.args):
            replaced[node.id] = node


def _largest(classes: Classes, body: Node, active: Callable[[str], bool]) -> tuple[int, dict[Offset, list[Node]]] | None:
    """The most costly value of a body that is worth sharing, its cost and its nodes: the largest first, then only it uses its parts."""
    best, whole = None, cost([body])
    for where in _several(classes, body, active).values():
        one = cost(next(iter(where.values())))
        saved = (len(where) - 1) * one
        if saved >= max(COSTLY, (FLUX if saved >= LARGE else CONSIDERABLE) * whole) and (best is None or one > best[0]):
            best = one, where
    return best


def _users(bodies: Mapping[str, Node], names: Iterable[str]) -> dict[str, int]:
    """The number of cells at which the bodies read each field."""
    found = [reads([body]) for body in bodies.values()]
    return {name: sum(len(each.get(name, ())) for each in found) for name in names}


def _several(classes: Classes, body: Node, active: Callable[[str], bool]) -> dict[int, dict[Offset, list[Node]]]:
    """Classes with several nodes in a body, at different cells."""
    uses: dict[int, dict[Offset, list[Node]]] = {}
    nodes = ordered([body])
    moving = curved(nodes, active)
    for node, number, where in classes.varying(nodes):
        if node.id in moving and node.op not in CONDITIONS:
            uses.setdefault(number, {}).setdefault(where, []).append(node)
    return {key: where for key, where in uses.items() if len(where) > 1}


def inlined(
    graph: Graph,
    roots: Iterable[Node],
    values: Mapping[str, Node],
    apply: Callable[..., Node] | None = None,
    memo: dict[int, Node] | None = None,
) -> list[Node]:
    """The roots with reads of named values replaced by the values. Operations are built by `apply` or that of the graph. `memo` has the
    results of earlier calls with the same values."""
    whole: dict[str, Node] = {}

    def put_back(read: Node) -> Node:
        name, offset = read.data
        if name not in values:
            return read
        if name not in whole:
            (whole[name],) = graph.replace([values[name]], put_back, apply=apply)
        return graph.shift(whole[name], offset)

    return graph.replace(roots, put_back, memo, apply)


def curved(nodes: Iterable[Node], active: Callable[[str], bool]) -> set[int]:
    """Ids of the nodes that depend on active fields by more than sums with constant weights."""
    moving: set[int] = set()
    found: set[int] = set()
    for node in nodes:
        if node.op == "read":
            if active(node.data[0]) or node.data[0].startswith(SHARED):
                moving.add(node.id)
            continue
        if not any(a.id in moving for a in node.args):
            continue
        moving.add(node.id)
        if not is_weighted_sum(node) or any(a.id in found for a in node.args):
            found.add(node.id)
    return found


def shared_name(value: Node) -> str:
    """The name of a value that a step uses more than once."""
    return f"{SHARED}{value.id}"
