"""Every case: kernels against NumPy, tangent against adjoint against differences, every schedule against stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import diffsim as ds
from tests.cases import CASES, MARKED, SOME, Case
from tests.reference import Reference

ROUND_OFF = 1e-12  # relative, f64: a few hundred operations deep, largest entry as the scale
DIFFERENCE = 2e-6  # relative, central differences of step 1e-6 in f64


@dataclass
class Run:
    case: Case
    simulation: ds.Simulation
    inputs: dict[str, np.ndarray]
    rng: np.random.Generator

    def direction(self) -> dict[str, np.ndarray]:
        """A random direction, along which dry land stays dry."""
        out = {}
        for name, value in self.inputs.items():
            spread = self.case.scale.get(name, (0, 1.0))[1]
            wanted = self.case.wrt is None or name in self.case.wrt
            out[name] = wanted * spread * self.rng.normal(size=value.shape) * (value > 0 if name == "H" else 1)
        return out

    def cotangents(self, solution: ds.Solution) -> ds.Solution:
        return ds.Solution(
            {k: self.rng.normal(size=v.shape) for k, v in solution.final.items()},
            {k: self.rng.normal(size=v.shape) for k, v in solution.traces.items()},
        )


@pytest.fixture(scope="module", params=MARKED, ids=lambda case: case.name)
def run(request: pytest.FixtureRequest) -> Run:
    case: Case = request.param
    rng = np.random.default_rng(7)
    simulation = case.simulation()
    return Run(case, simulation, case.inputs(simulation, rng), rng)


def inner(a: ds.Solution, b: ds.Solution) -> float:
    pairs = [(a.final[k], b.final[k]) for k in b.final] + [(a.traces[k], b.traces[k]) for k in b.traces]
    return float(sum((p * q).sum() for p, q in pairs))


def close(a: np.ndarray, b: np.ndarray) -> bool:
    return np.abs(a - b).max() <= ROUND_OFF * max(np.abs(b).max(), 1e-300)


def test_forward_and_adjoint_equal_numpy(run: Run) -> None:
    solution, pullback = run.simulation.vjp(run.inputs, run.case.steps)
    reference = Reference(run.simulation)
    expected = reference.forward(run.inputs, run.case.steps)
    for name in expected.final:
        assert close(solution.final[name], expected.final[name]), name
    for name in expected.traces:
        assert close(solution.traces[name], expected.traces[name]), name
    weights = run.cotangents(solution)
    gradient, expected_gradient = pullback(weights), reference.adjoint(weights)
    assert set(gradient) == set(run.simulation.wrt)
    for name in gradient:
        assert close(gradient[name], expected_gradient[name]), name


@pytest.mark.parametrize("run", SOME, ids=lambda case: case.name, indirect=True)
def test_tangent_is_the_transpose_of_the_adjoint_and_agrees_with_differences(run: Run) -> None:
    solution, pullback = run.simulation.vjp(run.inputs, run.case.steps)
    weights, direction = run.cotangents(solution), run.direction()
    gradient = pullback(weights)
    same, tangents = run.simulation.jvp(run.inputs, direction, run.case.steps)
    assert all(np.array_equal(same.final[k], solution.final[k]) for k in solution.final)
    assert all(np.array_equal(same.traces[k], solution.traces[k]) for k in solution.traces)
    forward = inner(tangents, weights)
    backward = sum(float((gradient[k] * direction[k]).sum()) for k in gradient)
    size = sum(float(np.abs(gradient[k] * direction[k]).sum()) for k in gradient)
    assert abs(forward - backward) <= ROUND_OFF * size
    h = 1e-6
    sides = [run.simulation.run({k: v + sign * h * direction[k] for k, v in run.inputs.items()}, run.case.steps) for sign in (1, -1)]
    difference = (inner(sides[0], weights) - inner(sides[1], weights)) / (2 * h)
    assert abs(difference - backward) <= DIFFERENCE * size


@pytest.mark.parametrize("run", SOME, ids=lambda case: case.name, indirect=True)
@pytest.mark.parametrize("slots", [1, 2, 5])
def test_checkpointed_gradient_has_the_bits_of_the_stored_one(run: Run, slots: int) -> None:
    solution, pullback = run.simulation.vjp(run.inputs, run.case.steps, ds.checkpoint.StoreAll(run.case.steps))
    weights = run.cotangents(solution)
    stored = pullback(weights)
    again, pullback = run.simulation.vjp(run.inputs, run.case.steps, ds.checkpoint.Binomial(run.case.steps, min(slots, run.case.steps)))
    checkpointed = pullback(weights)
    assert all(np.array_equal(again.traces[k], solution.traces[k]) for k in solution.traces)
    assert all(np.array_equal(checkpointed[k], stored[k]) for k in stored)


def test_memory_is_what_was_predicted() -> None:
    case = CASES[0]
    for checkpoint in (2, ds.checkpoint.StoreAll(case.steps)):
        simulation = case.simulation()
        schedule = simulation.schedule(case.steps, checkpoint)
        solution, pullback = simulation.vjp(case.inputs(simulation, np.random.default_rng(0)), case.steps, schedule)
        pullback(ds.Solution(traces=solution.traces))
        assert simulation.allocated_bytes() == simulation.predicted_bytes(schedule)


def test_long_runs_take_many_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[0]
    simulation = case.simulation()
    inputs = case.inputs(simulation, np.random.default_rng(0))
    solution, pullback = simulation.vjp(inputs, case.steps)
    once = pullback(ds.Solution(traces=solution.traces))
    monkeypatch.setattr("diffsim.stepping.run.pace.Pace.steps", lambda pace: 5)
    solution, pullback = simulation.vjp(inputs, case.steps)
    many = pullback(ds.Solution(traces=solution.traces))
    assert all(np.array_equal(once[k], many[k]) for k in once)


def test_a_source_sits_where_it_was_put() -> None:
    """Also on a face: the centre of mass of what one step injects is the source's place."""
    case = next(c for c in CASES if c.name == "oddities")
    simulation = ds.Simulation(case.equation(), sources={"g": [[3.3, 4.8]]})
    zero = np.zeros(simulation.grid.shape)
    solution = simulation.run({"r": zero + 1, "k": zero, "g": [[2.0]]}, 1)
    u = solution.final["u"]
    assert u.sum() == pytest.approx(0.6)
    assert (u.sum(axis=0) @ simulation.grid.coordinates(1, 1)) / u.sum() == pytest.approx(4.8)
    assert (u.sum(axis=1) @ simulation.grid.coordinates(0)) / u.sum() == pytest.approx(3.3)


