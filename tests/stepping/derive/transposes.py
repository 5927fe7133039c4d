"""The test of a transpose: tangents and cotangents of a run have one product."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import diffsim as ds
from diffsim.checkpoint import StoreAll

Fields = Mapping[str, np.ndarray]


def require_one_product(simulation: ds.Simulation, point: Fields, direction: Fields, weights: Fields, steps: int) -> None:
    """<J v, w> = <v, Jᵀ w> for changes v of all inputs and weights w of the final states, where all steps are recorded."""
    _, moved = simulation.jvp(point, direction, steps)
    _, pullback = simulation.vjp(point, steps, StoreAll(steps))
    cotangents = pullback(ds.Solution(dict(weights)))
    forward = sum(float(np.sum(weights[name] * moved.final[name])) for name in weights)
    back = sum(float(np.sum(direction[name] * cotangents[name])) for name in direction)
    size = sum(float(np.sum(np.abs(direction[name] * cotangents[name]))) for name in direction)
    assert abs(forward - back) <= 1e-12 * size
