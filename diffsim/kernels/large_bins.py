"""Histograms by compiled kernels, for large arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from diffsim.base import buffers
from diffsim.kernels.bins import CHUNK, HistogramAdjointSource, HistogramSource, SortSource
from diffsim.kernels.launch import launch, workers
from diffsim.kernels.operator import Operator
from diffsim.typing import IntArray

Arrays = tuple[npt.NDArray, ...]

ARRAYS, ADJOINT_ARRAYS = 3, 7
"""Arrays that a histogram, and its adjoint, take for each component."""
MOST_PARTS = 64
"""Most parts. With this number a part of 10^7 rows is still in the cache when the adjoint walks back through it."""
FEWEST_ROWS = 64
"""Fewest rows of a part for each bin, because every part has all bins."""


def parts(n: int, bins: int) -> int:
    """Parts that rows are cut into; from the shape alone."""
    return max(1, min(MOST_PARTS, n // (FEWEST_ROWS * max(bins, 1))))


def serial(n: int, bins: int, cols: int) -> int:
    """Turns of a kernel's longest loops: forwards and backwards, inner loops and the tests that end them included."""
    count = parts(n, bins)
    return max(2 * -(-n // count) * (min(cols, CHUNK) + 2), bins * (count + 2))


def _control(n: int, bins: int, cols: int, count: int) -> list[int]:
    return [n, bins, cols, count, -(-n // count)]


def _signed(index: IntArray) -> IntArray:
    return index if index.dtype in (np.int32, np.int64) else index.astype(np.int64)


def generic(op: Operator, dsts: Arrays, index: IntArray, values: Arrays) -> Arrays:
    """The histogram.

    If there is a value less than components, the last component, of type i32, is the number of the value's row.
    """
    return with_totals(op, dsts, index, values)[0]


def with_totals(op: Operator, dsts: Arrays, index: IntArray, values: Arrays) -> tuple[Arrays, Arrays]:
    """The histogram, and the totals of its parts, if there are several.

    It is made in one part if the parts' totals are not finite, since the result may well be.
    """
    index = _signed(index)
    count = parts(len(index), len(dsts[0]))
    results = _generic(op, dsts, index, values, count)
    return results if count == 1 or _finite(results[0]) else _generic(op, dsts, index, values, 1)


def _generic(op: Operator, dsts: Arrays, index: IntArray, values: Arrays, count: int) -> tuple[Arrays, Arrays]:
    dtypes, threads = [d.dtype for d in dsts], workers()
    bins, cols = dsts[0].shape
    ys = tuple(buffers.copy(d) for d in dsts)
    slots = count * bins * cols
    totals = () if count == 1 else (*(buffers.empty(slots, t) for t in dtypes), np.zeros(slots, np.int32))
    variant = (index.dtype, cols == 1, len(values) < len(dsts), count > 1)
    launch(
        ("histogram", op.value(dtypes), *variant),
        lambda: HistogramSource(op, dtypes, threads, *variant),
        _control(len(index), bins, cols, count),
        [index, *values, *ys, *totals],
    )
    return ys, totals


def generic_vjp(
    op: Operator, dsts: Arrays, index: IntArray, values: Arrays, cotangents: Sequence[npt.NDArray | None], totals: Arrays = ()
) -> tuple[list[npt.NDArray | None], list[npt.NDArray | None]]:
    """Cotangents of dsts and values; `totals` are those of `with_totals`."""
    index, dtypes, threads = _signed(index), [d.dtype for d in dsts], workers()
    floats = op.pullback(dtypes).floats
    bins, cols = dsts[0].shape
    dst_bars: list[npt.NDArray | None] = [None] * len(dsts)
    value_bars: list[npt.NDArray | None] = [None] * len(dsts)
    bars = []
    for j in floats:
        own_bar = cotangents[j]
        bars.append(np.zeros_like(dsts[j]) if own_bar is None else own_bar)
    count = parts(len(index), bins) if floats else 0
    while count:
        slots = count * bins * cols
        bars_of_values = [buffers.empty_like(values[j]) for j in floats]
        back = [buffers.empty(slots, dtypes[j]) for j in floats]
        starts = [buffers.empty(slots, t) for t in dtypes]
        prefixes = [buffers.empty_like(v) for v in values if v.dtype.kind != "f"]
        variant = (index.dtype, cols == 1, bool(totals))
        own = totals[:-1] or [buffers.empty(slots if count > 1 else 1, t) for t in dtypes]
        seen = totals[-1] if totals else np.zeros(slots if count > 1 else 1, np.int32)
        launch(
            ("histogram adjoint", op.value(dtypes), *variant),
            partial(HistogramAdjointSource, op, dtypes, threads, *variant),
            _control(len(index), bins, cols, count),
            [index, *values, *dsts, *bars, *bars_of_values, *back, *starts, *own, *prefixes, seen],
        )
        for j, bar, value in zip(floats, back, bars_of_values, strict=True):
            dst_bars[j], value_bars[j] = bar[: bins * cols].reshape(bins, cols), value
        count, totals = 1 if count > 1 and not _finite(back) else 0, ()
    return dst_bars, value_bars


def _finite(arrays: Sequence[npt.NDArray]) -> bool:
    return all(np.isfinite(a).all() for a in arrays if a.dtype.kind == "f")


def order_by_index(index: IntArray, bins: int) -> tuple[IntArray, IntArray]:
    index, threads = _signed(index), workers()
    count = parts(len(index), bins)
    permutation, starts = buffers.empty(len(index), np.int64), buffers.empty(bins + 1, np.int64)
    launch(
        ("sort", index.dtype),
        lambda: SortSource(threads, index.dtype, permutation.dtype),
        _control(len(index), bins, 1, count),
        [index, permutation, starts, np.zeros(count * bins, np.int32)],
    )
    return permutation[: starts[-1]], starts
