"""Runs side by side have the bits that each has alone: every case and every step, forward, backward and along a direction."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.checkpoint import Binomial
from diffsim.expr import Symbol, laplacian
from diffsim.solvers import Acoustic, Heat
from diffsim.stepping.trace.batched import why_not_batched
from tests.cases import CASES, Case
from tests.steps import STEPS
from tests.steps.step import Step, direction

RUNS = 3
GRID = ds.Grid((9, 13), 10.0)

FEW = ("long wave on the sphere", "sides 1-D", "numbers 2-D")
"""They run in the gate; all others are slow tests."""
KINDS = [pytest.param(thing, marks=[] if thing.name in FEW else [pytest.mark.slow], id=thing.name) for thing in (*CASES, *STEPS)]

ROUND_OFF = {"f32": 1e-4, "f64": 1e-12}
"""Relative rounding error of a sum over cells and runs in another order."""

Fields = dict[str, np.ndarray]


def single(thing: Case | Step, precision: str) -> tuple[ds.Simulation, int, list[Fields]]:
    """A simulation, its steps, and the inputs of each run; series are the same in all."""
    simulation, rng = thing.simulation(precision), np.random.default_rng(3)
    if isinstance(thing, Case):
        runs = [thing.inputs(simulation, rng) for _ in range(RUNS)]
    else:
        inputs = thing.all_inputs()
        runs = [{name: value + 1e-3 * k * direction(rng, inputs)[name] for name, value in inputs.items()} for k in range(RUNS)]
    for run in runs:
        run |= {name: runs[0][name] for name in simulation.equation.series}
    return simulation, thing.steps, runs


def together(simulation: ds.Simulation, runs: list[Fields]) -> Fields:
    """The inputs of a batch."""
    series = simulation.equation.series
    return {name: runs[0][name] if name in series else np.stack([run[name] for run in runs]) for name in runs[0]}


def cotangents(rng: np.random.Generator, solution: ds.Solution) -> ds.Solution:
    return ds.Solution(*({name: rng.standard_normal(v.shape) for name, v in part.items()} for part in (solution.final, solution.traces)))


def part_of(solution: ds.Solution, run: int) -> ds.Solution:
    return ds.Solution(*({name: v[run] for name, v in part.items()} for part in (solution.final, solution.traces)))


def require_same_bits(found: ds.Solution, expected: ds.Solution) -> None:
    for mine, other in ((found.final, expected.final), (found.traces, expected.traces)):
        assert mine.keys() == other.keys()
        for name in other:
            np.testing.assert_array_equal(mine[name], other[name], err_msg=name)


@pytest.mark.parametrize("precision", [pytest.param("f32", marks=pytest.mark.slow), "f64"])
@pytest.mark.parametrize("thing", KINDS)
def test_each_run_has_the_bits_that_it_has_alone(thing: Case | Step, precision: str) -> None:
    simulation, steps, runs = single(thing, precision)
    refused = why_not_batched(simulation._compiled.step)
    if refused is not None:
        with pytest.raises(ds.errors.ParameterError, match=f"got {refused}; solve one run after another"):
            ds.Batch(simulation, RUNS)
        return
    batch, inputs = ds.Batch(simulation, RUNS), together(simulation, runs)
    few = Binomial(steps, min(3, steps))
    solution, pullback = batch.vjp(inputs, steps, few)
    require_same_bits(batch.run(inputs, steps), solution)
    rng = np.random.default_rng(4)
    seeds, moved = cotangents(rng, solution), {name: rng.standard_normal(value.shape) for name, value in inputs.items()}
    gradient, change = pullback(seeds), batch.jvp(inputs, moved, steps)[1]
    for k, run in enumerate(runs):
        alone, back = simulation.vjp(run, steps, few)
        require_same_bits(part_of(solution, k), alone)
        series = simulation.equation.series
        tangents = {name: value if name in series else value[k] for name, value in moved.items()}
        require_same_bits(part_of(change, k), simulation.jvp(run, tangents, steps)[1])
        for name, bar in back(part_of(seeds, k)).items():
            if name not in series:
                np.testing.assert_array_equal(gradient[name][k], bar, err_msg=name)
    for name in gradient.keys() & simulation.equation.series.keys():
        each = [simulation.vjp(run, steps)[1](part_of(seeds, k))[name] for k, run in enumerate(runs)]
        np.testing.assert_allclose(gradient[name], sum(each), rtol=0, atol=ROUND_OFF[precision] * np.abs(each).sum(axis=0).max())


def survey(precision: str = "f64") -> tuple[ds.Simulation, list[list[list[float]]], Fields]:
    """A simulation, the sources of each shot, and inputs that all share."""
    simulation = ds.Simulation(
        Acoustic(GRID, 1e-3, 2), sources={"f": [[20.0, 30.0]]}, receivers={"p": [[40.0, 50.0], [11.0, 73.0]]}, precision=precision
    )
    rng = np.random.default_rng(8)
    inputs = {"c": 2000 + 300 * rng.random(GRID.shape), "f": rng.standard_normal((12, 1))}
    return simulation, [[[20.0, x]] for x in (10.0, 45.0, 81.0)], inputs


def test_what_runs_share_has_the_sum_of_their_gradients() -> None:
    simulation, places, inputs = survey()
    batch = ds.Batch(simulation, 3, sources={"f": places})
    weights = np.random.default_rng(9).standard_normal((3, 13, 2))
    value, gradient = batch.value_and_grad(lambda found: (weights * found.traces["p"] ** 2).sum(), inputs, 12)
    expected = 0.0
    total = {name: np.zeros(np.shape(array)) for name, array in gradient.items()}
    for k, place in enumerate(places):
        simulation.move(sources={"f": place})
        mine, bars = simulation.value_and_grad(lambda found, k=k: (weights[k] * found.traces["p"] ** 2).sum(), inputs, 12)
        expected += mine
        for name, bar in bars.items():
            total[name] += bar
    assert value == pytest.approx(expected, rel=1e-13)
    assert gradient["c"].shape == GRID.shape and gradient["f"].shape == (12, 1)
    for name, bar in total.items():
        if name in ("c", "f"):
            np.testing.assert_allclose(gradient[name], bar, rtol=1e-12, atol=1e-14 * np.abs(bar).max(), err_msg=name)


class Media(ds.Equation):
    """Diffusion with inputs of all shapes. Of `kappa` and `s` one number may stand for all cells."""

    uniform = ("kappa", "s")

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((5, 6), spacing=1.0), 0.1
        self.states = {"T": ds.Variable("mirror")}
        self.parameters = {"kappa": ds.Variable("mirror"), "s": ds.Variable("mirror")}
        self.parameters |= {"g": ds.Variable(axes=()), "row": ds.Variable(axes=(1,))}

    def step(self, T: Symbol, kappa: Symbol, s: Symbol, g: Symbol, row: Symbol) -> dict[str, Symbol]:
        return {"T": T + self.dt * (kappa * laplacian(T) + s * T * T - g * row * T)}


def _constant(values: np.ndarray, *_: np.ndarray) -> np.ndarray:
    return values


@pytest.mark.parametrize("number", range(6))
def test_gradients_have_the_shape_of_one_run_or_of_each(number: int) -> None:
    """Inputs are drawn as a number for all cells, an array, a function, or an array with an axis of runs."""
    rng, simulation, runs = np.random.default_rng(number), ds.Simulation(Media(), precision="f64"), 3
    inputs: dict[str, Any] = {}
    each: list[dict[str, Any]] = [{} for _ in range(runs)]
    for name in simulation.inputs:
        ways = ["array", "runs"] + ["number"] * 2 * (name in Media.uniform) + ["function"] * (name == "T")
        shape, way = simulation.input_shape(name, 2), rng.choice(ways)
        values = rng.uniform(0.2, 0.8, (runs, *shape) if way == "runs" else () if way == "number" else shape)
        inputs[name] = partial(_constant, values) if way == "function" else values
        for k, one in enumerate(each):
            one[name] = values[k] if way == "runs" else values
    weights = rng.standard_normal((runs, 5, 6))
    gradient = ds.Batch(simulation, runs).vjp(inputs, 2)[1](ds.Solution({"T": weights}))
    alone = [simulation.vjp(one, 2)[1](ds.Solution({"T": w})) for w, one in zip(weights, each, strict=True)]
    for name, bar in gradient.items():
        bars = [one[name] for one in alone]
        apart = not callable(inputs[name]) and np.ndim(inputs[name]) > np.ndim(bars[0])
        expected = np.stack(bars) if apart else sum(bars)
        assert bar.shape == np.shape(expected), name
        np.testing.assert_allclose(bar, expected, rtol=1e-13, atol=1e-15, err_msg=name)


def test_a_batch_is_an_operation_of_array_programs() -> None:
    simulation, places, inputs = survey()
    batch = ds.Batch(simulation, 3, sources={"f": places})

    def loss(c: Any, f: Any) -> Any:
        return (batch.run({"c": c, "f": f}, 12).traces["p"] ** 2).sum()

    bars = ds.grad(loss, argnums=(0, 1))(inputs["c"], inputs["f"])
    _, expected = batch.value_and_grad(lambda found: (found.traces["p"] ** 2).sum(), inputs, 12)
    for bar, name in zip(bars, ("c", "f"), strict=True):
        np.testing.assert_allclose(bar, expected[name], rtol=1e-12, atol=1e-25)


def test_a_batch_is_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of inputs that runs share and of inputs with an axis of runs, by every schedule; and a wrong one is found."""
    simulation, places, inputs = survey()
    batch = ds.Batch(simulation, 3, sources={"f": places})
    own = {"c": inputs["c"] + np.zeros((3, 1, 1)), "f": inputs["f"]}
    certify = partial(ds.certify, batch, lambda solution: (solution.traces["p"] ** 2).sum(), own, steps=12, directions=1)
    certificate = certify()
    assert certificate.passed, certificate
    assert any("slot" in str(line) for line in certificate)
    right = batch._input_bar
    monkeypatch.setattr(batch, "_input_bar", lambda name, bar, shared: right(name, bar, shared) * (2.0 if name == "f" else 1.0))
    assert certify().verdict == "fail"


