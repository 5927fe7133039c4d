"""Derivatives of derivatives: levels in any order, through loops, rules and scans, against closed forms."""

from __future__ import annotations

import itertools

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import DerivativeError
from tests.sampled import together

# Closed forms are summed in another order; the fourth derivative of sin(x^2) loses some digits to cancellation.
TOLERANCE = 1e-11


def forward(f):
    return lambda x: ds.jvp(f, (x,), (1.0,))[1]


def by_pullback(f):
    return lambda x: ds.vjp(f, x)[1](1.0)[0]


def by_linearize(f):
    return lambda x: ds.linearize(f, x)[1](1.0)


MODES = {"jvp": forward, "vjp": by_pullback, "grad": ds.grad, "linearize": by_linearize}


def wave(x):
    """sin(x^2)"""
    return np.sin(x * x)


def wave_derivative(order: int, x: float) -> float:
    """Derivatives of sin(x^2)."""
    s, c = numpy.sin(x * x), numpy.cos(x * x)
    return [
        s,
        2 * x * c,
        2 * c - 4 * x**2 * s,
        -12 * x * s - 8 * x**3 * c,
        -12 * s - 48 * x**2 * c + 16 * x**4 * s,
    ][order]


@ds.custom_vjp
def wave_vjp(x):
    return np.sin(x * x)


wave_vjp.defvjp(lambda x: (np.sin(x * x), x), lambda x, ct: (ct * 2.0 * x * np.cos(x * x),))


@ds.custom_jvp
def wave_jvp(x):
    return np.sin(x * x)


wave_jvp.defjvp(lambda primals, dots: (np.sin(primals[0] ** 2), 2.0 * primals[0] * np.cos(primals[0] ** 2) * dots[0]))


def wave_in_place(x):
    y = np.zeros(3)
    y[1] = x
    y[1:] *= x
    y[0] += np.sin(y[1])
    return y[0]


# The same function of one number by every kind of operation that has derivatives of its own.
WAYS = {
    "plain": wave,
    "in place": wave_in_place,
    "remat": lambda x: ds.remat(wave)(x),
    "remat of an outside value": lambda x: ds.remat(lambda y: np.sin(x * y))(x),
    "fori_loop": lambda x: np.sin(ds.fori_loop(0, 2, lambda i, s: s * x, 1.0 + 0.0 * x, checkpoint=1)),
    "loop in a loop": lambda x: np.sin(ds.fori_loop(0, 2, lambda i, s: ds.fori_loop(0, 1, lambda j, t: t * x, s), 1.0 + 0.0 * x)),
    "while_loop": lambda x: np.sin(ds.while_loop(lambda s: s[1] < 2, lambda s: (s[0] * x, s[1] + 1), (1.0 + 0.0 * x, 0))[0]),
    "map": lambda x: np.sum(ds.map(lambda a: np.sin(a * x), np.stack([x, 0.0 * x]))),
    "map of rows": lambda x: np.sum(ds.map(lambda a: np.sin(a[0] * x) + a[1], np.stack([np.stack([x, 0.0 * x])]))),
    "scan": lambda x: np.sin(ds.scan(lambda a, b: a * b, np.stack([x, x]))[-1]),
    "scan of pairs": lambda x: np.sin(
        ds.scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (np.stack([x, x]), np.stack([x, 0.0 * x])))[1][-1]
    ),
    "reduce": lambda x: np.sin(ds.reduce("*", np.stack([x, x]))),
    "reduce_by_index": lambda x: np.sin(ds.reduce_by_index("*", np.ones(2), numpy.array([1, 1]), np.stack([x, x]))[1]),
    "scatter": lambda x: np.sin(np.sum(ds.scatter(np.zeros(3), numpy.array([1]), np.stack([x * x])))),
    "cond": lambda x: ds.cond(x > 0, wave, lambda x: 0.0 * x, x),
    "custom_vjp": wave_vjp,
    "custom_jvp": wave_jvp,
    "derivative inside": lambda x: ds.grad(lambda y: y * np.sin(x * x))(3.0),
    "pullback inside": lambda x: ds.vjp(lambda y: y * np.sin(x * x), x)[1](1.0)[0],
}
X = 0.7


ONE_OR_TWO = [*itertools.product(MODES, repeat=1), *itertools.product(MODES, repeat=2)]


@together([case for case in itertools.product(WAYS, ONE_OR_TWO) if case[0] != "custom_vjp" or "jvp" not in case[1]], apart=True)
def test_first_and_second_derivatives_in_any_order(way, modes):
    """`custom_vjp` has no rule for forward mode."""
    f = WAYS[way]
    for mode in reversed(modes):
        f = MODES[mode](f)
    assert float(f(X)) == pytest.approx(wave_derivative(len(modes), X), rel=TOLERANCE)


