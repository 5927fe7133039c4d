"""Time of the periodic flow of Mosaic's cost tasks, without its harness: `python scripts/mosaic/cost.py [--order 2 4] [--turns 5]`.

CPU time of one thread: the run, and the product with a cotangent of the final velocity, after a first call that compiles.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from flow import division, flow

import diffsim as ds


def vortices(n: int, ndim: int) -> np.ndarray:
    """Vortices of Taylor and Green, shape (n, n, 1 or n, ndim), f32."""
    x = np.meshgrid(*ndim * [2 * np.pi * np.arange(n) / n], indexing="ij")
    u, v = np.sin(x[0]) * np.cos(x[1]), -np.cos(x[0]) * np.sin(x[1])
    parts = [u, v] if ndim == 2 else [u * np.cos(x[2]), v * np.cos(x[2]), 0 * u]
    return np.stack(parts, axis=-1).reshape(n, n, -1, ndim).astype(np.float32)


def seconds(call: Callable[[], object], turns: int) -> tuple[float, float]:
    """CPU time of the first call, and the median of others."""
    times = []
    for _ in range(turns + 1):
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    return times[0], statistics.median(times[1:])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--order", nargs="*", type=int, default=[2, 4])
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--largest", nargs=2, type=int, default=[256, 64], help="cells a side in two and three dimensions")
    chosen = options.parse_args()
    ds.init(threads=1)
    nu, dt, extent = np.array([0.01], np.float32), np.array([0.01], np.float32), 2 * np.pi
    rows = [(2, n, 100) for n in (64, 128, 256)] + [(3, n, 50) for n in (16, 32, 64)]
    for ndim, n, steps in rows:
        for order in chosen.order if n <= chosen.largest[ndim - 2] else []:
            v0 = vortices(n, ndim)
            divided = division(v0, nu, dt, extent)

            def run(v: object, order: int = order, steps: int = steps, divided: int = divided) -> object:
                return flow(v, nu, dt, steps, extent, divided, order=order)

            def product(v: object = v0, run: Callable[[object], object] = run) -> object:
                return ds.vjp(run, v)[1](v)

            cold, back = seconds(product, chosen.turns)
            _, forward = seconds(lambda v=v0, run=run: run(v), chosen.turns)  # type: ignore[misc]
            print(
                f"{n}^{ndim}, {steps} steps, order {order}: run {forward:.3f} s, vjp {back:.3f} s, {back / forward:.1f} runs, "
                f"first {cold:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
