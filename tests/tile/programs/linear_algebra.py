"""Products, factorisations and solutions of small systems."""

from __future__ import annotations

import numpy

from tests.ad.programs.cases import normal

from .cases import group

case = group("linear algebra")
SQUARE = normal(1, 4, 4) + 4 * numpy.eye(4)
LOWER = numpy.tril(normal(2, 4, 4)) + 3 * numpy.eye(4)


def solution(bar, a, b):
    """Cotangents of a and b in a x = b."""
    x, adjoint = numpy.linalg.solve(a, b), numpy.linalg.solve(a.T, bar)
    return -(numpy.outer(adjoint, x) if b.ndim == 1 else adjoint @ x.T), adjoint


@case((normal(3, 5), normal(4, 5)), lambda bar, x, y: (bar * y, bar * x))
def dot(np, x, y):
    return np.dot(x, y)


@case((normal(5, 3), normal(6, 4)), lambda bar, x, y: (bar @ y, bar.T @ x))
def outer(np, x, y):
    return np.outer(x, y)


@case((normal(7, 3, 4), normal(8, 4, 2)), lambda bar, a, b: (bar @ b.T, a.T @ bar))
def matrix_product(np, a, b):
    return a @ b


@case((normal(9, 2, 3, 4), normal(10, 2, 4, 3)), lambda bar, a, b: (bar @ b.transpose(0, 2, 1), a.transpose(0, 2, 1) @ bar))
def products_of_stacks(np, a, b):
    return a @ b


@case((normal(11, 3, 4), normal(12, 4)), lambda bar, a, x: (numpy.outer(bar, x), a.T @ bar))
def matrix_times_a_vector(np, a, x):
    return a @ x


@case((normal(13, 4, 4), normal(14, 4)), lambda bar, a, x: (bar * numpy.outer(x, x), bar * (a + a.T) @ x))
def quadratic_form(np, a, x):
    return np.einsum("i,ij,j->", x, a, x)


@case((normal(15, 4, 4),), lambda bar, a: bar * numpy.eye(4))
def trace(np, a):
    return np.einsum("ii->", a)


@case(
    (normal(16, 2, 3), normal(17, 3, 4), normal(18, 2)),
    lambda bar, a, b, c: (
        numpy.einsum("j,kj,i->ik", bar, b, c),
        numpy.einsum("j,ik,i->kj", bar, a, c),
        numpy.einsum("j,ik,kj->i", bar, a, b),
    ),
)
def contraction_of_three(np, a, b, c):
    return np.einsum("ik,kj,i->j", a, b, c)


@case((SQUARE, normal(19, 4)), solution)
def solve_a_vector(np, a, b):
    return np.linalg.solve(a, b)


@case((SQUARE, normal(20, 4, 3)), solution)
def solve_columns(np, a, b):
    return np.linalg.solve(a, b)


def _lower(bar, a, b):
    a_bar, b_bar = solution(bar, numpy.tril(a), b)
    return numpy.tril(a_bar), b_bar


def _upper(bar, a, b):
    a_bar, b_bar = solution(bar, numpy.triu(a), b)
    return numpy.triu(a_bar), b_bar


@case((LOWER + 1.0, normal(21, 4)), _lower)
def lower_triangular_system(np, a, b):
    return np.linalg.solve(np.tril(a), b)


@case((LOWER.T + 1.0, normal(22, 4)), _upper)
def upper_triangular_system(np, a, b):
    return np.linalg.solve(np.triu(a), b)


@case((LOWER + 1.0, normal(23, 4)), _lower)
def forward_substitution_by_elements(np, a, b):
    x = np.zeros(4)
    for i in range(4):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]
    return x


@case((LOWER.T + 1.0, normal(24, 4)), _upper)
def backward_substitution_in_place(np, a, b):
    x = b.copy()
    for i in range(3, -1, -1):
        x[i] /= a[i, i]
        x[:i] -= a[:i, i] * x[i]
    return x


@case((SQUARE,), lambda bar, a: -numpy.linalg.inv(a).T @ bar @ numpy.linalg.inv(a).T)
def inverse(np, a):
    return np.linalg.inv(a)


