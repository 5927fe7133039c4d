"""Branches: the derivative is that of the side taken."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("branches")


@case((1.5,), lambda x: 2 * x, kind="grad")
def side_taken(np, x):
    y = np.exp(x)
    if x > 0:
        y = x * x
    return y


@case((-1.5,), lambda x: numpy.exp(x), kind="grad")
def other_side_taken(np, x):
    return x * x if x > 0 else np.exp(x)


@case((3.0,), lambda x: 1.0, kind="grad")
def early_return(np, x):
    if x > 2:
        return x
    return x**3


@case((normal(1, 6),), lambda bar, x: bar * numpy.where(x < 0, 0.1, 1.0))
def branch_at_each_element(np, x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        if x[i] < 0:
            y[i] = 0.1 * x[i]
        else:
            y[i] = x[i]
    return y


@case((2.0, 3.0), lambda x, y: (0.0, 2 * y), kind="grad", exact_zeros=True)
def only_one_argument_on_this_side(np, x, y):
    return x * x if x > y else y * y


@case((2.0, 2.0), lambda x, y: (1.0, 0.0), kind="grad", exact_zeros=True, differences=False)
def maximum_of_equals(np, x, y):
    """The first operand takes it all."""
    return np.maximum(x, y)


@case((2.0, 2.0), lambda x, y: (1.0, 0.0), kind="grad", exact_zeros=True, differences=False)
def minimum_of_equals(np, x, y):
    return np.minimum(x, y)


@case(
    (numpy.array([1.0, 2.0, 5.0]), numpy.array([1.0, 3.0, 4.0])),
    lambda bar, x, y: (bar * [1, 0, 1], bar * [0, 1, 0]),
    exact_zeros=True,
    differences=False,
)
def maximum_of_arrays_with_a_tie(np, x, y):
    return np.maximum(x, y)


@case((normal(2, 5), normal(3, 5)), lambda bar, x, y: (numpy.where(x > y, bar * y, 0), numpy.where(x > y, bar * x, 2 * y * bar)))
def selection(np, x, y):
    return np.where(x > y, x * y, y * y)


@case((0.5, 2.0), lambda x, y: (y, x), kind="grad")
def cond_on_a_value(np, ds, x, y):
    return ds.cond(x < y, lambda a, b: a * b, lambda a, b: a - b, x, y)


@case((0.5, 2.0), COMPLEX_STEP, kind="grad")
def cond_with_a_free_variable(np, ds, x, c):
    return ds.cond(c < 1, lambda a: a / c, lambda a: a**c, np.sin(x))


@case((normal(4, 3), True), lambda bar, x, double: 2 * bar)
def decided_by_a_flag(np, x, double):
    if double:
        x = 2 * x
    return x


@case((numpy.array([0.2, 0.9, 2.5, 7.0]),), COMPLEX_STEP)
def piecewise_function(np, x):
    def progressive(v):
        if v < 0.5:
            return 0.0 * v
        elif v < 1.0:
            return (v - 0.5) ** 2
        elif v < 3.0:
            return 0.25 + np.log(v)
        return 2.0 * v

    return np.stack([progressive(v) for v in x])


@case((1.3,), lambda x: 5 * x**4, kind="grad")
def recursion(np, x):
    def power(x, n):
        if n == 0:
            return 1.0
        if n % 2:
            return x * power(x, n - 1)
        half = power(x, n // 2)
        return half * half

    return power(x, 5)


@case((normal(5, 7),), COMPLEX_STEP)
def divide_and_conquer(np, x):
    """A recursion on halves, as a reduction tree."""

    def combine(x):
        if len(x) == 1:
            return x[0]
        middle = len(x) // 2
        return np.sin(combine(x[:middle])) * combine(x[middle:]) + 1.0

    return combine(x)


@case((numpy.array([0.3, -0.2]), numpy.array([1.0, 2.0])), COMPLEX_STEP)
def builtin_max_and_sum(np, x, y):
    return max(x[0], x[1]) * min(y[0], y[1]) + sum(x * y)


@case((numpy.array([3.0, -1.0]),), COMPLEX_STEP)
def chained_comparison_and_logic(np, x):
    if 0 < x[0] < 5 and not (x[1] > 0 or x[0] == 4.0):
        return x[0] * x[1] ** 2
    return x[0]
