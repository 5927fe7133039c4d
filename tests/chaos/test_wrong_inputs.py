"""Each function of `diffsim.chaos` refuses each kind of wrong input by one message of its own, before any step."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import DiffsimError, DivergenceError

START = {"x": 8.0 + np.random.default_rng(0).standard_normal(8), "F": 8.0}


@cache
def system() -> ds.Simulation:
    return ds.Simulation(ds.solvers.Lorenz96(ds.Grid((8,), 1.0), dt=0.05), receivers={"x": [[float(k)] for k in range(8)]}, precision="f64")


def mean(solution: ds.Solution) -> Any:
    return solution.traces["x"].mean()


CALLS: dict[str, Callable[[Any], Any]] = {
    "lyapunov": lambda inputs: ds.chaos.lyapunov(system(), inputs, steps=10, laps=2, count=2),
    "covariant_vectors": lambda inputs: ds.chaos.covariant_vectors(system(), inputs, steps=10, laps=2, count=2),
    "shadowing": lambda inputs: ds.chaos.shadowing(system(), inputs, mean, "F", steps=20, segments=4, unstable=2),
    "linear_response": lambda inputs: ds.chaos.linear_response(system(), inputs, mean, "F", 0.1, steps=20, members=2),
    "ensemble_gradient": lambda inputs: ds.chaos.ensemble_gradient(system(), inputs, mean, "F", steps=20, members=2),
    "predictability": lambda inputs: ds.chaos.predictability(system(), inputs, mean, "F", steps=20, members=2),
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a cell too few": (START | {"x": START["x"][1:]}, r"input x .*\(7,\), expected \(8,\)"),
    "an axis too many": (START | {"x": np.stack(2 * [START["x"]])}, r"input x .*\(2, 8\), expected \(8,\)"),
    "NaN": (START | {"x": np.where(np.arange(8) == 3, np.nan, START["x"])}, "input x has 1 values that are not finite"),
    "complex": (START | {"x": START["x"] + 1j}, "input x: expected an array of real numbers"),
    "text": (START | {"x": "rest"}, "input x"),
    "no state": ({"F": 8.0}, "inputs without x"),
    "a parameter for each tangent": (START | {"F": [8.0, 9.0]}, r"input F has shape \(2,\), expected \(\); give one number"),
    "a parameter that is NaN": (START | {"F": np.nan}, "input F has 1 values that are not finite"),
    "no parameter": ({"x": START["x"]}, "inputs without F"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("function", CALLS)
def test_wrong_inputs_are_refused_by_name(function: str, wrong: str) -> None:
    inputs, message = WRONG[wrong]
    with pytest.raises(DiffsimError, match=message):
        CALLS[function](inputs)


@pytest.mark.parametrize("function", ["linear_response", "ensemble_gradient"])
def test_members_that_leave_the_basin_are_not_blamed_on_dt_alone(function: str) -> None:
    arguments: dict[str, Any] = {"steps": 20, "members": 2, "settle": 20, "spread": 1e3}
    arguments |= {"change": 0.1} if function == "linear_response" else {}
    with pytest.raises(DivergenceError, match=r"the run that was not moved did not.*spread = 1000 .*lower spread or dt"):
        getattr(ds.chaos, function)(system(), START, mean, "F", **arguments)
