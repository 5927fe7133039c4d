"""Vectors and tensors by their own names: the same numbers as by those of their components, in everything that takes or gives them."""

from __future__ import annotations

import copy
import dataclasses
import functools
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.errors import DiffsimError, ParameterError, ShapeError
from diffsim.typing import Array

RNG = np.random.default_rng(7)
STEPS = 4


def ring(x: Any, y: Any, *, F: Any) -> Any:
    n = len(x)
    return tuple(x[i - 1] * (x[(i + 1) % n] - x[i - 2]) - x[i] + F * y[0] for i in range(n)), (-y[0] * x[0],)


@functools.cache
def system(members: int = 1) -> ds.Simulation:
    return ds.Simulation(ds.ODE(ring, 0.05, states={"x": 4, "y": 1}, members=members), receivers={"x": [[0.0]]}, precision="f64")


@functools.cache
def solid() -> ds.Simulation:
    grid = ds.Grid((8, 12), 1.0)
    places = {"sources": {"f": [[3.0, 4.0]]}, "receivers": {"v": [[5.0, 6.0], [2.0, 2.0]]}}
    return ds.Simulation(ds.solvers.Elastic(grid, dt=1e-4), **places, wrt=["v", "s", "f"], precision="f64")  # type: ignore[arg-type]


def inputs_of(simulation: ds.Simulation) -> dict[str, Any]:
    """Whole vectors, and fields that are no components."""
    groups = simulation.equation.component_names
    shapes = {name: simulation.input_shape(name, STEPS) for name in simulation.inputs}
    alone = shapes.keys() - {part for parts in groups.values() for part in parts}
    sizes = {"vp": 2e3, "vs": 1e3, "rho": 2e3}
    inputs = {name: RNG.uniform(0.9, 1.1, shapes[name]) * sizes.get(name, 1.0) for name in sorted(alone)}
    for name, parts in groups.items():
        if shapes.keys() >= {*parts}:
            inputs[name] = RNG.normal(size=(len(parts), *shapes[parts[0]]))
    return inputs


def split(simulation: ds.Simulation, values: Mapping[str, Any]) -> dict[str, Any]:
    groups = simulation.equation.component_names
    each = {name: value for name, value in values.items() if name not in groups}
    return each | {part: value[k] for name, value in values.items() for k, part in enumerate(groups.get(name, ()))}


SIMULATIONS = {"vectors": system, "ensemble": functools.partial(system, 3), "solid": solid}
simulations = pytest.mark.parametrize("kind", SIMULATIONS)


def loss_by(names: Mapping[str, tuple[str, ...]], whole: bool) -> Callable[[ds.Solution], Any]:
    """A loss that reads vectors, or their components."""

    def loss(solution: ds.Solution) -> Any:
        total = 0.0
        for part in (solution.final, solution.traces):
            for name, parts in names.items():
                if part.keys() >= {*parts}:
                    value = part[name] if whole else dnp.stack([part[one] for one in parts])
                    total = total + (dnp.cumsum(value, axis=0) ** 2).sum()
        return total

    return loss


@simulations
def test_runs_and_gradients_have_the_bits_of_components(kind: str) -> None:
    simulation = SIMULATIONS[kind]()
    groups, inputs = simulation.equation.component_names, inputs_of(simulation)
    by_parts = split(simulation, inputs)
    value, gradient = simulation.value_and_grad(loss_by(groups, True), inputs, STEPS)
    expected, each = simulation.value_and_grad(loss_by(groups, False), by_parts, STEPS)
    assert value == expected and gradient.keys() == each.keys()
    for name in groups.keys() & inputs.keys():
        assert np.array_equal(gradient[name], np.stack([each[part] for part in groups[name]]))
        assert gradient[name].shape == inputs[name].shape
    traced = ds.value_and_grad(lambda own: loss_by(groups, True)(simulation.run({**inputs, **own}, STEPS)))
    chosen = {name: inputs[name] for name in groups.keys() & inputs.keys()}
    again, taped = traced(chosen)
    assert again == value and all(np.array_equal(taped[name], gradient[name]) for name in chosen)
    replayed = ds.jit(traced)
    for scale in (1.0, 0.5, 2.0):
        scaled = {name: scale * start for name, start in chosen.items()}
        assert replayed(scaled)[0] == traced(scaled)[0]


