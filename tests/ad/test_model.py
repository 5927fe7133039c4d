"""Simulations as operations on the tape: every transformation goes through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import DerivativeError

STEPS = 24
ROUNDOFF = 1e-11
"""Relative; two sweeps of the same operations in another order."""
DIFFERENCES = 1e-6
"""Relative; central differences in f64 with a step of 1e-4."""


@pytest.fixture(scope="module")
def simulations() -> tuple[ds.Simulation, ds.Simulation]:
    grid = ds.Grid((20, 24), 10.0)
    equation = ds.solvers.Acoustic(grid, dt=1e-3, order=4)
    near = ds.Simulation(equation, sources={"f": [(50.0, 60.0)]}, receivers={"p": [(100.0, 100.0), (120.0, 60.0)]})
    far = ds.Simulation(equation, sources={"f": [(150.0, 160.0)]}, receivers={"p": [(100.0, 100.0)]})
    return near, far


@pytest.fixture(scope="module")
def args() -> tuple[numpy.ndarray, ...]:
    rng = numpy.random.default_rng(0)
    return 1500 + 50 * rng.standard_normal((20, 24)), 100 * rng.standard_normal((STEPS, 1)), 0.1 * rng.standard_normal((20, 24))


@pytest.fixture(scope="module")
def direction(args: tuple[numpy.ndarray, ...]) -> tuple[numpy.ndarray, ...]:
    rng = numpy.random.default_rng(1)
    return tuple(rng.standard_normal(a.shape) for a in args)


@pytest.fixture(scope="module")
def loss(simulations: tuple[ds.Simulation, ds.Simulation]) -> Callable[..., Any]:
    """Two simulations that share a wave speed, one of them run twice, and array code around them."""
    near, far = simulations

    def value(c: Any, amplitude: Any, p: Any) -> Any:
        a = near.run({"c": c, "f": amplitude, "p": p}, STEPS)
        b = far.run({"c": 1.1 * c, "f": np.ones((STEPS, 1))}, STEPS, checkpoint=3)
        again = far.run({"c": c, "f": 2.0 * amplitude}, STEPS)
        return 1e3 * (np.sum(np.sin(a.traces["p"]) ** 2) + np.sum(b.traces["p"][::2] ** 2) + np.sum(a.final["p"] * again.final["p"]))

    return value


def moved(args: Any, direction: Any, h: float) -> list[numpy.ndarray]:
    return [a + h * d for a, d in zip(args, direction, strict=True)]


def inner(a: Any, b: Any) -> float:
    return sum(float(numpy.sum(x * y)) for x, y in zip(a, b, strict=True))


def test_forward_reverse_and_differences_agree(loss: Any, args: Any, direction: Any) -> None:
    value, gradient = ds.value_and_grad(loss, (0, 1, 2))(*args)
    _, slope = ds.jvp(loss, args, direction)
    h = 1e-4
    difference = (loss(*moved(args, direction, h)) - loss(*moved(args, direction, -h))) / (2 * h)
    assert value == pytest.approx(loss(*args), rel=ROUNDOFF)
    assert inner(gradient, direction) == pytest.approx(slope, rel=ROUNDOFF)
    assert slope == pytest.approx(difference, rel=DIFFERENCES)


def test_second_derivatives_in_every_nesting(loss: Any, args: Any, direction: Any) -> None:
    gradient = ds.grad(loss, (0, 1, 2))
    forward_over_reverse = ds.jvp(gradient, args, direction)[1]
    h = 1e-4
    after, before = gradient(*moved(args, direction, h)), gradient(*moved(args, direction, -h))
    for product, a, b in zip(forward_over_reverse, after, before, strict=True):
        difference = (a - b) / (2 * h)
        assert numpy.abs(product - difference).max() < DIFFERENCES * numpy.abs(difference).max()
    reverse_over_reverse = ds.vjp(gradient, *args)[1](direction)
    reverse_over_forward = ds.grad(lambda *a: ds.jvp(loss, a, direction)[1], (0, 1, 2))(*args)
    for product, other, third in zip(forward_over_reverse, reverse_over_reverse, reverse_over_forward, strict=True):
        assert numpy.abs(product - other).max() < ROUNDOFF * numpy.abs(product).max()
        assert numpy.abs(product - third).max() < ROUNDOFF * numpy.abs(product).max()


def test_forward_over_forward(loss: Any, args: Any, direction: Any) -> None:
    curvature = ds.jvp(lambda *a: ds.jvp(loss, a, direction)[1], args, direction)[1]
    assert curvature == pytest.approx(inner(ds.jvp(ds.grad(loss, (0, 1, 2)), args, direction)[1], direction), rel=ROUNDOFF)


def test_a_simulation_in_a_checkpointed_loop_and_in_remat(simulations: Any, args: Any, direction: Any) -> None:
    near, _ = simulations
    c, amplitude, p = args

    def step(state: Any, c: Any) -> Any:
        return near.run({"c": c, "f": amplitude[:5], "p": state}, 5).final["p"]

    def looped(c: Any, p: Any) -> Any:
        return np.sum(ds.fori_loop(0, 6, lambda _, state: step(state, c), p, checkpoint=2) ** 2)

    def plain(c: Any, p: Any) -> Any:
        for _ in range(6):
            p = ds.remat(step)(p, c)
        return np.sum(p**2)

    expected = ds.grad(plain, (0, 1))(c, p)
    assert all(numpy.array_equal(a, b) for a, b in zip(ds.grad(looped, (0, 1))(c, p), expected, strict=True))
    assert ds.jvp(looped, (c, p), (direction[0], direction[2]))[1] == pytest.approx(
        inner(expected, (direction[0], direction[2])), rel=ROUNDOFF
    )


def test_an_input_that_is_not_in_wrt_is_refused(args: Any) -> None:
    fixed = ds.Simulation(ds.solvers.Acoustic(ds.Grid((20, 24), 10.0), dt=1e-3), receivers={"p": [(100.0, 100.0)]}, wrt=["p"])
    loss = lambda c, p: np.sum(fixed.run({"c": c, "p": p}, 3).final["p"] ** 2)  # noqa: E731
    assert ds.grad(loss, 1)(args[0], args[2]).shape == args[2].shape
    with pytest.raises(DerivativeError, match=r"gradients with respect to p, but c is differentiated; add it to wrt="):
        ds.grad(loss, 0)(args[0], args[2])


def test_a_pullback_used_twice_runs_the_simulation_again(simulations: Any, args: Any) -> None:
    near, _ = simulations
    _, pullback = ds.vjp(lambda c: near.run({"c": c, "f": args[1], "p": args[2]}, STEPS).traces["p"], args[0])
    ct = numpy.random.default_rng(2).standard_normal((STEPS + 1, 2))
    first = pullback(ct)[0]
    near.run({"c": args[0], "f": 0 * args[1]}, STEPS)  # overwrites the states
    assert numpy.array_equal(pullback(ct)[0], first)
    assert numpy.array_equal(pullback(2 * ct)[0], 2 * first)


def test_single_precision_inputs_meet_the_simulations_precision(simulations: Any, args: Any) -> None:
    near, _ = simulations
    loss = lambda p: np.sum(near.run({"c": args[0], "f": args[1][:3], "p": p}, 3).final["p"])  # noqa: E731
    gradient = ds.grad(loss)(args[2].astype(numpy.float32))
    assert gradient.dtype == numpy.float32
    assert numpy.abs(gradient - ds.grad(loss)(args[2])).max() < 1e-5
