"""An incompressible flow whose sides let more in than out is refused by a message about sides."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest

import diffsim as ds
from diffsim.errors import ParameterError
from diffsim.solvers import NavierStokes


@pytest.mark.parametrize("seed", range(12))
def test_more_fluid_enters_than_leaves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ndim = int(rng.integers(2, 4))
    shape, spacing = tuple(map(int, rng.integers(5, 8, ndim))), tuple(rng.uniform(0.05, 0.2, ndim))
    word, both, axis = rng.choice(["inflow", "velocity"]), bool(rng.integers(2)), int(rng.integers(ndim))
    sides = tuple((word, word if both else "no_slip") if k == axis else "slip" for k in range(ndim))
    series = bool(rng.integers(2))
    inlets = NavierStokes(ds.Grid(shape, spacing), 1e-3, sides)._around.inlets()
    flow = ds.Simulation(NavierStokes(ds.Grid(shape, spacing), 1e-3, sides, series=tuple(inlets.values()) if series else ()), wrt=[])
    inputs = {name: np.zeros(flow.input_shape(name, 4)) for name in flow.inputs} | {"nu": 1e-3}
    inputs |= {name: rng.uniform(0.1, 0.2, inputs[name].shape) for name in inlets.values()}
    enters = math.prod(h for k, h in enumerate(spacing) if k != axis) * inputs[next(iter(inlets.values()))].reshape(
        4 if series else 1, -1
    ).sum(1)
    if both:  # in through both sides
        inputs[inlets[axis, 1]] *= -1
    letter = "zyx"[-ndim:][axis]
    step = " in step 0" if series else ""
    with pytest.raises(
        ParameterError, match=rf'^sides: fluid enters with {enters[0]:.4g} through low_{letter}.*{step}, and no .* "outflow"'
    ):
        flow.run(inputs, 4)


@pytest.mark.parametrize("word", ["inflow", "velocity"])
def test_as_much_leaves_as_enters(word: str) -> None:
    grid, rng = ds.Grid((6, 7), (0.1, 0.2)), np.random.default_rng(1)
    flow = ds.Simulation(NavierStokes(grid, 1e-3, ("slip", word)), wrt=[], precision="f64")
    inputs = {name: np.zeros(flow.input_shape(name, 2)) for name in flow.inputs} | {"nu": 1e-3}
    low, high = (name for name in flow.inputs if name in flow.equation._around.inlets().values())
    inputs[low] = rng.uniform(0.5, 1.5, 6)
    inputs[high] = inputs[low][::-1].copy()
    u = flow.run(inputs, 2).final["u"]
    np.testing.assert_allclose(u[:, -1].sum(), inputs[low].sum(), rtol=1e-12)
    inputs[high] *= 0.99
    with pytest.raises(ParameterError, match="no side is open"):
        flow.run(inputs, 2)


@pytest.mark.parametrize(("precision", "parts"), [("f32", (2e-5, 1e-4, 1e-3)), ("f64", (1e-11, 1e-8, 2e-5, 1e-3))])
@pytest.mark.parametrize("word", ["inflow", "velocity"])
def test_a_small_part_that_stays_is_refused_by_the_sides_too(word: str, precision: Literal["f32", "f64"], parts: tuple[float, ...]) -> None:
    rng = np.random.default_rng(2)
    for shape in ((6, 7), (40, 30)):
        flow = ds.Simulation(NavierStokes(ds.Grid(shape, 0.1), 1e-3, ("slip", word)), wrt=[], precision=precision)
        inputs = {name: np.zeros(flow.input_shape(name, 1)) for name in flow.inputs} | {"nu": 1e-3}
        low, high = (name for name in flow.inputs if name in flow.equation._around.inlets().values())
        for part in parts:
            inputs[low] = rng.uniform(0.5, 1.5, shape[0])
            inputs[high] = rng.permutation(inputs[low]) * (1 + 2.2 * part)
            with pytest.raises(ParameterError, match="no side is open"):
                flow.run(inputs, 1)
        inputs[high] = rng.permutation(inputs[low])
        flow.run(inputs, 1)


@pytest.mark.parametrize("method", ["sharp", "penalised"])
@pytest.mark.parametrize("word", ["inflow", "velocity"])
@pytest.mark.parametrize("both", [False, True])
def test_bodies_beside_an_inflow_without_an_outlet(both: bool, word: str, method: Literal["sharp", "penalised"]) -> None:
    """They may cover parts of the sides, but what enters through all of them has nowhere to go."""
    grid = ds.Grid((10, 14), 0.1)
    sides = ("slip", (word, word if both else "no_slip"))
    flow = ds.Simulation(NavierStokes(grid, 1e-3, sides, bodies="fixed", bodies_method=method), wrt=[])
    y, x = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
    inputs = {name: np.zeros(flow.input_shape(name, 1)) for name in flow.inputs} | {"nu": 1e-3, "phi": np.hypot(y - 0.5, x - 0.6) - 0.2}
    inlets = flow.equation._around.inlets()
    rng = np.random.default_rng(4)
    for (_, high), name in inlets.items():
        inputs[name] = (-1.0 if high else 1.0) * rng.uniform(0.1, 0.2, inputs[name].shape)
    with pytest.raises(ParameterError, match=r'^sides: fluid enters with .* through low_x.*, and no side is open, .*"outflow"'):
        flow.run(inputs, 1)
    if both:
        inputs[inlets[1, 1]] = inputs[inlets[1, 0]]
        flow.run(inputs, 1)  # as much leaves
