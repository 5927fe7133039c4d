"""Why the cotangent of a value in a tile program is 0: by its value, or because something left the entry out.

Zero times an infinite derivative is 0 if a mask, an index or a constant factor of 0 made the zero. If it is 0 by its value, as that of
r in cos(r) at r = 0, the product is not known, and is NaN. A kernel sees both alike. So the operations between a value and the results of
a tile decide: only where all of them carry every entry on is a zero one by its value. A tile whose own cotangents are all 0 counts as left
out.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from diffsim.ad.core import Tracer
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import structure as st
from diffsim.ad.ops.roots import COMPOSED
from diffsim.ad.ops.squares import sum_of_squares
from diffsim.ad.transforms.live import PRODUCTS, Live
from diffsim.ad.transforms.modes import Node

CHOICES = {"where", "maximum", "minimum", "fmax", "fmin", "copysign", "heaviside"}
"""Operations entry by entry that may leave one of their arguments out."""
FUSED = {COMPOSED.name, sum_of_squares.name}
"""Operations that stand for several ones entry by entry."""
CARRYING = (set(ew.TABLE) - CHOICES) | FUSED | {"sum", "reshape", "transpose", "broadcast_to", "astype", "copy", "layout"}
"""Operations whose results read all entries of their arguments."""


class ByValue:
    """For each value whose cotangent is 0 by its value where it is 0, in which tiles that may be."""

    def __init__(self, seeds: Sequence[tuple[Node, Any]]) -> None:
        self._inputs: dict[int, frozenset[int]] = {}
        self._carried: dict[int, bool] = {}
        self._seeded = self._any([ct for _, ct in seeds])
        self._sweep([node for node, _ in seeds])

    def of(self, node: Node) -> Live | None:
        return Live(self._seeded, lambda: True) if self._carried.get(node.id, False) and self._seeded is not None else None

    @staticmethod
    def _any(cotangents: Sequence[Any]) -> Any:
        """True if some cotangent of a tile is not 0."""
        anywhere: Any = None
        for ct in cotangents:
            if not isinstance(ct, Tracer) or ct.dtype.kind == "c":
                continue
            one = st.astype(ew.logical_not(ew.equal(ct, 0.0)), dtype=ct.dtype)
            some = ew.logical_not(ew.equal(st.add_up(one, axis=None, keepdims=False) if one.ndim else one, 0.0))
            anywhere = some if anywhere is None else ew.logical_or(anywhere, some)
        return anywhere

    def _sweep(self, nodes: Sequence[Node]) -> None:
        heap = [(-node.id, node) for node in {n.id: n for n in nodes}.values()]
        heapq.heapify(heap)
        for node in nodes:
            self._carried[node.id] = True
        while heap:
            _, node = heapq.heappop(heap)
            for k, parent in enumerate(node.parents):
                if parent is None:
                    continue
                carried = self._carried[node.id] and self._carries(node, k)
                if parent.id not in self._carried:
                    heapq.heappush(heap, (-parent.id, parent))
                self._carried[parent.id] = self._carried.get(parent.id, True) and carried

    def _carries(self, node: Node, k: int) -> bool:
        """True if a cotangent of 0 that the operation gives its k-th argument is one by its value."""
        assert node.primitive is not None
        if node.primitive not in PRODUCTS and node.primitive is not ew.divide:
            return node.primitive.name in CARRYING
        other, factor = node.parents[1 - k], node.args[1 - k]
        if other is not None:  # a factor of 0 that is another input leaves the entry out
            return bool(self._of(other) & self._of(node.parents[k]))
        return not isinstance(factor, (Node, Tracer)) and bool(np.all(np.asarray(factor) != 0))

    def _of(self, node: Node | None) -> frozenset[int]:
        """The inputs on which a value depends."""
        assert node is not None
        waiting = [node]
        while waiting:
            at = waiting[-1]
            missing = [p for p in at.parents if p is not None and p.id not in self._inputs]
            if not missing:
                sources = [self._inputs[p.id] for p in at.parents if p is not None]
                self._inputs[at.id] = frozenset().union(*sources) if sources else frozenset((at.id,))
                waiting.pop()
            waiting += missing
        return self._inputs[node.id]
