"""Maps: the same small function at every element."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal, uniform

case = group("maps")


@case((normal(1, 5),), lambda bar, x: 2 * x * bar)
def square(np, x):
    return x * x


@case((normal(2, 6),), COMPLEX_STEP)
def chain_of_elementary_functions(np, x):
    return np.exp(np.sin(x)) * np.log1p(x**2) + np.tanh(x) / np.sqrt(1 + x * x)


@case((uniform(3, -0.8, 0.8, 4),), COMPLEX_STEP)
def inverse_and_hyperbolic_functions(np, x):
    return np.arcsin(x) + np.arctan(x) * np.sinh(x) - np.arctanh(x) / np.cosh(x) + np.expm1(x)


@case((uniform(4, -2.0, 2.0, 4), uniform(5, 0.5, 2.0, 4)), lambda bar, y, x: (bar * x / (x * x + y * y), -bar * y / (x * x + y * y)))
def angle_of_two_arrays(np, y, x):
    return np.arctan2(y, x)


@case((uniform(6, 0.5, 2.0, 4), normal(7, 4)), lambda bar, x, y: (bar * y * x ** (y - 1), bar * x**y * numpy.log(x)))
def power_of_two_arrays(np, x, y):
    return x**y


@case(
    (numpy.zeros(4), numpy.array([0.0, 1.0, 2.0, 3.5])),
    lambda bar, x, y: (bar * numpy.array([0.0, 1.0, 0.0, 0.0]), 0 * y),
    differences=False,
    exact_zeros=True,
)
def power_at_zero(np, x, y):
    """Neither 0 * log(0) nor 0 ** -1 may leave a NaN."""
    return x**y


@case((numpy.array([-2.0, 0.0, 3.0]),), lambda bar, x: bar * 3 * x**2)
def cube_of_a_negative_number(np, x):
    return x**3


@case(
    (numpy.array([0.0, 4.0, 0.0, 9.0]),),
    lambda bar, x: bar * numpy.array([0.0, 0.25, 0.0, 1 / 6]),
    differences=False,
    exact_zeros=True,
)
def infinite_slope_in_the_branch_not_taken(np, x):
    """The square root has an infinite slope at 0, where it is not selected."""
    return np.where(x > 0, np.sqrt(x), 0.0)


@case((numpy.array([-1.0, 0.5, -3.0, 2.0]),), lambda bar, x: numpy.where(x > 0, bar / numpy.where(x > 0, x, 1), 0), exact_zeros=True)
def guarded_logarithm(np, x):
    safe = np.where(x > 0, x, 1.0)
    return np.where(x > 0, np.log(safe), 0.0)


@case((numpy.array([-2.0, -0.5, 0.3, 4.0]),), lambda bar, x: bar * (numpy.abs(x) < 1), exact_zeros=True)
def clipped(np, x):
    return np.clip(x, -1.0, 1.0)


@case((numpy.array([-1.5, 0.0, 2.5]),), lambda bar, x: bar * numpy.array([-1.0, 0.0, 1.0]), differences=False, exact_zeros=True)
def absolute_value_at_zero(np, x):
    return np.abs(x)


@case((numpy.array([-1.0, 2.0]), numpy.array([0.5, -1.5, 2.0, 1.0])), COMPLEX_STEP)
def horner(np, x, coefficients):
    value = np.zeros_like(x)
    for c in coefficients[::-1]:
        value = value * x + c
    return value


@case((normal(8, 4),), lambda bar, x: bar * numpy.cos(x) * x + bar * numpy.sin(x))
def comprehension(np, x):
    return np.array([np.sin(v) * v for v in x])


@case((normal(9, 3), normal(10, 4)), lambda bar, x, y: (bar @ (y**2), 2 * y * (x @ bar)))
def broadcast_against_each_other(np, x, y):
    return x[:, None] * y[None, :] ** 2


@case((normal(11, 5), 1.7), lambda bar, x, c: (bar * c * numpy.cos(c * x), numpy.sum(bar * x * numpy.cos(c * x))))
def free_scalar_in_a_map(np, ds, x, c):
    """Every iteration reads `c`: its cotangents are added up."""
    return ds.map(lambda v: np.sin(c * v), x)


@case((normal(12, 4), uniform(13, 0.5, 2.0, 4)), lambda bars, x, y: (bars[0] * y + bars[1] / y, bars[0] * x - bars[1] * x / y**2))
def map_to_two_results(np, ds, x, y):
    return ds.map(lambda a, b: (a * b, a / b), x, y)


@case((normal(14, 4),), lambda bar, x: 0 * x, exact_zeros=True)
def argument_that_does_not_matter(np, x):
    return np.ones(4) * 3.0


@case((normal(15, 3), normal(16, 3)), lambda bar, x, y: (bar, 0 * y), exact_zeros=True)
def one_argument_unused(np, x, y):
    return x + 1.0
