"""The reverse sweep: nodes in decreasing order of their ids, one accumulated cotangent an output, no recursion.

A node is visited once, when all that uses it has been: its users have larger ids. So the cost is linear in the operations
taped, however much they share. Cotangents are added in place where their memory is the sweep's own, which makes a loop over
single entries of an array linear as well.

Zero times infinity is NaN in a product of numbers, and 0 in a derivative: an entry that a mask cut off has the cotangent 0, whatever the
partial derivatives behind it. Rules need not look, as such a product leaves NaN in the result. Only then the sweep is repeated with
rules in which zero wins (`local.zero_wins`). Pullbacks that are no rules see no NaN before that. A cotangent that is 0 although the result
reads the entry (see `diffsim.ad.transforms.live`) does not win over the infinite derivative of a root or a kink: that raises.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Sequence
from contextvars import Context, copy_context
from typing import Any, Protocol

import numpy as np

from diffsim.ad.core import Tracer, bottom, is_known, is_plain, local
from diffsim.ad.ops.structure import IndexedCotangent, Owned, copy, index_add, is_basic, zeros_like
from diffsim.ad.transforms.live import Live, LiveEntries
from diffsim.ad.transforms.modes import VALUE, ForwardTracer, Node
from diffsim.base import buffers

_add = buffers.reusing(np.add)


class Readers(Protocol):
    """The function that gives the entries of a node's value that are read; None if they are not known."""

    def of(self, node: Node) -> Live | None: ...


class _Cotangent:
    """The sum of cotangents for one value so far."""

    __slots__ = ("owned", "value")

    def __init__(self, bar: Any, like: Any) -> None:
        self.value: Any = None
        self.owned = False
        if type(bar) is np.ndarray or isinstance(bar, np.generic):
            self.value = bar
        else:
            self.add(bar, like)

    def add(self, bar: Any, like: Any) -> None:
        """Add a cotangent of a value of the shape and type of `like`."""
        if type(bar) is IndexedCotangent:
            self._add_indexed(bar, like)
            return
        owned = type(bar) is Owned
        if owned:
            bar = bar.value
        if self.value is None:
            self.value, self.owned = bar, owned
        elif self.owned and isinstance(self.value, np.ndarray) and isinstance(bar, np.ndarray):
            self.value += bar
        elif isinstance(self.value, np.ndarray) and isinstance(bar, np.ndarray):
            self.value, self.owned = _add(self.value, bar), True
        else:
            self.value = self.value + bar
            self.owned = not isinstance(self.value, Tracer)

    def _add_indexed(self, bar: IndexedCotangent, like: Any) -> None:
        if self.value is None:
            self.value = zeros_like(like)
        elif not self.owned:
            self.value = copy(self.value)
        self.owned = True
        if isinstance(self.value, np.ndarray) and is_plain(bar.ct) and is_basic(bar.index):
            self.value[bar.index] += bar.ct
        else:
            self.value = index_add(self.value, bar.ct, index=bar.index, donate=True)


def backward(seeds: Sequence[tuple[Node, Any]], inputs: Sequence[Node]) -> list[Any]:
    """Carry cotangents back.

    Args:
        seeds: nodes with their cotangents.
        inputs: leaves.

    Returns:
        The cotangent of each input, None where nothing reached it.
    """
    outer = local.zero_wins
    try:
        local.zero_wins = False
        bars = swept(seeds, inputs)
        if bars is None or any(map(_doubtful, bars)):
            local.zero_wins = True
            bars = swept(seeds, inputs, LiveEntries(seeds) if is_known(*(ct for _, ct in seeds)) else None)
            assert bars is not None
    finally:
        local.zero_wins = outer
    return bars


def _doubtful(bar: Any) -> bool:
    """True if a cotangent is NaN somewhere, or has no values yet."""
    if type(bar) is np.ndarray and bar.ndim and bar.dtype.kind == "f":
        most = np.maximum.reduce(bar, axis=None, initial=-np.inf)  # NaN wins; faster than a look at each entry
        return bool(most != most)
    return _has_nan(bar) or not (is_known(bar) or bottom(bar).trace.replayed)


def _has_nan(bar: Any) -> bool:
    """True if a cotangent, or a tangent that it carries, is NaN somewhere."""
    if isinstance(bar, ForwardTracer):
        return _has_nan(bar.primal) or _has_nan(bar.tangent)
    if isinstance(bar, Tracer):
        return bar.trace.doubt(bar) if bar.abstract else _has_nan(bar.primal)
    if isinstance(bar, np.ndarray) and bar.ndim:
        return _doubtful(bar) if type(bar) is np.ndarray and bar.dtype.kind == "f" else bool(np.isnan(bar).any())
    return bar is not None and bool(bar != bar)


