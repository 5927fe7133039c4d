"""Histograms by NumPy, for arrays too small to be worth a compilation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from diffsim.kernels import plain
from diffsim.kernels.operator import Operator
from diffsim.typing import IntArray

Arrays = tuple[npt.NDArray, ...]
UFUNCS: dict[str, np.ufunc] = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}


def kept(index: IntArray, bins: int) -> IntArray:
    """Positions of the entries that are in a bin."""
    return np.flatnonzero((index >= 0) & (index < bins))


def histogram(kind: str, dst: npt.NDArray, index: IntArray, values: npt.NDArray) -> npt.NDArray:
    out = dst.copy()
    positions = kept(index, len(dst))
    index = index[positions]
    with np.errstate(all="ignore"):
        for column in range(dst.shape[1]):  # one column at a time is NumPy's fast case
            UFUNCS[kind].at(out[:, column], index, values[positions, column])
    return out


def winners(out: npt.NDArray, dst: npt.NDArray, index: IntArray, values: npt.NDArray) -> IntArray:
    """The lowest position of an entry that equals its bin's extremum `out`; -1 where `dst` does, or the bin got no entry."""
    positions = kept(index, len(dst))
    first = np.full(dst.shape, len(index), np.int64)
    for column in range(dst.shape[1]):
        here = index[positions]
        is_it = same(values[positions, column], out[here, column])
        np.minimum.at(first[:, column], here[is_it], positions[is_it])
    first[(first == len(index)) | same(dst, out)] = -1
    return first


def same(a: npt.NDArray, b: npt.NDArray) -> npt.NDArray:
    """Equal, or both NaN."""
    return (a == b) | ((a != a) & (b != b))


def order_by_index(index: IntArray, bins: int) -> tuple[IntArray, IntArray]:
    positions = kept(index, bins)
    index = index[positions]
    starts = np.zeros(bins + 1, np.int64)
    np.cumsum(np.bincount(index, minlength=bins), out=starts[1:])
    return positions[np.argsort(index, kind="stable")], starts


class Segments:
    """Elements of all bins behind each other, each bin led by its `dst`.

    Attributes:
        order: position of each element in `dst` followed by `values`.
        bins: its bin.
        ends: where each bin ends.
    """

    def __init__(self, index: IntArray, bins: int) -> None:
        self.order, starts = order_by_index(np.concatenate([np.arange(bins), index]), bins)
        self.bins = np.repeat(np.arange(bins), np.diff(starts))
        self.ends = starts[1:] - 1

    def gather(self, dsts: Sequence[npt.NDArray], values: Sequence[npt.NDArray]) -> Arrays:
        """The elements of each component, (1, elements, cols)."""
        return tuple(np.concatenate([d, v])[self.order][None] for d, v in zip(dsts, values, strict=True))


def generic(op: Operator, dsts: Arrays, index: IntArray, values: Arrays) -> Arrays:
    segments = Segments(index, len(dsts[0]))
    ys = plain.scan(op, segments.gather(dsts, values), False, segments.bins)
    return tuple(y[0, segments.ends] for y in ys)


def generic_vjp(
    op: Operator, dsts: Arrays, index: IntArray, values: Arrays, cotangents: Sequence[npt.NDArray | None]
) -> tuple[list[npt.NDArray | None], list[npt.NDArray | None]]:
    segments = Segments(index, len(dsts[0]))
    xs = segments.gather(dsts, values)
    ys = plain.scan(op, xs, False, segments.bins)
    bars: list[npt.NDArray | None] = []
    for cotangent, x in zip(cotangents, xs, strict=True):
        bar = np.zeros_like(x)
        if cotangent is not None:
            bar[0, segments.ends] = cotangent
        bars.append(bar)
    dst_bars: list[npt.NDArray | None] = []
    value_bars: list[npt.NDArray | None] = []
    for value_bar, dst, value in zip(plain.scan_vjp(op, xs, ys, bars, False, segments.bins), dsts, values, strict=True):
        both = None
        if value_bar is not None:
            both = np.zeros((len(dst) + len(value), dst.shape[1]), dst.dtype)
            both[segments.order] = value_bar[0]
        dst_bars.append(None if both is None else both[: len(dst)].copy())
        value_bars.append(None if both is None else both[len(dst) :].copy())
    return dst_bars, value_bars