@simulations
def test_derivatives_are_those_of_differences(kind: str) -> None:
    simulation = SIMULATIONS[kind]()
    groups, inputs = simulation.equation.component_names, inputs_of(simulation)
    along = {name: RNG.normal(size=inputs[name].shape) for name in groups.keys() & inputs.keys()}
    primal, moved = simulation.jvp(inputs, along, STEPS)
    _, pull = simulation.vjp(inputs, STEPS)
    seeds = {name: RNG.normal(size=primal.final[name].shape) for name in along if name in groups and name != "f"}
    pulled = pull(ds.Solution(final=seeds))
    forward = sum(float((moved.final[name] * seed).sum()) for name, seed in seeds.items())
    assert np.isclose(forward, sum(float((pulled[name] * change).sum()) for name, change in along.items()), rtol=1e-12)
    h = 1e-6
    ends = [simulation.run({**inputs, **{n: inputs[n] + sign * h * along[n] for n in along}}, STEPS) for sign in (1, -1)]
    slope = sum(float(((ends[0].final[name] - ends[1].final[name]) * seed).sum()) for name, seed in seeds.items()) / (2 * h)
    assert np.isclose(slope, forward, rtol=1e-6)


@pytest.mark.parametrize(("runs", "count"), [(False, 2), (True, 2), (True, 4)])
@pytest.mark.parametrize("kind", ["vectors", "solid"])
def test_batches_have_the_components_behind_the_runs(kind: str, runs: bool, count: int) -> None:
    """As many runs as components, and others."""
    simulation = SIMULATIONS[kind]()
    groups, inputs = simulation.equation.component_names, inputs_of(simulation)
    vectors = groups.keys() & inputs.keys()
    several = {
        name: value if name not in vectors or not runs else np.stack([(k + 1) * value for k in range(count)])
        for name, value in inputs.items()
    }
    batch = ds.Batch(simulation, count)
    both, pull = batch.vjp(several, STEPS)
    alone = [
        simulation.run({n: k * v if n in vectors else v for n, v in inputs.items()}, STEPS)
        for k in (range(1, count + 1) if runs else [1] * count)
    ]
    for part in ("final", "traces"):
        values = getattr(both, part)
        for name in vectors:
            if values.keys() >= {*groups[name]}:
                assert np.array_equal(values[name], np.stack([getattr(one, part)[name] for one in alone]))
    seeds = {name: RNG.normal(size=both.final[name].shape) for name in vectors & {"x", "y", "v", "s"}}
    pulled = pull(ds.Solution(final={part: seed[:, k] for name, seed in seeds.items() for k, part in enumerate(groups[name])}))
    again = pull(ds.Solution(final=seeds))
    for name in vectors:
        assert pulled[name].shape == several[name].shape
        assert np.array_equal(pulled[name], again[name])
        first = pulled[name][:, 0] if runs else pulled[name][0]
        assert np.array_equal(first, pulled[groups[name][0]])
    if runs:  # also as sequences of runs
        for form in (list, tuple, lambda value: value.tolist()):
            listed = {name: form(value) if name in vectors else value for name, value in several.items()}
            assert all(np.array_equal(value, both.final[name]) for name, value in batch.run(listed, STEPS).final.items())


def test_sequences_numbers_and_shapes_of_a_vector() -> None:
    one, start = system(), np.array([1.0, -0.5, 0.25, 2.0])
    wanted = one.run({"x": start[:, None], "y": [[1.5]], "F": 2.0}, STEPS).final["x"]
    for x in (start, start[:, None], [*start], tuple([value] for value in start)):
        assert np.array_equal(one.run({"x": x, "y": [1.5], "F": 2.0}, STEPS).final["x"], wanted)
    many = system(3).run({"x": start, "y": [1.5], "F": 2.0}, STEPS).final["x"]
    assert many.shape == (4, 3) and np.array_equal(many, np.repeat(wanted, 3, axis=1))


def test_chaos_and_certificates_take_vectors() -> None:
    one, inputs = system(), {"x": np.array([1.0, -0.5, 0.25, 2.0])[:, None], "y": [[1.0]], "F": 2.0}
    laps = [ds.chaos.lyapunov(one, each, 5, 3).values for each in (inputs, split(one, inputs))]
    assert np.array_equal(*laps)
    change = {"x": RNG.normal(size=(4, 1))}
    loss = loss_by(one.equation.component_names, True)
    report = ds.certify(one, loss, inputs, STEPS, directions=[change], scale={"x": 0.5, "y": [[0.1]]}, bounds={"x": (-9.0, None)})
    assert report.passed, report


