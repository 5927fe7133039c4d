"""While loops whose length the values decide."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("while loops")


@case((2.0,), lambda a: 0.5 / numpy.sqrt(a), kind="grad")
def heron_square_root(np, a):
    x = a
    while abs(x * x - a) > 1e-14:
        x = 0.5 * (x + a / x)
    return x


@case((0.7,), lambda m: 1 / (1 - m * numpy.cos(_kepler(m))) * numpy.sin(_kepler(m)), kind="grad", differences=True)
def newton_for_keplers_equation(np, eccentricity):
    """E - e sin(E) = 1, iterated beyond convergence: dE/de = sin(E) / (1 - e cos(E))."""
    angle, change = 1.0 + 0 * eccentricity, 1.0
    while abs(change) > 1e-15:
        change = (angle - eccentricity * np.sin(angle) - 1.0) / (1 - eccentricity * np.cos(angle))
        angle = angle - change
    return angle


def _kepler(eccentricity):
    angle = 1.0
    for _ in range(50):
        angle -= (angle - eccentricity * numpy.sin(angle) - 1.0) / (1 - eccentricity * numpy.cos(angle))
    return angle


@case((1.7,), lambda x: 6.0 * x**5, kind="grad")
def counting_loop(np, x):
    i, y = 0, 1.0
    while i < 6:
        y = y * x
        i += 1
    return y


@case((1.5,), lambda x: 8.0, kind="grad")
def doubled_until_large(np, x):
    while x < 10.0:
        x = 2 * x
    return x


@case((20.0,), lambda x: 1.0, kind="grad")
def loop_that_does_not_run(np, x):
    while x < 10.0:
        x = 2 * x
    return x


@case((1.3, 0.2), COMPLEX_STEP, kind="grad")
def left_by_break(np, x, step):
    total = 0.0
    while True:
        total = total + step * np.sin(x)
        x = x + step * total
        if x > 2.0:
            break
    return total * x


@case((normal(1, 8),), COMPLEX_STEP)
def passed_over_by_continue(np, x):
    i, total = -1, 0.0
    while i < 7:
        i += 1
        if x[i] < 0:
            continue
        total = np.cos(total) + x[i] ** 2
    return total


@case((numpy.array([0.3, 1.2, -0.5]),), COMPLEX_STEP)
def power_iteration(np, off_diagonal):
    a = np.array([[4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    a[0, 1] = a[1, 0] = off_diagonal[0]
    a[0, 2] = a[2, 0] = off_diagonal[1]
    a[1, 2] = a[2, 1] = off_diagonal[2]
    v, change = np.ones(3), 1.0
    while change > 1e-13:
        w = a @ v
        w = w / np.sqrt(np.sum(w * w))
        change = np.max(np.abs(w - v))
        v = w
    return v


@case((numpy.array([0.9, 0.3]), 0.6), COMPLEX_STEP)
def adaptive_steps(np, y, rate):
    """Step sizes follow the values, and are differentiated as well."""
    time = 0.0
    while time < 1.0:
        slope = np.stack([-rate * y[1], rate * y[0]])
        h = 0.3 / (1 + np.sum(slope * slope))
        y = y + h * slope
        time = time + h
    return y


@case((1.3, 0.4), COMPLEX_STEP)
def while_in_a_for(np, x, c):
    for k in range(3):
        while x > 1.0 + 0.1 * k:
            x = x * c + 0.3
        x = x * 2.5
    return x


@case((normal(2, 6) ** 2,), COMPLEX_STEP)
def stops_at_a_budget(np, cost):
    i, spent = 0, 0.0
    while i < 6 and spent + cost[i] < 3.0:
        spent += cost[i]
        i += 1
    return spent * i


@case((0.1, 0.9), COMPLEX_STEP)
def bisection(np, low, high):
    """The halves taken decide the weights of the two ends; that the root stays put does not show."""
    while high - low > 0.02:
        middle = (low + high) / 2
        if middle**3 + middle < 1.0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
