"""Sums, products, extremes, running results and sorting, over all or one axis."""

from __future__ import annotations

import numpy

from tests.ad.programs.cases import normal, uniform

from .cases import group

case = group("reductions")


@case((normal(1, 3, 4),), lambda bar, m: 2 * m * bar)
def sum_of_squares(np, m):
    return np.sum(m * m)


@case((normal(2, 3, 4),), lambda bar, m: numpy.broadcast_to(bar, (3, 4)) / 3)
def mean_along_an_axis(np, m):
    return np.mean(m, axis=0)


@case((normal(3, 6),), lambda bar, x: bar * 2 * (x - x.mean()) / 6)
def variance(np, x):
    return np.var(x)


@case((normal(4, 2, 3, 4),), lambda bar, m: numpy.broadcast_to(bar[:, None, None], (2, 3, 4)))
def sum_over_two_axes(np, m):
    return np.sum(m, axis=(1, 2))


@case((uniform(5, 0.5, 1.5, 3, 4),), lambda bar, m: (bar * numpy.prod(m, 1))[:, None] / m)
def product_along_an_axis(np, m):
    return np.prod(m, axis=1)


@case((numpy.array([1.2, 0.0, -0.7, 1.1]),), lambda bar, x: bar * numpy.array([numpy.prod(numpy.delete(x, k)) for k in range(4)]))
def product_with_a_zero(np, x):
    return np.prod(x)


@case((normal(6, 3, 4),), lambda bar, m: bar[:, None] * (m == m.max(1, keepdims=True)))
def largest_of_each_row(np, m):
    return np.max(m, axis=1)


@case((normal(7, 3, 4),), lambda bar, m: bar * (m == m.min(0)))
def smallest_of_each_column(np, m):
    return np.min(m, axis=0)


@case((normal(8, 7),), lambda bar, x: bar * ((x == x.max()) * 1.0 - (x == x.min())))
def range_of_values(np, x):
    return np.max(x) - np.min(x)


@case((normal(9, 3, 4),), lambda bar, m: 0 * m)
def positions_have_no_derivative(np, m):
    return np.argmax(m, axis=1) * 1.0 + np.argmin(m) + 0.0 * m[0, 0]


@case((normal(10, 6),), lambda bar, x: numpy.cumsum((bar * x)[::-1])[::-1] + bar * numpy.cumsum(x))
def running_sum_times_its_terms(np, x):
    return np.cumsum(x) * x


@case((normal(11, 3, 4),), lambda bar, m: numpy.cumsum(bar[::-1], 0)[::-1])
def running_sums_down_the_columns(np, m):
    return np.cumsum(m, axis=0)


def _cumprod(bar, x):
    out = numpy.zeros(5)
    for k in range(5):
        for j in range(k, 5):
            out[k] += bar[j] * numpy.prod(numpy.delete(x[: j + 1], k))
    return out


@case((uniform(12, 0.5, 1.5, 5),), _cumprod)
def running_product(np, x):
    return np.cumprod(x)


@case((numpy.array([1.1, 0.9, 0.0, 1.3, 0.8]),), _cumprod)
def running_product_with_a_zero(np, x):
    return np.cumprod(x)


@case((normal(113, 7),), lambda bar, x: bar[numpy.argsort(numpy.argsort(x))])
def sorted_entries(np, x):
    return np.sort(x)


@case((normal(14, 4, 3),), lambda bar, m: numpy.take_along_axis(bar, numpy.argsort(numpy.argsort(m, 0), 0), 0))
def sorted_columns(np, m):
    return np.sort(m, axis=0)


@case((uniform(15, 0.1, 0.3, 6) + numpy.array([3.0, 1, 6, 4, 2, 5]),), lambda bar, x: bar * (numpy.argsort(numpy.argsort(x)) == 4))
def second_largest(np, x):
    return np.sort(x)[-2]


def _running_largest(bar, x):
    out = numpy.zeros(7)
    for k in range(7):
        out[numpy.argmax(x[: k + 1])] += bar[k]
    return out


@case((normal(16, 7),), _running_largest)
def scan_with_the_maximum(np, ds, x):
    return ds.scan("max", x)


def _running_smallest_from_the_end(bar, x):
    out = numpy.zeros(7)
    for k in range(7):
        out[k + numpy.argmin(x[k:])] += bar[k]
    return out


@case((normal(17, 7),), _running_smallest_from_the_end)
def scan_with_the_minimum_from_the_end(np, ds, x):
    return ds.scan("min", x, reverse=True)


@case((normal(18, 6),), lambda bar, x: numpy.array([bar[k + 1 :].sum() for k in range(6)]))
def sums_of_what_comes_before(np, ds, x):
    return ds.scan("+", x, exclusive=True)


def _affine(bar, a, b):
    """y[k] = a[k] y[k - 1] + b[k]: its cotangent runs backwards."""
    y = numpy.zeros(6)
    for k in range(6):
        y[k] = a[k] * (y[k - 1] if k else 0.0) + b[k]
    a_bar, b_bar, carried = numpy.zeros(6), numpy.zeros(6), 0.0
    for k in reversed(range(6)):
        carried += bar[k]
        a_bar[k], b_bar[k] = carried * (y[k - 1] if k else 0.0), carried
        carried *= a[k]
    return a_bar, b_bar


@case((uniform(19, -0.9, 0.9, 6), normal(20, 6)), _affine)
def scan_with_affine_functions(np, ds, a, b):
    return ds.scan(lambda f, g: (f[0] * g[0], f[1] * g[0] + g[1]), (a, b))[1]


@case((uniform(21, -0.3, 0.3, 5),), lambda bar, x: bar * (1 - numpy.tanh(numpy.arctanh(x).sum()) ** 2) / (1 - x**2))
def reduce_with_sums_of_velocities(np, ds, x):
    """The addition of velocities, which is associative: artanh of the result is the sum of artanh."""
    return ds.reduce(lambda u, v: (u + v) / (1 + u * v), x, 0.0)


@case((uniform(22, 0.5, 1.5, 5),), lambda bar, x: bar * numpy.prod(x) / x)
def reduce_with_products(np, ds, x):
    return ds.reduce("*", x)


@case((normal(23, 6),), lambda bar, x: bar * numpy.exp(x - numpy.log(numpy.exp(x).sum())))
def logarithm_of_a_sum_of_exponentials(np, x):
    m = np.max(x)
    return m + np.log(np.sum(np.exp(x - m)))


def _softmax(bar, m):
    p = numpy.exp(m) / numpy.exp(m).sum(1, keepdims=True)
    return p * (bar - (bar * p).sum(1, keepdims=True))


@case((normal(24, 3, 4),), _softmax)
def softmax_of_each_row(np, m):
    e = np.exp(m - np.max(m, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


@case((normal(25, 7),), lambda bar, x: numpy.append(0.0, bar) - numpy.append(bar, 0.0))
def differences(np, x):
    return np.diff(x)


@case(
    (normal(26, 5), normal(27, 5)), lambda bar, x, y: (bar * y / numpy.dot(x, x) - 2 * bar * (x @ y) / (x @ x) ** 2 * x, bar * x / (x @ x))
)
def ratio_of_two_sums(np, x, y):
    return np.sum(x * y) / np.sum(x * x)


@case((normal(28, 5),), lambda bar, x: bar * x / numpy.sqrt(x @ x))
def length_of_a_vector(np, x):
    return np.linalg.norm(x)
