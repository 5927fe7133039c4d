"""Linear algebra: products, factorisations and solves, from the library and by hand."""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("linear algebra")

SQUARE = normal(1, 4, 4) + 4 * numpy.eye(4)
POSITIVE = SQUARE @ SQUARE.T


@case((normal(2, 3, 4), normal(3, 4)), lambda bar, a, x: (numpy.outer(bar, x), a.T @ bar))
def matrix_times_vector(np, a, x):
    return a @ x


@case((normal(4, 4), normal(5, 4, 3)), lambda bar, x, a: (a @ bar, numpy.outer(x, bar)))
def vector_times_matrix(np, x, a):
    return x @ a


@case((normal(6, 2, 3, 4), normal(7, 4, 2)), lambda bar, a, b: (bar @ b.T, numpy.einsum("nij,nik->jk", a, bar)))
def stack_of_matrices_times_one(np, a, b):
    return np.matmul(a, b)


@case((normal(8, 3, 2), normal(9, 4, 2)), lambda bar, a, b: (bar @ b, bar.T @ a))
def product_with_the_transpose(np, a, b):
    return a @ b.T


@case((normal(10, 3), normal(11, 3, 3)), lambda x, a: ((a + a.T) @ x, numpy.outer(x, x)), kind="grad")
def quadratic_form(np, x, a):
    return np.einsum("i,ij,j->", x, a, x)


@case((normal(12, 2, 3), normal(13, 3, 2)), lambda bar, a, b: ((bar * b).T, bar * a.T))
def einsum_without_a_sum(np, a, b):
    return np.einsum("ij,ji->ji", a, b)


@case((normal(14, 3, 3),), lambda x: numpy.eye(3) * 2 * numpy.diag(x), kind="grad", exact_zeros=True)
def trace_of_a_square_of_entries(np, a):
    return np.trace(a * a)


@case((normal(15, 3), normal(16, 2)), lambda bar, x, y: (bar @ y, x @ bar))
def outer(np, x, y):
    return np.outer(x, y)


def _solve_bars(bar, a, b):
    b_bar = numpy.linalg.solve(a.T, bar)
    x = numpy.linalg.solve(a, b)
    return (-numpy.outer(b_bar, x) if b.ndim == 1 else -b_bar @ x.T), b_bar


@case((SQUARE, normal(17, 4)), _solve_bars)
def solve(np, a, b):
    return np.linalg.solve(a, b)


@case((SQUARE, normal(18, 4, 2)), _solve_bars)
def solve_for_several_right_hand_sides(np, a, b):
    return np.linalg.solve(a, b)


@case((SQUARE,), lambda bar, a: -numpy.linalg.inv(a).T @ bar @ numpy.linalg.inv(a).T)
def inverse(np, a):
    return np.linalg.inv(a)


@case((SQUARE,), lambda a: numpy.linalg.det(a) * numpy.linalg.inv(a).T, kind="grad")
def determinant(np, a):
    return np.linalg.det(a)


def _cholesky(a):
    lower = numpy.zeros_like(a)
    for i in range(len(a)):
        for j in range(i + 1):
            rest = (a[i, j] + a[j, i]) / 2 - numpy.sum(lower[i, :j] * lower[j, :j])
            lower[i, j] = numpy.sqrt(rest) if i == j else rest / lower[j, j]
    return lower


@case(
    (POSITIVE,),
    COMPLEX_STEP,
    plain=lambda a: numpy.sum(_cholesky((a + a.T) / 2) * numpy.cos(numpy.arange(16.0).reshape(4, 4))),
    kind="grad",
)
def cholesky_of_the_symmetric_part(np, a):
    lower = np.linalg.cholesky((a + a.T) / 2)
    return np.sum(lower * np.cos(np.arange(16.0).reshape(4, 4)))


@case((POSITIVE,), COMPLEX_STEP)
def cholesky_by_hand(np, a):
    lower = np.zeros((4, 4))
    for i in range(4):
        for j in range(i + 1):
            rest = a[i, j] - np.sum(lower[i, :j] * lower[j, :j])
            lower[i, j] = np.sqrt(rest) if i == j else rest / lower[j, j]
    return lower


@case((SQUARE,), COMPLEX_STEP)
def lu_in_place(np, a):
    a = a.copy()
    for k in range(4):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k : k + 1] * a[k : k + 1, k + 1 :]
    return a


@case((SQUARE, normal(19, 4)), _solve_bars)
def gauss_elimination_with_pivots(np, a, b):
    a, b = a[[2, 0, 3, 1]].copy(), b[[2, 0, 3, 1]].copy()
    for k in range(4):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        a[[k, pivot]] = a[[pivot, k]]
        b[[k, pivot]] = b[[pivot, k]]
        for i in range(k + 1, 4):
            factor = a[i, k] / a[k, k]
            a[i] -= factor * a[k]
            b[i] -= factor * b[k]
    x = np.zeros(4)
    for i in range(3, -1, -1):
        x[i] = (b[i] - np.sum(a[i, i + 1 :] * x[i + 1 :])) / a[i, i]
    return x


@case((normal(20, 4, 3),), COMPLEX_STEP)
def gram_schmidt(np, a):
    q = np.zeros((4, 3))
    for j in range(3):
        v = a[:, j]
        for k in range(j):
            v = v - np.dot(q[:, k], a[:, j]) * q[:, k]
        q[:, j] = v / np.sqrt(np.dot(v, v))
    return q


@case((normal(21, 4), normal(22, 3), normal(23, 4)), COMPLEX_STEP)
def thomas_algorithm(np, diagonal, off, b):
    """A symmetric tridiagonal solve."""
    d, x = 4.0 + diagonal**2, b.copy()
    for i in range(1, 4):
        factor = off[i - 1] / d[i - 1]
        d[i] -= factor * off[i - 1]
        x[i] -= factor * x[i - 1]
    x[3] /= d[3]
    for i in range(2, -1, -1):
        x[i] = (x[i] - off[i] * x[i + 1]) / d[i]
    return x


@case((POSITIVE / 10, normal(24, 4)), COMPLEX_STEP, tolerance=1e-8)
def conjugate_gradients(np, a, b):
    """As many steps as unknowns: solved, up to rounding."""
    x, r = np.zeros(4), b
    p, rr = r, np.dot(r, r)
    for _ in range(4):
        ap = a @ p
        alpha = rr / np.dot(p, ap)
        x = x + alpha * p
        r = r - alpha * ap
        rr, rr_prev = np.dot(r, r), rr
        p = r + rr / rr_prev * p
    return x


def _least_squares_gradient(a, b):
    """The derivative of |a x - b|^2 at its minimum: x has no say."""
    x = numpy.linalg.lstsq(a, b, rcond=None)[0]
    r = a @ x - b
    return 2 * numpy.outer(r, x), -2 * r


@case((normal(25, 5, 2), normal(26, 5)), _least_squares_gradient, kind="grad")
def least_squares_by_normal_equations(np, a, b):
    x = np.linalg.solve(a.T @ a, a.T @ b)
    return np.sum((a @ x - b) ** 2)


@case((normal(29, 3), normal(30, 3)), lambda bar, x, y: (numpy.cross(y, bar), numpy.cross(bar, x)))
def cross_product_by_hand(np, x, y):
    return np.stack([x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]])
