"""A test for matrices of tiles that are singular within rounding: that of `diffsim.ad.ops.rounding`, in operations of tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.core import Primitive
from diffsim.ad.ops import elementwise as ew
from diffsim.ad.ops import matrix as mx
from diffsim.ad.ops import reduction as rd
from diffsim.ad.ops import rounding
from diffsim.ad.ops import structure as st

checked: Primitive = Primitive("checked", lambda bad, dtype, what: np.zeros(np.shape(bad), dtype), constant=True)
"""0; and in a kernel an error that names the tile where `bad` holds."""


def _largest(x: Any) -> Any:
    """The largest entry along the last axis, which stays; 1 where it is 0."""
    entry = rd.pick(x, rd.winners(x, largest=True), -1)
    return ew.where(ew.equal(entry, 0.0), 1.0, entry)


def _scales(a: Any) -> tuple[Any, Any]:
    size = ew.absolute(a)
    rows = _largest(size)
    return rows, mx.swap(_largest(mx.swap(size / rows)))


def _square(x: Any) -> Any:
    return st.add_up(x * x, axis=(x.ndim - 2, x.ndim - 1), keepdims=True)


def _flag(scaled: Any, inverse: Any, bar: Any, dtype: Any, what: str) -> Any:
    """0, if a matrix is regular or its derivative is multiplied by 0.

    Args:
        scaled: the square of the norm of the matrix, rows and columns divided by their sizes.
        inverse: that of its inverse.
        bar: the factor of its derivative.
        dtype: type of the matrix.
        what: names the operation in the message.
    """
    small = ew.less(scaled * inverse * (rounding.ROOM * rounding.unit(dtype)) ** 2, 1.0)
    untouched = st.astype(ew.equal(bar, 0.0), dtype=np.dtype(dtype))
    unused = ew.equal(st.add_up(1.0 - untouched, axis=(untouched.ndim - 2, untouched.ndim - 1), keepdims=True), 0.0)
    well = ew.logical_or(ew.logical_or(small, unused), ew.logical_not(ew.isfinite(scaled)))
    return checked(ew.logical_not(well), dtype=np.dtype(dtype), what=what)


def _probes(rows: Any) -> Any:
    """Random right sides that estimate the norm of an inverse, see `rounding.solved`."""
    n = rows.shape[-2]
    return rows * np.random.default_rng(n).standard_normal((n, rounding.PROBES)).astype(rows.dtype)


def solved(a: Any, b: Any) -> Any:
    """The solution of a x = b for a derivative, by one elimination for b and the probes."""
    n, k, rank = a.shape[-1], b.shape[-1], max(a.ndim, b.ndim)
    rows, columns = _scales(a)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    right_sides = [st.broadcast_to(x, shape=(*lead, n, m)) for x, m in ((b, k), (_probes(rows), rounding.PROBES))]
    solution = mx.solve(a, st.concatenate(*right_sides, axis=rank - 1, lengths=(k, rounding.PROBES)))
    x, tried = (st.getitem(solution, index=(Ellipsis, part)) for part in (slice(k), slice(k, None)))
    norm = _square(mx.swap(columns) * tried) / rounding.PROBES
    return x + _flag(_square(a / rows / columns), norm, b, a.dtype, "a derivative of solve")


def factor(x: Any, lower: Any, bar: Any, what: str) -> Any:
    """x, where the matrix with this factor is regular.

    Rows and columns of the matrix are divided by the roots of its diagonal. Then the trace of its inverse, which is the square of the norm
    of the factor's inverse, is the norm of the inverse, up to the root of its rank.
    """
    n = lower.shape[-1]
    a, diagonal = mx.matmul(lower, mx.swap(lower)), st.add_up(lower * lower, axis=(lower.ndim - 1,), keepdims=True)
    tried = mx.solve(mx.swap(lower), np.random.default_rng(n).standard_normal((n, rounding.PROBES)).astype(x.dtype))
    trace = st.add_up(diagonal * tried * tried, axis=(lower.ndim - 2, lower.ndim - 1), keepdims=True) / rounding.PROBES
    scaled = st.add_up(a / diagonal * (a / mx.swap(diagonal)), axis=(lower.ndim - 2, lower.ndim - 1), keepdims=True)
    return x + _flag(scaled, trace * trace, bar, a.dtype, what)


def regular(x: Any, a: Any, inverse: Any, bar: Any, what: str) -> Any:
    """x, where the matrix `a` with this inverse is regular."""
    rows, columns = _scales(a)
    return x + _flag(_square(a / rows / columns), _square(mx.swap(columns) * inverse * mx.swap(rows)), bar, a.dtype, what)
