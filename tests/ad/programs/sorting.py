"""Sorting: a permutation that the values decide, and that is constant around them."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("sorting")


def _sent_back(bar, x):
    out = numpy.zeros_like(x)
    out[numpy.argsort(x, kind="stable")] = bar
    return out


@case((normal(1, 6),), _sent_back)
def sort(np, x):
    return np.sort(x)


@case((numpy.array([2.0, 1.0, 2.0, 1.0, 0.0]),), _sent_back, differences=False)
def sort_with_ties_is_stable(np, x):
    return np.sort(x)


@case((normal(2, 6),), lambda bar, x: _sent_back(bar, x) * 2 * x)
def gather_by_argsort(np, x):
    return (x * x)[np.argsort(x)]


@case((normal(3, 5), normal(4, 5)), lambda bar, key, x: (0 * key, _sent_back(bar, key) * 1.0), exact_zeros=True)
def sorted_by_another_key(np, key, x):
    return x[np.argsort(key)]


@case((normal(5, 3, 4),), lambda bar, x: numpy.stack([_sent_back(b, row) for b, row in zip(bar, x, strict=True)]))
def sort_rows(np, x):
    return np.sort(x, axis=-1)


@case((numpy.array([3.0, 1.0, 2.0, 5.0, 4.0]),), _sent_back)
def bubble_sort(np, x):
    a = x.copy()
    for i in range(len(a)):
        for j in range(len(a) - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
    return a


@case((normal(6, 6),), _sent_back)
def insertion_sort_that_overwrites_its_argument(np, x):
    for i in range(1, len(x)):
        held, j = x[i], i
        while j > 0 and x[j - 1] > held:
            x[j] = x[j - 1]
            j -= 1
        x[j] = held
    return x


@case((normal(7, 5),), lambda bar, x: bar * numpy.eye(5)[numpy.argsort(x)[2]], exact_zeros=True)
def median_of_an_odd_number(np, x):
    return np.sort(x)[2]


@case((normal(8, 6),), lambda x: _sent_back(numpy.array([0, 0, 0, 0, 1.0, 1.0]), x), kind="grad", exact_zeros=True)
def sum_of_the_two_largest(np, x):
    return np.sum(np.sort(x)[-2:])


@case((normal(9, 6),), COMPLEX_STEP, kind="grad")
def gini_coefficient(np, x):
    s = np.sort(np.exp(x))
    n = len(x)
    return np.sum((2 * np.arange(1, n + 1) - n - 1) * s) / (n * np.sum(s))


@case((numpy.array([5.0, 2.0, 7.0, 1.0, 4.0]), normal(10, 5)), lambda bar, key, x: (0 * key, bar[[3, 0, 4, 1, 2]]), exact_zeros=True)
def partition_by_scans(np, ds, key, x):
    """Below 4.5 first, in order: the places come from two running counts, as in a radix sort."""
    below = np.where(key < 4.5, 1, 0)
    low = np.cumsum(below) - 1
    high = np.sum(below) + np.cumsum(1 - below) - 1
    return ds.scatter(np.zeros(5), np.where(key < 4.5, low, high), x)


@case((normal(11, 4), normal(12, 4)), COMPLEX_STEP, kind="grad")
def earth_movers_distance_on_a_line(np, x, y):
    return np.sum((np.sort(x) - np.sort(y)) ** 2)


@case((numpy.array([0.1, 0.5, 0.9]), numpy.array([0.2, 0.3, 0.8])), COMPLEX_STEP)
def merge_of_two_sorted_arrays(np, a, b):
    out, i, j = [], 0, 0
    while i < 3 or j < 3:
        if j == 3 or (i < 3 and a[i] <= b[j]):
            out.append(a[i])
            i += 1
        else:
            out.append(b[j])
            j += 1
    return np.stack(out) ** 2
