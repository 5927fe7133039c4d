"""Choices by values, numbers of other types, and pytrees as arguments and results."""

from __future__ import annotations

import numpy

from tests.ad.programs.cases import normal, uniform

from .cases import group

case = group("choices")


@case((normal(1, 6), normal(2, 6)), lambda bar, x, y: (bar * (x > y) * 2 * x, bar * (x <= y)))
def where_of_two_arrays(np, x, y):
    return np.where(x > y, x * x, y)


@case((normal(3, 6),), lambda bar, x: bar * numpy.where(x > 0, 0.5 / numpy.sqrt(numpy.abs(x)), 0.0))
def root_on_one_side_only(np, x):
    return np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0)


@case((normal(4)[()], normal(5, 3)), lambda bar, c, x: (0.0 * c, bar * (2 * x if c > 0 else numpy.cos(x))))
def branch(np, ds, c, x):
    return ds.cond(c > 0, lambda a: a * a, lambda a: np.sin(a), x)


@case((normal(6)[()], normal(7, 3), normal(8)[()]), lambda bar, c, x, v: (0.0, bar * [1, c <= 0, 1], bar[1] * (c > 0)))
def assignment_in_a_branch(np, ds, c, x, v):
    def taken(a):
        a = a.copy()
        a[1] = v
        return a

    return ds.cond(c > 0, taken, lambda a: a * 1.0, x)


@case((normal(9, 4), True, normal(10, 4)), lambda bar, x, c, y: (bar * bool(c), bar * (not c)))
def truth_value_as_an_argument(np, x, c, y):
    return np.where(c, x, y)


@case((normal(11, 5), numpy.array([True, False, False, True, True])), lambda bar, x, c: bar * c)
def mask_times_values(np, x, c):
    return x * c


@case((normal(12, 5), numpy.array([3, -1, 2, 0, 4])), lambda bar, x, n: bar * n)
def whole_numbers_times_values(np, x, n):
    return x * n


@case((normal(13, 4),), lambda bar, x: bar * numpy.sign(x))
def absolute_values(np, x):
    return np.abs(x)


@case((normal(14, 4), uniform(15, 0.1, 0.6, 4)), lambda bar, x, c: (bar * (numpy.abs(x) < c), bar * ((x >= c) * 1.0 - (x <= -c))))
def clipped(np, x, c):
    return np.minimum(np.maximum(x, -c), c)


@case(({"u": normal(16, 3), "k": 1.5},), lambda bar, r: {"u": bar * r["k"], "k": bar @ r["u"]})
def record_as_an_argument(np, r):
    return r["u"] * r["k"]


@case((normal(17, 3),), lambda bar, x: bar["square"] * 2 * x + bar["sum"][0])
def record_as_a_result(np, x):
    return {"square": x * x, "sum": (np.sum(x), np.argmax(x))}


@case(((normal(18, 3), normal(19, 3)),), lambda bar, pair: (bar * pair[1], bar * pair[0]))
def tuple_as_an_argument(np, pair):
    a, b = pair
    return a * b


SINGLE = normal(20, 5).astype(numpy.float32)


@case((SINGLE,), lambda bar, x: (bar * 2 * x).astype(numpy.float32), tolerance=1e-5)
def single_precision(np, x):
    return x * x


@case((SINGLE, SINGLE[:2]), lambda bar, x, v: (bar * numpy.float32([1, 0, 1, 0, 1]), 2 * bar[1::2]), tolerance=1e-5)
def single_precision_overwritten(np, x, v):
    a = x.copy()
    a[1::2] = 2 * v
    return a


@case((normal(21, 5),), lambda bar, x: bar.astype(float), tolerance=1e-5)
def converted_to_single_precision(np, x):
    return x.astype(np.float32)


@case((normal(122, 4),), lambda bar, x: bar * numpy.floor(x))
def floor_has_no_derivative(np, x):
    return x * np.floor(x)


@case((uniform(23, 1.0, 5.0, 4),), lambda bar, x: bar)
def remainder(np, x):
    return x % 1.5


@case((uniform(24, 0.5, 1.5, 4), uniform(25, 0.5, 1.5, 4)), lambda bar, x, y: (bar * y * x ** (y - 1), bar * x**y * numpy.log(x)))
def power_of_two_values(np, x, y):
    return x**y


@case((normal(26, 4), normal(27, 4)), lambda bar, y, x: (bar * x / (x**2 + y**2), -bar * y / (x**2 + y**2)))
def angle(np, y, x):
    return np.arctan2(y, x)


@case((normal(28, 4),), lambda bar, x: bar * 0)
def stopped(np, ds, x):
    return ds.stop_gradient(x * x) + 0.0 * x


@case((normal(29, 2, 3), normal(30, 3)), lambda bar, m, v: (bar * v, (bar * m).sum(0)))
def broadcasting(np, m, v):
    return m * v


@case((normal(31, 2, 3), normal(32, 2, 2)), lambda bar, a, b: (bar[:, :3], bar[:, 3:].T))
def joined_and_transposed(np, a, b):
    return np.concatenate([a, b.T], axis=1)


@case((normal(33, 4), normal(34, 4)), lambda bar, x, y: (bar[:, 0] + bar[:, 1], -bar[:, 1]))
def stacked(np, x, y):
    return np.stack([x, x - y], axis=1)


@case((normal(35, 1, 4, 1),), lambda bar, m: bar.reshape(2, 2).T.reshape(1, 4, 1))
def squeezed_reshaped_and_swapped(np, m):
    return np.swapaxes(np.squeeze(m).reshape(2, 2), 0, 1)


@case((normal(36, 6),), lambda bar, x: numpy.roll(bar, -2))
def rolled(np, x):
    return np.roll(x, 2)


@case((normal(37, 4),), lambda bar, x: bar[1:-1])
def padded_with_zeros(np, x):
    return np.pad(x, 1)
