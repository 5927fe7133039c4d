"""Run value and gradient of heat conduction with some time steps, one after the other, and print errors and a digest of the bits.

Usage: python -m tests.stepping.run.cached DT [DT ...]. The kernels differ in a number within a function alone.
"""

from __future__ import annotations

import hashlib
import json
import sys

import numpy as np

import diffsim as ds
from diffsim.checkpoint import StoreAll
from diffsim.solvers import Heat
from tests.solvers import plain

SHAPE, DX, STEPS = (9, 11), 0.5, 5


def main(time_steps: list[float]) -> None:
    ds.init(threads=1, precision="f64")
    rng = np.random.default_rng(0)
    kappa, start = rng.uniform(0.2, 0.5, SHAPE), rng.uniform(1.0, 2.0, SHAPE)
    errors, digest = [], hashlib.sha256()
    for dt in time_steps:
        simulation = ds.Simulation(Heat(ds.Grid(SHAPE, DX), dt))
        solution, pullback = simulation.vjp({"kappa": kappa, "T": start}, STEPS, StoreAll(STEPS))
        gradient = pullback(ds.Solution({"T": np.ones(SHAPE)}))
        expected = plain.heat(kappa, start, STEPS, dt, (DX, DX), "mirror")
        error = np.abs(solution.final["T"] - expected).max()
        heat_is_conserved = np.abs(gradient["T"] - 1.0).max()
        errors.append(float(max(error, heat_is_conserved)))
        for values in (solution.final["T"], gradient["kappa"]):
            digest.update(values.tobytes())
    print(json.dumps({"errors": errors, "digest": digest.hexdigest()}))


if __name__ == "__main__":
    main([float(dt) for dt in sys.argv[1:]])
