"""Views: a value written through one reaches the array that it is a part of."""

from __future__ import annotations

import numpy

from tests.ad.programs.cases import normal

from .assignment import cleared
from .cases import group

case = group("views")


@case((normal(1, 3, 4), normal(2)[()]), lambda bar, m, v: (cleared(bar, 1, 2), bar[1, 2]))
def element_of_a_row(np, m, v):
    a = m.copy()
    row = a[1]
    row[2] = v
    return a


@case((normal(3, 4, 5), normal(4)[()]), lambda bar, m, v: (cleared(bar, 1, 2), 5 * bar[1, 2]))
def view_of_a_view(np, m, v):
    a = m.copy()
    block = a[1:3]
    part = block[:, ::2]
    part[0, 1] = 5 * v
    return a


@case((normal(5, 3, 4), normal(6)[()]), lambda bar, m, v: (cleared(bar, 1, 1), bar[1, 1]))
def reshaped_view(np, m, v):
    a = m.copy()
    flat = a.reshape(-1)
    flat[5] = v
    return a


@case((normal(7, 3, 4), normal(8, 3)), lambda bar, m, v: (cleared(bar, slice(None), 0), bar[:, 0]))
def row_of_the_transpose(np, m, v):
    a = m.copy()
    turned = a.T
    turned[0] = v
    return a


@case((normal(9, 4, 4), normal(10, 4)), lambda bar, m, v: (bar * (1 - numpy.eye(4)), numpy.diag(bar)))
def diagonal_as_a_strided_view(np, m, v):
    a = m.copy()
    a.reshape(-1)[::5] = v
    return a


@case((normal(11, 2, 3), normal(12)[()]), lambda bar, m, v: (numpy.stack([2 * bar * [1, 0, 1], 0 * bar]), 2 * bar[1]))
def view_sees_what_is_written_to_its_array(np, m, v):
    a = m.copy()
    row = a[0]
    a[0, 1] = v
    return row * 2


@case((normal(13, 3, 2), normal(14, 2)), lambda bar, m, v: (bar, 2 * v * bar[2]))
def row_bound_to_a_name_and_added_to(np, m, v):
    a = m.copy()
    row = a[2]
    row += v * v
    return a


@case((normal(15, 3, 2),), lambda bar, m: bar[[1, 0, 2]])
def rows_swapped_by_a_copy(np, m):
    a = m.copy()
    kept = a[0].copy()
    a[0] = a[1]
    a[1] = kept
    return a


@case((normal(16, 3, 2),), lambda bar, m: numpy.stack([0 * bar[0], bar[0] + bar[1], bar[2]]))
def rows_not_swapped_without_a_copy(np, m):
    """The kept row is a view, so it changes with the first assignment."""
    a = m.copy()
    kept = a[0]
    a[0] = a[1]
    a[1] = kept
    return a


@case((normal(17, 4), normal(18, 2)), lambda bar, m, v: (numpy.array([*2 * bar[:2], 0, 0]), 2 * bar[2:]))
def copy_is_no_view(np, m, v):
    a = m.copy()
    part = a[:2].copy()
    part[:] = 7.0
    a[2:] = v
    return a * 2


@case((normal(19, 2, 3, 2), normal(20, 3)), lambda bar, m, v: (cleared(bar, 1, slice(None), 0), bar[1, :, 0][::-1]))
def reversed_view_of_three_axes(np, m, v):
    a = m.copy()
    part = a[1, ::-1, 0]
    part[...] = v
    return a


@case((normal(21, 6), normal(22, 2, 3)), lambda bar, x, v: (0 * x, 3 * bar.reshape(2, 3)))
def views_of_one_array_in_a_loop(np, x, v):
    a = x.copy()
    for i, row in enumerate(a.reshape(2, 3)):
        row[:] = v[i]
        row *= 3
    return a


@case((normal(23, 3, 3),), lambda bar, m: numpy.tril(bar) + numpy.triu(bar, 1).T)
def lower_half_mirrored_by_views(np, m):
    a = m.copy()
    for i in range(3):
        a[i, i + 1 :] = a[i + 1 :, i]
    return a


@case((normal(24, 4),), lambda bar, x: numpy.array([2 * bar[0] + 0 * x[0], bar[1], bar[2], bar[3]]))
def two_views_of_the_same_entry(np, x):
    a = x.copy()
    first, again = a[:2], a[0:1]
    again *= 2
    first[1] = x[1]
    return a


@case((normal(25, 2, 3), normal(26, 3)), lambda bar, m, v: (cleared(bar, 0), bar[0]))
def new_axis_as_a_view(np, m, v):
    a = m.copy()
    a[None][0, 0] = v
    return a
