"""Which entries of the values on a tape the result reads.

A cotangent is 0 for one of two reasons. The result may not read the entry: a mask or an index leaves it out, another entry is the larger
one, or it is multiplied with a constant 0. Then its share of the derivative is 0, whatever stands behind it. Or the cotangent is 0 by its
value at this point, as that of r in r² at r = 0. Then the product with an infinite derivative behind it is not known: for sqrt(x)² it is 1,
for sqrt(x)³ it is 0. The entries are found by a sweep of its own, which is run only where zeros have met infinity.

A cotangent that is 0 by its value may still not vary with the inputs of the root, as that of sqrt(h) in u sqrt(h) at u = h = 0. It is 0 for
all h then, and so is the product. Its derivative for u is not.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.ad.core import Tracer, bottom, is_known, is_plain
from diffsim.ad.ops.elementwise import TABLE, divide, multiply, scale, where
from diffsim.ad.ops.structure import IndexedCotangent, Owned, unbroadcast
from diffsim.ad.transforms.modes import VALUE, Node

PRODUCTS = (multiply, scale)


@dataclass(frozen=True)
class Live:
    """The entries of the value of an operation that the result reads.

    Attributes:
        entries: which entries.
        varies: whether the cotangent of the value may vary with an input on which the value depends.
    """

    entries: Any
    varies: Callable[[], bool]


class LiveEntries:
    """The entries of the value of each operation on a tape that the result reads.

    Args:
        seeds: nodes with their cotangents, as known values.
    """

    def __init__(self, seeds: Sequence[tuple[Node, Any]]) -> None:
        self._users: dict[int, list[Node]] = {}
        self._moving: dict[int, Any] = {}
        self._found: dict[int, Any] = {}
        self._sweep(seeds)

    def of(self, node: Node) -> Live | None:
        """The live entries of one operation; None for one that the seeds do not reach."""
        entries = self._found.get(node.id)
        return None if entries is None else Live(entries, lambda: self._varies(node))

    def _sweep(self, seeds: Sequence[tuple[Node, Any]]) -> None:
        """Find the entries that seeds which are not 0 read, and the users of each value."""
        live_entries, heap = self._found, []  # type: ignore[var-annotated]

        def add(node: Node, live: Any) -> None:
            if node.id not in live_entries:
                live_entries[node.id] = np.zeros(node.shape, bool)
                heapq.heappush(heap, (-node.id, node))
            live_entries[node.id] = live_entries[node.id] | _entries(live, node)

        for node, ct in seeds:
            add(node, _moves(ct))
        while heap:
            _, node = heapq.heappop(heap)
            if node.primitive is None:
                continue
            live = list(_read(node, live_entries[node.id]))
            if node.primitive in PRODUCTS:
                live = [self._with_factor(node, k, entries) for k, entries in enumerate(live)]
            for parent, entries in zip(node.parents, live, strict=True):
                if parent is not None and entries is not None:
                    self._users.setdefault(parent.id, []).append(node)
                    add(parent, entries)

    def _with_factor(self, node: Node, k: int, live: Any) -> Any:
        """The live entries of a factor, without those times a 0 that no input moves."""
        other, factor = node.parents[1 - k], node.args[1 - k]
        if live is None or factor is None or isinstance(factor, Node) or not is_known(factor):
            return live
        if other is None:  # another transformation may move it
            return live & (factor != 0) if is_plain(factor) else live
        return live & ((bottom(factor) != 0) | self._moved(other))

    def _moved(self, node: Node) -> Any:
        """Which entries of a value depend on inputs: not those that a mask has set to a constant."""
        waiting = [node]
        while waiting:
            at = waiting[-1]
            missing = [p for p in at.parents if p is not None and p.id not in self._moving]
            if at.id in self._moving or not missing:
                self._moving.setdefault(at.id, _moved(at, [self._moving[p.id] if p is not None else False for p in at.parents]))
                waiting.pop()
            waiting += missing
        return self._moving[node.id]

    def _after(self, nodes: Sequence[Node]) -> dict[int, Node]:
        """All operations that depend on some of these, and these."""
        users = {node.id: node for node in nodes}
        waiting = list(nodes)
        while waiting:
            for user in self._users.get(waiting.pop().id, ()):
                if user.id not in users:
                    users[user.id] = user
                    waiting.append(user)
        return users

    def _varies(self, node: Node) -> bool:
        varying = self._after(_inputs(node))
        on_the_way = self._after([node])
        for user in on_the_way.values():
            for k, parent in enumerate(user.parents):
                if user is node or parent is None or parent.id not in on_the_way:
                    continue
                if user.primitive is VALUE:
                    continue
                assert user.primitive is not None
                reads, reads_out = user.primitive.kept(tuple(i == k for i in range(len(user.parents))))
                if user.pullback is not None or reads_out:
                    return True
                if any(read and p is not None and p.id in varying for read, p in zip(reads, user.parents, strict=True)):
                    return True
        return False


def _inputs(node: Node) -> list[Node]:
    """The leaves of the tape on which an operation depends."""
    seen, waiting, leaves = {node.id}, [node], []
    while waiting:
        parents = [p for p in waiting.pop().parents if p is not None and p.id not in seen]
        seen.update(p.id for p in parents)
        waiting += parents
        leaves += [p for p in parents if not p.parents]
    return leaves


def _moves(ct: Any) -> Any:
    """Where a cotangent, or a tangent of it, is not 0."""
    moves: Any = False
    while isinstance(ct, Tracer):
        tangent = getattr(ct, "tangent", None)
        moves = moves | (bottom(tangent) != 0 if tangent is not None else False)
        ct = ct.primal
    return moves | (ct != 0)


def _moved(node: Node, before: list[Any]) -> Any:
    """Which entries of a value depend on inputs, by those of its arguments."""
    if node.primitive is None or node.primitive is VALUE or node.primitive.multiple or node.pullback is not None:
        return np.ones(node.shape, bool)
    if node.primitive is where:
        if not is_known(node.args[0]):
            return np.ones(node.shape, bool)
        return np.broadcast_to(np.where(bottom(node.args[0]), before[1], before[2]), node.shape)
    if node.primitive in PRODUCTS or node.primitive is divide:
        return np.broadcast_to(_product_moved(node, before), node.shape)
    if node.primitive.name in TABLE:
        return np.broadcast_to(functools.reduce(np.logical_or, before), node.shape)
    kept, keeps_out = node.primitive.kept(tuple([p is not None for p in node.parents]))
    if any(kept) or keeps_out or node.primitive.jvp is None:
        return np.ones(node.shape, bool)
    tangents = [None if p is None else b.astype(p.dtype) for p, b in zip(node.parents, before, strict=True)]
    return np.broadcast_to(node.primitive.jvp(node.args, tangents, node, node.params) != 0, node.shape)


def _product_moved(node: Node, before: list[Any]) -> Any:
    """The same for a product or a quotient, which is 0 with a factor that is 0 whatever the inputs are."""
    moved = before[0] | before[1]
    for factor, value, parent in zip(before, node.args, node.parents, strict=True):
        if node.primitive is divide and factor is before[1]:
            break
        if value is None or isinstance(value, Node):
            value = node.out if node.primitive is divide and node.out is not None else 1.0
        if is_known(value):
            moved = moved & (factor | (bottom(value) != 0)) if parent is not None or np.ndim(value) or value == 0 else moved
    return moved


def _entries(live: Any, node: Node) -> Any:
    if type(live) is Owned:
        live = live.value
    if type(live) is IndexedCotangent:
        at = np.zeros(node.shape, bool)
        np.logical_or.at(at, live.index, np.not_equal(live.ct, 0))
        return at
    if np.ndim(live) and np.shape(live) != node.shape:
        live = unbroadcast(np.asarray(live, float), node)
    return np.not_equal(live, 0)


def _read(node: Node, live: Any) -> Sequence[Any]:
    """Which entries of its arguments the live ones of an operation read."""
    primitive = node.primitive
    assert primitive is not None
    if not live.any() and primitive is not VALUE and not primitive.multiple:
        return [False] * len(node.parents)
    wanted = tuple([p is not None for p in node.parents])
    if primitive.live is not None and node.pullback is None:
        return primitive.live(live, node.args, node.params, node.parents)
    if node.pullback is None and primitive.vjp is not None and not primitive.multiple:
        kept, keeps_out = primitive.kept(wanted)
        if not any(kept) and not keeps_out:  # it moves entries and adds them up
            further = (False,) if primitive.takes_over else ()
            return primitive.vjp(live.astype(node.dtype), node.args, None, node.params, wanted, *further)
    return [True if w else None for w in wanted]
