"""Covariances, correlations and histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffsim.ad.arrays.array import core, wrap
from diffsim.ad.ops import structure as st
from diffsim.numpy.calling.dispatch import is_complex, outside, plain, value_of
from diffsim.numpy.diagonals import diag
from diffsim.numpy.elementwise import clip, conj, imag, real, sqrt
from diffsim.numpy.products import dot
from diffsim.numpy.ranges import linspace
from diffsim.numpy.reductions import average, max, min, sum
from diffsim.numpy.running import diff
from diffsim.numpy.shapes.creation import array, asarray
from diffsim.numpy.shapes.joining import concatenate
from diffsim.numpy.shapes.shaping import astype, ndim, ravel, squeeze


@outside(np)
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """Covariances of rows, or columns; differentiable in the data and in `aweights`."""
    variables = [m] if y is None else [m, y]
    kind = np.result_type(*(value_of(x).dtype for x in variables), float) if dtype is None else np.dtype(dtype)
    x = array(m, kind, ndmin=2)
    x = x.T if not rowvar and ndim(m) != 1 else x
    if x.shape[0] == 0:
        return wrap(np.array([]).reshape(0, 0))
    if y is not None:
        other = array(y, kind, ndmin=2)
        x = concatenate([x, other.T if not rowvar and other.shape[0] != 1 else other], 0)
    ddof = (1 if bias == 0 else 0) if ddof is None else ddof  # as NumPy compares it
    weights = [astype(asarray(w), float) for w in (fweights, aweights) if w is not None]
    w = None if not weights else weights[0] if len(weights) == 1 else weights[0] * weights[1]
    mean, total = average(x, axis=1, weights=w, returned=True)
    below: Any = total[0] - ddof if w is None or aweights is None else total[0] - ddof * sum(w * weights[-1]) / total[0]
    if w is not None and ddof == 0:
        below = total[0]
    if plain(below) <= 0:
        np.cov(plain(m), None if y is None else plain(y), rowvar, bias, ddof, *_plain(fweights, aweights))  # warns as NumPy does
        below = 0.0
    apart = x - mean[:, None]
    products = dot(apart, conj((apart if w is None else apart * w).T))
    with np.errstate(divide="ignore", invalid="ignore"):
        return squeeze(products * (1 / astype(asarray(below), products.real.dtype)))


def _plain(*values: Any) -> list[Any]:
    return [None if value is None else plain(value) for value in values]


@outside(np)
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """Correlations of rows, or columns, between -1 and 1."""
    covariance = cov(x, y, rowvar, dtype=dtype)
    if not covariance.ndim:
        return covariance / covariance
    deviation = sqrt(real(diag(covariance)))
    covariance = covariance / deviation[:, None] / deviation[None, :]
    if not is_complex(covariance):
        return clip(covariance, -1, 1)
    return clip(real(covariance), -1, 1) + 1j * clip(imag(covariance), -1, 1)


@outside(np)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """Counts, or sums of weights, in bins, and the edges of the bins.

    Sums are differentiable in the weights. A count is constant as long as no entry crosses an edge: its derivative with respect to the
    entries is 0. Edges that are found from the entries lie between the least and the greatest one, and have their derivatives; so has a
    density.
    """
    named = isinstance(bins, str)
    entries = np.ravel(plain(a))
    heavy = None if weights is None else np.ravel(plain(weights))
    edges = np.histogram_bin_edges(entries, bins if named else plain(bins), None if range is None else plain(range), heavy)
    if not named and ndim(bins) == 1:
        lines = asarray(bins)
    elif range is None and entries.size and entries.min() < entries.max():
        lines = linspace(min(a), max(a), len(edges)).astype(edges.dtype)
    elif range is not None and plain(range)[0] < plain(range)[1]:
        lines = linspace(range[0], range[1], len(edges)).astype(edges.dtype)
    else:
        lines = wrap(edges)
    if weights is None:
        counts: Any = wrap(np.histogram(entries, edges)[0])
    else:
        w = ravel(weights)
        place = np.searchsorted(edges, entries, side="right") - 1
        place = np.where(entries == edges[-1], len(edges) - 2, place)  # the last bin has both its edges
        inside = (place >= 0) & (place < len(edges) - 1)
        kind = np.result_type(w.dtype, float)
        sums = st.index_add(np.zeros(len(edges) - 1, kind), st.astype(core(w[inside]), dtype=kind), index=(place[inside],))
        counts = astype(wrap(sums), w.dtype)
    if density:
        counts = counts / astype(diff(lines), float) / sum(counts)
    return counts, lines
