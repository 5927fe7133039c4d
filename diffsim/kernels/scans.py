"""Scans and reductions along the middle axis of (rows, n, cols), and their adjoints.

The other axes are independent lanes. An operator's left operand is always the accumulated value: y_i = op(y_{i-1}, x_i),
and op(y_{i+1}, x_i) in reverse. How values are associated depends on the shape alone, so the bits of a result do not
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import numpy as np
import numpy.typing as npt

from diffsim.errors import ParameterError, ShapeError
from diffsim.kernels import large, plain
from diffsim.kernels.launch import worthwhile
from diffsim.kernels.named import AFFINE, OPERATORS, PLACED
from diffsim.kernels.operator import DTYPES, Operator

Arrays = tuple[npt.NDArray, ...]
Cotangents = tuple[npt.NDArray | None, ...]


def scan(op: Operator, xs: Sequence[npt.NDArray], reverse: bool = False) -> Arrays:
    """Inclusive scan: y_0 = x_0, y_i = op(y_{i-1}, x_i).

    Args:
        op: an associative operator on k components.
        xs: k arrays of one shape (rows, n, cols), of types f32, f64, i32, i64 or bool.
        reverse: from the end instead: y_{n-1} = x_{n-1}, y_i = op(y_{i+1}, x_i). The left operand is the accumulated one.

    Returns:
        k new arrays of that shape, component k of the type of xs[k].

    Raises:
        ShapeError: shapes that differ or are not 3-D, or not one array a component.
        ParameterError: an unsupported type, or an operator that reads a value that is no operand.
    """
    checked = _components(op, xs)
    op.value([x.dtype for x in checked])
    return _way(*checked).scan(op, checked, reverse)


def scan_vjp(
    op: Operator,
    xs: Sequence[npt.NDArray],
    ys: Sequence[npt.NDArray],
    cotangents: Sequence[npt.NDArray | None],
    reverse: bool = False,
) -> Cotangents:
    """Cotangents of `xs`, given those of `ys = scan(op, xs, reverse)`.

    There are no divisions, so zeros need no special treatment. At a tie of an operator, the derivative is that of its
    expression.

    Args:
        op, xs, reverse: of the scan.
        ys: its result.
        cotangents: one a component; None: zero. Those of integers and booleans are not looked at.

    Returns:
        An array a component, None for integers and booleans.
    """
    checked = _components(op, xs)
    results = _components(op, ys)
    bars = tuple(checked_cotangent(c, x) for c, x in zip(cotangents, checked, strict=True))
    if not checked[0].size:
        return tuple(np.empty_like(x) if x.dtype.kind == "f" else None for x in checked)
    return tuple(_way(*checked, each=large.ADJOINT_ARRAYS).scan_vjp(op, checked, results, bars, reverse))


def reduce(op: Operator, xs: Sequence[npt.NDArray]) -> Arrays:
    """op over all elements of each lane, in order.

    Args:
        op: an associative operator on k components.
        xs: k arrays (rows, n, cols), n at least 1 unless there are no lanes.

    Returns:
        k arrays (rows, cols).

    Raises:
        ShapeError: shapes as for `scan`, or n = 0, since an operator has no known neutral element.
    """
    checked = _components(op, xs)
    rows, n, cols = checked[0].shape
    if rows * cols == 0:
        return tuple(np.empty((rows, cols), x.dtype) for x in checked)
    if n == 0:
        raise ShapeError("a reduction of no elements has no value, expected n >= 1; prepend the operator's neutral element")
    return _way(*checked).reduce(op, checked)


def reduce_vjp(op: Operator, xs: Sequence[npt.NDArray], cotangents: Sequence[npt.NDArray | None]) -> Cotangents:
    """Cotangents of `xs`, given those of `reduce(op, xs)`, (rows, cols) each (None: zero).

    Returns:
        An array (rows, n, cols) a component, None for integers and booleans.
    """
    checked = _components(op, xs)
    last: list[npt.NDArray | None] = []
    for cotangent, x in zip(cotangents, checked, strict=True):
        if cotangent is None or x.dtype.kind != "f":
            last.append(None)
            continue
        bar = np.zeros_like(x)
        if x.shape[1]:
            bar[:, -1] = cotangent
        last.append(bar)
    return scan_vjp(op, checked, scan(op, checked), last)


def linear_recurrence(a: npt.NDArray, c: npt.NDArray, reverse: bool = False) -> npt.NDArray:
    """y_i = a_i y_{i-1} + c_i with y = 0 before the first, so y_0 = c_0 and a_0 is not used; floats, (rows, n, cols)."""
    a, c = _float(a, "a"), _float(c, "c")
    if a.shape != c.shape or a.dtype != c.dtype:
        raise ShapeError(f"a and c of a recurrence are {_about(a)} and {_about(c)}, expected one shape and type; convert one")
    return large.scan(AFFINE, (a, c), reverse, (1,))[0] if _way(c) is large else plain.linear_recurrence(a, c, reverse)


def cumsum(x: npt.NDArray, reverse: bool = False) -> npt.NDArray:
    """Running sums along the middle axis of (rows, n, cols)."""
    return _running(OPERATORS["+"], np.add, _array(x, "x"), reverse)


def cumprod(x: npt.NDArray, reverse: bool = False) -> npt.NDArray:
    """Running products along the middle axis of (rows, n, cols)."""
    return _running(OPERATORS["*"], np.multiply, _array(x, "x"), reverse)


def cumprod_vjp(x: npt.NDArray, y: npt.NDArray, ct: npt.NDArray, reverse: bool = False) -> npt.NDArray:
    """Cotangent of x, from that of `y = cumprod(x, reverse)`, without divisions, so it is exact with any number of zeros."""
    x, y = _float(x, "x"), _float(y, "y")
    bar = checked_cotangent(ct, x)
    assert bar is not None
    if _way(x) is plain:
        return plain.cumprod_vjp(x, y, bar, reverse)
    (x_bar,) = large.scan_vjp(OPERATORS["*"], (x,), (y,), (bar,), reverse)
    assert x_bar is not None
    return x_bar


def cummax(x: npt.NDArray, reverse: bool = False) -> tuple[npt.NDArray, npt.NDArray]:
    """Running maxima, and the position (i64, along n) of the element that was there first: on a tie the earlier of the scan.

    The first NaN wins over all that follow.
    """
    return _extremum("max", np.maximum, _array(x, "x"), reverse)


def cummin(x: npt.NDArray, reverse: bool = False) -> tuple[npt.NDArray, npt.NDArray]:
    """Running minima and where they are, as `cummax`."""
    return _extremum("min", np.minimum, _array(x, "x"), reverse)


def _way(*arrays: npt.NDArray, each: int = large.ARRAYS) -> ModuleType:
    """The implementation for components of that size and these types, whose kernel takes `each` arrays for one."""
    dtypes, serial = [a.dtype for a in arrays], large.serial(arrays[0].shape)
    return large if worthwhile(arrays[0].size, dtypes, serial, each * len(arrays)) else plain


def _running(op: Operator, function: np.ufunc, x: npt.NDArray, reverse: bool) -> npt.NDArray:
    return large.scan(op, (x,), reverse)[0] if _way(x) is large else plain.accumulate(function, x, reverse)


def _extremum(kind: str, function: np.ufunc, x: npt.NDArray, reverse: bool) -> tuple[npt.NDArray, npt.NDArray]:
    places = np.empty(x.shape, np.int64)
    if _way(x, places) is plain:
        return plain.extremum(function, x, reverse)
    places[...] = np.arange(x.shape[1])[:, None]
    values, winners = large.scan(PLACED[kind], (x, places), reverse)
    return values, winners


def _components(op: Operator, xs: Sequence[npt.NDArray]) -> Arrays:
    if len(xs) != op.arity or not xs:
        raise ShapeError(f"an operator on {op.arity} components got {len(xs)} arrays; give one array a component, at least one")
    checked = tuple(_array(x, f"component {k}") for k, x in enumerate(xs))
    if any(x.shape != checked[0].shape for x in checked):
        raise ShapeError(f"components have the shapes {', '.join(str(x.shape) for x in checked)}, expected one; broadcast them first")
    return checked


def _array(x: npt.NDArray, name: str) -> npt.NDArray:
    if x.ndim != 3:
        raise ShapeError(f"{name} has the shape {x.shape}, expected (rows, n, cols); reshape it")
    if x.dtype not in DTYPES:
        raise ParameterError(f"{name} is of type {x.dtype}, expected one of {', '.join(map(str, DTYPES))}; convert it")
    return np.ascontiguousarray(x)


def _float(x: npt.NDArray, name: str) -> npt.NDArray:
    if x.dtype.kind != "f":
        raise ParameterError(f"{name} is of type {x.dtype}, expected float32 or float64; convert it")
    return _array(x, name)


def checked_cotangent(cotangent: npt.NDArray | None, x: npt.NDArray, whose: str = "its value") -> npt.NDArray | None:
    """The cotangent of an array, in its type; None if there is none, or the array has whole numbers."""
    if cotangent is None or x.dtype.kind != "f":
        return None
    if cotangent.shape != x.shape:
        raise ShapeError(f"a cotangent has the shape {cotangent.shape}, expected {x.shape}, that of {whose}")
    return np.ascontiguousarray(cotangent, x.dtype)


def _about(x: npt.NDArray) -> str:
    return f"{x.dtype} {x.shape}"
