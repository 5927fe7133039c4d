"""Scans and reductions by NumPy, for arrays too small to be worth a compilation.

Arrays are (rows, n, cols); the scan runs along the middle axis. Forward scans of general operators double the span at
each of log2(n) passes (Hillis and Steele), so their association differs from a sequential one; where that overflows,
they are repeated one element after another. Recurrences of adjoints are sequential.

Reference: Hillis, W. D., Steele, G. L. (1986), Data parallel algorithms, Commun. ACM 29, 1170-1183,
    doi:10.1145/7902.7903.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from diffsim.kernels.operator import Operator, Pullback, Typed
from diffsim.typing import IntArray

Arrays: TypeAlias = tuple[npt.NDArray, ...]
Step: TypeAlias = Callable[..., tuple[Any, ...]]

FEW_LANES = 24
"""Most lanes for which a loop over Python numbers is faster than one over NumPy rows (60 ns an element and lane against 1.5 us an
element)."""


ACCUMULATES: dict[str, np.ufunc] = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}


def combine(value: Typed, left: Sequence[npt.NDArray], right: Sequence[npt.NDArray]) -> list[npt.NDArray]:
    """The operator applied to arrays of operands."""
    operands = {f"a{k}": a for k, a in enumerate(left)} | {f"b{k}": b for k, b in enumerate(right)}
    return value(**operands)


def scan(op: Operator, xs: Arrays, reverse: bool, segments: IntArray | None = None) -> Arrays:
    """Inclusive scan; with `segments` (n,), non-decreasing, it starts anew where their number changes."""
    value = op.value([x.dtype for x in xs])
    known = ACCUMULATES.get(value.single or "")
    if known is not None and segments is None:
        return (accumulate(known, xs[0], reverse),)
    ys = tuple(x.copy() for x in xs)
    views = tuple(y[:, ::-1] for y in ys) if reverse else ys
    n = xs[0].shape[1]
    with np.errstate(all="ignore"):
        span = 1
        while span < n:
            joined = True if segments is None else (segments[span:] == segments[:-span])[:, None]
            if not np.any(joined):
                break
            for view, new in zip(views, combine(value, [v[:, :-span] for v in views], [v[:, span:] for v in views]), strict=True):
                np.copyto(view[:, span:], new, where=joined)
            span *= 2
        if not all(np.isfinite(y).all() for y in ys if y.dtype.kind == "f"):
            for y, x in zip(ys, xs, strict=True):
                y[...] = x
            _sequential(value, views, n, segments)
    return ys


def _sequential(value: Typed, views: Sequence[npt.NDArray], n: int, segments: IntArray | None = None) -> None:
    for i in range(1, n):
        if segments is None or segments[i] == segments[i - 1]:
            for view, new in zip(views, combine(value, [v[:, i - 1] for v in views], [v[:, i] for v in views]), strict=True):
                view[:, i] = new


def reduce(op: Operator, xs: Arrays) -> Arrays:
    """Neighbours are combined pairwise, ceil(log2 n) times; products, and values that overflow then, one after another."""
    value = op.value([x.dtype for x in xs])
    if value.single == "mul":
        return (accumulate(np.multiply, xs[0], False)[:, -1].copy(),)
    ys = xs
    with np.errstate(all="ignore"):
        while (n := ys[0].shape[1]) > 1:
            pairs = combine(value, [y[:, 0 : n - 1 : 2] for y in ys], [y[:, 1::2] for y in ys])
            ys = tuple(np.concatenate([p, y[:, n - 1 :]], axis=1) if n % 2 else p for p, y in zip(pairs, ys, strict=True))
        if not all(np.isfinite(y).all() for y in ys if y.dtype.kind == "f"):
            ys = tuple(x.copy() for x in xs)
            _sequential(value, ys, xs[0].shape[1])
            ys = tuple(y[:, -1:] for y in ys)
    return tuple(np.ascontiguousarray(y[:, 0]) for y in ys)


def scan_vjp(
    op: Operator,
    xs: Arrays,
    ys: Arrays,
    cotangents: Sequence[npt.NDArray | None],
    reverse: bool,
    segments: IntArray | None = None,
) -> list[npt.NDArray | None]:
    """Cotangents of xs: Jacobians of all elements at once, then the recurrence, one element after another."""
    dtypes = [x.dtype for x in xs]
    pullback = op.pullback(dtypes)
    floats, turn = pullback.floats, slice(None, None, -1 if reverse else 1)
    x, y = ([array[:, turn] for array in arrays] for arrays in (xs, ys))
    bars = [_given(cotangents[j], xs[j])[:, turn] for j in floats]
    operands = {f"a{k}": a[:, :-1] for k, a in enumerate(y)} | {f"b{k}": b[:, 1:] for k, b in enumerate(x)}
    with np.errstate(all="ignore"):
        jacobian = {entry: program(**operands)[0] for entry, program in pullback.entries.items()}
        heads = np.zeros(xs[0].shape[1], bool) if segments is None else np.concatenate([[True], segments[1:] != segments[:-1]])
        r = linear_system(pullback, jacobian, bars, heads)
        out = {j: np.empty_like(xs[j]) for j in floats}
        inner = pullback.right(**operands, **{f"r{j}": cotangent[:, 1:] for j, cotangent in zip(floats, r, strict=True)})
    for j, cotangent, inner_bar in zip(floats, r, inner, strict=True):
        out[j][:, turn][:, :1] = cotangent[:, :1]
        out[j][:, turn][:, 1:] = np.where(heads[1:, None], cotangent[:, 1:], inner_bar)
    return [out.get(k) for k in range(len(xs))]


def _given(cotangent: npt.NDArray | None, like: npt.NDArray) -> npt.NDArray:
    return np.zeros_like(like) if cotangent is None else cotangent


def linear_system(
    pullback: Pullback, jacobian: dict[tuple[int, int], npt.NDArray], bars: Sequence[npt.NDArray], heads: npt.NDArray
) -> list[npt.NDArray]:
    """r_i = bar_i + A_{i+1}^T r_{i+1} from the last element to the first; where element i+1 is a head, r_i = bar_i.

    Args:
        pullback: which components there are.
        jacobian: entries of A, elements 1 to n-1.
        bars: a component each, (rows, n, cols).
        heads: (n,) elements that begin a segment.
    """
    position = {j: p for p, j in enumerate(pullback.floats)}
    entries = tuple((position[j], position[i]) for j, i in jacobian)
    out = [np.array(bar) for bar in bars]
    if not bars or bars[0].shape[1] < 2:
        return out
    rows, n, cols = bars[0].shape
    step, parts = _system_step(len(bars), entries), list(jacobian.values())
    backwards = heads[:0:-1].tolist()
    if rows * cols > FEW_LANES:
        r = tuple(bar[:, -1] for bar in bars)
        for i, head in zip(range(n - 2, -1, -1), backwards, strict=True):
            here = tuple(bar[:, i] for bar in bars)
            r = here if head else step(*r, *here, *(a[:, i] for a in parts))
            for array, values in zip(out, r, strict=True):
                array[:, i] = values
        return out
    for row in range(rows):
        for col in range(cols):
            lane = [array[row, -2::-1, col].tolist() for array in bars] + [a[row, ::-1, col].tolist() for a in parts]
            numbers: tuple[Any, ...] = tuple(float(bar[row, -1, col]) for bar in bars)
            turns = []
            for head, *entry in zip(backwards, *lane, strict=True):
                numbers = tuple(entry[: len(bars)]) if head else step(*numbers, *entry)
                turns.append(numbers)
            for array, column in zip(out, zip(*turns, strict=True), strict=True):
                array[row, -2::-1, col] = column
    return out


@lru_cache(maxsize=256)
def _system_step(size: int, entries: tuple[tuple[int, int], ...]) -> Step:
    """r0, r1 ..., c0, c1 ..., the entries' values -> c + A^T r."""
    values = [f"m{e}" for e in range(len(entries))]
    results = ["".join([f"c{p}", *(f" + {m} * r{j}" for m, (j, i) in zip(values, entries, strict=True) if i == p)]) for p in range(size)]
    names = [f"{letter}{p}" for letter in "rc" for p in range(size)] + values
    return eval(f"lambda {', '.join(names)}: ({', '.join(results)},)")


