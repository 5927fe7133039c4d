"""Reductions: sums, products, extrema, and any associative operator."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal, uniform

case = group("reduce")


def _product_of_the_others(x):
    return numpy.array([numpy.prod(numpy.delete(x, i)) for i in range(len(x))])


def _one_hot(size, place):
    return numpy.eye(size)[place]


@case((normal(1, 5),), lambda x: numpy.ones(5), kind="grad")
def total(np, x):
    return np.sum(x)


@case((normal(2, 3, 4),), lambda bar, x: numpy.tile(bar, (3, 1)) * 2 * x)
def total_along_an_axis(np, x):
    return (x * x).sum(axis=0)


@case((normal(3, 5),), _product_of_the_others, kind="grad")
def product(np, x):
    return np.prod(x)


@case((numpy.array([2.0, 0.0, -3.0, 4.0]),), _product_of_the_others, kind="grad", exact_zeros=True)
def product_with_a_zero(np, x):
    return np.prod(x)


@case((numpy.array([2.0, 0.0, -3.0, 0.0]),), _product_of_the_others, kind="grad", exact_zeros=True)
def product_with_two_zeros(np, ds, x):
    return ds.reduce("*", x)


@case((normal(4, 6),), lambda x: _one_hot(6, numpy.argmax(x)), kind="grad", exact_zeros=True)
def largest(np, x):
    return np.max(x)


@case((numpy.array([1.0, 3.0, 0.0, 3.0]),), lambda x: _one_hot(4, 1), kind="grad", exact_zeros=True, differences=False)
def largest_with_a_tie(np, x):
    """All to the first of them."""
    return np.max(x)


@case((numpy.array([2.0, 1.0, 1.0]),), lambda x: _one_hot(3, 1), kind="grad", exact_zeros=True, differences=False)
def smallest_with_a_tie(np, ds, x):
    return ds.reduce("min", x)


@case(
    (numpy.array([[1.0, 4.0, 4.0], [2.0, 0.0, 2.0]]),),
    lambda bar, x: bar[:, None] * numpy.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    exact_zeros=True,
    differences=False,
)
def largest_of_each_row_with_ties(np, x):
    return x.max(axis=1)


@case((normal(5, 2, 5),), lambda bar, x: bar[:, None] * _product_of_the_others(numpy.ones(5)) + 0 * x)
def reduce_along_the_last_axis(np, ds, x):
    return ds.reduce(np.add, x, axis=1)


@case((normal(6, 5),), lambda x: numpy.exp(x) / numpy.sum(numpy.exp(x)), kind="grad")
def log_sum_exp_shifted(np, x):
    shift = np.max(x)
    return shift + np.log(np.sum(np.exp(x - shift)))


@case((normal(7, 5),), lambda x: numpy.exp(x) / numpy.sum(numpy.exp(x)), kind="grad")
def log_sum_exp_as_an_operator(np, ds, x):
    return ds.reduce(lambda a, b: np.log(np.exp(a) + np.exp(b)), x)


@case((uniform(8, 0.5, 1.5, 5),), COMPLEX_STEP, kind="grad")
def operator_written_in_python(np, ds, x):
    """(1 + a)(1 + b) - 1 is associative, with neutral element 0."""
    return ds.reduce(lambda a, b: a + b + a * b, x, 0.0)


@case((normal(9, 4), normal(10, 4), normal(11, 4), normal(12, 4)), COMPLEX_STEP)
def product_of_matrices(np, ds, a, b, c, d):
    """Associative but not commutative: 2 x 2 matrices as tuples."""

    def matmul(m, n):
        return m[0] * n[0] + m[1] * n[2], m[0] * n[1] + m[1] * n[3], m[2] * n[0] + m[3] * n[2], m[2] * n[1] + m[3] * n[3]

    return ds.reduce(matmul, (a, b, c, d))


@case((normal(13, 6),), COMPLEX_STEP)
def mean_and_spread_merged_pairwise(np, ds, x):
    """Counts, means and sums of squared deviations, merged as Chan, Golub and LeVeque do."""

    def merge(a, b):
        count = a[0] + b[0]
        shift = b[1] - a[1]
        return count, a[1] + shift * b[0] / count, a[2] + b[2] + shift**2 * a[0] * b[0] / count

    _, mean, spread = ds.reduce(merge, (np.ones(6), x, np.zeros(6)))
    return mean, spread


@case((normal(14, 6),), lambda x: 2 * (x - x.mean()) / 6, kind="grad")
def variance(np, x):
    return np.mean((x - np.mean(x)) ** 2)


@case((normal(15, 4), normal(16, 4)), lambda x, y: (y, x), kind="grad")
def inner_product(np, x, y):
    return np.dot(x, y)


@case((normal(17, 4),), lambda x: x / numpy.linalg.norm(x), kind="grad")
def euclidean_norm(np, x):
    return np.linalg.norm(x)


@case((numpy.zeros(0),), lambda x: numpy.zeros(0), kind="grad")
def sum_of_nothing(np, x):
    return np.sum(x) + 1.0


@case((numpy.zeros(0), 2.5), lambda x, c: (numpy.zeros(0), 1.0), kind="grad")
def product_of_nothing(np, ds, x, c):
    return ds.reduce("*", x) * c


@case((numpy.array([0.4, 2.0, -1.0]),), lambda bar, x: bar * _one_hot(3, 1), exact_zeros=True)
def running_maximum_in_a_loop(np, x):
    best = x[0]
    for v in x[1:]:
        best = np.maximum(best, v)
    return best


@case((numpy.array([0.5, -2.0, 1.5]),), lambda x: _one_hot(3, 1) * -1.0, kind="grad", exact_zeros=True)
def largest_magnitude(np, x):
    return np.max(np.abs(x))
