"""Runs in which nothing can ever move warn, and others do not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import StillWarning
from diffsim.solvers import LongWave, ShallowWater

GRID = ds.Grid((9, 12), 100.0)
DEPTH = 5.0 + np.random.default_rng(0).random(GRID.shape)
STILL: dict[str, tuple[ds.Equation, dict[str, Any]]] = {
    "heights for depths": (ShallowWater(GRID, 1.0), {"z": DEPTH, "eta": np.zeros(GRID.shape)}),
    "in parts": (ShallowWater(GRID, 1.0, substeps=5), {"z": DEPTH, "eta": np.zeros(GRID.shape)}),
    "no water": (ShallowWater(GRID, 1.0, "periodic", weather="steady"), {"z": -DEPTH, "eta": -DEPTH, "pressure": DEPTH}),
    "land": (LongWave(GRID, 1.0), {"H": np.zeros(GRID.shape), "eta0": DEPTH}),
}
WET = np.where(np.arange(108).reshape(GRID.shape) == 50, -1.0, DEPTH)
"""One cell of water."""
MOVING: dict[str, tuple[ds.Equation, dict[str, Any]]] = {
    "one cell": (ShallowWater(GRID, 1.0), {"z": WET, "eta": np.zeros(GRID.shape)}),
    "rain": (ShallowWater(GRID, 1.0, supply="steady"), {"z": DEPTH, "eta": np.zeros(GRID.shape), "supply": DEPTH * 1e-3}),
    "a tide": (
        ShallowWater(GRID, 1.0, ("wall", ("tide", "wall")), tide="side"),
        {"z": DEPTH, "eta": np.zeros(GRID.shape), "tide": np.full(3, 7.0)},
    ),
    "one cell of the sea": (LongWave(GRID, 1.0), {"H": np.maximum(-WET, 0.0), "eta0": DEPTH}),
}


def inputs_of(simulation: ds.Simulation, inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: inputs[name] if name in inputs else np.zeros(simulation.input_shape(name, 3)) for name in simulation.inputs}


@pytest.mark.parametrize("name", STILL)
def test_a_run_in_which_nothing_can_move_warns(name: str) -> None:
    equation, inputs = STILL[name]
    simulation = ds.Simulation(equation, precision="f64")
    with pytest.warns(StillWarning, match=r"nothing can move in this run: .*give "):
        simulation.run(inputs_of(simulation, inputs), 3)


@pytest.mark.parametrize("name", MOVING)
def test_a_run_in_which_something_can_move_does_not(name: str) -> None:
    equation, inputs = MOVING[name]
    simulation = ds.Simulation(equation, precision="f64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulation.run(inputs_of(simulation, inputs), 3)