THREE = [("jvp", "grad", "jvp"), ("grad", "jvp", "grad"), ("grad", "grad", "grad")]


@together(itertools.product([way for way in WAYS if way not in ("custom_vjp", "loop in a loop", "map of rows")], THREE), apart=True)
def test_third_derivatives(way, modes):
    f = WAYS[way]
    for mode in reversed(modes):
        f = MODES[mode](f)
    assert float(f(X)) == pytest.approx(wave_derivative(3, X), rel=TOLERANCE)


@pytest.mark.parametrize("modes", list(itertools.product(("jvp", "grad"), repeat=4)), ids=" of ".join)
def test_fourth_derivative(modes):
    f = wave
    for mode in modes:
        f = MODES[mode](f)
    assert float(f(X)) == pytest.approx(wave_derivative(4, X), rel=TOLERANCE)


def test_custom_vjp_refuses_forward_mode():
    with pytest.raises(DerivativeError, match="wave_vjp has a reverse rule only"):
        ds.jvp(wave_vjp, (X,), (1.0,))


# perturbations of different levels must not be taken for one another


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("outer", MODES)
def test_inner_derivative_of_a_sum_with_an_outer_value(outer, inner):
    """d/dx [x d/dy (x + y)] = 1, and not 2."""
    assert float(MODES[outer](lambda x: x * MODES[inner](lambda y: x + y)(1.0))(1.0)) == 1.0


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("outer", MODES)
def test_inner_derivative_at_the_outer_value(outer, inner):
    """d/dx [d/dy (x y^2) at y = x] = d/dx 2 x^2."""
    assert float(MODES[outer](lambda x: MODES[inner](lambda y: x * y * y)(x))(3.0)) == pytest.approx(12.0)


@pytest.mark.parametrize("inner", MODES)
@pytest.mark.parametrize("outer", MODES)
def test_derivative_of_a_curried_function(outer, inner):
    """The operator D of a function that returns a derivative of a shifted function: Manzyuk and others' example."""

    def shifted(u):
        return lambda f: lambda x: f(x + u)

    def bracket(u):
        return MODES[inner](shifted(u)(np.exp))(1.0)

    assert float(MODES[outer](bracket)(0.5)) == pytest.approx(numpy.exp(1.5))
    assert float(MODES[outer](lambda u: shifted(u)(MODES[inner](np.exp))(1.0))(0.5)) == pytest.approx(numpy.exp(1.5))


def test_three_levels_of_closures():
    def f(x):
        return ds.grad(lambda y: x * ds.jvp(lambda z: x * y * z**2, (y,), (1.0,))[1])(x)

    assert float(f(2.0)) == pytest.approx(4 * 2.0**3)  # d/dy x (2 x y^2) = 4 x^2 y
    assert float(ds.grad(f)(2.0)) == pytest.approx(12 * 2.0**2)


# pullbacks as values


def test_pullback_called_twice_and_later():
    out, pullback = ds.vjp(lambda x: x**3, 2.0)
    assert [float(pullback(k)[0]) for k in (1.0, 1.0, -2.0)] == [12.0, 12.0, -24.0]
    assert float(out) == 8.0


def test_pullback_is_differentiable_in_its_cotangent_from_outside():
    _, pullback = ds.vjp(lambda x: np.sin(x) * x, 2.0)
    slope = numpy.cos(2.0) * 2 + numpy.sin(2.0)
    assert float(ds.grad(lambda ct: pullback(ct * ct)[0])(3.0)) == pytest.approx(6 * slope)


def test_pullback_made_inside_and_used_twice_inside():
    def f(x):
        _, pullback = ds.vjp(lambda y: y**3, x)
        return pullback(x)[0] * pullback(1.0)[0]  # 3 x^3 * 3 x^2

    assert float(ds.grad(f)(2.0)) == pytest.approx(9 * 5 * 2.0**4)
    assert float(ds.jvp(f, (2.0,), (1.0,))[1]) == pytest.approx(9 * 5 * 2.0**4)


def test_pullback_that_leaves_its_derivative_keeps_its_values():
    """It refers to the outer input; outside that input is no longer differentiated, and is refused rather than a constant."""
    kept = []

    def f(x):
        kept.append(ds.vjp(lambda y: y * x, x)[1])
        return x

    ds.grad(f)(2.0)
    with pytest.raises(DerivativeError, match="derivative that has ended"):
        kept[0](1.0)


