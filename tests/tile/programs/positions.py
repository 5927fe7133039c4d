"""Positions that are values: they differ from tile to tile. Gathers and scatters, with repeats."""

from __future__ import annotations

import numpy

from tests.ad.programs.cases import normal

from .cases import group

case = group("positions")
REPEATED = numpy.array([3, 0, 3, 1])
DISTINCT = numpy.array([4, 1, 0])


def gathered(shape, index, bar):
    """The cotangent of an array whose entries at an index were read."""
    out = numpy.zeros(shape)
    numpy.add.at(out, index, bar)
    return out


def put(bar, index, v):
    """The cotangents of an array and of the values that were put at positions: the last one of each position counts."""
    older, newer, taken = bar.copy(), numpy.zeros(v.shape), set()
    for k in reversed(range(len(index))):
        if index[k] not in taken:
            newer[k] = bar[index[k]]
        taken.add(index[k])
        older[index[k]] = 0.0
    return older, newer


@case((normal(1, 5), REPEATED), lambda bar, x, i: gathered(5, i, bar))
def gather_with_repeats(np, x, i):
    return x[i]


@case((normal(2, 5), REPEATED), lambda bar, x, i: gathered(5, i, bar * 2 * x[i]))
def squares_of_gathered(np, x, i):
    return x[i] * x[i]


@case((normal(3, 4, 2), REPEATED), lambda bar, m, i: gathered((4, 2), i, bar))
def rows_gathered(np, m, i):
    return m[i]


@case((normal(4, 4, 4), REPEATED, numpy.array([0, 2, 0, 1])), lambda bar, m, i, j: gathered((4, 4), (i, j), bar))
def pairs_gathered(np, m, i, j):
    return m[i, j]


@case((normal(5, 3, 4), REPEATED), lambda bar, m, i: gathered((3, 4), (slice(None), i), bar))
def columns_gathered(np, m, i):
    return m[:, i]


@case((normal(6, 5, 6), DISTINCT), lambda bar, m, i: gathered((5, 6), (i, slice(None, None, 2)), bar))
def rows_gathered_with_a_slice(np, m, i):
    return m[i, ::2]


@case((normal(7, 4), REPEATED), lambda bar, x, i: gathered(4, i - 4, bar))
def negative_positions(np, x, i):
    return x[i - 4]


@case((normal(8, 5, 2), 1), lambda bar, m, i: gathered((5, 2), i, bar))
def one_row(np, m, i):
    return m[i]


@case((normal(9, 5), DISTINCT, normal(10, 3)), lambda bar, x, i, v: put(bar, i, v))
def live_values_overwritten(np, x, i, v):
    a = x.copy()
    a[i] = v
    return a


@case((normal(11, 5), REPEATED, normal(12, 4)), lambda bar, x, i, v: put(bar, i, v))
def repeats_keep_the_last(np, x, i, v):
    a = x.copy()
    a[i] = v
    return a


@case((normal(13, 5), REPEATED, normal(14, 4)), lambda bar, x, i, v: (bar, put(bar, i, v)[1]))
def repeats_add_the_last(np, x, i, v):
    a = x.copy()
    a[i] += v
    return a


@case((normal(15, 5), REPEATED, normal(16, 4)), lambda bar, x, i, v: put(bar, i, v))
def elements_overwritten_one_by_one(np, x, i, v):
    a = x.copy()
    for k in range(4):
        a[i[k]] = v[k]
    return a


@case((normal(17, 5), REPEATED, normal(18, 4)), lambda bar, x, i, v: (bar, 2 * v * bar[i]))
def elements_added_to_one_by_one(np, x, i, v):
    a = x.copy()
    for k in range(4):
        a[i[k]] += v[k] ** 2
    return a


def _multiplied(bar, x, i, v):
    """Read backwards: each factor scales the product of all factors before it."""
    older, bars = bar.copy(), numpy.zeros(4)
    for k in reversed(range(4)):
        before = x[i[k]] * numpy.prod([v[j] for j in range(k) if i[j] == i[k]])
        bars[k] = older[i[k]] * before
        older[i[k]] *= v[k]
    return older, bars


@case((normal(19, 5), REPEATED, normal(20, 4)), _multiplied)
def elements_multiplied_one_by_one(np, x, i, v):
    a = x.copy()
    for k in range(4):
        a[i[k]] *= v[k]
    return a


def _columns(bar, m, i, v):
    older = bar.copy()
    older[:, i] = 0
    return older, bar[:, i]


@case((normal(21, 2, 5), DISTINCT, normal(22, 2, 3)), _columns)
def columns_overwritten(np, m, i, v):
    a = m.copy()
    a[:, i] = v
    return a


def _pairs(bar, m, i, v):
    older = bar.copy()
    older[i, i] = 0
    return older, bar[i, i]


@case((normal(23, 5, 5), DISTINCT, normal(24, 3)), _pairs)
def pairs_overwritten(np, m, i, v):
    a = m.copy()
    a[i, i] = v
    return a


def _scaled(bar, x, i):
    out = bar.copy()
    out[i] *= 3
    return out


@case((normal(25, 5), DISTINCT), _scaled)
def gathered_and_scaled_in_place(np, x, i):
    a = x.copy()
    a[i] *= 3
    return a


