# /// script
# requires-python = ">=3.11"
# dependencies = ["exponax==0.2.0", "jax==0.10.2", "jaxlib==0.10.2", "numpy==2.4.6"]
# [tool.diffsim-bench]
# title = "Exponax"
# notes = """
# Incompressible flow alone, by Fourier series and an exponential Runge-Kutta method of order 2 in `lax.scan`, where diffsim has \
# differences of order 2 on a staggered grid and Heun's method. In the plane it steps one vorticity, in space three velocities."""
# ///
"""Exponax: incompressible flow in a periodic box by a pseudo-spectral method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import exponax
import jax
import jax.numpy as jnp
import numpy as np
from exchange import Problem, Results, serve, waves
from jax import lax


def flow(problem: Problem) -> Callable[[], Results]:
    jax.config.update("jax_enable_x64", True)
    settings, n, ndim = problem.settings, problem.settings["n"], problem.settings["ndim"]
    extent = 2 * np.pi
    kind = exponax.stepper.NavierStokesVorticity if ndim == 2 else exponax.stepper.NavierStokesVelocity
    stepper = kind(ndim, extent, n, settings["dt"], diffusivity=settings["nu"])
    every = waves(problem, [0.0] * ndim)  # (wave, component, x, y, ...)
    if ndim == 2:
        every = curl(np.asarray(every))[:, None]
    numbers = jnp.asarray(np.stack(np.meshgrid(*[np.fft.fftfreq(n, 1 / n)] * ndim, indexing="ij")))

    def run(state: Any) -> Any:
        return lax.scan(lambda now, _: (stepper(now), None), state, None, length=problem.steps)[0]

    def energy(state: Any) -> Any:
        final = run(state)
        if ndim == 3:
            return 0.5 * jnp.mean(jnp.sum(final**2, axis=0))
        squares = jnp.sum(numbers**2, axis=0)  # |v|² of a mode is |ω|² / k²
        return 0.5 * jnp.sum(jnp.abs(jnp.fft.fft2(final[0])) ** 2 / jnp.where(squares == 0, jnp.inf, squares)) / n**4

    forward, slope = jax.jit(energy), jax.jit(jax.grad(energy))
    start = np.sum(every, axis=0)
    if problem.gradient:
        return lambda: {"gradient": np.tensordot(every, np.asarray(slope(start)), axes=ndim + 1)}
    return lambda: {"energy": np.asarray(forward(start))}


def curl(v: np.ndarray) -> np.ndarray:
    """∂v_y/∂x - ∂v_x/∂y by Fourier series, of fields (wave, component, x, y)."""
    number = np.fft.fftfreq(v.shape[-1], 1 / v.shape[-1])
    hat = np.fft.fft2(v)
    return np.fft.ifft2(1j * number[:, None] * hat[:, 1] - 1j * number * hat[:, 0]).real


if __name__ == "__main__":
    serve({"flow": flow})
