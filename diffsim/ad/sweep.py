"""The reverse sweep: nodes in decreasing order of their ids, one accumulated cotangent an output, no recursion.

A node is visited once, when all that uses it has been: its users have larger ids. So the cost is linear in the operations
recorded, however much they share. Cotangents are added in place where their memory is the sweep's own, which makes a loop over
single entries of an array linear as well.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.core import Aval, Node, is_plain
from diffsim.ad.ops.structure import IndexedCotangent, Owned, copy, index_add, is_basic, zeros_like
from diffsim.errors import ShapeError


class _Cotangent:
    """What has been added up for one output of a node so far."""

    __slots__ = ("aval", "owned", "value")

    def __init__(self, aval: Aval) -> None:
        self.aval = aval
        self.value: Any = None
        self.owned = False

    def add(self, bar: Any) -> None:
        if type(bar) is IndexedCotangent:
            self._add_indexed(bar)
            return
        owned = type(bar) is Owned
        if owned:
            bar = bar.value
        if self.value is None:
            self.value, self.owned = bar, owned
        elif self.owned and isinstance(self.value, np.ndarray) and isinstance(bar, np.ndarray):
            self.value += bar
        else:
            self.value = self.value + bar
            self.owned = is_plain(self.value)

    def _add_indexed(self, bar: IndexedCotangent) -> None:
        if self.value is None:
            self.value = zeros_like(self.aval)
        elif not self.owned:
            self.value = copy(self.value)
        self.owned = True
        if isinstance(self.value, np.ndarray) and is_plain(bar.ct) and is_basic(bar.index):
            self.value[bar.index] += bar.ct
        else:
            self.value = index_add(self.value, bar.ct, index=bar.index, donate=True)


def backward(seeds: Iterable[tuple[Node, int, Any]], inputs: Sequence[Node]) -> list[Any]:
    """Carry cotangents back.

    Args:
        seeds: node, output of it, cotangent.
        inputs: leaves.

    Returns:
        The cotangent of each input, None where nothing reached it.
    """
    pending: dict[int, tuple[Node, list[_Cotangent]]] = {}
    heap: list[int] = []

    def add(node: Node, index: int, bar: Any) -> None:
        entry = pending.get(node.id)
        if entry is None:
            entry = pending[node.id] = (node, [_Cotangent(a) for a in node.avals])
            if node.primitive is not None:
                heapq.heappush(heap, -node.id)
        entry[1][index].add(bar)

    for node, index, ct in seeds:
        add(node, index, ct)
    while heap:
        node, cotangents = pending.pop(-heapq.heappop(heap))
        bars = _pull(node, cotangents)
        for parent, bar in zip(node.parents, bars, strict=True):
            if parent is not None and bar is not None:
                add(*parent, bar)
    found = []
    for leaf in inputs:
        entry = pending.get(leaf.id)
        value = None if entry is None else entry[1][0].value
        if value is not None and is_plain(value) and not entry[1][0].owned:  # type: ignore[index]
            value = np.array(value)[()]  # it may share memory with other cotangents
        found.append(value)
    return found


def _pull(node: Node, cotangents: list[_Cotangent]) -> Sequence[Any]:
    """The rule of one node: cotangents of its arguments."""
    primitive = node.primitive
    assert primitive is not None
    if primitive.multiple:
        ct: Any = tuple(zeros_like(c.aval) if c.value is None and c.aval.dtype.kind in "fc" else c.value for c in cotangents)
    else:
        ct = cotangents[0].value
    if node.pullback is not None:
        return node.pullback(ct)
    wanted = tuple([p is not None for p in node.parents])
    assert primitive.vjp is not None
    if primitive.takes_over:
        return primitive.vjp(ct, node.args, node.out, node.params, wanted, cotangents[0].owned)
    bars = primitive.vjp(ct, node.args, node.out, node.params, wanted)
    if len(bars) != len(node.parents):
        raise ShapeError(f"the rule of {primitive.name} gave {len(bars)} cotangents, expected {len(node.parents)}, one an argument")
    return bars
