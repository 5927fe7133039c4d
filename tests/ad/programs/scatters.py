"""Scatters: values written to the places that an index names."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("scatter")

PLACES = numpy.array([3, 0, 4])


def _kept(bar, places):
    bar = bar.copy()
    bar[places] = 0
    return bar


@case((normal(1, 5), normal(2, 3)), lambda bar, dst, v: (_kept(bar, PLACES), bar[PLACES]), exact_zeros=True)
def overwrites(np, ds, dst, v):
    return ds.scatter(dst, PLACES, v)


@case((normal(3, 4), normal(4, 4)), lambda bar, dst, v: (_kept(bar, [1, 3]), numpy.array([0, bar[3], 0, bar[1]])), exact_zeros=True)
def outside_is_dropped(np, ds, dst, v):
    return ds.scatter(dst, np.array([-1, 3, 4, 1]), v)


@case((normal(5, 4), normal(6, 4)), lambda bar, dst, v: (0 * dst, bar[[2, 0, 3, 1]]), exact_zeros=True)
def permutation(np, ds, dst, v):
    return ds.scatter(dst, np.array([2, 0, 3, 1]), v)


@case((normal(7, 4, 2), normal(8, 2, 2)), lambda bar, dst, v: (_kept(bar, [3, 1]), bar[[3, 1]]), exact_zeros=True)
def rows(np, ds, dst, v):
    return ds.scatter(dst, np.array([3, 1]), v)


@case((normal(9, 4), numpy.zeros(0)), lambda bar, dst, v: (bar, numpy.zeros(0)))
def nothing_to_write(np, ds, dst, v):
    return ds.scatter(dst, np.zeros(0, dtype=int), v)


@case((normal(10, 5), normal(11, 3)), COMPLEX_STEP)
def result_and_original_are_both_used(np, ds, dst, v):
    """A scatter is a new array: the old one stays the same."""
    return ds.scatter(dst, PLACES, v * v) * dst


@case((normal(12, 5), normal(13, 3)), COMPLEX_STEP)
def assignment_with_an_index_array(np, dst, v):
    out = dst * 2
    out[PLACES] = np.sin(v)
    return out


@case((normal(14, 4), normal(15, 3)), lambda bar, dst, v: (_kept(bar, [1, 2]), numpy.array([0, bar[1], bar[2]])), exact_zeros=True)
def the_last_of_two_writes_stays(np, dst, v):
    out = dst.copy()
    out[[1, 1, 2]] = v
    return out


@case((normal(16, 6),), lambda bar, x: numpy.append(bar[:3], bar[5:2:-1]), exact_zeros=True)
def evens_and_odds_written_in_two_scatters(np, ds, x):
    y = ds.scatter(np.zeros(6), np.array([0, 1, 2]), x[:3])
    return ds.scatter(y, np.array([5, 4, 3]), x[3:])


@case((normal(17, 5), normal(18, 3)), COMPLEX_STEP)
def scatter_then_gather(np, ds, dst, v):
    return np.exp(ds.scatter(dst, PLACES, v))[np.array([4, 4, 1])]
