"""Preconditioning of a search: variables that count more where the forward field is weak, or deep down.

It is a change of variables, theta = theta' · weight, so bounds and the history of a quasi-Newton method stay right. In the direction of
steepest descent the gradient by the values of cells is thereby divided by the energy, or multiplied by the depth to a power.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.ndimage import gaussian_filter

from diffsim.errors import SceneError
from diffsim.scene.search.assemble import Problem
from diffsim.scene.shots.shot_runs import energies
from diffsim.typing import Array

WATER = 0.01
"""Least energy that divides, as a part of the largest."""
SMOOTH = 2.0
"""Standard deviation of the Gaussian that smooths the energy, cells."""
SAMPLES = 256
"""Least number of times at which the energy is summed, if there are so many steps."""


def weights_of(problem: Problem, fields: Mapping[str, Array]) -> dict[str, Array]:
    """The weights of unknowns that are preconditioned, over the cells, with mean 1 over the free cells.

    Args:
        problem: the assembled scene.
        fields: of the unknowns, at which the forward field is computed.

    Raises:
        SceneError: the forward field is zero.
    """
    weights: dict[str, Array] = {}
    energy: Array | None = None
    for name, model in problem.scene.unknowns.items():
        if model.precondition is None and not model.depth:
            continue
        weight = np.ones(problem.start[name].shape)
        if model.precondition == "energy":
            if energy is None:
                energy = _energy(problem, fields, name)
            weight /= np.sqrt(energy + WATER)
        if model.depth:
            grid = problem.setup.grid
            depth = (np.arange(grid.shape[0]) + 0.5) ** (0.5 * model.depth)
            weight *= depth.reshape(-1, *[1] * (grid.ndim - 1))
        weights[name] = weight / np.mean(weight[problem.free[name]])
    return weights


def _energy(problem: Problem, fields: Mapping[str, Array], name: str) -> Array:
    """Σ over shots and times of the square of each compared state, over its largest value, smoothed; at most 1."""
    setup = problem.setup
    states = sorted({misfit.state for misfit in problem.scene.misfit})
    sums = {state: np.zeros(setup.grid.shape) for state in states}

    every = max(1, setup.steps // SAMPLES)
    for shot in problem.workers.run(energies, (problem.forward,), (states, every, fields), range(len(setup.shots))):
        for state, total in sums.items():
            total += shot[state]
    energy = sum((total / largest for total in sums.values() if (largest := float(np.max(total))) > 0), np.zeros(setup.grid.shape))
    if not energy.any():
        raise SceneError(
            f"unknowns.{name}.precondition: expected a forward field at the start of the search, which has the energy, found zero; "
            "leave precondition out, or start from another field"
        )
    smooth = gaussian_filter(energy, SMOOTH, mode="nearest")
    return smooth / float(np.max(smooth))
