"""Bodies of loops that read values of an outer derivative, against the same laps in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp

Body = Callable[[Any], Any]
LAPS = 3


def python(body: Body, y: Any) -> Any:
    for _ in range(LAPS):
        y = body(y)
    return y


def for_loop(body: Body, y: Any) -> Any:
    return ds.fori_loop(0, LAPS, lambda _, s: body(s), y)


def while_loop(body: Body, y: Any) -> Any:
    return ds.while_loop(lambda now: now[0] < LAPS, lambda now: (now[0] + 1, body(now[1])), (0, y))[1]


def remat(body: Body, y: Any) -> Any:
    for _ in range(LAPS):
        y = ds.remat(body)(y)
    return y


def nested(body: Body, y: Any) -> Any:
    """A loop whose body is a function that is computed again."""
    return ds.fori_loop(0, LAPS, lambda _, s: ds.remat(body)(s), y)


def total(y: Any) -> Any:
    return dnp.sum(y * dnp.cos(y))


Laps = Callable[[Body, Any], Any]
Derivative = Callable[[Callable[[Any], Any], Any], Any]

DERIVATIVES: dict[str, Derivative] = {
    "grad": lambda f, at: ds.grad(f)(at),
    "jvp": lambda f, at: ds.jvp(f, (at,), (dnp.ones_like(at),))[1],
    "hessian": lambda f, at: dnp.sum(ds.hessian(f)(at), axis=0),
}


def mixed(laps: Laps, inner: Derivative, outer: Derivative) -> Any:
    """The outer derivative for `x`, which the body reads from around it, of an inner one for `y`."""

    def of(x: Any) -> Any:
        inside = inner(lambda y: total(laps(lambda s: 0.3 * dnp.sin(s * x) + x, y)), np.array([0.7, -0.4]))
        return dnp.sum(inside * dnp.array([1.0, 0.5]))

    return outer(of, np.array([0.6, 1.3]))


@pytest.mark.parametrize("outer", DERIVATIVES)
@pytest.mark.parametrize("inner", DERIVATIVES)
@pytest.mark.parametrize("laps", [for_loop, while_loop, remat, nested])
def test_a_body_reads_a_value_of_an_outer_derivative(laps: Laps, inner: str, outer: str) -> None:
    computed, expected = (mixed(each, DERIVATIVES[inner], DERIVATIVES[outer]) for each in (laps, python))
    np.testing.assert_allclose(computed, expected, rtol=1e-12, atol=1e-13)
