"""Where a derivative is infinite, many-valued or divided by zero: never NaN, and zero where nothing depends on it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.errors import DerivativeError

ORIGIN: dict[str, Callable[..., Any]] = {
    "abs": lambda x: dn.sum(dn.abs(x)),
    "abs of complex numbers": lambda x: dn.sum(dn.abs(x * (1.0 + 2.0j))),
    "square root of a square": lambda x: dn.sqrt(dn.sum(x * x) + 0.0) if dn.sum(x * x) > 0 else dn.sum(x) * 0.0,
    "norm": lambda x: dn.linalg.norm(x),
    "norm of a matrix": lambda x: dn.linalg.norm(dn.outer(x, x)),
    "norm of order 3": lambda x: dn.linalg.norm(x, 3),
    "norm of order 1": lambda x: dn.linalg.norm(x, 1),
    "norm of the largest": lambda x: dn.linalg.norm(x, np.inf),
    "hypot": lambda x: dn.sum(dn.hypot(x, 2.0 * x)),
    "arctan2": lambda x: dn.sum(dn.arctan2(x, 3.0 * x)),
    "angle": lambda x: dn.sum(dn.angle(x + 1j * x)),
    "standard deviation": lambda x: dn.std(x),
    "square": lambda x: dn.sum(x**2),
    "cube": lambda x: dn.sum(x**3.0),
    "power 0": lambda x: dn.sum(x**0),
    "power of an array": lambda x: dn.sum(x ** np.array([1.0, 2.0, 0.0])),
    "power of a base": lambda x: dn.sum(np.array([0.0, 1.0, 2.0]) ** (x + 1.0)),
    "zero to a power": lambda x: dn.sum((x * 1.0) ** (x + 2.0)),
    "masked root": lambda x: dn.sum(dn.where(x > 0, dn.sqrt(x), 0.0)),
    "masked logarithm": lambda x: dn.sum(dn.where(x > 0, dn.log(dn.where(x > 0, x, 1.0)), 0.0)),
    "masked quotient": lambda x: dn.sum(dn.where(x > 0, 1.0 / dn.where(x > 0, x, 1.0), 0.0)),
    "product": lambda x: dn.prod(x),
    "running product": lambda x: dn.sum(dn.cumprod(x)),
    "largest": lambda x: dn.max(x),
    "logsumexp": lambda x: dn.logsumexp(x),
    "sinc": lambda x: dn.sum(dn.sinc(x)),
    "maximum": lambda x: dn.sum(dn.maximum(x, 0.0)),
    "determinant": lambda x: dn.linalg.det(dn.outer(x, x)),
    "variance": lambda x: dn.var(x),
}


KINKED = {
    "abs", "abs of complex numbers", "norm", "norm of a matrix", "norm of order 3", "norm of order 1", "norm of the largest", "hypot",
    "standard deviation",
}  # fmt: skip
"""Their first derivatives are subgradients at 0. The second derivatives are not 0."""


@pytest.mark.parametrize("name", ORIGIN)
def test_finite_at_the_origin(name: str) -> None:
    f, x = ORIGIN[name], np.zeros(3)
    gradient = ds.grad(f)(x)
    assert np.isfinite(gradient).all()
    assert np.isfinite(ds.jvp(f, (x,), (np.ones(3),))[1])
    along = np.array([1.0, -2.0, 0.5])
    for second in (lambda: ds.hvp(f, x, along), lambda: ds.vjp(ds.grad(f), x)[1](along)[0]):
        if name in KINKED:
            with pytest.raises(DerivativeError, match=r"the second derivative at a kink|the second derivative of"):
                second()
        else:
            assert np.isfinite(second()).all()


MASKED: dict[str, tuple[float, Callable[[Any], Any]]] = {
    "x log x": (0.0, lambda x: x * dn.log(x)),
    "x / x": (0.0, lambda x: x / x),
    "root times x": (0.0, lambda x: dn.sqrt(x) * x),
    "0 times a root": (0.0, lambda x: 0.0 * dn.sqrt(x) + x),
    "square of a root": (0.0, lambda x: dn.sqrt(x) ** 2),
    "power": (0.0, lambda x: x**0.5),
    "negative power": (0.0, lambda x: x**-1.0),
    "x to the x": (0.0, lambda x: x**x),
    "root of a square": (0.0, lambda x: dn.sqrt(x * x)),
    "arctan2": (0.0, lambda x: dn.arctan2(x, 0.0 * x)),
    "sine over x": (0.0, lambda x: dn.sin(x) / x),
    "matmul": (0.0, lambda x: dn.diag(dn.log(x)) @ x),
    "einsum": (0.0, lambda x: dn.einsum("i,i->i", dn.log(x), x)),
    "logaddexp": (0.0, lambda x: dn.logaddexp(dn.log(x), dn.log(x))),
    "arccos": (1.0, lambda x: dn.arccos(x)),
    "arcsin": (1.0, lambda x: dn.arcsin(x)),
    "arctanh": (1.0, lambda x: dn.arctanh(x)),
    "log1p": (-1.0, lambda x: dn.log1p(x)),
}


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_forward_mode_behind_a_mask_agrees_with_reverse_mode(name: str) -> None:
    """The mask chooses tangents, as it chooses values: infinity and NaN of the way not taken do not pass it."""
    bad, function = MASKED[name]

    def f(x: Any) -> Any:
        return dn.sum(dn.where(x != bad, function(x), 2.0 * x + 1.0) ** 2)

    x, ones = np.array([bad, 0.5]), np.ones(2)
    gradient = ds.grad(f)(x)
    assert gradient[0] == 4.0 * (2.0 * bad + 1.0)
    np.testing.assert_allclose([ds.jvp(f, (x,), (e,))[1] for e in np.eye(2)], gradient, rtol=1e-12)
    np.testing.assert_allclose(ds.jacfwd(f)(x), gradient, rtol=1e-12)
    twice = ds.jvp(lambda x: ds.jvp(f, (x,), (ones,))[1], (x,), (ones,))[1]
    np.testing.assert_allclose(twice, np.sum(ds.hvp(f, x, ones)), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("function", ["sqrt", "log", "reciprocal", "cbrt", "log2", "log10", "arcsin", "arccosh", "arctanh", "log1p"])
def test_masked_by_where_the_other_branch_does_not_count(function: str) -> None:
    """The branch that is not taken has an infinite derivative; its cotangent is zero, and so is its contribution."""
    bad = {"arcsin": 1.0, "arctanh": 1.0, "arccosh": 1.0, "log1p": -1.0}.get(function, 0.0)

    def f(x: Any) -> Any:
        return dn.sum(dn.where(x != bad, getattr(dn, function)(x), 2.0 * x + 1.0) ** 2)

    x = np.array([bad, 1.5 if function == "arccosh" else 0.5])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        gradient = ds.grad(f)(x)
        curvature = ds.hvp(f, x, np.ones(2))
        twice = ds.vjp(ds.grad(f), x)[1](np.ones(2))[0]
    assert gradient[0] == 4.0 * (2.0 * bad + 1.0) and np.isfinite(gradient[1])
    assert curvature[0] == 8.0 and np.isfinite(curvature[1])
    np.testing.assert_allclose(twice, curvature, rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: dn.max(x), [1.0, 0.0, 0.0]),
        (lambda x: dn.min(x), [1.0, 0.0, 0.0]),
        (lambda x: dn.maximum(x[0], x[1]), [1.0, 0.0, 0.0]),
        (lambda x: dn.minimum(x[0], x[1]), [1.0, 0.0, 0.0]),
        (lambda x: dn.fmax(x[0], x[1]), [1.0, 0.0, 0.0]),
        (lambda x: dn.fmin(x[0], x[1]), [1.0, 0.0, 0.0]),
        (lambda x: dn.max(x, initial=1.0), [1.0, 0.0, 0.0]),
        (lambda x: dn.clip(x[0], 1.0, 1.0) + dn.clip(x[1], x[2], 2.0), [1.0, 1.0, 0.0]),
        (lambda x: dn.cummax(x)[2], [1.0, 0.0, 0.0]),
        (lambda x: dn.cummin(x)[2], [1.0, 0.0, 0.0]),
        (lambda x: dn.sort(x)[0], [1.0, 0.0, 0.0]),
        (lambda x: dn.sort(x)[2], [0.0, 0.0, 1.0]),
        (lambda x: dn.sort(x, descending=True)[0], [1.0, 0.0, 0.0]),
        (lambda x: dn.sum(dn.unique(x)), [1.0, 0.0, 0.0]),
        (lambda x: dn.abs(x[0] - x[1]), [0.0, 0.0, 0.0]),
        (lambda x: dn.sign(x[0] - x[1]) * x[2], [0.0, 0.0, 0.0]),
    ],
)
def test_of_equal_entries_the_first_has_the_derivative(function: Callable[..., Any], expected: list[float]) -> None:
    x = np.ones(3)
    assert ds.grad(function)(x).tolist() == expected
    assert [ds.jvp(function, (x,), (unit,))[1] for unit in np.eye(3)] == expected


def test_of_a_number_and_nan_fmax_follows_the_number() -> None:
    x = np.array([np.nan, 2.0])
    assert ds.grad(lambda v: dn.fmax(v[0], v[1]))(x).tolist() == [0.0, 1.0]
    assert ds.grad(lambda v: dn.fmax(v[1], v[0]))(x).tolist() == [0.0, 1.0]
    assert ds.grad(lambda v: dn.fmin(v[0], v[1]))(x).tolist() == [0.0, 1.0]
    assert ds.grad(lambda v: dn.fmin(v[1], v[0]))(x).tolist() == [0.0, 1.0]


def test_zero_times_a_root_is_cut_off_in_reverse() -> None:
    """In forward mode it is not: infinity comes first there, and times zero is NaN."""
    assert ds.grad(lambda x: dn.sum(0.0 * dn.sqrt(x)))(np.zeros(2)).tolist() == [0.0, 0.0]


PARTS: dict[str, Callable[[Any, Any], Any]] = {
    "concatenate": lambda x, zeros: dn.concatenate([x, zeros]),
    "concatenate, zeros first": lambda x, zeros: dn.flip(dn.concatenate([zeros, dn.flip(x)])),
    "a list": lambda x, zeros: dn.array([x[0], x[1], 0.0, 0.0]),
    "stack": lambda x, zeros: dn.stack([x, zeros]).reshape(-1),
    "pad": lambda x, zeros: dn.pad(x, (0, 2)),
    "an assignment": lambda x, zeros: _assigned(np.zeros(4), x),
    "zeros assigned": lambda x, zeros: _assigned(dn.concatenate([x, x]), zeros, slice(2, None)),
    "a histogram": lambda x, zeros: ds.reduce_by_index("add", np.zeros(4), np.arange(2), x),
    "zeros in a histogram": lambda x, zeros: ds.reduce_by_index("add", dn.concatenate([x, zeros]), np.arange(2, 4), zeros),
    "bins": lambda x, zeros: dn.bincount(np.arange(2), x, minlength=4),
    "where": lambda x, zeros: dn.where(np.arange(4) < 2, dn.concatenate([x, x]), 0.0),
}
"""Two entries that vary, and two that are 0 whatever the inputs are."""


def _assigned(base: Any, values: Any, where: slice = slice(2)) -> Any:
    out = dn.array(base)
    out[where] = values
    return out


@pytest.mark.parametrize("name", PARTS)
def test_a_zero_among_constants_cuts_off_an_infinite_derivative(name: str) -> None:
    build, x = PARTS[name], np.array([3.0, -2.0])

    def product(x: Any, y: Any) -> Any:
        return dn.sum(build(x, np.zeros(2)) * dn.sqrt(y))

    to_x, to_y = ds.grad(product, argnums=(0, 1))(x, np.array([4.0, 9.0, 0.0, 0.0]))
    np.testing.assert_allclose(to_x, [2.0, 3.0])
    np.testing.assert_allclose(to_y, [0.75, -1 / 3, 0.0, 0.0])


def test_infinite_derivatives_are_infinite_and_not_nan() -> None:
    with np.errstate(divide="ignore"):
        assert ds.grad(lambda x: dn.sqrt(x))(0.0) == np.inf
        assert ds.grad(lambda x: x**0.5)(0.0) == np.inf
        assert ds.grad(lambda x: dn.log(x))(0.0) == np.inf


def test_logsumexp_of_minus_infinity() -> None:
    x = np.array([[-np.inf, -np.inf], [-np.inf, 0.0]])
    value, pullback = ds.vjp(lambda v: dn.logsumexp(v, axis=1), x)
    assert value.tolist() == [-np.inf, 0.0]
    assert pullback(np.ones(2))[0].tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_a_cotangent_that_is_cut_off_has_no_derivative_through_the_cut() -> None:
    """Zero times infinity must not come back in the second reverse sweep. A product that is not cut off has none."""
    kept = np.array([1.0, 0.0])
    with np.errstate(divide="ignore"):
        _, pullback = ds.vjp(ds.grad(lambda z: dn.sum(kept * dn.sqrt(z))), np.array([1.0, 0.0]))
        assert pullback(np.array([0.0, 1.0]))[0].tolist() == [0.0, 0.0]
        assert pullback(np.array([1.0, 0.0]))[0].tolist() == [-0.25, 0.0]


def test_a_factor_of_zero_that_is_another_input_cuts_off_a_first_derivative_alone() -> None:
    """u sqrt(h) at u = h = 0: 0 for all h. Its mixed second derivative is infinite."""
    f = lambda u, h: dn.sum(u * dn.sqrt(h))  # noqa: E731
    u, h = np.array([0.0, 2.0]), np.array([0.0, 4.0])
    assert [g.tolist() for g in ds.grad(f, (0, 1))(u, h)] == [[0.0, 2.0], [0.0, 0.5]]
    with pytest.raises(DerivativeError, match=r"0 and an infinite derivative of sqrt is not defined at index \(0,\)"):
        ds.jvp(lambda u: ds.grad(f, 1)(u, h), (u,), (np.ones(2),))
    with pytest.raises(DerivativeError, match="0 and an infinite derivative of sqrt"):
        ds.grad(lambda z: z[0] * dn.sqrt(z[1]))(np.zeros(2))


def test_the_order_of_a_norm_has_a_derivative() -> None:
    x = np.array([0.5, -1.5, 2.0])
    ds.check_grads(lambda x, p: dn.linalg.norm(x, p), (x, 2.5))
    assert ds.grad(lambda p: dn.linalg.norm(x, p))(2.5) < 0


SMOOTH: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "norm": (lambda x: dn.linalg.norm(x) ** 2, lambda x: x @ x),
    "norm to the fourth": (lambda x: dn.linalg.norm(x) ** 4, lambda x: (x @ x) ** 2),
    "bell": (lambda x: dn.exp(-dn.square(dn.linalg.norm(x))), lambda x: dn.exp(-(x @ x))),
    "hypot": (lambda x: dn.hypot(x[0], x[1]) ** 2, lambda x: x[0] ** 2 + x[1] ** 2),
    "abs of complex numbers": (lambda x: dn.sum(dn.abs(x * (1.0 + 2.0j)) ** 2), lambda x: 5 * (x @ x)),
    "std": (lambda x: dn.std(x) ** 2, lambda x: dn.var(x)),
    "roots": (lambda x: dn.sum(dn.sqrt(x) ** 2 + dn.cbrt(x) ** 3 + (x**0.25) ** 8), lambda x: dn.sum(2 * x + x * x)),
    "logarithms": (lambda x: dn.sum(dn.exp(dn.log(x)) + dn.exp2(dn.log2(x)) + dn.expm1(dn.log1p(x))), lambda x: 3 * dn.sum(x)),
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_powers_of_roots_have_the_derivatives_of_the_smooth_function(name: str) -> None:
    f, smooth = SMOOTH[name]
    v = np.array([1.0, -2.0, 0.5])
    for x in (np.zeros(3), np.array([0.0, 0.7, 1.2])):
        np.testing.assert_allclose(ds.grad(f)(x), ds.grad(smooth)(x), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(ds.jvp(f, (x,), (v,))[1], ds.jvp(smooth, (x,), (v,))[1], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(ds.hessian(f)(x), ds.hessian(smooth)(x), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(ds.vjp(ds.grad(f), x)[1](v)[0], ds.hvp(smooth, x, v), rtol=1e-12, atol=1e-12)


def test_a_product_of_a_root_with_itself_is_a_power_and_of_two_roots_is_refused() -> None:
    assert (ds.hessian(lambda x: dn.sum((r := dn.abs(x)) * r))(np.zeros(2)) == 2 * np.eye(2)).all()
    with pytest.raises(DerivativeError, match="the second derivative at a kink"):
        ds.hessian(lambda x: dn.sum(dn.abs(x) * dn.abs(x)))(np.zeros(2))
