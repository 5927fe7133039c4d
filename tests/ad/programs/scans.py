"""Scans: running sums, products and extrema, linear recurrences, segments."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal, uniform

case = group("scan")


def _cumprod_jacobian(x):
    n = len(x)
    jacobian = numpy.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            jacobian[i, j] = numpy.prod(numpy.delete(x[: i + 1], j))
    return jacobian


@case((normal(1, 6),), lambda bar, x: numpy.cumsum(bar[::-1])[::-1])
def cumsum(np, x):
    return np.cumsum(x)


@case((uniform(2, 0.5, 2.0, 5),), lambda bar, x: bar @ _cumprod_jacobian(x))
def cumprod(np, x):
    return np.cumprod(x)


@case((numpy.array([2.0, 3.0, 0.0, 4.0, 5.0]),), lambda bar, x: bar @ _cumprod_jacobian(x))
def cumprod_with_a_zero(np, x):
    return np.cumprod(x)


@case((numpy.array([2.0, 0.0, 3.0, 0.0, 5.0]),), lambda bar, x: bar @ _cumprod_jacobian(x), exact_zeros=True)
def cumprod_with_two_zeros(np, ds, x):
    return ds.scan("*", x)


@case((numpy.array([1.0, 3.0, 2.0, 5.0, 4.0]),), lambda bar, x: bar @ numpy.eye(5)[[0, 1, 1, 3, 3]], exact_zeros=True)
def running_maximum(np, ds, x):
    return ds.scan("max", x)


@case(
    (numpy.array([3.0, 1.0, 1.0, 2.0, 1.0]),),
    lambda bar, x: bar @ numpy.eye(5)[[0, 1, 1, 1, 1]],
    exact_zeros=True,
    differences=False,
)
def running_minimum_with_ties(np, ds, x):
    return ds.scan("min", x)


@case((normal(3, 5),), lambda bar, x: numpy.cumsum(bar))
def sums_from_the_back(np, ds, x):
    return ds.scan("+", x, reverse=True)


@case((normal(4, 5),), lambda bar, x: numpy.append(numpy.cumsum(bar[:0:-1])[::-1], 0.0), exact_zeros=True)
def exclusive_sums(np, ds, x):
    return ds.scan("+", x, exclusive=True)


@case((numpy.array([2.0, 0.0, 3.0, 4.0]),), lambda bar, x: bar @ numpy.pad(_cumprod_jacobian(x), ((1, 0), (0, 0)))[:4])
def exclusive_products_with_a_zero(np, ds, x):
    return ds.scan("*", x, exclusive=True)


@case((normal(5, 3, 4),), lambda bar, x: numpy.cumsum(bar[:, ::-1], axis=1)[:, ::-1])
def along_the_last_axis(np, ds, x):
    return ds.scan(np.add, x, axis=1)


@case((uniform(6, 0.5, 1.5, 4, 2),), COMPLEX_STEP)
def columns_of_products(np, x):
    return np.cumprod(x, axis=0)


@case((normal(7, 6), normal(8, 6)), COMPLEX_STEP)
def linear_recurrence_as_an_operator(np, ds, a, b):
    """h_i = a_i h_{i-1} + b_i, by composing affine maps."""
    return ds.scan(lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]), (a, b))[1]


@case((normal(9, 5), normal(10, 5)), COMPLEX_STEP)
def fibonacci_matrices(np, ds, a, b):
    """Running products of [[a, b], [1, 0]]: not commutative."""

    def matmul(m, n):
        return m[0] * n[0] + m[1] * n[2], m[0] * n[1] + m[1] * n[3], m[2] * n[0] + m[3] * n[2], m[2] * n[1] + m[3] * n[3]

    return ds.scan(matmul, (a, b, np.ones(5), np.zeros(5)))[0]


def _segmented_bars(bar, x, starts):
    segment = numpy.cumsum(starts)
    return numpy.array([bar[i:][segment[i:] == segment[i]].sum() for i in range(len(x))])


@case((normal(11, 7), numpy.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0])), _segmented_bars, wrt=0)
def segmented_sums(np, ds, x, starts):
    """A set flag begins a new segment; flags are multiplied in, so the operator has no branch."""
    op = lambda a, b: (a[0] * (1 - b[1]) + b[0], a[1] + b[1] - a[1] * b[1])  # noqa: E731
    return ds.scan(op, (x, starts))[0]


@case((uniform(12, 0.5, 1.5, 6), numpy.array([True, False, True, False, False, True])), COMPLEX_STEP)
def segmented_products_with_boolean_flags(np, ds, x, starts):
    op = lambda a, b: (np.where(b[1], b[0], a[0] * b[0]), a[1] | b[1])  # noqa: E731
    return ds.scan(op, (x, starts))[0]


@case((uniform(13, 0.1, 1.0, 5),), COMPLEX_STEP)
def operator_written_in_python(np, ds, x):
    return ds.scan(lambda a, b: a + b + a * b, x, 0.0)


@case((normal(14, 5),), COMPLEX_STEP)
def running_log_sum_exp(np, ds, x):
    """Shifted by the running maximum, as one carries it in a streaming softmax."""

    def merge(a, b):
        top = np.maximum(a[0], b[0])
        return top, a[1] * np.exp(a[0] - top) + b[1] * np.exp(b[0] - top)

    top, total = ds.scan(merge, (x, np.ones(5)))
    return top + np.log(total)


@case((numpy.zeros(0),), lambda bar, x: numpy.zeros(0))
def of_nothing(np, ds, x):
    return ds.scan("+", x)


@case((numpy.array([1.5]),), lambda bar, x: bar)
def of_one_element(np, ds, x):
    return ds.scan("*", x)


@case((normal(15, 6),), COMPLEX_STEP)
def scan_of_a_scan(np, ds, x):
    return ds.scan("+", np.sin(ds.scan("+", x)) * x)


@case((normal(16, 5),), lambda bar, x: bar)
def differences_undo_sums(np, x):
    s = np.cumsum(x)
    return np.concatenate([s[:1], s[1:] - s[:-1]])
