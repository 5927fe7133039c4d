"""Powers of roots in a step: first and second derivatives at 0, where the root's are infinite or undefined, and elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dn
from diffsim.expr import exp, log, sqrt

EXACT = 1e-11
"""Relative error of closed forms in f64."""
POWERS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "sqrt squared": (lambda u, v: sqrt(u) ** 2, lambda u, v: u),
    "product of sqrt": (lambda u, v: sqrt(u) * sqrt(u), lambda u, v: u),
    "sqrt to the fourth": (lambda u, v: sqrt(u) ** 4, lambda u, v: u * u),
    "cubic root cubed": (lambda u, v: (u ** (1 / 3)) ** 3, lambda u, v: u),
    "fourth root": (lambda u, v: (u**0.25) ** 4 * v, lambda u, v: u * v),
    "abs squared": (lambda u, v: abs(v) ** 2, lambda u, v: v * v),
    "abs to the fourth": (lambda u, v: abs(v - u) ** 4, lambda u, v: (v - u) ** 4),
    "speed squared": (lambda u, v: sqrt(u * u + v * v) ** 2, lambda u, v: u * u + v * v),
    "speed to the fourth": (lambda u, v: sqrt(u * u + v * v) ** 4, lambda u, v: (u * u + v * v) ** 2),
    "exp of log": (lambda u, v: exp(log(u)) * v, lambda u, v: u * v),
    "bell": (lambda u, v: exp(-(abs(v) ** 2)), lambda u, v: dn.exp(-v * v)),
}


class Roots(ds.Equation):
    """The functions of the table, in a field each."""

    def __init__(self, grid: ds.Grid) -> None:
        self.grid, self.dt = grid, 1.0
        self.states = {"u": ds.Variable(), "v": ds.Variable()}

    def step(self, u: Any, v: Any) -> dict[str, Any]:
        return {"u": u, "v": sum((k + 1.0) * f(u, v) for k, (f, _) in enumerate(POWERS.values()))}


def smooth(u: Any, v: Any) -> Any:
    return sum((k + 1.0) * f(u, v) for k, (_, f) in enumerate(POWERS.values()))


@pytest.mark.gradients
def test_powers_of_roots_in_a_step() -> None:
    steps = ds.Simulation(Roots(ds.Grid((6,), spacing=1.0)), precision="f64")
    u, v = np.array([0.0, 0.0, 0.3, 0.7, 0.0, 1.1]), np.array([0.0, 0.4, 0.0, -0.6, 1.2, 0.9])
    du, dv, w = np.random.default_rng(0).standard_normal((3, 6))

    def loss(f: Any) -> Callable[[Any, Any], Any]:
        return lambda u, v: dn.sum(w * f(u, v)) + dn.sum(f(u, v) ** 2)

    found, wanted = loss(lambda u, v: steps.run({"u": u, "v": v}, 1).final["v"]), loss(smooth)
    with np.errstate(divide="ignore"):
        for one, other in zip(ds.grad(found, (0, 1))(u, v), ds.grad(wanted, (0, 1))(u, v), strict=True):
            np.testing.assert_allclose(one, other, rtol=EXACT, atol=EXACT)
        assert ds.jvp(found, (u, v), (du, dv))[1] == pytest.approx(ds.jvp(wanted, (u, v), (du, dv))[1], rel=EXACT)
        together = [lambda z, f=f: f(z[0], z[1]) for f in (found, wanted)]
        z, dz = np.stack([u, v]), np.stack([du, dv])
        np.testing.assert_allclose(ds.hvp(together[0], z, dz), ds.hvp(together[1], z, dz), rtol=EXACT, atol=EXACT)
