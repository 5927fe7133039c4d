"""Mosaic's `optimization/drag_opt`: the inflow with the least drag of a cylinder, and its drag on finer grids.

    python scripts/mosaic/drag.py --finer 1 2 4

Adam as there: rate 5e-4, at most 250 iterations, values from 0 to 3 U, and 50 (mean - U)² beside the drag.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from obstacle import channel, division, past

import diffsim as ds

SPEED, CELLS, PENALTY = 0.5, 32, 50.0


def task(finer: int, profile: Any) -> dict[str, Any]:
    """Mosaic's inputs, on a grid that is some times finer and with as much shorter steps."""
    n = finer * CELLS
    v0 = np.zeros((n, n, 1, 2))
    v0[..., 0] = SPEED
    obstacle = {"shape": "cylinder", "center": [0.5, 0.5], "radius": 0.05}
    inputs = {"v0": v0, "viscosity": np.array([0.0025]), "dt": np.array([0.02 / finer]), "steps": 200 * finer, "domain_extent": 1.0}
    return inputs | {"obstacle": obstacle, "inflow_profile": profile}


def drag(profile: Any, finer: int = 1, divided: int = 0) -> Any:
    """Drag over that of the dynamic pressure of U on the diameter."""
    inputs = task(finer, profile)
    return -past(inputs, divided or division(inputs))["drag"][0] / (0.5 * SPEED**2 * 0.1)


def refined(profile: np.ndarray, finer: int) -> np.ndarray:
    """A profile on finer cells: the line through its values, with the same mean."""
    n = len(profile)
    fine = np.interp((np.arange(finer * n) + 0.5) / finer, np.arange(n) + 0.5, profile)
    return fine + profile.mean() - fine.mean()


def best(iterations: int, rate: float = 5e-4) -> np.ndarray:
    """The profile with the least loss of Adam's iterations."""
    divided = division(task(1, np.full(CELLS, 1.5 * SPEED)))
    seen: list[tuple[float, np.ndarray]] = []

    def loss(p: Any) -> Any:
        return abs(drag(p, divided=divided)) * (0.5 * SPEED**2 * 0.1) + PENALTY * (p.mean() - SPEED) ** 2

    def objective(profile: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = ds.value_and_grad(loss)(profile)
        seen.append((float(value), profile.copy()))
        return float(value), slope

    bounds = [(0.0, 3 * SPEED)] * CELLS
    ds.optimize.minimise(objective, np.full(CELLS, SPEED), ds.optimize.Adam(rate), bounds, iterations=iterations)
    return min(seen[:iterations], key=lambda pair: pair[0])[1]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--iterations", type=int, default=250)
    options.add_argument("--finer", type=int, nargs="+", default=[1, 2, 4])
    chosen = options.parse_args()
    ds.init(threads=1, precision="f64")
    began = time.process_time()
    answer = best(chosen.iterations)
    print(f"{chosen.iterations} iterations: {time.process_time() - began:.0f} s of CPU time, mean inflow {answer.mean():.4f} m/s")
    print("inflow, m/s:", *(f"{u:.3f}" for u in answer))
    for finer in chosen.finer:
        channel.cache_clear()
        began = time.process_time()
        flat, least = (float(drag(refined(profile, finer), finer)) for profile in (np.full(CELLS, SPEED), answer))
        print(
            f"{finer * CELLS} cells: c_d {flat:.3f} of the flat inflow, {least:.3f} of the answer, ratio {least / flat:.3f}; "
            f"{time.process_time() - began:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
