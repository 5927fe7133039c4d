# /// script
# requires-python = ">=3.11"
# dependencies = ["jax==0.10.2", "jaxlib==0.10.2", "numpy==2.4.6"]
# [tool.diffsim-bench]
# title = "JAX"
# notes = """
# `jit` of `lax.scan` over steps of slices of a padded array. With 20 slots: `jax.checkpoint` of 20 equal segments, so 20 states and \
# one segment are kept."""
# ///
"""JAX: one step as slices of a padded array, `lax.scan` over the steps, `jax.grad`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from exchange import WEIGHTS, Problem, Results, serve
from jax import lax


def scanned(problem: Problem, step: Callable[[Any, Any], tuple[Any, Any]], state: Any, xs: Any) -> tuple[Any, Any]:
    """`lax.scan`; for a gradient in slots the steps are scans of segments, of which only the first state is kept."""
    if not (problem.gradient and problem.slots):
        return lax.scan(step, state, xs, length=problem.steps)
    lengths = {b - a for a, b in problem.segments()}
    if len(lengths) > 1:
        raise ValueError(f"{problem.steps} steps do not divide into {problem.slots} segments; take a multiple")
    (length,) = lengths
    segment = jax.checkpoint(lambda s, x: lax.scan(step, s, x, length=length))
    by_segment = None if xs is None else xs.reshape(problem.slots, length)
    state, ys = lax.scan(segment, state, by_segment, length=problem.slots)
    return state, None if ys is None else ys.reshape(problem.steps, *ys.shape[2:])


def acoustic(problem: Problem) -> Callable[[], Results]:
    settings = problem.settings
    weights, reach = [w / settings["dx"] ** 2 for w in WEIGHTS[settings["order"]]], settings["order"] // 2
    dt, area = settings["dt"], settings["dx"] ** 2
    (i, j), points = problem["source"][0], problem["receivers"]

    def laplacian(p: Any) -> Any:
        n, m = p.shape
        padded = jnp.pad(p, reach)
        total = 2 * weights[0] * p
        for k in range(1, reach + 1):
            rows = padded[reach - k : reach - k + n, reach : reach + m] + padded[reach + k : reach + k + n, reach : reach + m]
            columns = padded[reach : reach + n, reach - k : reach - k + m] + padded[reach : reach + n, reach + k : reach + k + m]
            total = total + weights[k] * (rows + columns)
        return total

    def run(c: Any, f: Any) -> tuple[Any, Any]:
        m = (c * dt) ** 2

        def step(state: Any, amplitude: Any) -> tuple[Any, Any]:
            p, before = state
            after = 2 * p - before + m * laplacian(p).at[i, j].add(amplitude / area)
            return (after, p), after[points[:, 0], points[:, 1]]

        zero = jnp.zeros_like(c)
        (p, _), traces = scanned(problem, step, (zero, zero), f)
        return p, traces

    def loss(c: Any, f: Any) -> Any:
        return 0.5 * jnp.sum(run(c, f)[1] ** 2)

    forward, slope = jax.jit(run), jax.jit(jax.grad(loss))
    c, f = problem["speed"], problem["wavelet"]

    def gradient() -> Results:
        return {"gradient": np.asarray(slope(c, f))}

    def solution() -> Results:
        p, traces = forward(c, f)
        return {"pressure": np.asarray(p), "traces": np.concatenate([np.zeros((1, len(points)), np.float32), traces])}

    return gradient if problem.gradient else solution


def diffusion(problem: Problem) -> Callable[[], Results]:
    scale = problem.settings["dt"] / problem.settings["dx"] ** 2

    def run(kappa: Any, T: Any) -> Any:
        kx, ky = 0.5 * scale * (kappa[1:] + kappa[:-1]), 0.5 * scale * (kappa[:, 1:] + kappa[:, :-1])

        def step(T: Any, _: None) -> tuple[Any, None]:
            x = jnp.pad(kx * (T[1:] - T[:-1]), ((1, 1), (0, 0)))
            y = jnp.pad(ky * (T[:, 1:] - T[:, :-1]), ((0, 0), (1, 1)))
            return T + (x[1:] - x[:-1]) + (y[:, 1:] - y[:, :-1]), None

        return scanned(problem, step, T, None)[0]

    forward, slope = jax.jit(run), jax.jit(jax.grad(lambda kappa, T: 0.5 * jnp.sum(run(kappa, T) ** 2)))
    kappa, initial = problem["kappa"], problem["initial"]
    if problem.gradient:
        return lambda: {"gradient": np.asarray(slope(kappa, initial))}
    return lambda: {"temperature": np.asarray(forward(kappa, initial))}


def product(problem: Problem) -> Callable[[], Results]:
    jax.config.update("jax_enable_x64", True)
    both = jax.jit(jax.value_and_grad(lambda x: jnp.sum(jnp.cumprod(x) * x)))

    def gradient() -> Results:
        value, slope = both(problem["x"])
        return {"value": np.asarray(value), "gradient": np.asarray(slope)}

    return gradient


if __name__ == "__main__":
    serve({"acoustic": acoustic, "diffusion": diffusion, "product": product})