def test_sources_and_receivers_move() -> None:
    simulation, places, inputs = survey()
    batch = ds.Batch(simulation, 3)
    everywhere = [[[40.0, 10.0 * k], [11.0, 73.0]] for k in (1, 5, 9)]
    batch.move(sources={"f": places}, receivers={"p": everywhere})
    for each in (batch, copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        solution = each.run(inputs, 12)
        for k in range(3):
            simulation.move(sources={"f": places[k]}, receivers={"p": everywhere[k]})
            require_same_bits(part_of(solution, k), simulation.run(inputs, 12))
    with pytest.raises(ds.errors.ShapeError, match="outside the grid"):
        batch.move(sources={"f": [[20.0, 1e9]]})
    require_same_bits(batch.run(inputs, 12), solution)  # nothing was moved


def test_runs_may_have_more_sources_than_the_simulation() -> None:
    simulation, _, inputs = survey()
    places, amplitudes = [[[20.0, 10.0 * k], [50.0, 81.0]] for k in (1, 4, 8)], np.random.default_rng(2).standard_normal((3, 12, 2))
    batch = ds.Batch(simulation, 3, sources={"f": places})
    assert batch.input_shape("f", 12) == (12, 2)
    solution = batch.run({**inputs, "f": amplitudes}, 12)
    for k in range(3):
        simulation.move(sources={"f": places[k]})
        require_same_bits(part_of(solution, k), simulation.run({**inputs, "f": amplitudes[k]}, 12))


def test_a_condition_ends_all_runs_and_sees_all() -> None:
    simulation, places, inputs = survey()
    batch, seen = ds.Batch(simulation, 3, sources={"f": places}), []

    def until(done: int, states: Fields) -> bool:
        seen.append(states["p"].shape)
        return done >= 7

    assert batch.run(inputs, 12, until=until).traces["p"].shape == (3, 8, 2)
    assert set(seen) == {(3, *GRID.shape)}


REFUSED: dict[str, tuple[Callable[[ds.Simulation], Any], str]] = {
    "no simulation": (lambda one: ds.Batch(Heat(GRID, 0.1), 2), "simulation = .* expected a diffsim.Simulation"),  # type: ignore[arg-type]
    "no runs": (lambda one: ds.Batch(one, 0), "runs = 0, expected a whole number from 1"),
    "rows of sources": (
        lambda one: ds.Batch(one, 2, sources={"f": [[[1.0, 1.0]]] * 3}),
        r"shape \(3, 1, 2\), expected \(2, points, axes\)",
    ),
    "a forcing": (lambda one: ds.Batch(one, 2, sources={"g": [[1.0, 1.0]]}), "sources names g"),
    "a receiver outside": (lambda one: ds.Batch(one, 2, receivers={"p": [[[1.0, 1.0]], [[1e9, 1.0]]]}), "outside the grid"),
    "inputs of another shape": (
        lambda one: ds.Batch(one, 2).run({"c": np.ones((3, *GRID.shape)), "f": np.ones((4, 1))}, 4),
        r"input c has shape \(3, 9, 13\), expected \(9, 13\) for all runs, or \(2, 9, 13\) for one each run",
    ),
    "an unknown input": (lambda one: ds.Batch(one, 2).run({"d": 1.0}, 4), "inputs names d"),
    "an unstable run": (
        lambda one: ds.Batch(one, 2).run({"c": np.array([1.0, 1e9])[:, None, None] * np.ones(GRID.shape), "f": np.ones((4, 1))}, 4),
        "dt",
    ),
    "cotangents of another shape": (
        lambda one: ds.Batch(one, 2).vjp({"c": np.ones(GRID.shape), "f": np.ones((4, 1))}, 4)[1](
            ds.Solution(traces={"p": np.ones((5, 2))})
        ),
        r"shape \(5, 2\), expected \(2, 5, 2\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str) -> None:
    attempt, message = REFUSED[name]
    with pytest.raises(ds.DiffsimError, match=message):
        attempt(survey()[0])