def test_misspelt_tangents_raise() -> None:
    case = next(c for c in CASES if c.name == "heat 2-D")
    simulation = case.simulation()
    inputs = case.inputs(simulation, np.random.default_rng(0))
    with pytest.raises(ds.errors.ParameterError, match="tangents names kapa"):
        simulation.jvp(inputs, {"kapa": inputs["kappa"]}, case.steps)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"kappa": -0.1}, ds.errors.ParameterError, "kappa has a value of -0.1"),
        ({"kappa": 10.0}, ds.errors.StabilityError, "exceeds the stable"),
        ({"kappa": np.nan}, ds.errors.ParameterError, "not finite"),
        ({"kappa": "shape"}, ds.errors.ShapeError, r"input kappa has shape \(3,\), expected \(14, 19\)"),
        ({"depth": 1.0}, ds.errors.ParameterError, "names depth"),
    ],
)
def test_bad_inputs(change: dict[str, float | str], error: type[Exception], message: str) -> None:
    case = next(c for c in CASES if c.name == "heat 2-D")
    simulation = case.simulation()
    inputs = case.inputs(simulation, np.random.default_rng(0))
    for name, value in change.items():
        inputs[name] = np.ones(3) if value == "shape" else np.full(simulation.grid.shape, value)
    with pytest.raises(error, match=message):
        simulation.run(inputs, case.steps)


@pytest.mark.parametrize(
    ("rows", "remedy"), [((9, 1), r"give g\[:5\] for the first 5 steps"), ((3, 1), "or take 3 steps"), ((5, 2), "step and source")]
)
def test_amplitudes_of_another_number_of_steps_say_what_to_give(rows: tuple[int, ...], remedy: str) -> None:
    case = next(c for c in CASES if c.name == "oddities")
    simulation = ds.Simulation(case.equation(), sources={"g": [[3.3, 4.8]]})
    one = np.ones(simulation.grid.shape)
    with pytest.raises(ds.errors.ShapeError, match=remedy):
        simulation.run({"r": one, "k": one, "g": np.ones(rows)}, 5)


@pytest.mark.parametrize(("tide", "values", "remedy"), [("side", (4, 12), "each step$"), ("cell", (4,), "each step and cell$")])
def test_series_of_numbers_and_of_cells_say_what_to_give(tide: str, values: tuple[int, ...], remedy: str) -> None:
    grid = ds.Grid((12, 14), 10.0)
    simulation = ds.Simulation(ds.solvers.ShallowWater(grid, 0.1, sides=("wall", ("tide", "wall")), tide=tide, fastest=20.0))
    with pytest.raises(ds.errors.ShapeError, match=f"give a value for {remedy}"):
        simulation.run({"z": np.full(grid.shape, -5.0), "tide": np.zeros(values)}, 4)


@pytest.mark.parametrize("case", CASES[::5], ids=lambda case: case.name)
def test_the_source_of_each_kernel(case: Case) -> None:
    texts = {kind: case.simulation().source(kind) for kind in ("forward", "jvp", "vjp")}  # type: ignore[arg-type]
    assert len({*texts.values()}) == 3 and all("@ti.kernel" in text for text in texts.values())
