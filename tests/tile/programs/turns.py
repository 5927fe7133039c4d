"""Loops: unrolled, with a number of turns that is known, that differs from tile to tile, or that values decide."""

from __future__ import annotations

import numpy

from tests.ad.programs.cases import normal, uniform

from .cases import group

case = group("turns")


@case((normal(1, 4), uniform(2, 0.5, 1.5, 4)), lambda bar, x, y: (bar * y**5, bar * 5 * x * y**4))
def static_loop(np, ds, x, y):
    return ds.fori_loop(0, 5, lambda k, a: a * y, x)


@case((normal(3, 4), uniform(4, 0.5, 1.5, 4), 2), lambda bar, x, y, n: (bar * y**n, bar * n * x * y ** (n - 1)))
def bound_that_differs(np, ds, x, y, n):
    return ds.fori_loop(0, n, lambda k, a: a * y, x)


@case((normal(5, 3), 0), lambda bar, x, n: bar)
def loop_that_some_tiles_never_enter(np, ds, x, n):
    return ds.fori_loop(0, n, lambda k, a: a + 1.0, x)


@case((normal(6, 6),), lambda bar, x: numpy.cumsum(bar[::-1])[::-1])
def assignment_within_a_loop(np, ds, x):
    def turn(k, a):
        a[k] += a[k - 1]
        return a

    return ds.fori_loop(1, 6, turn, x)


def _bubbled(bar, x):
    return bar[numpy.argsort(numpy.argsort(x))]


@case((normal(7, 5),), _bubbled)
def bubble_sort(np, ds, x):
    def turn(k, a):
        j = k % 4
        low, high = np.minimum(a[j], a[j + 1]), np.maximum(a[j], a[j + 1])
        a[j] = low
        a[j + 1] = high
        return a

    return ds.fori_loop(0, 16, turn, x)


def _powers(bar, a, x):
    states = [x]
    for _ in range(3):
        states.append(a @ states[-1])
    a_bar = numpy.zeros((3, 3))
    for state in reversed(states[:-1]):
        a_bar += numpy.outer(bar, state)
        bar = a.T @ bar
    return a_bar, bar


@case((normal(8, 3, 3), normal(9, 3)), _powers)
def power_iteration(np, ds, a, x):
    return ds.fori_loop(0, 3, lambda k, y: a @ y, x)


@case((uniform(10, 1.0, 3.0),), lambda bar, x: bar * 0.5 / numpy.sqrt(x), tolerance=1e-7)
def newtons_square_root(np, ds, x):
    return ds.while_loop(lambda s: s[1] > 1e-12, lambda s: ((s[0] + x / s[0]) / 2, np.abs(s[0] ** 2 - x)), (x, np.abs(x) + 1.0))[0]


def _halvings(x):
    turns = 0
    while abs(x) > 1:
        x, turns = x / 2, turns + 1
    return turns


@case((normal(11)[()] * 20,), lambda bar, x: bar / 2 ** _halvings(x))
def halved_until_small(np, ds, x):
    return ds.while_loop(lambda y: np.abs(y) > 1, lambda y: y / 2, x)


@case(
    (normal(12, 3), uniform(13, 0.5, 1.5)),
    lambda bar, x, y: (bar[0] * y**4 + bar[1] * numpy.zeros(3), 4 * y**3 * (bar[0] @ x) + 4 * bar[1]),
)
def record_as_a_state(np, ds, x, y):
    def turn(k, state):
        return {"field": state["field"] * y, "sum": state["sum"] + y}

    final = ds.fori_loop(0, 4, turn, {"field": x, "sum": 0.0})
    return final["field"], final["sum"]


@case((normal(14, 5, 3),), lambda bar, m: numpy.broadcast_to(bar, (5, 3)) * (2 * m))
def rows_read_by_the_number_of_the_turn(np, ds, m):
    return ds.fori_loop(0, 5, lambda k, s: s + m[k] ** 2, np.zeros(3))


@case((normal(15, 4),), lambda bar, x: bar * 2.0 ** numpy.arange(4))
def loops_within_a_loop(np, ds, x):
    def turn(i, a):
        a[i] = ds.fori_loop(0, i, lambda k, y: 2 * y, a[i])
        return a

    return ds.fori_loop(0, 4, turn, x)


@case((normal(16, 4), normal(17, 4)), lambda bar, x, y: (0 * x, bar))
def live_state_overwritten_in_the_last_turn(np, ds, x, y):
    def turn(k, a):
        a = a * a
        a[:] = y
        return a

    return ds.fori_loop(0, 3, turn, x)


def _fibonacci(bar, x, y):
    a = numpy.array([bar[0], bar[1]])
    for _ in range(5):
        a = numpy.array([a[1], a[0] + a[1]])
    return a[0], a[1]


@case((0.7, 1.3), _fibonacci)
def pair_as_a_state(np, ds, x, y):
    a, b = ds.fori_loop(0, 5, lambda k, s: (s[1], s[0] + s[1]), (x, y))
    return np.stack([a, b])


@case((normal(18, 4), normal(19)[()]), lambda bar, x, c: (bar * (1 + c) ** 3, 3 * (1 + c) ** 2 * (bar @ x)))
def helper_function_called_in_a_loop(np, x, c):
    def grown(a):
        return a + c * a

    for _ in range(3):
        x = grown(x)
    return x


@case((normal(20, 3), normal(21, 3)), lambda bar, x, y: (bar * numpy.cos(x) * y, bar * numpy.sin(x)))
def recomputed_helper(np, ds, x, y):
    return ds.remat(lambda a: np.sin(a))(x) * y