WRONG: dict[str, tuple[Callable[[], Any], type[DiffsimError], str]] = {
    "rows": (lambda: system().run({"x": np.ones((3, 1)), "y": [1.0], "F": 1.0}, 2), ShapeError, "input x has 3 rows, expected 4, for its"),
    "a number": (lambda: system().run({"x": 1.0, "y": [1.0], "F": 1.0}, 2), ShapeError, "input x has one value, expected 4"),
    "both": (lambda: system().run({"x": np.ones(4), "x_1": 1.0, "y": [1.0], "F": 1.0}, 2), ShapeError, "x stands beside its component x_1"),
    "tangent": (lambda: system().jvp(inputs_of(system()), {"x": np.ones((5, 1))}, 2), ShapeError, "tangent of x has 5 rows, expected 4"),
    "seed": (
        lambda: system().vjp(inputs_of(system()), 2)[1](ds.Solution(final={"x": np.ones((4, 2))})),
        ShapeError,
        r"cotangent of final x_0 has shape \(2,\), expected \(1,\)",
    ),
    "unknown": (lambda: system().run({"z": 1.0}, 2), ParameterError, "names z, but the inputs are .*; correct the name"),
    "no forcing": (
        lambda: ds.Simulation(system().equation, sources={"x_0": [[0.5]]}),
        ParameterError,
        "sources names x_0, but there are no forcings, expected no name; add them to the equation .* or leave sources out",
    ),
    "no receiver": (
        lambda: ds.Batch(ds.Simulation(solid().equation), 2, receivers={"v": [[[1.0, 1.0]]] * 2}),
        ParameterError,
        "receivers names v., v., but there are no states with receivers, expected no name; leave receivers out",
    ),
    "forcing": (lambda: ds.Simulation(solid().equation, sources={"g": [[1.0, 1.0]]}), ParameterError, "but the forcings are"),
    "chaos": (
        lambda: ds.chaos.shadowing(system(), inputs_of(system()), lambda s: s.traces["x"].mean(), "x", 4, 4, 1, 0),
        ParameterError,
        "x has the components x_0, x_1, x_2, x_3; give each of these",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_vectors_are_refused(case: str) -> None:
    call, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        call()


def test_solutions_keep_their_vectors_and_exports_take_them() -> None:
    one, inputs = system(), inputs_of(system())
    solution = one.run(inputs, STEPS)
    zero = dataclasses.replace(solution, final={name: 0 * value for name, value in solution.final.items()})
    copies = [solution.final.copy(), copy.deepcopy(solution).final, pickle.loads(pickle.dumps(solution)).final]  # type: ignore[attr-defined]
    assert zero.final["x"].shape == (4, 1) and all(np.array_equal(each["x"], solution.final["x"]) for each in copies)
    assert one.input_shape("x", STEPS) == (4, 1) and solid().input_shape("f", STEPS) == (2, STEPS, 1)
    pytest.importorskip("xarray")
    alone = one.to_xarray(solution, split(one, inputs))
    vectors = {"final": {"x": solution.final["x"], "y": solution.final["y"]}, "traces": {"x": solution.traces["x"]}}
    assert alone.identical(one.to_xarray(ds.Solution(**vectors), inputs))


def test_labelled_arrays_of_vectors_are_taken_by_runs_and_components() -> None:
    xarray = pytest.importorskip("xarray")
    batch, inputs = ds.Batch(system(), 2), inputs_of(system())
    runs = np.stack([inputs["x"], 2 * inputs["x"]])
    by_array, labelled = (
        batch.run({**inputs, "x": x}, STEPS).final["x"] for x in (runs, xarray.DataArray(runs, dims=("run", "part", "x")))
    )
    assert np.array_equal(by_array, labelled)


def test_components_of_different_shapes_are_read_one_by_one() -> None:
    solution = system().run(inputs_of(system()), 2)
    mixed: dict[str, Array] = {"x_0": np.ones(2), **{f"x_{k}": np.ones(3) for k in (1, 2, 3)}}
    with pytest.raises(ShapeError, match="x was read, expected components of one shape"):
        ds.Solution(mixed, groups=solution.vectors).final["x"]
