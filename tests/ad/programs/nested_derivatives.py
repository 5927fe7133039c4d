"""Derivatives of derivatives: Hessians, products with them, gradients inside programs, to any order."""

from __future__ import annotations

import numpy

from .cases import STORED, group, normal, uniform
from .oracles import complex_step_gradient

case = group("nested")


@case((1.3,), lambda x: 12 * x**2, kind="grad", plain=lambda x: 4 * x**3)
def second_derivative(np, ds, x):
    return ds.grad(lambda y: y**4)(x)


@case((1.3,), lambda x: 720 * x**2, kind="grad", plain=lambda x: 240 * x**3)
def fourth_derivative_by_repetition(np, ds, x):
    f = lambda y: 2 * y**6  # noqa: E731
    for _ in range(3):
        f = ds.grad(f)
    return f(x)


def _rosenbrock_hessian(x):
    n = len(x)
    h = numpy.zeros((n, n))
    for i in range(n - 1):
        h[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        h[i + 1, i + 1] += 200
        h[i, i + 1] = h[i + 1, i] = -400 * x[i]
    return h


@case((normal(1, 4),), _rosenbrock_hessian, kind="hessian", exact_zeros=True)
def rosenbrock(np, x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@case(
    (normal(2, 4),),
    lambda v, x: numpy.array([v[1] * x[3] + v[3] * x[1], v[0] * x[3] + v[3] * x[0], 0, v[0] * x[1] + v[1] * x[0]]),
    kind="hvp",
)
def product_of_three_of_four(np, x):
    return x[0] * x[1] * x[3]


@case((numpy.array([2.0, 0.0, 3.0]),), lambda x: numpy.array([[0, 3, 0], [3, 0, 2], [0, 2, 0.0]]), kind="hessian")
def product_with_a_zero(np, x):
    return np.prod(x)


@case((normal(3, 5),), lambda v, x: (lambda p: p * v - p * (p @ v))(numpy.exp(x) / numpy.exp(x).sum()), kind="hvp")
def log_sum_exp(np, x):
    return np.log(np.sum(np.exp(x)))


@case((normal(4, 3),), lambda x: numpy.zeros((3, 3)), kind="hessian", exact_zeros=True)
def linear_functions_have_none(np, x):
    return 3 * x[0] - x[2] + np.sum(x)


@case((normal(5, 4),), STORED, kind="hessian")
def assignments_in_a_loop(np, x):
    y = np.zeros(4)
    y[0] = np.sin(x[0])
    for i in range(1, 4):
        y[i] = y[i - 1] * x[i] + x[i - 1] ** 2
    return np.sum(y * y)


@case((normal(6, 3, 2),), STORED, kind="hvp")
def energy_of_three_bodies(np, x):
    energy = 0.0
    for i in range(3):
        for j in range(i):
            energy = energy - 1 / np.sqrt(np.sum((x[i] - x[j]) ** 2) + 0.1)
    return energy


@case((2.0,), lambda a: -0.25 * a**-1.5, kind="hessian")
def newton_iteration_in_a_while_loop(np, a):
    """Two more steps than the value needs: the derivatives converge behind it."""
    x, more = a, 3
    while more > 0:
        if abs(x * x - a) < 1e-13:
            more -= 1
        x = 0.5 * (x + a / x)
    return x


@case((normal(7, 6),), lambda v, x: 6 * x * v * (1 + numpy.argsort(numpy.argsort(x))), kind="hvp")
def through_a_sort(np, x):
    return np.sum(np.sort(x) ** 3 * np.arange(1, 7))


def _hessian_of_cumprod_sum(x):
    n = len(x)
    return numpy.array(
        [
            [
                sum(numpy.prod([x[k] for k in range(m + 1) if k not in (i, j)]) for m in range(max(i, j), n)) if i != j else 0
                for j in range(n)
            ]
            for i in range(n)
        ]
    )


@case((numpy.array([2.0, 0.0, 3.0, 4.0]),), _hessian_of_cumprod_sum, kind="hessian")
def through_a_scan_of_products(np, ds, x):
    return np.sum(ds.scan("*", x))


@case((numpy.array([2.0, 0.0, 3.0, 0.5]),), STORED, kind="hvp")
def through_products_in_bins(np, ds, x):
    return np.sum(ds.reduce_by_index("*", np.ones(2), np.array([0, 0, 1, 0]), x) ** 2)


@case((normal(8, 4),), STORED, kind="hessian")
def through_a_scan_with_an_operator(np, ds, x):
    return np.sum(ds.scan(lambda a, b: a + b + a * b, x, 0.0) ** 2)


@case((normal(9, 5),), lambda v, x: numpy.where(x > 0.2, 2 * v, 0), kind="hvp", exact_zeros=True)
def through_a_selection(np, x):
    return np.sum(np.where(x > 0.2, x * x, 3 * x))


@case((normal(10, 3),), lambda x: numpy.array([[numpy.cos(x[1]), -x[0] * numpy.sin(x[1]), 0], [0, 0, 2 * x[2]]]), kind="jacobian")
def jacobian_of_two_functions(np, x):
    return np.stack([x[0] * np.cos(x[1]), x[2] ** 2])


def _square_jacobian(x):
    """d(xx)_ij / dx_kl = delta_ik x_lj + x_ik delta_jl."""
    one = numpy.eye(len(x))
    return numpy.einsum("ik,lj->ijkl", one, x) + numpy.einsum("ik,jl->ijkl", x, one)


@case((normal(11, 2, 2),), _square_jacobian, kind="jacobian")
def jacobian_of_a_matrix_square(np, x):
    return x @ x


@case((1.0,), lambda x: 1.0, kind="grad", plain=lambda x: x)
def inner_variable_is_not_the_outer_one(np, ds, x):
    """d/dx (x d/dy (x + y)) = 1: perturbations must not be mixed up (Siskind and Pearlmutter)."""
    return x * ds.grad(lambda y: x + y)(1.0)


@case((1.5,), lambda dots, x: dots[0] * 3 * x**2, kind="jvp", plain=lambda x: x**3)
def tangents_of_tangents_are_kept_apart(np, ds, x):
    return x * ds.jvp(lambda y: x * x * y, (2.0,), (1.0,))[1]


@case((normal(12, 3), normal(13, 3)), lambda bar, x, w: (-bar * w * numpy.sin(x), bar * numpy.cos(x)), plain=lambda x, w: w * numpy.cos(x))
def pullback_differentiated_for_point_and_cotangent(np, ds, x, w):
    _, pullback = ds.vjp(np.sin, x)
    return pullback(w)[0]


@case((normal(14, 3), normal(15, 3)), lambda bar, x, v: (-bar * v * numpy.sin(x), bar * numpy.cos(x)), plain=lambda x, v: v * numpy.cos(x))
def gradient_of_a_tangent(np, ds, x, v):
    return ds.jvp(np.sin, (x,), (v,))[1]


def _penalty_gradient(w, x):
    t = numpy.tanh(w @ x)
    slope = 1 - t * t
    norm_squared = slope**2 * (w @ w)
    return 2 * norm_squared * -2 * t * x + 2 * slope**2 * w


@case((normal(16, 3), normal(17, 3)), _penalty_gradient, kind="grad", wrt=0, plain=lambda w, x: (1 - numpy.tanh(w @ x) ** 2) ** 2 * (w @ w))
def gradient_penalty(np, ds, w, x):
    g = ds.grad(lambda x: np.tanh(w @ x))(x)
    return np.sum(g * g)


def _descended(rate, x):
    for _ in range(4):
        x = x - rate * (x**3 + x - 1)
    return x


def _descended_slopes(rate, x):
    by_rate, by_x = 0.0, 1.0
    for _ in range(4):
        factor = 1 - rate * (3 * x**2 + 1)
        by_rate = by_rate * factor - (x**3 + x - 1)
        by_x *= factor
        x = x - rate * (x**3 + x - 1)
    return by_rate, by_x


@case((0.1, 2.0), _descended_slopes, kind="grad", plain=_descended)
def learning_rate_of_gradient_descent(np, ds, rate, x):
    loss = lambda y: y**4 / 4 + y**2 / 2 - y  # noqa: E731
    for _ in range(4):
        x = x - rate * ds.grad(loss)(x)
    return x


def _leapfrog(x, v):
    for _ in range(3):
        v = v - 0.1 * numpy.sin(x)
        x = x + 0.1 * v
    return x


def _leapfrog_bars(bar, x, v):
    return complex_step_gradient(lambda x, v: numpy.sum(bar * _leapfrog(x, v)), x, v)


@case((normal(18, 2), normal(19, 2)), _leapfrog_bars, plain=_leapfrog)
def forces_from_a_potential(np, ds, x, v):
    force = ds.grad(lambda x: np.sum(np.cos(x)))
    for _ in range(3):
        v = v + 0.1 * force(x)
        x = x + 0.1 * v
    return x


@case(
    (uniform(20, 0.5, 1.5, 4),), lambda bar, x: bar * (2 * numpy.cos(x) - x * numpy.sin(x)), plain=lambda x: numpy.sin(x) + x * numpy.cos(x)
)
def gradients_in_a_map(np, ds, x):
    return ds.map(ds.grad(lambda v: v * np.sin(v)), x)


@case((2.0,), lambda a: a ** (-2 / 3) / 3, kind="grad", plain=lambda a: a ** (1 / 3))
def newton_with_a_derivative_from_grad(np, ds, a):
    residual = lambda y: y**3 - a  # noqa: E731
    x = 1.2
    for _ in range(8):
        x = x - residual(x) / ds.grad(residual)(x)
    return x


@case((normal(21, 3),), lambda bar, x: numpy.einsum("ij,ij->i", bar, -numpy.diag(numpy.sin(x))), plain=lambda x: numpy.diag(numpy.cos(x)))
def jacobian_inside_a_program(np, ds, x):
    return ds.jacobian(np.sin)(x)


@case((normal(22, 3),), lambda bar, x: -numpy.diag(bar) * numpy.sin(x), plain=lambda x: numpy.diag(numpy.cos(x)))
def forward_jacobian_inside_a_program(np, ds, x):
    return ds.jacfwd(np.sin)(x)


@case((normal(23, 3),), lambda bar, x: numpy.diag(bar) * 24 * x, plain=lambda x: numpy.diag(12 * x**2))
def hessian_inside_a_program(np, ds, x):
    return ds.hessian(lambda y: np.sum(y**4))(x)


@case((normal(24, 3), normal(25, 3)), lambda bar, x, v: (24 * bar * x * v, 12 * bar * x**2), plain=lambda x, v: 12 * x**2 * v)
def hessian_vector_product_inside_a_program(np, ds, x, v):
    return ds.hvp(lambda y: np.sum(y**4), x, v)


@case((normal(26, 3),), lambda bars, x: bars[0] * 3 * x**2 + bars[1] * 6 * x, plain=lambda x: (numpy.sum(x**3), 3 * x**2))
def value_and_gradient_both_used(np, ds, x):
    return ds.value_and_grad(lambda y: np.sum(y**3))(x)


@case((normal(27, 2, 3), normal(28, 2)), STORED, kind="hvp", wrt=0)
def recurrent_network(np, w, h):
    for _ in range(3):
        h = np.tanh(w @ np.concatenate([h, h[:1] ** 2]))
    return np.sum(h * h)
