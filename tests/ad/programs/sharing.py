"""Sharing: a value that is used many times is derived once. The work is linear in the operations, whatever the number of paths."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, STORED, group, normal

case = group("sharing")


@case((0.3,), lambda x: 2.0**60, kind="grad")
def doubled_sixty_times(np, x):
    """2^60 paths, 60 operations."""
    for _ in range(60):
        x = x + x
    return x


@case((1.0001,), lambda x: 1024 * x**1023, kind="grad", difference_step=1e-5)
def squared_ten_times(np, x):
    for _ in range(10):
        x = x * x
    return x


@case((0.9,), COMPLEX_STEP, kind="grad")
def diamonds_in_a_row(np, x):
    for _ in range(40):
        left, right = np.sin(x), np.cos(x)
        x = 0.1 * left * right + x
    return x


@case((0.5,), STORED, kind="hessian")
def diamonds_in_a_row_twice_derived(np, x):
    for _ in range(20):
        left, right = np.sin(x), np.cos(x)
        x = 0.1 * left * right + x
    return x


@case((normal(1, 3),), lambda bar, x: 500 * 501 / 2 * bar)
def one_value_read_five_hundred_times(np, x):
    total = 0.0
    for k in range(1, 501):
        total = total + k * x
    return total


@case((0.4, 0.7), COMPLEX_STEP, kind="grad")
def fibonacci_with_memory(np, a, b):
    known = {0: a, 1: b}

    def fibonacci(n):
        if n not in known:
            known[n] = fibonacci(n - 1) + np.sin(fibonacci(n - 2))
        return known[n]

    return fibonacci(40)


@case((normal(2, 4),), lambda bar, x: bar * 2 * x)
def result_computed_and_not_used(np, x):
    """The square root has an infinite slope at 0; nobody asks for it."""
    np.sqrt(x * 0.0)
    return x * x


@case((normal(3, 6),), lambda x: numpy.convolve(numpy.ones(4), numpy.ones(3)) * 1.0, kind="grad")
def overlapping_windows(np, x):
    return np.sum(np.stack([x[i : i + 3] for i in range(4)]))


@case((normal(4, 3),), COMPLEX_STEP)
def shared_by_two_results(np, x):
    y = np.exp(np.sin(x))
    return y * x, np.sum(y * y)


@case((normal(5, 2, 2),), COMPLEX_STEP)
def polynomial_of_a_matrix(np, a):
    power, total = np.eye(2), np.zeros((2, 2))
    for k in range(1, 7):
        power = power @ a / k
        total = total + power
    return total


@case((normal(6, 3),), lambda bar, x: bar * (1 - 1) + 0 * x, exact_zeros=True)
def difference_of_a_value_with_itself(np, x):
    return x - x


@case((normal(7, 3), normal(8, 3)), lambda x, y: (2 * (x + y) + y, 2 * (x + y) + x), kind="grad")
def closure_that_reads_from_outside(np, x, y):
    s = x + y

    def inner(v):
        return v * s

    return np.sum(inner(s) + x * y)
