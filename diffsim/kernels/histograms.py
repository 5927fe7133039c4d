"""Histograms: values combined into the bins that their index names, with adjoints.

`index` has n integers; entries outside 0 .. bins-1, negative ones too, are dropped. `values` are (n, cols), the bins
`dst` (bins, cols). The content of `dst` comes first, then the values in order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError
from diffsim.kernels import large_bins, plain_bins
from diffsim.kernels.launch import worthwhile
from diffsim.kernels.named import OPERATORS, PLACED
from diffsim.kernels.operator import DTYPES, Operator
from diffsim.kernels.scans import checked_cotangent
from diffsim.typing import IntArray

Arrays = tuple[npt.NDArray, ...]
Cotangents = tuple[npt.NDArray | None, ...]
KINDS = ("+", "*", "min", "max")


def histogram(kind: str, dst: npt.NDArray, index: IntArray, values: npt.NDArray) -> npt.NDArray:
    """A new array: dst combined with the values of each bin.

    Args:
        kind: "+", "*", "min" or "max"; the last two take NaN for the extremum.
        dst: (bins, cols).
        index: (n,) the bin of each row of values; those outside 0 .. bins-1 are dropped.
        values: (n, cols), of the type of dst.

    Raises:
        ParameterError: an unknown kind, or an unsupported type.
        ShapeError: arrays that do not fit.
    """
    if kind not in KINDS:
        raise ParameterError(
            f"kind = {shown(kind)} of a histogram, expected one of {', '.join(KINDS)}; use histogram_generic for another operator"
        )
    (dst,), index, (values,) = _checked((dst,), index, (values,))
    if _large(index, (values,), len(dst)):
        return large_bins.generic(OPERATORS[kind], (dst,), index, (values,))[0]
    return plain_bins.histogram(kind, dst, index, values)


def histogram_winners(kind: str, dst: npt.NDArray, index: IntArray, values: npt.NDArray) -> tuple[npt.NDArray, IntArray]:
    """The histogram of kind "min" or "max", and the row of values that won each bin.

    Returns:
        The histogram, and winners (bins, cols) i64: the lowest row on a tie, -1 where dst won, which it does on a tie.
    """
    if kind not in ("min", "max"):
        raise ParameterError(f"kind = {shown(kind)} has no winners, expected min or max")
    (dst,), index, (values,) = _checked((dst,), index, (values,))
    if _large(index, (values,), len(dst)):
        places = np.full(dst.shape, -1, np.int32)
        out, winners = large_bins.generic(PLACED[kind], (dst, places), index, (values,))
        return out, winners.astype(np.int64)
    out = plain_bins.histogram(kind, dst, index, values)
    return out, plain_bins.winners(out, dst, index, values)


def histogram_generic(op: Operator, dsts: Sequence[npt.NDArray], index: IntArray, values: Sequence[npt.NDArray]) -> Arrays:
    """The histogram of an associative operator on k components: dst leftmost, then the values in their order.

    Args:
        op: the operator.
        dsts: k arrays (bins, cols).
        index: (n,) the bin of each row of values; those outside 0 .. bins-1 are dropped.
        values: k arrays (n, cols), each of the type of its dst.

    Returns:
        k new arrays (bins, cols).
    """
    checked, index, vs = _checked(dsts, index, values, op)
    if not checked[0].size:
        return tuple(d.copy() for d in checked)
    op.value([d.dtype for d in checked])
    way = large_bins if _large(index, vs, len(checked[0])) else plain_bins
    return way.generic(op, checked, index, vs)


def histogram_with_totals(
    op: Operator, dsts: Sequence[npt.NDArray], index: IntArray, values: Sequence[npt.NDArray], kind: str | None = None
) -> tuple[Arrays, Arrays]:
    """The result of `histogram` for a kind, or of `histogram_generic`, with the totals that `histogram_generic_vjp` reuses."""
    checked, index, vs = _checked(dsts, index, values, op)
    if checked[0].size and _large(index, vs, len(checked[0])):
        return large_bins.with_totals(op, checked, index, vs)
    return ((histogram(kind, checked[0], index, vs[0]),) if kind else histogram_generic(op, checked, index, vs)), ()


def histogram_generic_vjp(
    op: Operator,
    dsts: Sequence[npt.NDArray],
    index: IntArray,
    values: Sequence[npt.NDArray],
    cotangents: Sequence[npt.NDArray | None],
    totals: Arrays = (),
) -> tuple[Cotangents, Cotangents]:
    """Cotangents of dsts and values, given those of the histogram (None: zero); None for integers and booleans.

    Dropped values get zero. There are no divisions. `totals` are those of `histogram_with_totals` for the same arrays.
    """
    checked, index, vs = _checked(dsts, index, values, op)
    if not checked[0].size:
        return tuple(_zeros(d) for d in checked), tuple(_zeros(v) for v in vs)
    bars = [checked_cotangent(c, d, "the bins") for c, d in zip(cotangents, checked, strict=True)]
    if _large(index, vs, len(checked[0]), large_bins.ADJOINT_ARRAYS):
        dst_bars, value_bars = large_bins.generic_vjp(op, checked, index, vs, bars, totals)
    else:
        dst_bars, value_bars = plain_bins.generic_vjp(op, checked, index, vs, bars)
    return tuple(dst_bars), tuple(value_bars)


def order_by_index(index: IntArray, bins: int) -> tuple[IntArray, IntArray]:
    """Stable counting sort: rows by bin.

    Args:
        index: (n,) integers; those outside 0 .. bins-1 are left out.
        bins: number of bins.

    Returns:
        The permutation, i64, one entry a row that is in a bin, and `starts` (bins + 1,): the rows of bin b, in
        increasing order, are permutation[starts[b]:starts[b + 1]].
    """
    if bins < 0:
        raise ParameterError(f"bins = {bins}, expected 0 or more")
    index = _index(index)
    n = len(index)
    if n and worthwhile(n, [index.dtype, np.dtype(np.int64)], large_bins.serial(n, bins, 1), 1):
        return large_bins.order_by_index(index, bins)
    return plain_bins.order_by_index(index, bins)


def _large(index: IntArray, values: Arrays, bins: int, each: int = large_bins.ARRAYS) -> bool:
    """True if to use a compiled kernel, which takes `each` arrays for a component, for these arrays."""
    n, cols = values[0].shape
    serial = large_bins.serial(n, bins, cols)
    return n * cols > 0 and worthwhile(n * cols, [index.dtype, *(v.dtype for v in values)], serial, each * len(values))


def _checked(
    dsts: Sequence[npt.NDArray], index: IntArray, values: Sequence[npt.NDArray], op: Operator | None = None
) -> tuple[Arrays, IntArray, Arrays]:
    if op is not None and not len(dsts) == len(values) == op.arity:
        raise ShapeError(f"an operator on {op.arity} components got {len(dsts)} bins and {len(values)} values; give one array a component")
    index = _index(index)
    for k, (dst, value) in enumerate(zip(dsts, values, strict=True)):
        if dst.ndim != 2 or dst.shape != dsts[0].shape or value.shape != (len(index), dst.shape[1]):
            raise ShapeError(
                f"component {k} has bins {dst.shape}, values {value.shape} and {len(index)} indices, expected (bins, cols) and "
                "(n, cols), the same for all components; reshape them"
            )
        if dst.dtype != value.dtype or dst.dtype not in DTYPES:
            raise ParameterError(
                f"component {k} has bins of type {dst.dtype} and values of type {value.dtype}, expected one type among "
                f"{', '.join(map(str, DTYPES))}; convert them"
            )
    return tuple(map(np.ascontiguousarray, dsts)), index, tuple(map(np.ascontiguousarray, values))


def _index(index: IntArray) -> IntArray:
    if index.ndim != 1 or index.dtype.kind not in "iu":
        raise ShapeError(f"index is {index.dtype} {index.shape}, expected integers (n,); convert it")
    return np.ascontiguousarray(index)


def _zeros(array: npt.NDArray) -> npt.NDArray | None:
    return np.zeros_like(array) if array.dtype.kind == "f" else None