def linear_recurrence(a: npt.NDArray, c: npt.NDArray, reverse: bool) -> npt.NDArray:
    turn = slice(None, None, -1 if reverse else 1)
    y = np.empty_like(c)
    a, c, out = a[:, turn], c[:, turn], y[:, turn]
    rows, n, cols = c.shape
    with np.errstate(all="ignore"):
        if rows * cols > FEW_LANES and n:
            out[:, 0] = c[:, 0]
            for i in range(1, n):
                np.multiply(a[:, i], out[:, i - 1], out=out[:, i])
                out[:, i] += c[:, i]
            return y
        for row in range(rows):
            for col in range(cols):
                out[row, :, col] = _recur(a[row, :, col].tolist(), c[row, :, col].tolist())
    return y


def _recur(a: list[float], c: list[float]) -> list[float]:
    sums, y = [], 0.0
    for number, (factor, term) in enumerate(zip(a, c, strict=True)):
        y = factor * y + term if number else term  # the factor before the first is not used, so it may be infinite
        sums.append(y)
    return sums


def accumulate(function: np.ufunc, x: npt.NDArray, reverse: bool) -> npt.NDArray:
    """Sequential running result of a ufunc (add, multiply, maximum, minimum)."""
    turn = slice(None, None, -1 if reverse else 1)
    y = np.empty_like(x)
    if x.size:
        with np.errstate(all="ignore"):
            function.accumulate(x[:, turn], axis=1, out=y[:, turn])
    return y


