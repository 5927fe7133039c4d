"""Forward mode, reverse mode and batches of runs in JAX, in any mix: derivatives are those of diffsim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.bridges.transforms import Problem, calls_of, close
from tests.bridges.tube import STEPS, inputs_of, rod

jax = pytest.importorskip("jax")
bridge = pytest.importorskip("diffsim.jax")
jnp = jax.numpy


pytestmark = pytest.mark.usefixtures("wide")

CASES: dict[str, tuple[str, Callable[[Any, Any, Any, Any], Any]]] = {
    "jvp": ("slope", lambda f, x, v, rows: jax.jvp(f, (x,), (v,))[1]),
    "jvp of jit": ("slope", lambda f, x, v, rows: jax.jvp(jax.jit(f), (x,), (v,))[1]),
    "jit of jvp": ("slope", lambda f, x, v, rows: jax.jit(lambda x, v: jax.jvp(f, (x,), (v,))[1])(x, v)),
    "linearize": ("slope", lambda f, x, v, rows: jax.linearize(f, x)[1](v)),
    "jacfwd": ("gradient", lambda f, x, v, rows: jax.jacfwd(f)(x)),
    "jit of grad of jit": ("gradient", lambda f, x, v, rows: jax.jit(jax.grad(jax.jit(f)))(x)),
    "grad of checkpoint": ("gradient", lambda f, x, v, rows: jax.grad(jax.checkpoint(f))(x)),
    "jvp of grad": ("product", lambda f, x, v, rows: jax.jit(lambda x, v: jax.jvp(jax.grad(f), (x,), (v,))[1])(x, v)),
    "grad of jvp": ("product", lambda f, x, v, rows: jax.jit(jax.grad(lambda y: jax.jvp(f, (y,), (v,))[1]))(x)),
    "hessian": ("hessian", lambda f, x, v, rows: jax.jit(jax.hessian(f))(x)),
    "jacrev of jacrev": ("hessian", lambda f, x, v, rows: jax.jit(jax.jacrev(jax.jacrev(f)))(x)),
    "jacfwd of jacfwd": ("hessian", lambda f, x, v, rows: jax.jit(jax.jacfwd(jax.jacfwd(f)))(x)),
    "vmap": ("values", lambda f, x, v, rows: jax.vmap(f)(rows)),
    "vmap along the last axis": ("values", lambda f, x, v, rows: jax.vmap(f, 1)(rows.T)),
    "vmap of grad": ("gradients", lambda f, x, v, rows: jax.jit(jax.vmap(jax.grad(f)))(rows)),
    "grad of vmap": ("gradients", lambda f, x, v, rows: jax.jit(jax.grad(lambda y: jax.vmap(f)(y).sum()))(rows)),
    "vmap of jvp": ("slopes", lambda f, x, v, rows: jax.jit(jax.vmap(lambda y: jax.jvp(f, (y,), (v,))[1]))(rows)),
    "grad of scan": (
        "gradient",
        lambda f, x, v, rows: jax.grad(lambda y: jax.lax.scan(lambda s, k: (s + k * f(y), None), 0.0, jnp.array([0.25, 0.75]))[0])(x),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_transform_gives_the_derivative_of_the_simulation(problem: Problem, case: str) -> None:
    what, transform = CASES[case]
    derivative = transform(problem.loss_by(bridge), jnp.array(problem.x), jnp.array(problem.v), jnp.array(problem.rows))
    assert close(derivative, problem.wanted(what))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_tangent_is_that_of_the_simulation_bit_for_bit(problem: Problem, compiled: bool) -> None:
    problem.require_same_tangent(bridge, lambda f, inputs, tangents: jax.jvp(jax.jit(f) if compiled else f, (inputs,), (tangents,)))


def test_shots_are_one_call_and_have_the_bits_of_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = rod()
    inputs = inputs_of(simulation)
    shots = jnp.array(np.random.default_rng(4).standard_normal((3, *inputs["q"].shape)))
    runs = calls_of(monkeypatch)

    def traces(q: Any) -> Any:
        return bridge.run(simulation, {**inputs, "q": q}, STEPS).traces["T"]

    together = jax.vmap(traces)(shots)
    assert runs == [3] and np.array_equal(together, np.stack([traces(q) for q in shots]))
