"""Derivatives of long averages by differences: an independent judge of other methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from diffsim.base.arguments import number, whole
from diffsim.chaos.ensembles import Ensemble
from diffsim.chaos.sensitivity import Average, Sensitivity, named, values_of
from diffsim.chaos.shadowing import with_all_receivers
from diffsim.chaos.tangents import Runs
from diffsim.simulation import Simulation

CHUNK = 500
"""Steps whose states are kept at a time."""


def linear_response(
    simulation: Simulation,
    inputs: Mapping[str, Any],
    average: Average,
    wrt: str,
    change: float,
    steps: int,
    members: int = 16,
    settle: int | None = None,
    spread: float = 0.3,
    along: Any = None,
) -> Sensitivity:
    """The slope of a long average: that of runs with a larger parameter less that of runs with a smaller one.

    It needs no derivative. Its error has two parts: the noise, which falls with the root of time and members and grows with 1 / change, and
    is returned and right if the members are independent of each other; and the curvature of the average, of order change². Compare two
    values of `change`: the average of some systems has no slope.

    Args:
        simulation: the system.
        inputs: initial states, and parameters.
        average: see `shadowing`.
        wrt: the name of a parameter.
        change: half the difference of the parameter between the two sets of runs; of a field, as a multiple of `along`.
        steps: steps of each run.
        members: runs of each set. They begin with the same states, moved at random.
        settle: steps before those that count, in which the members become independent of each other; None: a tenth of `steps`.
        spread: standard deviation of the random part of an initial state, relative to that of the state over `settle` steps.
        along: the direction in which a parameter that is a field changes, an array of its shape; None: by 1 in each entry.

    Returns:
        The slope, and the average between the two sets, with their standard errors.

    Raises:
        ParameterError: a number out of range, or states on faces.

    Example:
        import diffsim as ds

        system = ds.Simulation(ds.solvers.Lorenz63(dt=0.01), precision="f64")
        start = {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3}
        height = lambda now: now["z"][:, 0]
        slope = ds.chaos.linear_response(system, start, height, wrt="rho", change=1.5, steps=3000, members=32, settle=1000)
        assert abs(slope.value - 1.0) < 4 * slope.error + 0.02 and 0 < slope.error < 0.1
    """
    average = named(average)
    steps = whole("steps", steps, 1, remedy="give the steps")
    change = number("change", change, "a number above 0", lambda value: value > 0, "give half the difference of the parameter")
    recorded = with_all_receivers(simulation)
    ensemble = Ensemble(recorded, inputs, members, max(1, steps // 10) if settle is None else settle, spread)
    vectors, members = ensemble.vectors, ensemble.members
    runs = Runs(recorded, 2 * members)
    states = np.concatenate([ensemble.states] * 2)  # the same random numbers in both sets
    moved = change * vectors.direction(wrt, along)
    changed = {wrt: np.repeat([vectors.values[wrt] - moved, vectors.values[wrt] + moved], members, axis=0)}
    with ensemble.leaving(f" and a change of {wrt} by {change:g}"):
        states = vectors.joined(runs.run(vectors.fixed, {**changed, **vectors.apart(states)}, ensemble.settle).final, 1)
    sums, done = np.zeros(2 * members), 0
    while done < steps:
        some = min(CHUNK, steps - done)
        solution = runs.run(vectors.fixed, {**changed, **vectors.apart(states)}, some)
        states = vectors.joined(solution.final, 1)
        for k in range(2 * members):
            sums[k] += values_of(average, {name: each[k, 1:] for name, each in solution.traces.items()}, some).sum()
        done += some
    low, high = sums.reshape(2, members) / steps
    slopes = (high - low) / (2 * change)
    means = 0.5 * (low + high)  # of members, which are independent of each other
    error, mean_error = (float(each.std(ddof=1) / members**0.5) for each in (slopes, means))
    return Sensitivity(float(slopes.mean()), error, float(means.mean()), mean_error)
