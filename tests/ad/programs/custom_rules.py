"""Rules given by hand, and values that count as constants.

Where a rule is right, the expectation is the derivative of the function. Where it differs on purpose, it is that of the rule.
"""

from __future__ import annotations

import numpy

from .cases import COMPLEX_STEP, group, normal

case = group("custom rules")


@case((numpy.array([-3.0, 0.5, 40.0]),), lambda bar, x: bar / (1 + numpy.exp(-x)), transposable=False)
def softplus_that_does_not_overflow(np, ds, x):
    @ds.custom_vjp
    def softplus(x):
        return np.log(1 + np.exp(x))

    softplus.defvjp(lambda x: (softplus(x), x), lambda x, bar: (bar / (1 + np.exp(-x)),))
    return softplus(x)


@case((normal(1, 4),), lambda bar, x: numpy.clip(bar * 2 * x, -1.2, 1.2), differences=False, transposable=False)
def cotangent_clipped(np, ds, x):
    @ds.custom_vjp
    def passed_on(x):
        return x * 1.0

    passed_on.defvjp(lambda x: (x * 1.0, None), lambda _, bar: (np.clip(bar, -1.2, 1.2),))
    return passed_on(x) ** 2


@case((normal(2, 3), normal(3, 3)), lambda bar, x, y: (bar * y, bar * x), transposable=False)
def two_arguments_and_a_residual_record(np, ds, x, y):
    product = ds.custom_vjp(lambda x, y: x * y)
    product.defvjp(lambda x, y: (x * y, {"x": x, "y": y}), lambda kept, bar: (bar * kept["y"], bar * kept["x"]))
    return product(x, y)


@case((normal(4, 3),), lambda bar, x: -bar * numpy.cos(x), differences=False, transposable=False)
def gradient_reversed(np, ds, x):
    reversed_ = ds.custom_vjp(lambda x: x * 1.0)
    reversed_.defvjp(lambda x: (x * 1.0, None), lambda _, bar: (-bar,))
    return reversed_(np.sin(x))


@case((numpy.array([0.3, 1.8]),), lambda bar, x: bar * 2 * x, differences=False)
def rounding_that_passes_the_gradient(np, ds, x):
    """The straight-through estimator, with its constant part."""
    squared = x * x
    return squared + ds.stop_gradient(np.round(squared) - squared)


@case((normal(5, 3),), lambda bar, x: bar * x, differences=False)
def one_factor_counts_as_constant(np, ds, x):
    return x * ds.stop_gradient(x)


@case((normal(6, 3), normal(7, 3)), lambda bar, x, y: (0 * x, bar), exact_zeros=True, differences=False)
def record_that_counts_as_constant(np, ds, x, y):
    frozen = ds.stop_gradient({"x": x, "twice": 2 * x})
    return frozen["x"] + frozen["twice"] + y


def _fixed_point_slope(c):
    x = 0.5
    for _ in range(200):
        x = c * numpy.cos(x)
    return numpy.cos(x) / (1 + c * numpy.sin(x))


@case((0.6,), _fixed_point_slope, kind="grad", transposable=False)
def fixed_point_by_the_implicit_function_theorem(np, ds, c):
    """x = c cos(x): the iteration is not recorded; dx/dc = cos(x) / (1 + c sin(x))."""

    @ds.custom_vjp
    def solve(c):
        x = 0.5
        for _ in range(100):
            x = c * np.cos(x)
        return x

    def forward(c):
        x = solve(c)
        return x, (c, x)

    def backward(kept, bar):
        c, x = kept
        return (bar * np.cos(x) / (1 + c * np.sin(x)),)

    solve.defvjp(forward, backward)
    return solve(c)


@case((normal(8, 3),), lambda bar, x: bar / numpy.cosh(x) ** 2)
def tangent_rule(np, ds, x):
    """A linear rule for the tangent serves the cotangent too."""

    @ds.custom_jvp
    def tanh(x):
        return np.tanh(x)

    @tanh.defjvp
    def rule(primals, tangents):
        y = tanh(primals[0])
        return y, (1 - y * y) * tangents[0]

    return tanh(x)


@case((normal(9, 3), normal(10, 3)), lambda dots, x, y: dots[0] * y + dots[1] * x, kind="jvp")
def tangent_rule_of_two_arguments(np, ds, x, y):
    @ds.custom_jvp
    def product(x, y):
        return x * y

    product.defjvp(lambda primals, dots: (primals[0] * primals[1], dots[0] * primals[1] + primals[0] * dots[1]))
    return product(x, y)


@case((normal(11, 3),), lambda bar, x: 10 * bar, differences=False)
def tangent_rule_that_scales(np, ds, x):
    scaled = ds.custom_jvp(lambda x: x * 1.0)
    scaled.defjvp(lambda primals, dots: (primals[0] * 1.0, 10 * dots[0]))
    return scaled(x)


@case((0.7,), COMPLEX_STEP, kind="grad", transposable=False)
def rule_used_in_a_loop(np, ds, x):
    sine = ds.custom_vjp(lambda x: np.sin(x))
    sine.defvjp(lambda x: (np.sin(x), x), lambda x, bar: (bar * np.cos(x),))
    for _ in range(5):
        x = sine(x) + 0.5 * x
    return x


@case((normal(12, 3),), lambda bar, x: bar * 6 * x, plain=lambda x: 3 * x**2, transposable=False)
def rule_that_is_derived_again(np, ds, x):
    cube = ds.custom_vjp(lambda x: x**3)
    cube.defvjp(lambda x: (x**3, x), lambda x, bar: (3 * x**2 * bar,))
    return ds.grad(lambda y: np.sum(cube(y)))(x)


@case((normal(13, 3),), lambda v, x: 6 * x * v, kind="hvp")
def tangent_rule_that_is_derived_again(np, ds, x):
    cube = ds.custom_jvp(lambda x: x**3)
    cube.defjvp(lambda primals, dots: (primals[0] ** 3, 3 * primals[0] ** 2 * dots[0]))
    return np.sum(cube(x))


@case((normal(14, 3), normal(15, 3)), lambda bar, x, w: (0 * x, bar * 2 * w), exact_zeros=True, differences=False)
def target_that_is_kept_fixed(np, ds, x, w):
    """A bootstrapped target: the derivative is for the prediction alone."""
    return w * w + ds.stop_gradient(np.exp(x) + w)
