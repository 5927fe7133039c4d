"""Rules given by hand: the places, number and arguments of their calls."""

from __future__ import annotations

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import DerivativeError, ShapeError


def scaled_vjp(**options):
    """f(n, x, y) = x y^n, with a rule that says ten times its derivative for x and none for y."""

    @(lambda f: ds.custom_vjp(f, **options))
    def f(n, x, y):
        return x * y**n

    f.defvjp(lambda n, x, y: (x * y**n, y**n), lambda *args: (10.0 * args[-2] * args[-1], None)[: len(args)])
    return f


def test_rule_is_taken_instead_of_the_derivative():
    f = scaled_vjp(nondiff_argnums=(0,))
    bars = ds.vjp(lambda x, y: f(2, x, y), 3.0, 2.0)[1](1.0)
    assert [float(b) for b in bars] == [40.0, 0.0]


def test_function_itself_runs_where_nothing_is_differentiated():
    f = scaled_vjp(nondiff_argnums=(0,))
    assert f(2, 3.0, 2.0) == 12.0
    assert float(ds.grad(lambda z: z + f(2, 3.0, 2.0))(1.0)) == 1.0


def test_rule_for_keyword_and_record_arguments():
    @ds.custom_jvp
    def norm(pair):
        return np.sqrt(np.sum(pair["a"] ** 2) + pair["b"] ** 2)

    @norm.defjvp
    def rule(primals, dots):
        (pair,), (dot,) = primals, dots
        value = norm(pair)
        return value, (np.sum(pair["a"] * dot["a"]) + pair["b"] * dot["b"]) / value

    pair = {"a": numpy.array([2.0, 3.0]), "b": 6.0}
    g = ds.grad(norm)(pair)
    numpy.testing.assert_allclose(g["a"], numpy.array([2.0, 3.0]) / 7, rtol=1e-15)
    assert float(g["b"]) == pytest.approx(6 / 7, rel=1e-15)
    dot = {"a": numpy.array([1.0, 0.0]), "b": 2.0}
    assert float(ds.jvp(norm, (pair,), (dot,))[1]) == pytest.approx(14 / 7, rel=1e-15)
    assert float(ds.hvp(norm, pair, dot)["b"]) == pytest.approx(2 / 7 - 6 * 14 / 7**3, rel=1e-13)


def test_backward_runs_once_a_call_of_the_pullback():
    calls = []

    @ds.custom_vjp
    def f(x):
        return x * 2.0

    f.defvjp(lambda x: (calls.append("forward") or x * 2.0, None), lambda _, ct: (calls.append("backward") or ct * 2.0,))
    _, pullback = ds.vjp(lambda x: f(x) + f(x), 1.0)
    pullback(1.0)
    pullback(1.0)
    assert calls == ["forward"] * 2 + ["backward"] * 4


def test_a_rule_may_assign_in_place_and_keep_any_value():
    @ds.custom_vjp
    def f(x):
        return np.cumsum(x)

    def forward(x):
        work = np.zeros(len(x))
        work[:] = x
        return np.cumsum(work), {"shape": x.shape, "text": "kept", "work": work}

    def backward(kept, ct):
        out = np.zeros(kept["shape"])
        out[...] = ct[::-1]
        return (np.cumsum(out)[::-1],)

    f.defvjp(forward, backward)
    x, ct = numpy.arange(3.0), numpy.array([1.0, 10.0, 100.0])
    numpy.testing.assert_array_equal(ds.vjp(f, x)[1](ct)[0], [111.0, 110.0, 100.0])
    numpy.testing.assert_array_equal(ct, [1.0, 10.0, 100.0])


def test_rule_in_loops_and_in_remat():
    f = scaled_vjp(nondiff_argnums=(0,))
    assert float(ds.grad(ds.remat(lambda x: f(2, x, 3.0)))(1.0)) == 90.0
    assert float(ds.grad(lambda x: ds.fori_loop(0, 2, lambda i, s: f(1, s, 3.0), x, checkpoint=1))(1.0)) == 900.0


# errors, each with a remedy


def rules(forward, backward):
    f = ds.custom_vjp(lambda x: x * 2.0)
    f.__name__ = "twice"
    f.defvjp(forward, backward)
    return f


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (ds.custom_vjp(np.sum), DerivativeError, r"has no rule; give one with defvjp\(forward, backward\)"),
        (ds.custom_jvp(np.sum), DerivativeError, r"has no rule; give one with defjvp\(rule\)"),
        (
            rules(lambda x: x, lambda _, ct: (ct,)),
            ShapeError,
            r"rule of twice returned Array, expected a pair \(value, residuals",
        ),
        (
            rules(lambda x: (x, None), lambda _, ct: ct),
            ShapeError,
            "rule of twice returned .*, expected a tuple of 1, one an argument",
        ),
        (rules(lambda x: (x, None), lambda _, ct: (ct, ct)), ShapeError, "backward rule of twice returned 2, expected a tuple of 1"),
        (rules(lambda x: (x, None), lambda _, ct: (ct[:1],)), ShapeError, r"gave a cotangent of shape \(1,\), expected \(2,\)"),
    ],
    ids=["no vjp", "no jvp", "no pair", "no tuple", "two for one", "shape"],
)
def test_wrong_rules(f, error, message):
    with pytest.raises(error, match=message):
        ds.grad(lambda x: np.sum(f(x)))(numpy.ones(2))


def test_wrong_jvp_rules():
    f = ds.custom_jvp(lambda x: x * 2.0)
    f.defjvp(lambda primals, dots: primals[0])
    with pytest.raises(ShapeError, match=r"rule returned .*, expected a pair \(value, tangent\)"):
        ds.jvp(f, (1.0,), (1.0,))


def test_differentiated_value_that_comes_in_by_closure_is_not_lost():
    """The rule knows nothing of it: its derivative must not be dropped without a word."""

    def f(x):
        inner = ds.custom_vjp(lambda y: y * x)
        inner.defvjp(lambda y: (y * x, x), lambda x, ct: (ct * x,))
        return inner(2.0 * x)

    try:
        slope = float(ds.grad(f)(3.0))
    except DerivativeError:
        return
    assert slope == 12.0
