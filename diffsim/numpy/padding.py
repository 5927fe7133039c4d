"""Entries added around an array, in all of NumPy's ways that have a derivative."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.core import Tracer
from diffsim.base.messages import shown
from diffsim.errors import DerivativeError
from diffsim.numpy.calling.dispatch import as_array, in_order, one_axis, outside, plain
from diffsim.numpy.elementwise import where
from diffsim.numpy.ranges import linspace
from diffsim.numpy.reductions import max, mean, min
from diffsim.numpy.shapes.creation import asarray, full, zeros
from diffsim.numpy.shapes.joining import as_cut, concatenate, flip
from diffsim.numpy.shapes.shaping import broadcast_to, squeeze
from diffsim.numpy.sorting import median

BY_INDEX = ("edge", "reflect", "symmetric", "wrap")
"""Modes that repeat entries of the array."""
STATISTICS = {"maximum": max, "minimum": min, "mean": mean, "median": median}
TAKES: dict[str, tuple[str, ...]] = {
    "constant_values": ("constant",),
    "end_values": ("linear_ramp",),
    "stat_length": tuple(STATISTICS),
    "reflect_type": ("reflect", "symmetric"),
}
"""Argument -> the modes that take it."""
_GIVEN: Any = np._NoValue


@outside(np)
def pad(
    array: Any,
    pad_width: Any,
    mode: Any = "constant",
    *,
    constant_values: Any = _GIVEN,
    end_values: Any = _GIVEN,
    stat_length: Any = _GIVEN,
    reflect_type: Any = _GIVEN,
) -> Any:
    """Entries added around an array.

    Args:
        array: the array to pad.
        pad_width: a number, (before, after), one pair an axis, or a dict of them by axis.
        mode: "constant"; "edge", "reflect", "symmetric", "wrap": entries of the array itself; "linear_ramp": lines from its edges to
            `end_values`; "maximum", "minimum", "mean", "median" of the entries next to an edge; "empty" gives zeros.
        constant_values: a number (0 if none is given), (before, after), or one pair an axis; differentiable.
        end_values: likewise, of "linear_ramp".
        stat_length: entries that a statistic is taken of, in the form of `pad_width`; all if none is given.
        reflect_type: "even", or "odd": reflected about the entry at the edge, of "reflect" and "symmetric".

    Raises:
        ValueError: another mode, or an argument of another mode.
        DerivativeError: the mode is a function.
    """
    x = asarray(array)
    if callable(mode):
        raise DerivativeError("mode of pad is a function, expected the name of a mode inside of a derivative; join arrays by concatenate")
    options = {"constant_values": constant_values, "end_values": end_values, "stat_length": stat_length, "reflect_type": reflect_type}
    options = {name: value for name, value in options.items() if value is not _GIVEN}
    wrong = [name for name in options if mode not in TAKES[name]]
    if wrong:
        raise ValueError(
            f"pad takes {wrong[0]} for the mode {' or '.join(map(repr, TAKES[wrong[0]]))} only, got {shown(mode)}; leave it out"
        )
    widths = _widths(x.ndim, pad_width)
    if not x.ndim:
        return asarray(x, copy=True)
    if x.dtype.kind not in "fciub" or (mode not in (*BY_INDEX, "constant", "empty") and not _is_traced(x, *options.values())):
        padding: Any = np.pad
        return as_array(wrap(padding(plain(x), widths, mode=mode, **{name: plain(value) for name, value in options.items()})))
    order = as_cut(x)
    zero = mode == "constant" and not _is_traced(*options.values()) and not np.any(plain(options.get("constant_values", 0)))
    if zero or mode == "empty" or (not x.size and mode != "constant"):
        padded = zeros(tuple(n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)), x.dtype, "C" if order[0] == 0 else "F")
        padded[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, widths, strict=True))] = x
        return padded
    if mode not in ("constant", "linear_ramp", *STATISTICS, *BY_INDEX):
        raise ValueError(f"mode = {shown(mode)} of pad, expected 'constant', 'empty', 'linear_ramp', {', '.join([*STATISTICS, *BY_INDEX])}")
    for axis, pair in enumerate(widths):
        if mode in BY_INDEX:
            x = _indexed(x, axis, pair, mode, options.get("reflect_type", "even"))
        else:
            x = concatenate(_sides(x, axis, pair, mode, options), axis)
    return as_array(in_order(x, order))


def _widths(rank: int, pad_width: Any) -> list[list[int]]:
    """The number of entries before and after each axis."""
    if isinstance(pad_width, dict):
        axes = {one_axis(k, rank): pair for k, pair in pad_width.items()}
        pad_width = [np.broadcast_to(axes.get(k, 0), 2) for k in range(rank)] if rank else 0
    numbers = np.asarray(plain(pad_width))
    if numbers.dtype.kind not in "iu":
        raise TypeError(f"pad_width of {numbers.dtype}, expected whole numbers")
    if numbers.size and numbers.min() < 0:
        raise ValueError(f"pad_width = {numbers.min()}, expected 0 or more")
    return np.broadcast_to(numbers, (rank, 2)).tolist()


def _is_traced(*values: Any) -> bool:
    return any(isinstance(core(value), Tracer) for value in values if value is not None and not isinstance(value, str))


def _cut(x: Any, axis: int, part: Any) -> Any:
    return x[(slice(None),) * axis + (part,)]


def _indexed(x: Any, axis: int, pair: list[int], mode: Any, kind: str) -> Any:
    """Entries of the array itself, or their mirror images at the entry at an edge."""
    n = x.shape[axis]
    places = np.pad(np.arange(n), pair, mode=mode)
    if kind != "odd" or mode not in ("reflect", "symmetric") or not any(pair):
        return _cut(x, axis, places)
    # Each entry is a sum of one inside, of the first one and of the last one, whose factors NumPy gives for unit vectors.
    first, last = (np.pad((np.arange(n) == edge).astype(int), pair, mode=mode, reflect_type="odd") for edge in (0, n - 1))
    last = last if n > 1 else 0 * last
    inside = np.where((places == 0) | (places == n - 1), 0, 1 - first - last)
    parts = ((inside, places), (first, 0 * places), (last, 0 * places + n - 1))
    along = [-1 if k == axis else 1 for k in range(x.ndim)]
    total: Any = 0
    for factors, at in parts:
        if np.any(factors):
            column = factors.reshape(along)
            total = total + where(column == 0, 0, column.astype(x.dtype) * _cut(x, axis, at))
    return total


def _sides(x: Any, axis: int, pair: list[int], mode: str, options: dict[str, Any]) -> list[Any]:
    """The part before the array, the array, and the part after it."""
    if mode == "constant" or mode == "linear_ramp":
        name = "constant_values" if mode == "constant" else "end_values"
        values = broadcast_to(asarray(options.get(name, 0)), (x.ndim, 2))[axis]
        if mode == "constant":
            shapes = [(*x.shape[:axis], width, *x.shape[axis + 1 :]) for width in pair]
            before, after = (full(shape, value, x.dtype) for shape, value in zip(shapes, values, strict=True))
        else:
            edges = (squeeze(_cut(x, axis, slice(k, k + 1 or None)), axis) for k in (0, -1))
            before, after = (
                linspace(value, edge, width, endpoint=False, dtype=x.dtype, axis=axis)
                for value, edge, width in zip(values, edges, pair, strict=True)
            )
            after = flip(after, axis)
        return [before, x, after]
    lengths = np.broadcast_to(np.asarray(options.get("stat_length"), object), (x.ndim, 2))[axis]
    n = x.shape[axis]
    ends = [n if length is None else builtins.min(int(plain(length)), n) for length in lengths]
    chunks = _cut(x, axis, slice(ends[0])), _cut(x, axis, slice(n - ends[1], n))
    statistics = [STATISTICS[mode](chunk, axis=axis, keepdims=True).astype(x.dtype) for chunk in chunks]
    before, after = (
        broadcast_to(each, (*x.shape[:axis], width, *x.shape[axis + 1 :])) for each, width in zip(statistics, pair, strict=True)
    )
    return [before, x, after]