# values that leave a derivative by another way


def test_value_that_leaves_by_a_list_is_refused():
    kept = []

    def inner(y):
        kept.append(y * 2.0)
        return y

    def f(x):
        ds.grad(inner)(x)
        return x + kept[-1]

    with pytest.raises(DerivativeError, match="derivative that has ended"):
        ds.grad(f)(1.0)


@pytest.mark.parametrize("use", [lambda b: b, lambda b: b * 2.0, np.sum], ids=["as it is", "times", "sum"])
def test_value_that_leaves_by_an_array_from_outside_is_refused(use):
    def f(x):
        buffer = np.zeros(2)

        def inner(y):
            buffer[0] = y * x
            return np.sum(buffer)

        ds.grad(inner)(x)
        return use(buffer)

    with pytest.raises(DerivativeError, match="derivative that has ended"):
        ds.vjp(f, 1.0)


# loops over derivatives, and derivatives of loops


def test_derivative_in_a_loop_that_is_differentiated():
    """Newton's square root: two steps of s - (s^2 - x) / d/ds (s^2 - x)."""

    def f(x):
        def step(_, s):
            value, slope = ds.value_and_grad(lambda t: t * t - x)(s)
            return s - value / slope

        return ds.fori_loop(0, 6, step, 1.0 + 0.0 * x, checkpoint=2)

    assert float(f(2.0)) == pytest.approx(numpy.sqrt(2.0))
    assert float(ds.grad(f)(2.0)) == pytest.approx(0.5 / numpy.sqrt(2.0))
    assert float(ds.grad(ds.grad(f))(2.0)) == pytest.approx(-0.25 * 2.0**-1.5)
    assert float(ds.jvp(ds.grad(f), (2.0,), (1.0,))[1]) == pytest.approx(-0.25 * 2.0**-1.5)


@pytest.mark.parametrize("around", [lambda f: f, ds.remat], ids=["plain", "remat"])
def test_derivative_in_a_python_loop(around):
    def f(x):
        total = 0.0
        for k in range(1, 4):
            total = total + around(ds.grad(lambda y, k=k: x * y**k))(x)
        return total  # sum k x^k

    assert float(ds.grad(f)(1.5)) == pytest.approx(1 + 4 * 1.5 + 9 * 1.5**2)


@pytest.mark.parametrize("loop", ["remat", "fori_loop", "while_loop"])
def test_body_that_reads_a_view_of_an_array_from_around(loop):
    """The view is stale when the body reads it, and must not be read as a constant."""
    runs = {
        "remat": lambda body, s: ds.remat(body)(s),
        "fori_loop": lambda body, s: ds.fori_loop(0, 1, lambda _, t: body(t), s),
        "while_loop": lambda body, s: ds.while_loop(lambda t: t[1] < 1, lambda t: (body(t[0]), t[1] + 1), (s, 0))[0],
    }

    def f(x):
        a = np.stack([x, x, x])
        view = a[1:]
        a[1] = x * x
        return runs[loop](lambda s: s * np.sum(view), x) + np.sum(view)  # x (x^2 + x) + x^2 + x

    assert float(ds.grad(f)(2.0)) == pytest.approx(3 * 4 + 2 * 2 + 2 * 2 + 1)
    assert float(ds.jvp(f, (2.0,), (1.0,))[1]) == pytest.approx(21.0)
    assert float(ds.grad(ds.grad(f))(2.0)) == pytest.approx(6 * 2.0 + 4)


def test_hessian_vector_product_through_assignments():
    def f(x):
        y = x.copy()
        for i in range(1, 4):
            y[i] = y[i] * y[i - 1]
        y[::2] *= x[::2]
        return np.sum(y)

    def written_out(x):
        a, b, c, d = x
        return a * a + a * b + a * b * c * c + a * b * c * d

    rng = numpy.random.default_rng(3)
    x, v = rng.standard_normal(4), rng.standard_normal(4)
    plain = lambda x: written_out([x[i] for i in range(4)])  # noqa: E731
    numpy.testing.assert_allclose(ds.hvp(f, x, v), ds.hvp(plain, x, v), rtol=TOLERANCE)
    a, b, c, d = x
    h01, h02, h03 = 1 + c * c + c * d, 2 * b * c + b * d, b * c
    h = numpy.array(
        [[2, h01, h02, h03], [h01, 0, 2 * a * c + a * d, a * c], [h02, 2 * a * c + a * d, 2 * a * b, a * b], [h03, a * c, a * b, 0]]
    )
    numpy.testing.assert_allclose(ds.hvp(f, x, v), h @ v, rtol=TOLERANCE)
