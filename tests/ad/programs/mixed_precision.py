"""Single precision, integers and booleans beside doubles. A cotangent has the precision of its value."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("mixed precision")

# A few roundings of single precision, 6e-8 each.
SINGLE = 1e-6


def single(seed, *shape):
    return normal(seed, *shape).astype(numpy.float32)


@case((single(1, 5),), lambda bar, x: bar * 2 * x, tolerance=SINGLE)
def single_precision(np, x):
    return x * x


@case((single(2, 4), normal(3, 4)), lambda bar, x, y: (bar * y, bar * x), tolerance=SINGLE)
def single_times_double(np, x, y):
    return x * y


@case((normal(4, 4),), lambda bar, x: bar * 3 * x**2, tolerance=5e-6, differences=False)
def through_single_and_back(np, x):
    """The value is rounded on the way, and so is the cotangent: differences would see the steps."""
    return (x.astype(np.float32) ** 3).astype(np.float64)


@case((single(5, 3), 2.0), lambda bar, x, c: (bar * c, bar @ x), tolerance=SINGLE)
def single_times_a_python_number(np, x, c):
    return x * c


@case((single(6, 200),), lambda x: numpy.cos(x) / 200, kind="grad", tolerance=SINGLE)
def mean_of_singles(np, x):
    return np.mean(np.sin(x))


@case((normal(7, 3), numpy.array([1, 2, 3])), lambda bar, x, n: bar * n * x ** (n - 1.0))
def integer_exponents(np, x, n):
    return x**n


@case((normal(8, 4), numpy.array([3, -1, 0, 2])), lambda bar, x, k: bar * k)
def times_integers(np, x, k):
    return x * k


@case((normal(9, 4),), lambda bar, x: bar * (x > 0), exact_zeros=True)
def times_a_comparison(np, x):
    return x * (x > 0)


@case((normal(10, 5), 2), lambda bar, x, n: bar * n)
def python_integer(np, x, n):
    return x * n + n // 2


@case((numpy.array([0.3, 1.7, -2.2]),), lambda bar, x: 0 * x, exact_zeros=True)
def rounded(np, x):
    return np.round(x) + np.floor(x) * np.ceil(x) + np.sign(x)


@case((numpy.array([2.3, 5.1, -0.4]),), lambda bar, x: bar)
def remainder(np, x):
    return x % 1.0


@case((numpy.array([5.3, 7.9]), numpy.array([2.0, 3.0])), lambda bar, x, y: (bar, -bar * numpy.floor(x / y)))
def remainder_by_an_array(np, x, y):
    return x % y


@case((numpy.array([0.4, 1.7, 3.2]),), lambda bar, x: bar * numpy.floor(x), exact_zeros=True)
def truncated_to_an_integer(np, x):
    """Integers are constants: only the factor that stayed a float has a derivative."""
    return x * x.astype(int)


@case((numpy.array([1, 2, 3]), 0.5), lambda bar, k, c: bar @ k)
def integer_argument(np, k, c):
    """It has no derivative, and None stands for it."""
    return k * c


@case((numpy.array([0.5, -1.0, 0.7, 1.6, -1.2]),), COMPLEX_STEP)
def mean_of_the_positive_ones(np, x):
    positive = x > 0
    return np.sum(np.where(positive, x, 0.0)) / np.sum(positive)


@case((single(13, 4),), lambda bar, x: bar[::-1].cumsum()[::-1], tolerance=SINGLE)
def running_sums_of_singles(np, ds, x):
    return ds.scan("+", x)


@case((single(14, 3),), lambda bar, x: numpy.array([0, bar[0] + bar[1], 0]), tolerance=SINGLE, exact_zeros=True, differences=False)
def doubles_written_into_a_single_array(np, x):
    y = np.zeros(3, dtype=np.float32)
    y[0] = x[1] * np.float64(1.0)
    y[1:2] = x[1:2].astype(np.float64)
    return y


@case((3.0, 4), lambda x, n: 4 * x**3, kind="grad")
def zero_dimensional_and_python_numbers(np, x, n):
    y = np.array(1.0)
    for _ in range(n):
        y = y * x
    return y
