"""Histograms: values combined into the bins that an index names. Values outside are dropped."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal, uniform

case = group("histogram")

BINS = numpy.array([2, 0, 2, 1, 2, 0])
OUTSIDE = numpy.array([2, -1, 3, 0, 7, 2])


def _products_in_bins(bar, dst, values, bins=BINS):
    """Each factor's cotangent is the product of all the others of its bin, without a division."""
    dst_bar, values_bar = numpy.zeros_like(dst), numpy.zeros_like(values)
    for b in range(len(dst)):
        members = numpy.flatnonzero(bins == b)
        dst_bar[b] = bar[b] * numpy.prod(values[members])
        for i in members:
            values_bar[i] = bar[b] * dst[b] * numpy.prod(values[members[members != i]])
    return dst_bar, values_bar


@case((normal(1, 3), normal(2, 6)), lambda bar, dst, values: (bar, bar[BINS]))
def sums_in_bins(np, ds, dst, values):
    return ds.reduce_by_index("+", dst, BINS, values)


@case((normal(3, 3), normal(4, 6)), _products_in_bins)
def products_in_bins(np, ds, dst, values):
    return ds.reduce_by_index("*", dst, BINS, values)


@case((numpy.ones(3), numpy.array([2.0, 3.0, 0.0, 4.0, 5.0, 0.0])), _products_in_bins, exact_zeros=True)
def products_with_a_zero_in_a_bin(np, ds, dst, values):
    return ds.reduce_by_index("*", dst, BINS, values)


@case((numpy.array([0.0, 0.0, 2.0]), numpy.array([0.0, 3.0, 0.0, 4.0, 0.0, 5.0])), _products_in_bins, exact_zeros=True)
def products_with_two_zeros_in_a_bin(np, ds, dst, values):
    return ds.reduce_by_index("*", dst, BINS, values)


@case(
    (numpy.array([1.0, 9.0, 0.0]), numpy.array([5.0, 2.0, 4.0, 3.0, 1.0, 2.5])),
    lambda bar, dst, values: (bar * [0, 1, 0], bar[BINS] * [1, 0, 0, 0, 0, 1]),
    exact_zeros=True,
)
def largest_in_bins(np, ds, dst, values):
    return ds.reduce_by_index("max", dst, BINS, values)


@case(
    (numpy.array([7.0, 3.0, 9.0]), numpy.array([4.0, 7.0, 4.0, 3.0, 5.0, 8.0])),
    lambda bar, dst, values: (bar * [1, 1, 0], bar[BINS] * [1, 0, 0, 0, 0, 0]),
    exact_zeros=True,
    differences=False,
)
def smallest_in_bins_with_ties(np, ds, dst, values):
    """The old value of the bin wins a tie, then the lowest position."""
    return ds.reduce_by_index("min", dst, BINS, values)


@case((normal(5, 3), normal(6, 6)), lambda bar, dst, values: (bar, numpy.array([bar[2], 0, 0, bar[0], 0, bar[2]])), exact_zeros=True)
def indices_outside_are_dropped(np, ds, dst, values):
    return ds.reduce_by_index("+", dst, OUTSIDE, values)


@case((numpy.array([2.0, 3.0]), numpy.zeros(0)), lambda bar, dst, values: (bar, numpy.zeros(0)))
def no_values(np, ds, dst, values):
    return ds.reduce_by_index("*", dst, numpy.zeros(0, dtype=int), values)


@case((normal(7, 3, 2), normal(8, 6, 2)), lambda bar, dst, values: (bar, bar[BINS]))
def vectors_in_bins(np, ds, dst, values):
    """The leading axis is binned; each row of `values` is added to a row."""
    return ds.reduce_by_index(np.add, dst, BINS, values)


@case((uniform(9, 0.2, 1.0, 3), uniform(10, 0.2, 1.0, 6)), COMPLEX_STEP)
def operator_written_in_python(np, ds, dst, values):
    return ds.reduce_by_index(lambda a, b: a + b + a * b, dst, BINS, values, 0.0)


@case((normal(11, 3), normal(12, 6)), COMPLEX_STEP)
def log_sum_exp_in_bins(np, ds, dst, values):
    return np.log(ds.reduce_by_index("+", np.exp(dst), BINS, np.exp(values)))


@case((normal(13, 6),), lambda bar, w: bar[BINS])
def bins_filled_in_a_loop(np, w):
    h = np.zeros(3)
    for i, b in enumerate(BINS):
        h[b] += w[i]
    return h


@case((uniform(14, 0.0, 3.99, 8), normal(15, 8)), lambda bar, x, w: (0 * x, bar[numpy.floor(x).astype(int)]), exact_zeros=True)
def bins_decided_by_the_values(np, x, w):
    """Where a value falls is an integer: no derivative goes that way."""
    h = np.zeros(4)
    for v, weight in zip(x, w, strict=True):
        h[int(np.floor(v))] += weight
    return h


@case((numpy.array([0.3, 1.6, 2.2, 0.8]),), COMPLEX_STEP)
def linear_deposit_on_a_grid(np, ds, x):
    """Particles shared out between the two nearest nodes: here the position matters, through the weights."""
    left = np.array([0, 1, 2, 0])
    share = x - left
    density = ds.reduce_by_index("+", np.zeros(4), left, 1 - share)
    return ds.reduce_by_index("+", density, left + 1, share)


@case((uniform(16, 0.5, 1.5, 6), numpy.array([2.0, 1.0, 3.0])), COMPLEX_STEP, kind="grad")
def histogram_matching(np, ds, w, target):
    h = ds.reduce_by_index("+", np.zeros(3), BINS, w)
    return np.sum((h / np.sum(h) - target / np.sum(target)) ** 2)


@case((normal(17, 6),), COMPLEX_STEP)
def mean_of_each_group(np, ds, x):
    count = ds.reduce_by_index("+", np.zeros(3), BINS, np.ones(6))
    mean = ds.reduce_by_index("+", np.zeros(3), BINS, x) / count
    return (x - mean[BINS]) ** 2
