"""Gathers: reads at indices, repeated ones included, and at indices found by comparison."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("gather")

INDEX = numpy.array([3, 0, 3, 1, 3])


def _added_up(bar, index, size):
    out = numpy.zeros(size)
    numpy.add.at(out, index, bar)
    return out


@case((normal(1, 5),), lambda bar, x: _added_up(bar, INDEX, 5), exact_zeros=True)
def repeated_reads(np, x):
    return x[INDEX]


@case((normal(2, 5),), lambda bar, x: _added_up(bar, INDEX, 5), exact_zeros=True)
def take(np, x):
    return np.take(x, INDEX)


@case((normal(3, 5), INDEX), lambda bar, x, index: _added_up(bar * numpy.cos(x[index]), index, 5))
def index_as_an_argument(np, x, index):
    """Integers are arguments without a derivative."""
    return np.sin(x[index])


@case((normal(4, 4, 3),), lambda bar, x: numpy.stack([bar[1], 0 * bar[0], bar[0] + bar[2], 0 * bar[0]]), exact_zeros=True)
def rows(np, x):
    return x[[2, 0, 2]]


@case((normal(5, 4, 3),), lambda bar, x: _added_up(bar, ([0, 3, 3], [2, 0, 0]), (4, 3)), exact_zeros=True)
def pairs_of_indices(np, x):
    return x[[0, 3, 3], [2, 0, 0]]


@case((normal(6, 5),), lambda bar, x: bar * numpy.eye(5)[numpy.argmax(x)] * 2 * x, exact_zeros=True)
def read_at_the_largest(np, x):
    return x[np.argmax(x)] ** 2


@case((normal(7, 4), numpy.array([0.5, -2.0, 0.1, 1.0])), lambda bar, x, key: (bar * numpy.eye(4)[1], 0 * key), exact_zeros=True)
def read_where_another_is_smallest(np, x, key):
    return x[np.argmin(key)]


@case((numpy.array([0.7, -1.3, 1.4, -0.2]),), lambda bar, x: numpy.where(x > 0, bar.sum() * 2 * x, 0), exact_zeros=True)
def boolean_mask(np, x):
    return np.sum(x[x > 0] ** 2)


@case((normal(9, 6),), COMPLEX_STEP)
def indices_computed_from_indices(np, x):
    i = np.arange(6)
    return x[(i * i + 1) % 6] * x[i[::-1]]


@case((normal(10, 5), numpy.array([2, 4, 1, 0, 3])), COMPLEX_STEP)
def following_a_linked_list(np, x, successor):
    place, total = 0, 0.0
    for k in range(4):
        total = total * 0.5 + x[place] ** (k + 1)
        place = successor[place]
    return total


@case((normal(11, 4, 5),), lambda bar, x: _added_up(bar, (numpy.arange(4), numpy.argmax(x, axis=1)), (4, 5)), exact_zeros=True)
def the_largest_of_each_row(np, x):
    return np.take_along_axis(x, np.argmax(x, axis=1)[:, None], axis=1)[:, 0]


@case((normal(12, 3),), IndexError, kind="raises")
def read_outside(np, x):
    return x[3]


@case((normal(13, 3),), IndexError, kind="raises")
def index_array_outside(np, x):
    return x[np.array([0, 5])]


@case((normal(14, 4), numpy.array([0.25, 2.6])), COMPLEX_STEP)
def linear_interpolation(np, table, at):
    """The place is an integer, the weight is not."""
    left = np.array([0, 2])
    return table[left] * (1 - (at - left)) + table[left + 1] * (at - left)