def swept(seeds: Sequence[tuple[Node, Any]], inputs: Sequence[Node], live: Readers | None = None) -> list[Any] | None:
    """The cotangents of inputs; None where a pullback would be given NaN and zeros do not win yet.

    Args:
        seeds: nodes with their cotangents.
        inputs: leaves.
        live: the entries that are read of the value of each node, if zeros win and it is known.
    """
    around, outer = copy_context(), (local.live, local.sweeping)
    local.sweeping = True
    try:
        with np.errstate(all="ignore"):
            return _visited(seeds, inputs, around, live)
    finally:
        local.live, local.sweeping = outer


def _visited(seeds: Sequence[tuple[Node, Any]], inputs: Sequence[Node], around: Context, live: Readers | None) -> list[Any] | None:
    pending: dict[int, Any] = {}  # id of a node -> the sum so far, for an operation with several values a list
    heap: list[tuple[int, Node]] = []

    def add(node: Node, bar: Any) -> None:
        number = node.id
        cotangent = pending.get(number)
        if cotangent is None:
            pending[number] = _Cotangent(bar, node)
            if node.primitive is not None:
                heapq.heappush(heap, (-number, node))
        else:
            cotangent.add(bar, node)

    for node, ct in seeds:
        add(node, ct)
    while heap:
        number, node = heapq.heappop(heap)
        entry = pending.pop(-number)
        if node.primitive is VALUE:
            (operation,) = node.parents
            assert operation is not None
            if operation.id not in pending:
                pending[operation.id] = [None] * len(operation.params["avals"])
                heapq.heappush(heap, (-operation.id, operation))
            pending[operation.id][node.params["index"]] = entry.value
            continue
        if live is not None:
            local.live = live.of(node)
        bars = _pull(node, entry, around)
        if bars is None:
            return None
        for parent, bar in zip(node.parents, bars, strict=True):
            if bar is not None and parent is not None:
                add(parent, bar)
    shared = {id(ct) for _, ct in seeds}
    return [_own(pending.get(leaf.id), shared) for leaf in inputs]


def _own(cotangent: _Cotangent | None, shared: set[int]) -> Any:
    """A cotangent as a result, in memory of its own. Rules give new arrays, views of them, or their cotangent."""
    if cotangent is None:
        return None
    value = cotangent.value
    if isinstance(value, np.ndarray) and (id(value) in shared or not _alone(value)):
        value = buffers.copy(value)
    shared.add(id(value))
    return value


def _alone(value: np.ndarray) -> bool:
    """True if an array has memory of its own, or is the one view of all of an array that nobody else refers to (it was reshaped)."""
    if not isinstance(value.base, np.ndarray):
        return value.base is None or buffers.is_lease(value.base)
    return value.nbytes == value.base.nbytes and sys.getrefcount(value.base) <= 2 and _alone(value.base)


def _pull(node: Node, entry: Any, around: Context) -> Sequence[Any] | None:
    """Cotangents of the arguments of a node, by its rule or pullback; None where that would be given NaN too early.

    Args:
        node: of the tape.
        entry: the sum for it.
        around: what holds around the sweep, such as how NumPy handles floating-point errors.
    """
    primitive = node.primitive
    assert primitive is not None
    if primitive.multiple:
        avals = node.params["avals"]
        ct: Any = tuple(
            zeros_like(a) if c is None and a is not None and a.dtype.kind in "fc" else c for c, a in zip(entry, avals, strict=True)
        )
    else:
        ct = entry.value
    if node.pullback is not None:
        if not local.zero_wins and any(map(_has_nan, ct if primitive.multiple else (ct,))):
            return None
        with np.errstate(**around.run(np.geterr)):
            return _outside_of_rules(node.pullback, ct)
    wanted = node.wanted
    assert primitive.vjp is not None
    if primitive.takes_over:
        return primitive.vjp(ct, node.args, node.out, node.params, wanted, entry.owned)
    return primitive.vjp(ct, node.args, node.out, node.params, wanted)


def _outside_of_rules(pullback: Any, ct: Any) -> Sequence[Any]:
    """The result of a pullback, whose own operations and sweeps begin afresh."""
    outer, local.zero_wins = local.zero_wins, False
    try:
        return pullback(ct)
    finally:
        local.zero_wins = outer
