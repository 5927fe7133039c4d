"""Names that a body reads and that are assigned anew after its loop: an error, never another gradient."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import ReplayError

X = numpy.array([0.3, -0.5, 0.8])
Body = Callable[[Any], Any]
LOOPS: dict[str, Callable[[Body, Any], Any]] = {
    "fori_loop": lambda body, z: ds.fori_loop(0, 3, lambda _, z: body(z), z),
    "fori_loop in two slots": lambda body, z: ds.fori_loop(0, 3, lambda _, z: body(z), z, checkpoint=2),
    "while_loop": lambda body, z: ds.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, body(s[1])), (0, z))[1],
    "remat": lambda body, z: ds.remat(body)(z),
    "remat in fori_loop": lambda body, z: ds.fori_loop(0, 2, lambda _, z: ds.remat(body)(z), z),
    "cond": lambda body, z: ds.cond(z[0] > 0, body, lambda z: z, z),
}
ANEW: dict[str, Callable[[Any, Any], Any]] = {
    "held constant": lambda y, out: ds.stop_gradient(y),
    "a copy": lambda y, out: 1.0 * y,
    "the result": lambda y, out: out,
    "a number": lambda y, out: 7.0,
    "an equal part": lambda y, out: y + 0.0 * out,
}
DERIVATIVES: dict[str, Callable[..., Any]] = {
    "grad": ds.grad,
    "hessian": ds.hessian,
    "gradient of a gradient": lambda f: ds.grad(lambda x: np.sum(ds.grad(f)(x) ** 2)),
    "jacfwd": ds.jacfwd,
}


def energy(loop: str, anew: str | None) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = np.sin(x)

        def body(z: Any) -> Any:
            return 0.7 * np.cos(z) + 0.1 * y * z

        out = LOOPS[loop](body, np.cos(x))
        if anew is not None:
            y = ANEW[anew](y, out)
        return np.sum(out * out)

    return f


@pytest.mark.parametrize(("loop", "anew"), list(itertools.product(LOOPS, ANEW)))
def test_a_name_that_is_assigned_anew_gives_no_other_gradient(loop: str, anew: str) -> None:
    for name, derivative in DERIVATIVES.items():
        expected = derivative(energy(loop, None))(X)
        with contextlib.suppress(ReplayError):
            value = derivative(energy(loop, anew))(X)
            numpy.testing.assert_allclose(value, expected, rtol=1e-12, err_msg=name)
            continue
        assert loop != "cond" and name != "jacfwd", "the body is run once"


def test_a_condition_may_read_what_the_body_does_not() -> None:
    def f(x: Any) -> Any:
        most = np.sum(x * x)
        return ds.while_loop(lambda z: np.sum(z) < 3 + most, lambda z: 1.1 * z * z + x * x + 0.5, x)[0]

    step = 1e-6 * numpy.eye(3)
    numpy.testing.assert_allclose(ds.grad(f)(X), [(f(X + d) - f(X - d)) / 2e-6 for d in step], rtol=1e-6, atol=1e-8)


factor = 0.0
"""A global name, assigned anew by the test."""


def looped(body: Any, s: Any) -> Any:
    return ds.fori_loop(0, 3, lambda i, s: body(s), s)


def repeated(body: Any, s: Any) -> Any:
    return ds.while_loop(lambda s: s[1] < 3, lambda s: (body(s[0]), s[1] + 1), (s, 0))[0]


def again(body: Any, s: Any) -> Any:
    return ds.remat(body)(s)


@pytest.mark.parametrize("run", [looped, repeated, again])
@pytest.mark.parametrize("kind", ["loop variable", "local", "global"])
def test_a_name_that_was_assigned_anew_is_named(run: Any, kind: str) -> None:
    """The variable of a loop of Python has its last value when the bodies of all turns are run again."""

    def total(s: Any) -> Any:
        global factor
        for k in range(3):
            weights = np.ones(3) * k
            factor = 0.1 * k
            body = {
                "loop variable": lambda s: s * (1 + 0.1 * k),  # noqa: B023  that is the mistake
                "local": lambda s: s * (1 + weights),  # noqa: B023
                "global": lambda s: s * (1 + factor),  # noqa: B023
            }[kind]
            s = run(body, s)
        return s.sum()

    name = {"loop variable": "k", "local": "weights", "global": "factor"}[kind]
    words = rf"run again for its derivative: it reads {name}, assigned anew since.*as in lambda \.\.\., {name}={name}: \.\.\."
    with pytest.raises(ReplayError, match=words):
        ds.grad(total)(np.arange(3.0))


def test_a_default_argument_keeps_the_value_and_random_numbers_have_no_name() -> None:
    def total(s: Any) -> Any:
        for k in range(3):
            s = ds.fori_loop(0, 2, lambda i, s, k=k: s * (1 + 0.1 * k), s)
        return s.sum()

    np.testing.assert_allclose(ds.grad(total)(np.ones(2)), (1.1 * 1.2) ** 2)
    rng = np.random.default_rng(0)
    with pytest.raises(ReplayError, match="it draws random numbers, or reads something that changes"):
        ds.grad(lambda s: ds.remat(lambda s: s * rng.random())(s).sum())(np.ones(2))


class Holder:
    total = 2.0


def test_an_attribute_is_no_name_that_was_assigned_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A global name of the module is that of an attribute that the body reads."""
    holder, rng = Holder(), np.random.default_rng(0)
    monkeypatch.setitem(globals(), "total", 1.0)

    def loss(s: Any) -> Any:
        s = ds.remat(lambda s: s * holder.total * rng.random())(s)
        globals()["total"] = 3.0
        return s.sum()

    with pytest.raises(ReplayError, match="it draws random numbers, or reads something that changes"):
        ds.grad(loss)(np.ones(2))


def test_a_function_without_a_module_is_run_again() -> None:
    space: dict[str, Any] = {}
    exec("def square(x):\n    return x * x", space)
    np.testing.assert_allclose(ds.grad(lambda s: ds.remat(space["square"])(s).sum())(np.ones(3)), 2 * np.ones(3))
