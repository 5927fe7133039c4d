"""Forward derivatives: the tangent of the result for given tangents of the arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from .cases import COMPLEX_STEP, group, normal, uniform

case = group("jvp")


class Pair(NamedTuple):
    a: Any
    b: Any


@case((normal(1, 4),), lambda dots, x: dots[0] * numpy.cos(x), kind="jvp")
def elementwise(np, x):
    return np.sin(x)


@case((normal(2, 3), normal(3, 3)), lambda dots, x, y: dots[0] @ y, kind="jvp", wrt=0)
def one_of_two_arguments(np, x, y):
    return np.dot(x, y)


@case((normal(4, 3, 3), normal(5, 3)), lambda dots, a, x: dots[0] @ x + a @ dots[1], kind="jvp")
def matrix_times_vector(np, a, x):
    return a @ x


@case((normal(6, 4),), COMPLEX_STEP, kind="jvp")
def assignments(np, x):
    y = np.zeros(4)
    y[0] = x[0]
    for i in range(1, 4):
        y[i] = np.sin(y[i - 1]) * x[i]
    y[0] = 1.0
    return y


@case((2.0,), lambda dots, a: dots[0] * 0.5 / numpy.sqrt(a), kind="jvp")
def while_loop(np, a):
    x = a
    while abs(x * x - a) > 1e-14:
        x = 0.5 * (x + a / x)
    return x


@case((normal(7, 5),), lambda dots, x: dots[0][numpy.argsort(x)], kind="jvp")
def sort(np, x):
    return np.sort(x)


@case((numpy.array([2.0, 0.0, 3.0]),), lambda dots, x: numpy.array([dots[0][0], 2 * dots[0][1], 6 * dots[0][1]]), kind="jvp")
def scan_of_products_with_a_zero(np, ds, x):
    return ds.scan("*", x)


@case((normal(8, 4), normal(9, 2)), lambda dots, x, v: numpy.array([dots[0][0], dots[1][1], dots[0][2], dots[1][0]]), kind="jvp")
def scatter(np, ds, x, v):
    return ds.scatter(x, np.array([3, 1]), v)


@case((normal(10, 3), normal(11, 5)), lambda dots, h, v: dots[0] + dots[1][[0, 3, 2]] + dots[1][[1, 4, 2]] * [1, 1, 0], kind="jvp")
def histogram(np, ds, h, v):
    return ds.reduce_by_index("+", h, np.array([0, 0, 2, 1, 1]), v)


@case((Pair(normal(12, 2), 2.0),), COMPLEX_STEP, kind="jvp")
def record(np, p):
    return Pair(p.a * p.b, np.sum(p.a) ** 2)


@case((numpy.array([1.0, 4.0, 4.0]),), lambda dots, x: dots[0][1], kind="jvp", differences=False)
def largest_with_a_tie(np, x):
    return np.max(x)


@case((uniform(13, 0.5, 1.5, 6),), COMPLEX_STEP, kind="jvp")
def checkpointed_loop(np, ds, x):
    return ds.fori_loop(0, 6, lambda i, y: np.sin(y) * x[i] + x, x, checkpoint=2)


@case(
    (normal(14, 3), normal(15, 3)),
    lambda dots, x, v: dots[0] * -v * numpy.sin(x) + dots[1] * numpy.cos(x),
    kind="jvp",
    plain=lambda x, v: v * numpy.cos(x),
)
def of_a_linearised_function(np, ds, x, v):
    _, push = ds.linearize(np.sin, x)
    return push(v)


@case((normal(16, 3),), lambda bar, x: 3 * bar * numpy.exp(x), plain=lambda x: 3 * numpy.exp(x))
def linearised_once_and_pushed_twice(np, ds, x):
    _, push = ds.linearize(np.exp, x)
    return push(np.ones(3)) + push(2 * np.ones(3))


@case((1.2,), lambda dots, x: dots[0] * -numpy.sin(x), kind="jvp", plain=lambda x: numpy.cos(x))
def of_a_jvp(np, ds, x):
    return ds.jvp(np.sin, (x,), (1.0,))[1]
