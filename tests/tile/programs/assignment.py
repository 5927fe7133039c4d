"""Assignment to elements, rows and slices: an overwritten value loses its cotangent, and the new value gets it."""

from __future__ import annotations

import numpy

from tests.ad.programs.cases import normal, uniform

from .cases import group

case = group("assignment")


def cleared(bar, *index):
    """A cotangent with zeros where other values were assigned."""
    out = bar.copy()
    out[index if len(index) != 1 else index[0]] = 0.0
    return out


@case((normal(1, 8),), lambda bar, x: bar)
def elements_of_zeros(np, x):
    a = np.zeros(8)
    for j in range(8):
        a[j] = x[j]
    return a


@case((normal(2, 5),), lambda bar, x: 2 * x * bar)
def each_element_squared_in_its_place(np, x):
    a = x.copy()
    for j in range(5):
        a[j] = a[j] * a[j]
    return a


@case((normal(3, 4), normal(4, 2)), lambda bar, x, y: (cleared(bar, 1), numpy.array([0.0, 3 * bar[1]])))
def element_overwritten_twice(np, x, y):
    a = np.zeros(4)
    a[:] = x
    a[1] = y[0]
    a[1] = 3 * y[1]
    return a


@case((normal(5, 3, 4),), lambda bar, x: bar[::-1])
def rows_in_reverse_order(np, x):
    a = np.zeros((3, 4))
    for i in range(3):
        a[i] = x[2 - i]
    return a


@case((normal(6, 3, 4), normal(7, 3)), lambda bar, m, v: (cleared(bar, slice(None), 1), bar[:, 1]))
def column_overwritten(np, m, v):
    a = m.copy()
    a[:, 1] = v
    return a


@case((normal(8, 7), normal(9, 4)), lambda bar, m, v: (cleared(bar, slice(None, None, 2)), 2 * bar[::2]))
def every_second_entry_overwritten(np, m, v):
    a = m * 1.0
    a[::2] = 2 * v
    return a


@case((normal(10, 6), normal(11, 6)), lambda bar, m, v: (0 * bar, bar[::-1]))
def whole_array_overwritten_from_its_end(np, m, v):
    a = m + 1.0
    a[::-1] = v
    return a


@case((normal(12, 6), normal(13, 2)), lambda bar, m, v: (cleared(bar, slice(3, 5)), bar[4:2:-1]))
def negative_slice_backwards(np, m, v):
    a = m.copy()
    a[-2:-4:-1] = v
    return a


@case((normal(14, 5),), lambda bar, x: numpy.array([bar[0] + bar[1], *bar[2:], 0.0]))
def slice_moved_to_the_right_over_itself(np, x):
    a = x.copy()
    a[1:] = a[:-1]
    return a


@case((normal(15, 5),), lambda bar, x: numpy.array([0.0, *bar[:-2], bar[-2] + bar[-1]]))
def slice_moved_to_the_left_over_itself(np, x):
    a = x.copy()
    a[:-1] = a[1:]
    return a


@case((normal(16, 6),), lambda bar, x: bar[::-1])
def reversed_in_its_own_place(np, x):
    a = x.copy()
    a[:] = a[::-1]
    return a


@case((normal(17, 4, 4),), lambda bar, x: bar.T)
def transposed_in_its_own_place(np, x):
    a = x.copy()
    a[:] = a.T
    return a


@case((normal(18, 8),), lambda bar, x: numpy.array([bar[0] + bar[3], bar[1] + bar[4], bar[2] + bar[5], 0, 0, 0, *bar[6:]]))
def block_copied_over_a_live_one(np, x):
    a = x * 1.0
    a[3:6] = a[:3]
    return a


@case((normal(19, 3, 4),), lambda bar, x: bar[[2, 1, 0]])
def rows_swapped(np, x):
    a = x.copy()
    a[[0, 2]] = a[[2, 0]]
    return a


@case((normal(20, 4),), lambda bar, x: numpy.array([bar[1], 2 * bar[0], *bar[2:]]))
def elements_swapped_and_scaled(np, x):
    a = x.copy()
    a[0], a[1] = a[1] * 2, a[0] * 1
    return a


@case(
    (normal(21, 4), normal(22, 4)),
    lambda bar, x, y: (bar * (1 + y + y**2 + y**3), bar * x * (1 + 2 * y + 3 * y**2)),
)
def whole_array_rebound_in_a_loop(np, x, y):
    a = x
    for _ in range(3):
        a = a * y + x
    return a


@case((normal(23, 3, 4), normal(24, 4)), lambda bar, m, v: (bar, 2 * v * bar[1]))
def row_added_to(np, m, v):
    a = m.copy()
    a[1] += v * v
    return a


@case((normal(25, 6), normal(26, 2)), lambda bar, m, v: (bar, -bar[2:4]))
def slice_subtracted_from(np, m, v):
    a = m.copy()
    a[2:4] -= v
    return a


def _scaled_column(bar, m, v):
    out = bar.copy()
    out[:, 0] *= v
    return out, bar[:, 0] * m[:, 0]


@case((normal(27, 3, 2), normal(28, 3)), _scaled_column)
def column_multiplied(np, m, v):
    a = m.copy()
    a[:, 0] *= v
    return a


def _divided(bar, m, v):
    out = bar.copy()
    out[::2] /= v
    return out, -bar[::2] * m[::2] / v**2


