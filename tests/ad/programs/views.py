"""Views, copies and aliases: arrays that share memory in NumPy share their derivative here."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("views")


@case((normal(1, 5), normal(2, 2)), lambda bar, x, v: (bar * [1, 0, 0, 1, 1], bar[1:3]), exact_zeros=True)
def assignment_to_a_view_reaches_its_base(np, x, v):
    y = x.copy()
    view = y[1:3]
    view[:] = v
    return y


@case((normal(3, 5), 2.0), lambda bar, x, v: (numpy.array([0, 0, bar[1], 0, 0]), bar[0]), exact_zeros=True)
def view_read_after_its_base_was_assigned(np, x, v):
    y = x.copy()
    view = y[1:3]
    y[1] = v
    return view * 1.0


@case((normal(4, 5), 2.0), lambda bar, x, v: (bar, 0.0), exact_zeros=True)
def copy_does_not_follow_its_source(np, x, v):
    y = x.copy()
    z = y.copy()
    y[1] = v
    return z


@case((normal(5, 3),), lambda bar, x: bar * [0, 2, 2] * x, exact_zeros=True)
def second_name_for_the_same_array(np, x):
    y = x.copy()
    z = y
    y[0] = 0.0
    return z * z


@case((normal(6, 3), normal(7, 2)), COMPLEX_STEP)
def view_of_a_view(np, x, v):
    y = np.concatenate([x, x * x])
    outer = y[1:6]
    inner = outer[::2]
    inner[:2] = v
    return y * np.sum(outer)


@case((normal(8, 2, 3), normal(9, 2)), lambda bar, x, v: (bar * [[1, 0, 1], [1, 0, 1]], bar[:, 1]), exact_zeros=True)
def row_of_the_transpose_is_a_column(np, x, v):
    y = x.copy()
    y.T[1] = v
    return y


@case((normal(10, 2, 3), 4.0), lambda bar, x, v: (bar * [[1, 1, 1], [1, 0, 1]], bar[1, 1]), exact_zeros=True)
def reshaped_view_is_written(np, x, v):
    y = x.copy()
    flat = y.reshape(6)
    flat[4] = v
    return y


@case((normal(11, 2, 3), 4.0), lambda bar, x, v: (bar, 0.0), exact_zeros=True)
def gather_is_a_copy(np, x, v):
    y = x.copy()
    picked = y[[0, 1]]
    picked[0, 0] = v
    return y


@case((normal(12, 2, 3),), lambda bar, x: numpy.stack([0 * bar[0], bar[0] + bar[1]]), exact_zeros=True)
def rows_swapped_without_a_copy_lose_one(np, x):
    """Rows are views: the second assignment reads the entries that the first one wrote."""
    y = x.copy()
    y[0], y[1] = y[1], y[0]
    return y


@case((normal(13, 4),), COMPLEX_STEP)
def augmented_assignment_through_a_view(np, x):
    y = x * x
    view = y[::-1]
    view += y[0] * x
    return y


@case((normal(14, 3),), lambda bar, x: 2 * bar)
def augmented_assignment_changes_the_other_name(np, x):
    y = x.copy()
    z = y
    z *= 2.0
    return y


@case((normal(15, 3),), lambda bar, x: bar)
def plain_assignment_does_not_change_the_other_name(np, x):
    y = x.copy()
    z = y
    z = z * 2.0
    return y


@case((normal(16, 4), normal(17, 4)), COMPLEX_STEP)
def function_that_writes_into_its_argument(np, x, v):
    def accumulate(total, v):
        total[1:] += v[1:] * total[:-1].copy()

    y = x.copy()
    accumulate(y, v)
    accumulate(y, y)
    return y


@case((normal(18, 3),), COMPLEX_STEP)
def list_of_views(np, x):
    y = np.zeros((3, 2))
    rows = [y[i] for i in range(3)]
    for i, row in enumerate(rows):
        row[0] = x[i]
        row[1] = rows[i - 1][0] * x[i]
    return y


@case((normal(19, 4),), COMPLEX_STEP)
def two_buffers_swapped_each_step(np, x):
    a, b = x.copy(), np.zeros(4)
    for _ in range(3):
        b[:] = np.sin(a) + a[::-1] * 0.5
        a, b = b, a
    return a, b


@case((normal(20, 3, 3),), COMPLEX_STEP)
def inner_view_used_as_an_accumulator(np, x):
    y = np.zeros((3, 3))
    for i in range(3):
        acc = y[i]
        for j in range(3):
            acc += x[i, j] * x[j]
    return y


@case((normal(21, 3),), lambda bar, x: bar * 2 * x)
def element_kept_before_it_is_overwritten(np, x):
    """An element read out of an array is a value, not a view."""
    y = x.copy()
    kept = [y[i] for i in range(3)]
    y[:] = 0.0
    return np.stack(kept) ** 2


@case((normal(22, 4), 2.0), lambda bar, x, v: (bar[0] * numpy.array([1, 1, 0, 0]), bar[0] * 2.0), exact_zeros=True)
def reshaped_view_read_after_its_base_was_assigned(np, x, v):
    y = x.copy()
    halves = y.reshape(2, 2)
    y[2:] = v
    return np.stack([np.sum(halves)])