def extremum(function: np.ufunc, x: npt.NDArray, reverse: bool) -> tuple[npt.NDArray, npt.NDArray]:
    """Running extremum and the position of the element that was there first; the first NaN stays."""
    y = accumulate(function, x, reverse)
    turn = slice(None, None, -1 if reverse else 1)
    n = x.shape[1]
    winners = np.zeros(x.shape, np.int64)
    if x.size:
        previous, here = y[:, turn][:, :-1], x[:, turn][:, 1:]
        beats = here > previous if function is np.maximum else here < previous
        if x.dtype.kind == "f":
            beats |= np.isnan(here) & ~np.isnan(previous)
        inner = winners[:, turn][:, 1:]
        inner[...] = np.where(beats, np.arange(1, n)[:, None], 0)
        np.maximum.accumulate(winners[:, turn], axis=1, out=winners[:, turn])
        if reverse:
            np.subtract(n - 1, winners, out=winners)
    return y, winners


def cumprod_vjp(x: npt.NDArray, y: npt.NDArray, ct: npt.NDArray, reverse: bool) -> npt.NDArray:
    """r_i = ct_i + x_{i+1} r_{i+1}; the cotangent of x_i is y_{i-1} r_i."""
    step = -1 if reverse else 1
    x, y, ct = x[:, ::step], y[:, ::step], ct[:, ::step]
    factors = np.empty_like(ct)
    factors[:, :-1] = x[:, 1:]
    factors[:, -1:] = 0
    r = linear_recurrence(factors, ct, reverse=True)
    out = np.empty_like(ct)
    out[:, :1] = r[:, :1]
    with np.errstate(all="ignore"):
        np.multiply(r[:, 1:], y[:, :-1], out=out[:, 1:])
    return np.ascontiguousarray(out[:, ::step])
