"""Scans and reductions by a traced operator, as operations on the tape. Arrays are (rows, n, columns).

Kernels run them and their first reverse derivative. Everything else - forward mode, higher orders - is the derivative of the same
written as a tree of array operations: pairs are combined, scanned, and the entries between filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim import kernels
from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.core import Primitive, is_plain
from diffsim.ad.ops import structure as st
from diffsim.ad.scans.associative import apply
from diffsim.ad.transforms.jvp import jvp
from diffsim.ad.transforms.vjp import vjp


def _cut(x: Any, start: int | None, stop: int | None, step: int | None = None) -> Any:
    return st.getitem(x, index=(slice(None), slice(start, stop, step)))


def _joined(parts: Sequence[Any]) -> Any:
    return st.concatenate(*parts, axis=1, lengths=tuple(p.shape[1] for p in parts))


def _interleaved(even: Any, odd: Any) -> Any:
    rows, n, columns = even.shape
    m = odd.shape[1]
    pairs = [st.reshape(v, shape=(rows, m, 1, columns)) for v in (_cut(even, 0, m), odd)]
    merged = st.reshape(st.concatenate(*pairs, axis=2, lengths=(1, 1)), shape=(rows, 2 * m, columns))
    return merged if n == m else _joined([merged, _cut(even, m, None)])


Combine = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


def tree_scan(combine: Combine, xs: Sequence[Any]) -> list[Any]:
    """Inclusive scan: pairs are combined, scanned, and the entries between filled in."""
    n = xs[0].shape[1]
    if n < 2:
        return list(xs)
    halves = n - n % 2
    pairs = combine([_cut(x, 0, halves, 2) for x in xs], [_cut(x, 1, halves, 2) for x in xs])
    odd = tree_scan(combine, pairs)
    if n > 2:
        count = (n + 1) // 2 - 1
        later = combine([_cut(y, 0, count) for y in odd], [_cut(x, 2, None, 2) for x in xs])
        even = [_joined([_cut(x, 0, 1), y]) for x, y in zip(xs, later, strict=True)]
    else:
        even = [_cut(x, 0, 1) for x in xs]
    return [_interleaved(e, o) for e, o in zip(even, odd, strict=True)]


def _tree_reduce(combine: Combine, xs: Sequence[Any]) -> list[Any]:
    """All entries combined in their order."""
    while (n := xs[0].shape[1]) > 1:
        halves = n - n % 2
        pairs = combine([_cut(x, 0, halves, 2) for x in xs], [_cut(x, 1, halves, 2) for x in xs])
        xs = [_joined([p, _cut(x, halves, None)]) if n % 2 else p for p, x in zip(pairs, xs, strict=True)]
    return [st.reshape(x, shape=(x.shape[0], x.shape[2])) for x in xs]


def _turned(xs: Sequence[Any], reverse: bool) -> list[Any]:
    return [_cut(x, None, None, -1) for x in xs] if reverse else list(xs)


def scan_by_tree(op: kernels.Operator, reverse: bool) -> Callable[..., Any]:
    def run(*xs: Any) -> Any:
        scanned = tree_scan(lambda a, b: apply(op, a, b), _turned([core(x) for x in xs], reverse))
        return tuple(map(wrap, _turned(scanned, reverse)))

    return run


def reduce_by_tree(op: kernels.Operator) -> Callable[..., Any]:
    return lambda *xs: tuple(map(wrap, _tree_reduce(lambda a, b: apply(op, a, b), [core(x) for x in xs])))


def derivative_by_definition(definition: Callable[..., Any], args: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Tangents of a primitive from a differentiable function that does the same."""
    _, dots = jvp(definition, tuple(wrap(a) for a in args), tuple(None if t is None else wrap(t) for t in tangents))
    return [None if d is None else core(d) for d in dots]


def pullback_by_definition(definition: Callable[..., Any], args: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    _, pullback = vjp(definition, *(wrap(a) for a in args))
    bars = pullback(tuple(None if c is None else wrap(c) for c in cts))
    return [None if b is None else core(b) for b in bars]


def contiguous(xs: Sequence[Any]) -> list[Any]:
    return [np.ascontiguousarray(x) for x in xs]


def _scan_vjp(cts: Any, xs: Any, ys: Any, params: Any, wanted: Any) -> Any:
    if is_plain(*xs, *ys, *cts):
        bars = [None if x.dtype.kind != "f" else c for c, x in zip(cts, xs, strict=True)]
        bars = [None if c is None else np.ascontiguousarray(c) for c in bars]
        return kernels.scan_vjp(params["op"], contiguous(xs), ys, bars, reverse=params["reverse"])
    return pullback_by_definition(scan_by_tree(params["op"], params["reverse"]), xs, cts)


scan = Primitive(
    "scan",
    lambda *xs, op, reverse: tuple(kernels.scan(op, contiguous(xs), reverse=reverse)),
    jvp=lambda xs, dots, ys, params: derivative_by_definition(scan_by_tree(params["op"], params["reverse"]), xs, dots),
    vjp=_scan_vjp,
    multiple=True,
)


def _reduce_vjp(cts: Any, xs: Any, out: Any, params: Any, wanted: Any) -> Any:
    if is_plain(*xs, *cts):
        bars = [None if x.dtype.kind != "f" else np.ascontiguousarray(c) for c, x in zip(cts, xs, strict=True)]
        return kernels.reduce_vjp(params["op"], contiguous(xs), bars)
    return pullback_by_definition(reduce_by_tree(params["op"]), xs, cts)


reduce = Primitive(
    "reduce",
    lambda *xs, op: tuple(kernels.reduce(op, contiguous(xs))),
    jvp=lambda xs, dots, out, params: derivative_by_definition(reduce_by_tree(params["op"]), xs, dots),
    vjp=_reduce_vjp,
    keeps=lambda wanted: ((True,) * len(wanted), False),
    multiple=True,
)
