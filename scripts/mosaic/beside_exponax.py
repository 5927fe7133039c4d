"""diffsim and Exponax in one process, in f64: `python scripts/mosaic/beside_exponax.py [--rows 2,128 3,32] [--order 2] [--turns 3]`.

Needs `exponax` and `jax`. Both run the flow of Mosaic's cost tasks, 100 steps in the plane and 50 in space, from velocities to velocities
and back to the cotangent of the initial ones. Exponax steps by Fourier series without dealiasing and its exponential method of order 2, in
the plane one vorticity, as Mosaic's Tesseract of it does. CPU time in turns, each after a first call, which compiles.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import exponax
import jax
import jax.numpy as jnp
import numpy as np
from cost import vortices
from flow import division, flow

import diffsim as ds

EXTENT, NU, DT = 2 * np.pi, 0.01, 0.01


def spectral(ndim: int, n: int, steps: int) -> Callable[[Any], Any]:
    """Exponax's velocity after some steps, of a velocity of shape (components, n, n[, n])."""
    kind = exponax.stepper.NavierStokesVorticity if ndim == 2 else exponax.stepper.NavierStokesVelocity
    stepper = kind(ndim, EXTENT, n, DT, diffusivity=NU, order=2, dealiasing_fraction=1.0)
    numbers = jnp.asarray(np.stack(np.meshgrid(*ndim * [np.fft.fftfreq(n, 1 / n)], indexing="ij")))
    squares = jnp.maximum((numbers**2).sum(axis=0), 1.0)

    def later(state: Any) -> Any:
        return jax.lax.scan(lambda now, _: (stepper(now), None), state, None, length=steps)[0]

    def by_vorticity(v: Any) -> Any:
        hat = jnp.fft.fftn(v, axes=(1, 2))
        curl = jnp.fft.ifft2(1j * (numbers[0] * hat[1] - numbers[1] * hat[0])).real
        stream = jnp.fft.fft2(later(curl[None])[0]) / squares
        turned = jnp.fft.ifft2(jnp.stack([1j * numbers[1] * stream, -1j * numbers[0] * stream])).real
        return turned + v.mean(axis=(1, 2), keepdims=True)

    return by_vorticity if ndim == 2 else later


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", nargs="*", default=["2,64", "2,128", "2,256", "3,16", "3,32", "3,64"])
    options.add_argument("--order", type=int, default=2)
    options.add_argument("--turns", type=int, default=3)
    chosen = options.parse_args()
    jax.config.update("jax_enable_x64", True)
    ds.init(threads=1)
    nu, dt = np.array([NU]), np.array([DT])
    for ndim, n in (map(int, row.split(",")) for row in chosen.rows):
        steps, v0 = 100 if ndim == 2 else 50, vortices(n, ndim).astype(np.float64)
        divided, plain = division(v0, nu, dt, EXTENT), np.moveaxis(v0, -1, 0).reshape(ndim, *ndim * [n])

        def ours(v: Any, steps: int = steps, divided: int = divided) -> Any:
            return flow(v, nu, dt, steps, EXTENT, divided, order=chosen.order, precision="f64")

        theirs = jax.jit(spectral(ndim, n, steps))
        product = jax.jit(lambda v, cotangent, theirs=theirs: jax.vjp(theirs, v)[1](cotangent)[0])
        calls: dict[str, Callable[[], Any]] = {
            "diffsim run": lambda v=v0, ours=ours: ours(v),
            "Exponax run": lambda v=plain, theirs=theirs: np.asarray(theirs(v)),
            "diffsim product": lambda v=v0, ours=ours: ds.vjp(ours, v)[1](v),
            "Exponax product": lambda v=plain, product=product: np.asarray(product(v, v)),
        }
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(chosen.turns + 1):
            for name, call in calls.items():
                began = time.process_time()
                call()
                seconds[name].append(time.process_time() - began)
        apart = np.abs(np.moveaxis(calls["Exponax run"](), 0, -1).reshape(v0.shape) - calls["diffsim run"]()).max() / np.abs(v0).max()
        figures = ", ".join(f"{name} {statistics.median(each[1:]):.3f} s (first {each[0]:.1f})" for name, each in seconds.items())
        print(f"{n}^{ndim}, {steps} steps, order {chosen.order}: {figures}; results {apart:.1e} apart", flush=True)


if __name__ == "__main__":
    main()