@case((SQUARE,), lambda bar, a: bar * numpy.linalg.det(a) * numpy.linalg.inv(a).T)
def determinant(np, a):
    return np.linalg.det(a)


@case((SQUARE,), lambda bar, a: bar * numpy.linalg.inv(a).T)
def logarithm_of_a_determinant(np, a):
    return np.linalg.slogdet(a)[1]


def _cholesky(bar, x):
    """Murray, 2016, Differentiation of the Cholesky decomposition: the symmetric part of L^-T Phi(L^T bar) L^-1."""
    factor = numpy.linalg.cholesky(x @ x.T + 4 * numpy.eye(4))
    half = numpy.tril(factor.T @ numpy.tril(bar))
    half[numpy.diag_indices(4)] /= 2
    inverse = numpy.linalg.inv(factor)
    product = inverse.T @ half @ inverse
    return (product + product.T) @ x


@case((normal(25, 4, 4),), _cholesky)
def cholesky(np, x):
    return np.linalg.cholesky(x @ x.T + 4 * np.eye(4))


def _loops(bar, x):
    return _cholesky(numpy.tril(bar), x)


@case((normal(26, 4, 4),), _loops)
def cholesky_by_elements(np, x):
    a = x @ x.T + 4 * np.eye(4)
    for k in range(4):
        a[k, k] = np.sqrt(a[k, k])
        a[k + 1 :, k] /= a[k, k]
        for j in range(k + 1, 4):
            a[j:, j] -= a[j:, k] * a[j, k]
    return np.tril(a)


def _eigenvalues(bar, x):
    _, v = numpy.linalg.eigh(x + x.T + numpy.diag([0.0, 5, 10, 15]))
    product = v * bar @ v.T
    return product + product.T


@case((normal(27, 4, 4),), _eigenvalues)
def eigenvalues(np, x):
    return np.linalg.eigh(x + x.T + np.diag(np.array([0.0, 5, 10, 15])))[0]


def _projector(bar, x):
    """The derivative of the first eigenvector v: dv = -(A - w)^+ dA v."""
    a = x + x.T + numpy.diag([0.0, 5, 10, 15])
    w, v = numpy.linalg.eigh(a)
    first = v[:, 0]
    moved = (bar + bar.T) @ first
    outer = -numpy.outer(numpy.linalg.pinv(a - w[0] * numpy.eye(4)) @ moved, first)
    return outer + outer.T


@case((normal(28, 4, 4),), _projector)
def projector_onto_an_eigenvector(np, x):
    v = np.linalg.eigh(x + x.T + np.diag(np.array([0.0, 5, 10, 15])))[1]
    return np.outer(v[:, 0], v[:, 0])


def _element(bar, u, w):
    a = numpy.zeros((4, 4))
    a[1:-1] = u[:-2] * w
    a[0] += numpy.cumsum(u[3])
    matrix = a @ a.T + numpy.eye(4)
    m_bar, u_bar = solution(bar, matrix, u)
    a_bar = (m_bar + m_bar.T) @ a
    u_bar[3] += numpy.cumsum(a_bar[0][::-1])[::-1]
    u_bar[:-2] += a_bar[1:-1] * w
    return u_bar, (a_bar[1:-1] * u[:-2]).sum(0)


@case((normal(29, 4, 4), normal(30, 4)), _element)
def assembled_and_solved(np, u, w):
    a = np.zeros((4, 4))
    a[1:-1] = u[:-2] * w
    a[0] += np.cumsum(u[3])
    return np.linalg.solve(a @ a.T + np.eye(4), u)


def _rotation(bar, x):
    c, s = numpy.cos(x), numpy.sin(x)
    return numpy.sum(bar * numpy.array([[-s, -c], [c, -s]]))


@case((0.7,), _rotation)
def rotation_filled_in(np, x):
    a = np.zeros((2, 2))
    a[0, 0] = a[1, 1] = np.cos(x)
    a[1, 0] = np.sin(x)
    a[0, 1] = -a[1, 0]
    return a


@case((normal(31, 3), normal(32, 3)), lambda bar, x, y: (numpy.cross(y, bar), numpy.cross(bar, x)))
def cross_product(np, x, y):
    return np.cross(x, y)