@case((normal(29, 5), uniform(30, 1.0, 2.0, 3)), _divided)
def strided_entries_divided(np, m, v):
    a = m.copy()
    a[::2] /= v
    return a


@case((uniform(31, 0.5, 1.5, 4),), lambda bar, x: bar * 3 * x**2)
def raised_in_place(np, x):
    a = x.copy()
    a **= 3
    return a


@case((normal(32, 4), normal(33)[()]), lambda bar, m, v: (cleared(bar, slice(2)), bar[:2].sum()))
def number_assigned_to_a_slice(np, m, v):
    a = m.copy()
    a[:2] = v
    return a


@case((normal(34, 3, 4), normal(35, 4)), lambda bar, m, v: (cleared(bar, slice(1, None)), bar[1:].sum(0)))
def row_assigned_to_several_rows(np, m, v):
    a = m.copy()
    a[1:] = v
    return a


@case((normal(36, 6),), lambda bar, x: numpy.cumsum(bar[::-1])[::-1])
def running_sum_in_place(np, x):
    a = x.copy()
    for k in range(1, 6):
        a[k] += a[k - 1]
    return a


def _products(bar, x):
    y = numpy.cumprod(x)
    return numpy.cumsum((bar * y)[::-1])[::-1] / x


@case((uniform(37, 0.6, 1.4, 5),), _products)
def running_product_in_place(np, x):
    a = x.copy()
    for k in range(1, 5):
        a[k] = a[k] * a[k - 1]
    return a


@case((normal(38, 4), normal(39, 4)), lambda bar, x, v: (2 * x * bar, 0 * v))
def read_before_it_is_overwritten(np, x, v):
    a = x.copy()
    kept = a * a
    a[:] = v
    return kept


@case((normal(40, 3), normal(41)[()]), lambda bar, x, v: (bar * [1, 2 * x[1], 1], bar[1]))
def live_value_read_and_then_overwritten(np, x, v):
    a = x.copy()
    kept = a[1] * a[1]
    a[1] = v
    a[1] += kept
    return a


@case((normal(42, 3),), lambda bar, x: bar)
def element_assigned_to_itself(np, x):
    a = x.copy()
    a[1] = a[1]
    return a


@case((normal(43, 2, 3, 4), normal(44, 2, 2)), lambda bar, m, v: (cleared(bar, slice(None), 1, slice(None, None, 2)), bar[:, 1, ::2]))
def part_of_three_axes(np, m, v):
    a = m.copy()
    a[:, 1, ::2] = v
    return a


@case((normal(45, 2, 3, 2, 2), normal(46, 3, 2)), lambda bar, m, v: (bar, 2 * bar[1, :, 0, :]))
def part_of_four_axes_added_to(np, m, v):
    a = m.copy()
    a[1, :, 0, :] += 2 * v
    return a


@case((normal(47, 3), normal(48, 3)), lambda bar, m, v: (0 * bar, bar[[2, 0, 1]]))
def permuted_positions(np, m, v):
    a = m.copy()
    a[[2, 0, 1]] = v
    return a


@case((normal(49, 3), normal(50, 3)), lambda bar, m, v: (cleared(bar, slice(2)), numpy.array([0.0, bar[1], bar[0]])))
def repeated_positions_keep_the_last(np, m, v):
    a = m.copy()
    a[[1, 1, 0]] = v
    return a


@case((normal(51, 3), normal(52, 3)), lambda bar, m, v: (bar, numpy.array([0.0, bar[1], bar[0]])))
def repeated_positions_add_the_last(np, m, v):
    a = m.copy()
    a[[1, 1, 0]] += v
    return a


@case((normal(53, 3), normal(54, 2)), lambda bar, m, v: (bar * [0, 1, 0], bar[[0, 2]]))
def known_mask(np, m, v):
    a = m.copy()
    a[numpy.array([True, False, True])] = v
    return a


@case((normal(55, 4, 4), normal(56, 4)), lambda bar, m, v: (bar * (1 - numpy.eye(4)), numpy.diag(bar) * numpy.cos(v)))
def diagonal_by_two_indices(np, m, v):
    a = m.copy()
    k = numpy.arange(4)
    a[k, k] = np.sin(v)
    return a


@case((normal(57, 5), normal(58, 5)), lambda bar, x, y: (bar[0] * 2 * x, bar[1] * 1.0 + 0 * y))
def two_results_of_one_array_before_and_after(np, x, y):
    a = x.copy()
    before = np.sum(a * a)
    a[:] = y
    return np.stack([before, np.sum(a)])


def _stencil(bar, x):
    out = bar.copy()
    out[1:-1] = 0
    out[:-2] += bar[1:-1]
    out[1:-1] -= 2 * bar[1:-1]
    out[2:] += bar[1:-1]
    return out


@case((normal(59, 7),), _stencil)
def stencil_written_over_its_input(np, x):
    a = x.copy()
    a[1:-1] = a[:-2] - 2 * a[1:-1] + a[2:]
    return a


def _swept(bar, x):
    """a[k] = (a[k - 1] + a[k]) / 2 for k = 1, 2, ..."""
    bar = bar.copy()
    for k in range(5, 0, -1):
        bar[k - 1] += bar[k] / 2
        bar[k] /= 2
    return bar


@case((normal(60, 6),), _swept)
def averages_swept_along(np, x):
    a = x.copy()
    for k in range(1, 6):
        a[k] = (a[k - 1] + a[k]) / 2
    return a
