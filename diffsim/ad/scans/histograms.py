"""Histograms by a traced operator, as operations on the tape. `index` is (n,), values (n, columns), dst (bins, columns)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim import kernels
from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.core import Primitive, is_plain
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import structure as st
from diffsim.ad.scans.associative import apply
from diffsim.ad.scans.scans import Combine, contiguous, derivative_by_definition, pullback_by_definition, tree_scan


def inside(index: np.ndarray, bins: int) -> np.ndarray:
    return np.flatnonzero((index >= 0) & (index < bins))


def _gathered(ct: Any, index: np.ndarray) -> Any:
    """Rows of `ct` at positions, 0 outside."""
    if not len(index) or (index.min() >= 0 and index.max() < ct.shape[0]):
        return st.getitem(ct, index=(index,))
    places = inside(index, ct.shape[0])
    return st.setitem(np.zeros((len(index), *ct.shape[1:]), ct.dtype), st.getitem(ct, index=(index[places],)), index=(places,))


def chosen(dst: Any, values: Any, winners: np.ndarray) -> Any:
    """Entries of `values` where one won, of `dst` elsewhere."""
    if not winners.size or not values.shape[0]:
        return dst
    columns = np.broadcast_to(np.arange(winners.shape[1]), winners.shape)
    return ew.where(winners < 0, dst, st.getitem(values, index=(np.maximum(winners, 0), columns)))


def _segmented(operator: kernels.Operator, starts: np.ndarray) -> Combine:
    """The operator on (mark of a segment's start, value ...), which does not reach across a start."""

    def combine(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        joined = apply(operator, left[1:], right[1:])
        mark = right[0]
        return [left[0] | mark, *(ew.where(mark, r, j) for r, j in zip(right[1:], joined, strict=True))]

    return combine


def _histogram_by_scan(operator: kernels.Operator, index: np.ndarray, count: int) -> Callable[..., Any]:
    """A histogram as a segmented scan of the sorted values."""

    def run(*arrays: Any) -> Any:
        dsts, values = [core(a) for a in arrays[:count]], [core(a) for a in arrays[count:]]
        bins = dsts[0].shape[0]
        order, starts = kernels.order_by_index(index, bins)
        filled = np.flatnonzero(np.diff(starts))
        if not len(filled):
            return tuple(map(wrap, dsts))
        rows = [st.getitem(v, index=(None, order)) for v in values]
        marks = np.zeros(rows[0].shape, bool)
        marks[0, starts[filled]] = True
        run = tree_scan(_segmented(operator, starts), [marks, *rows])[1:]
        last = [st.getitem(v, index=(0, starts[filled + 1] - 1)) for v in run]
        both = apply(operator, [st.getitem(d, index=(filled,)) for d in dsts], last)
        return tuple(wrap(st.setitem(d, b, index=(filled,))) for d, b in zip(dsts, both, strict=True))

    return run


def _add(dst: Any, values: Any, index: np.ndarray) -> Any:
    return kernels.histogram("+", np.ascontiguousarray(dst), index, np.ascontiguousarray(values))


def _add_histogram_jvp(args: Any, dots: Any, out: Any, params: Any) -> Any:
    dst, values = dots
    if values is None:
        return dst
    return add_histogram(np.zeros(out.shape, out.dtype) if dst is None else dst, values, **params)


add_histogram = Primitive(
    "histogram",
    _add,
    jvp=_add_histogram_jvp,
    vjp=lambda ct, args, out, params, wanted: (ct, _gathered(ct, params["index"])),
    keeps=st.keeps_nothing,
)


def _histogram_evaluate(*arrays: Any, op: Any, kind: str | None, index: np.ndarray, count: int) -> tuple[Any, ...]:
    dsts, values = contiguous(arrays[:count]), contiguous(arrays[count:])
    if kind:
        return (kernels.histogram(kind, dsts[0], index, values[0]),)
    return tuple(kernels.histogram_generic(op, dsts, index, values))


def _histogram_with_pullback(arrays: Any, params: Any, wanted: Any) -> Any:
    op, kind, index, count = (params[name] for name in ("op", "kind", "index", "count"))
    plain = is_plain(*arrays)
    if plain:
        dsts, values = contiguous(arrays[:count]), contiguous(arrays[count:])
        out, totals = kernels.histogram_with_totals(op, dsts, index, values, kind)
    else:
        out = histogram(*arrays, **params)

    def pullback(cts: Any) -> Any:
        if not plain or not is_plain(*cts):
            return pullback_by_definition(_histogram_by_scan(op, index, count), arrays, cts)
        bars_in = [None if d.dtype.kind != "f" else np.ascontiguousarray(c) for c, d in zip(cts, dsts, strict=True)]
        bars = kernels.histogram_generic_vjp(op, dsts, index, values, bars_in, totals)
        return [*bars[0], *bars[1]]

    return out, pullback


histogram = Primitive(
    "histogram",
    _histogram_evaluate,
    jvp=lambda arrays, dots, out, p: derivative_by_definition(_histogram_by_scan(p["op"], p["index"], p["count"]), arrays, dots),
    with_pullback=_histogram_with_pullback,
    multiple=True,
)
