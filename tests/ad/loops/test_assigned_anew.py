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
