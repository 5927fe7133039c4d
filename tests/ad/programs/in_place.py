"""Assignment: an element or a slice gets a new value, and the old one loses its say."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal, uniform

case = group("in-place")


@case((normal(1, 4), 2.0), lambda bar, x, v: (bar * [1, 0, 1, 1], bar[1]), exact_zeros=True)
def element_overwritten(np, x, v):
    y = x.copy()
    y[1] = v
    return y


@case((normal(2, 4),), lambda bar, x: bar * [1, 0, 1, 1], exact_zeros=True)
def element_overwritten_by_a_constant(np, x):
    y = x * 1.0
    y[1] = 5.0
    return y


@case((normal(3, 5),), COMPLEX_STEP)
def value_used_before_it_is_overwritten(np, x):
    y = x.copy()
    s = y[2] * y[3]
    y[2] = s * y[2]
    y[3] = s + y[2] ** 2
    return y


@case((normal(4, 3),), COMPLEX_STEP)
def square_recorded_before_its_input_is_overwritten(np, x):
    """The derivative of the square needs the x that was, not the one that is."""
    y = x.copy()
    z = y * y
    y[0] = 100.0
    return z * np.sin(y)


@case((normal(5, 4),), lambda bar, x: bar[[3, 1, 2, 0]])
def two_elements_swapped(np, x):
    y = x.copy()
    y[0], y[3] = y[3], y[0]
    return y


@case((normal(6, 3, 2),), lambda bar, x: bar[[2, 1, 0]])
def rows_swapped_by_an_index(np, x):
    y = x.copy()
    y[[0, 2]] = y[[2, 0]]
    return y


@case((normal(7, 3, 4), normal(8, 4)), lambda bar, x, v: (bar, bar[1]))
def row_added_to(np, x, v):
    y = x.copy()
    y[1, :] += v
    return y


@case((normal(9, 4),), COMPLEX_STEP)
def all_augmented_assignments(np, x):
    y = x.copy()
    y += x[0]
    y *= x
    y -= 0.5 * y[::-1]
    y /= 2.0 + x * x
    y **= 3
    return y


@case((normal(10, 5),), COMPLEX_STEP)
def slice_from_an_overlapping_slice(np, x):
    y = x.copy()
    y[1:] = y[:-1]
    return y * x


@case((normal(11, 4), 3.0), lambda bar, x, c: (0 * x, bar.sum()), exact_zeros=True)
def scalar_broadcast_over_everything(np, x, c):
    y = x * x
    y[:] = c
    return y


@case((normal(12, 3),), lambda bar, x: bar * [0, 2, 2] * x, exact_zeros=True)
def argument_overwritten(np, x):
    """The derivative is for the argument as it came in."""
    x[0] = 1.0
    x *= x
    return x


@case((uniform(13, 0.5, 1.5, 5),), COMPLEX_STEP)
def same_element_updated_again_and_again(np, x):
    y = np.zeros(2)
    for v in x:
        y[0] = y[0] * v + y[1]
        y[1] = y[0] - v
    return y


@case((normal(14, 6),), lambda bar, x: numpy.where(x < 0, 0, bar), exact_zeros=True)
def negative_entries_set_to_zero(np, x):
    y = x.copy()
    y[y < 0] = 0.0
    return y


@case((normal(15, 6), normal(16, 6)), COMPLEX_STEP)
def masked_entries_from_another_array(np, x, v):
    y = x.copy()
    mask = x > 0
    y[mask] = v[mask] * x[mask]
    return y


@case((normal(17, 3, 3),), COMPLEX_STEP)
def diagonal_set_in_a_loop(np, x):
    y = x.copy()
    for i in range(3):
        y[i, i] = np.sum(x[i]) * y[i, i - 1]
    return y


@case((normal(18, 6),), lambda bar, x: bar * [1, 2, 1, 2, 1, 2])
def strided_slice_scaled(np, x):
    y = x.copy()
    y[1::2] *= 2.0
    return y


@case((normal(19, 4),), COMPLEX_STEP)
def gauss_seidel_sweep(np, b):
    u = np.zeros(6)
    for _ in range(2):
        for i in range(1, 5):
            u[i] = 0.5 * (u[i - 1] + u[i + 1] + np.sin(b[i - 1]))
    return u
