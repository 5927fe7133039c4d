"""Entries that a mask leaves out do not count, however singular: value and derivatives are those of the same program without it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.ad.ops import elementwise as ew
from diffsim.numpy.ufunc import ufunc
from tests.sampled import together

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 0.5 * np.pi, 1e300, -1e300, 800.0, 1e-310]
"""Singular points of some function: zeros, poles, branch points, ends of domains, and overflows."""
FUNCTIONS = [
    name
    for name, f in vars(dn).items()
    if isinstance(f, ufunc) and name == f.__name__ and not f._primitive.constant and f._primitive is ew.TABLE.get(name)
]
GOOD = {"arccosh": (1.5, 2.5, 3.5), "arcsin": (0.2, 0.5, -0.4), "arccos": (0.2, 0.5, -0.4), "arctanh": (0.2, 0.5, -0.4)}
DIRECTION = np.array([1.0, -2.0, 0.5])


def chain(name: str, x: Any) -> Any:
    """The function, and operations that may follow it: products and functions of infinite values."""
    f = getattr(dn, name)
    y = f(x) if f.nin == 1 else f(x, 3 if name == "ldexp" else 0.7 * x)
    return y * x + dn.sin(y) + y * y


def by_where(f: Callable[[Any], Any], good: np.ndarray) -> Callable[[Any], Any]:
    return lambda x: dn.sum(dn.where(good, f(x), 0.0))


def by_selection(f: Callable[[Any], Any], good: np.ndarray) -> Callable[[Any], Any]:
    return lambda x: dn.sum(f(x)[good])


def by_assignment(f: Callable[[Any], Any], good: np.ndarray) -> Callable[[Any], Any]:
    def masked(x: Any) -> Any:
        y = dn.copy(f(x))
        y[~good] = 0.0
        return dn.sum(y)

    return masked


def by_maximum(f: Callable[[Any], Any], good: np.ndarray) -> Callable[[Any], Any]:
    return lambda x: dn.sum(dn.fmin(f(x), np.where(good, np.inf, 1.0))[good])


def by_where_sum(f: Callable[[Any], Any], good: np.ndarray) -> Callable[[Any], Any]:
    return lambda x: dn.sum(f(x), where=good)


MASKS = (by_where, by_selection, by_assignment, by_maximum, by_where_sum)


@together(itertools.product(FUNCTIONS, MASKS), apart=True)
def test_masked_entries_do_not_count(name: str, mask: Any) -> None:
    points = np.array(GOOD.get(name, (0.6, 1.7, 2.2)))
    x = np.concatenate([points, SPECIAL])
    good = np.arange(x.size) < 3
    v = np.concatenate([DIRECTION, np.ones(len(SPECIAL))])
    with np.errstate(all="ignore"):

        def whole(z: Any) -> Any:
            return mask(lambda y: chain(name, y), good)(z)

        def part(z: Any) -> Any:
            return dn.sum(chain(name, z))

        value, pullback = ds.vjp(whole, x)
        expected, pullback_of_part = ds.vjp(part, points)
        np.testing.assert_allclose(value, expected, rtol=1e-14)
        derivatives = [
            (pullback(1.0)[0], pullback_of_part(1.0)[0]),
            (ds.hvp(whole, x, v), ds.hvp(part, points, DIRECTION)),
            (ds.vjp(ds.grad(whole), x)[1](v)[0], ds.hvp(part, points, DIRECTION)),
        ]
        np.testing.assert_allclose(ds.jvp(whole, (x,), (v,))[1], ds.jvp(part, (points,), (DIRECTION,))[1], rtol=1e-12)
    for gradient, wanted in derivatives:
        np.testing.assert_allclose(gradient, np.concatenate([wanted, np.zeros(len(SPECIAL))]), rtol=1e-12, atol=1e-14)


ROWS = np.array([True, False, True])


def products() -> Iterator[Any]:
    yield pytest.param(lambda a, b: dn.matmul(a, b), id="matmul")
    yield pytest.param(lambda a, b: dn.einsum("ij,jk->ik", a, b), id="einsum")
    yield pytest.param(lambda a, b: dn.tensordot(a, b, 1), id="tensordot")
    yield pytest.param(lambda a, b: dn.prod(a, axis=1)[:, None] * b, id="prod")
    yield pytest.param(lambda a, b: dn.cumprod(a, axis=1) * b, id="cumprod")


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 0.0])
@pytest.mark.parametrize("product", list(products()))
def test_masked_rows_of_products_do_not_count(product: Any, bad: float) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    a[1] = [bad, 1.0, bad]

    def whole(a: Any, b: Any) -> Any:
        return dn.sum(dn.where(ROWS[:, None], dn.exp(0.1 * product(a, b)), 0.0))

    def part(a: Any, b: Any) -> Any:
        return dn.sum(dn.exp(0.1 * product(dn.where(ROWS[:, None], a, 1.0), b))[ROWS])

    with np.errstate(all="ignore"):
        gradients, wanted = ds.grad(whole, (0, 1))(a, b), ds.grad(part, (0, 1))(a, b)
    for x, y in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-15)


def test_entries_that_count_keep_their_infinity_and_nan() -> None:
    with np.errstate(all="ignore"):
        assert np.isnan(ds.grad(lambda x: dn.sum(dn.where(x > 0, dn.sin(x), 0.0)))(np.array([np.inf, 0.0]))[0])
        assert ds.grad(lambda x: dn.sum(dn.where(x >= 0, dn.sqrt(x), 0.0)))(np.array([0.0, -1.0])).tolist() == [np.inf, 0.0]
        assert np.isnan(ds.vjp(dn.exp, np.array([0.0, 1.0]))[1](np.array([np.nan, 1.0]))[0][0])
        a = np.array([[np.inf, 1.0], [np.nan, 2.0]])
        x_bar = ds.vjp(lambda x: dn.matmul(a, x), np.ones((2, 2)))[1](np.array([[2.0, 0.0], [0.0, 3.0]]))[0]
    np.testing.assert_array_equal(x_bar, [[np.inf, np.nan], [2.0, 6.0]])


def test_an_infinite_cotangent_ends_where_another_entry_was_chosen() -> None:
    for f in (lambda x: dn.sqrt(dn.maximum(x, 0.0)), lambda x: dn.sqrt(dn.where(x > 0, x, 0.0)), lambda x: dn.sqrt(dn.clip(x, 0.0, None))):
        with np.errstate(all="ignore"):
            assert ds.grad(lambda x, f=f: dn.sum(f(x)))(np.array([-1.0, 4.0])).tolist() == [0.0, 0.25]


def test_no_pullback_is_given_nan_that_a_mask_cuts_off() -> None:
    """Neither by `custom_vjp`, nor by a loop, nor with the state of floating-point errors that a sweep uses for itself."""
    cotangents = []

    @ds.custom_vjp
    def twice(x: Any) -> Any:
        return 2.0 * x

    def backward(_: Any, ct: Any) -> Any:
        cotangents.append((ct.copy(), np.geterr()["over"]))
        return (2.0 * ct,)

    twice.defvjp(lambda x: (2.0 * x, None), backward)
    x = np.array([0.0, 1.0])
    with np.errstate(all="ignore", over="raise"):
        gradient = ds.grad(lambda x: dn.sum(dn.where(x > 0, x * dn.log(twice(x)), 0.0)))(x)
    np.testing.assert_allclose(gradient, [0.0, 1.0 + np.log(2.0)])
    assert all(np.isfinite(ct).all() and over == "raise" for ct, over in cotangents)