@case((normal(26, 5), numpy.array([4, 7, -2, 1])), lambda bar, x, i: gathered(5, numpy.clip(i, 0, 4), bar))
def positions_clipped(np, x, i):
    return np.take(x, i, mode="clip")


@case((normal(27, 4), numpy.array([2, 0, 3, 1])), lambda bar, x, p: gathered(4, p, bar))
def permuted(np, x, p):
    return x[p]


def _inverse(bar, x, p):
    return bar[p]


@case((normal(28, 4), numpy.array([2, 0, 3, 1])), _inverse)
def permuted_back(np, x, p):
    a = np.zeros(4)
    a[p] = x
    return a


@case((normal(29, 4), numpy.array([2, 0, 3, 1])), lambda bar, x, p: gathered(4, p[::-1], bar[p]))
def permuted_within_one_array(np, x, p):
    a = x.copy()
    a[p] = a[p[::-1]]
    return a


def _swapped(bar, x, i, j):
    out = bar.copy()
    out[i], out[j] = bar[j], bar[i]
    return out


@case((normal(30, 9), 0, 5), _swapped)
def two_elements_swapped(np, x, i, j):
    a = x.copy()
    a[i], a[j] = a[j] * 1, a[i] * 1
    return a


@case((normal(31, 6),), lambda bar, x: numpy.where(numpy.arange(6) == numpy.argmax(x), bar, 0.0))
def largest_by_its_position(np, x):
    return x[np.argmax(x)]


@case((normal(32, 4, 3), normal(33, 4)), lambda bar, m, v: (gathered((4, 3), numpy.argmin(v), bar), 0 * v))
def row_of_the_smallest(np, m, v):
    return m[np.argmin(v)]


@case((normal(34, 6),), lambda bar, x: gathered(6, numpy.argsort(x), bar * numpy.arange(6.0)))
def sorted_by_positions(np, x):
    return x[np.argsort(x)] * np.arange(6.0)


@case((normal(35, 3, 4),), lambda bar, m: (numpy.put_along_axis(out := 0 * m, numpy.argsort(m, 1), bar, 1), out)[1])
def rows_sorted_along_their_axis(np, m):
    return np.take_along_axis(m, np.argsort(m, axis=1), axis=1)


@case((normal(36, 5),), lambda bar, x: bar * (x > 0))
def negative_entries_cleared(np, x):
    a = x.copy()
    a[x <= 0] = 0.0
    return a


@case((normal(37, 5),), lambda bar, x: bar * numpy.where(x > 0, 3.0, 1.0))
def positive_entries_scaled(np, x):
    a = x.copy()
    a[x > 0] *= 3
    return a


@case((normal(38, 5), normal(39, 5)), lambda bar, x, y: (bar * (x <= y), bar * (x > y)))
def entries_taken_from_another_array(np, x, y):
    a = x.copy()
    a[x > y] = y[x > y]
    return a


@case((normal(40, 4, 3), normal(41, 4)), lambda bar, m, v: (bar * numpy.where(v > 0, 2 * m.T, 1.0).T, 0 * v))
def rows_squared_where_a_condition_holds(np, m, v):
    a = m.copy()
    a[v > 0] **= 2
    return a


@case((normal(42, 5), numpy.array([True, False, True, True, False]), normal(43, 5)), lambda bar, x, c, y: (bar, bar * c * numpy.cos(y)))
def entries_added_where_a_mask_holds(np, x, c, y):
    a = x.copy()
    a[c] += np.sin(y[c])
    return a


@case((normal(44, 6), REPEATED), lambda bar, x, i: gathered(6, i + 1, bar) - gathered(6, i, bar))
def differences_of_gathered_neighbours(np, x, i):
    return x[i + 1] - x[i]


def _deposited(bar, w, x):
    k = numpy.clip(numpy.floor(x), 0, 3).astype(int)
    r = x - k
    return bar[k] * (1 - r) + bar[k + 1] * r, w * (bar[k + 1] - bar[k])


@case((normal(45, 4), numpy.array([0.3, 2.4, 0.7, 1.45])), _deposited)
def weights_deposited_on_a_grid(np, w, x):
    """The weight of each particle goes to the two points around it."""
    a = np.zeros(5)
    k = np.clip(np.floor(x), 0, 3).astype(int)
    for n in range(4):
        a[k[n]] += w[n] * (1 - (x[n] - k[n]))
        a[k[n] + 1] += w[n] * (x[n] - k[n])
    return a


def _overwritten_after(bar, x, i, v):
    older, newer = put(bar, i, v)
    return older + gathered(5, i, 2 * x[i] * bar[0]), newer


@case((normal(46, 5), DISTINCT, normal(47, 3)), _overwritten_after)
def read_and_then_overwritten(np, x, i, v):
    a = x.copy()
    s = np.sum(a[i] ** 2)
    a[i] = v
    return np.concatenate([a[:1] + s, a[1:]])


@case((normal(48, 5), normal(49, 5)), lambda bar, x, y: (bar * 2 * x * (y > 0), 0 * y))
def sum_where_a_mask_holds(np, x, y):
    return np.sum(x[y > 0] ** 2)


@case((normal(50, 3, 4), numpy.array([True, False, True])), lambda bar, m, c: bar * c[:, None] * numpy.cos(m))
def sum_of_rows_where_a_mask_holds(np, m, c):
    return np.sin(m[c]).sum()
