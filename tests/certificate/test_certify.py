"""A certificate passes where the gradient is right, and fails for every planted fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.certificate.measures import _weights
from diffsim.certificate.path import Path
from diffsim.certificate.taylor import taylor
from diffsim.expr import laplacian
from diffsim.solvers import Acoustic, Heat
from diffsim.stepping.derive import reverse
from diffsim.stepping.ir import levels
from diffsim.stepping.run import stepper

STEPS = 30


def heat() -> tuple[ds.Simulation, dict[str, np.ndarray]]:
    simulation = ds.Simulation(Heat(ds.Grid((12, 15), 0.5), 0.1), receivers={"T": [[0.0, 0.0], [2.2, 3.1]]})
    rng = np.random.default_rng(0)
    return simulation, {"kappa": rng.uniform(0.2, 0.4, (12, 15)), "T": rng.uniform(1, 2, (12, 15))}


def acoustic() -> tuple[ds.Simulation, dict[str, np.ndarray]]:
    equation = Acoustic(ds.Grid((16, 17), 10.0), 1e-3, 4)
    simulation = ds.Simulation(equation, sources={"f": [[40.0, 60.0]]}, receivers={"p": [[0.0, 100.0], [82.2, 103.1]]})
    rng = np.random.default_rng(0)
    return simulation, {"c": rng.uniform(1800, 2200, (16, 17)), "f": rng.normal(size=(STEPS, 1)), "p": rng.normal(size=(16, 17))}


def loss(solution: ds.Solution) -> tuple[float, ds.Solution]:
    """Something that is not quadratic, of records and final fields."""
    value = sum(float(np.sum(v**2 + 0.1 * v**3)) for v in (*solution.traces.values(), *solution.final.values()))
    bars = [{k: 2 * v + 0.3 * v**2 for k, v in part.items()} for part in (solution.final, solution.traces)]
    return value, ds.Solution(*bars)


def doubled(solution: ds.Solution) -> tuple[float, ds.Solution]:
    value, bars = loss(solution)
    return value, ds.Solution(bars.final, {k: 2 * v for k, v in bars.traces.items()})


@pytest.mark.gradients
@pytest.mark.parametrize("build", [heat, acoustic])
def test_a_right_gradient_passes(build: Callable[[], tuple[ds.Simulation, dict[str, np.ndarray]]]) -> None:
    simulation, inputs = build()
    certificate = ds.certify(simulation, loss, inputs, STEPS)
    assert certificate.passed, str(certificate)
    kinds = {line.name.split(",")[0].split(" ")[0] for line in certificate.lines}
    assert {"dot", "jvp", "Taylor"} <= kinds and any("slots against" in line.name for line in certificate.lines)


def failures(build: Callable[[], tuple[ds.Simulation, dict[str, np.ndarray]]], the_loss: object = loss) -> str:
    simulation, inputs = build()
    certificate = ds.certify(simulation, the_loss, inputs, STEPS)  # type: ignore[arg-type]
    return " ".join(line.name for line in certificate.lines if line.passed is False)


def test_a_dropped_boundary_term_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reverse.Reverse.gathered
    monkeypatch.setattr(reverse.Reverse, "gathered", lambda *a: dataclasses.replace(whole(*a), fold=(), outside=()))
    assert "dot product" in failures(heat) and "Taylor with gradient" in failures(heat)


def test_a_wrong_transpose_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reverse.vjp

    def swapped(*arguments: object) -> dict[str, dict[tuple[int, ...], object]]:
        links = whole(*arguments)  # type: ignore[arg-type]
        if "kappa" in links:  # the weights of the neighbour above go to the one below
            links["kappa"] = {(-o[0], *o[1:]): n for o, n in links["kappa"].items()}
        return links  # type: ignore[return-value]

    monkeypatch.setattr(reverse, "vjp", swapped)
    failed = failures(heat)
    assert "dot product, kappa" in failed and "dot product, T" not in failed


def test_a_snapshot_without_one_of_its_fields_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def save(self: levels.Ring, slot: int) -> None:
        self.slots[slot] = [self.working[-1]] * self.depth  # p in place of p_prev as well
        for level in self.slots[slot]:
            self.users[level] += 1

    monkeypatch.setattr(levels.Ring, "save", save)
    failed = failures(acoustic)
    assert "slots against all stored" in failed and "dot product" not in failed


def test_a_doubled_loss_term_fails() -> None:
    failed = failures(heat, doubled)
    assert "Taylor with gradient" in failed and "dot product" not in failed


def test_a_stale_coefficient_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of coefficients that are not cleared between two sweeps."""
    whole = stepper.Stepper.seed

    def seed(self: stepper.Stepper, *arguments: object) -> None:
        kept = {name: self.launcher.memory.read(self.launcher.field(f"{name} bar")).copy() for name in self.step.active}
        whole(self, *arguments)  # type: ignore[arg-type]
        for name, values in kept.items():
            self.launcher.memory.write(self.launcher.field(f"{name} bar"), values)

    monkeypatch.setattr(stepper.Stepper, "seed", seed)
    assert "slots against all stored" in failures(heat)


def test_f32_is_refused() -> None:
    simulation = ds.Simulation(Heat(ds.Grid((8, 8), 0.5), 0.1), precision="f32")
    with pytest.raises(ds.errors.ParameterError, match="expected a simulation in f64"):
        ds.certify(simulation, loss, {"kappa": np.ones((8, 8))}, 4)


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.00001, False), (1.01, False), (-1.0, False), (0.0, False)])
def test_taylor_slopes(factor: float, right: bool) -> None:
    x, d = np.array([0.3, 0.7]), np.array([1.0, -0.4])
    gradient = np.array([np.cos(0.3) * 0.7, np.sin(0.3)])
    slope = factor * float(gradient @ d)
    expansion = taylor(Path(lambda h: float(np.sin(x[0] + h * d[0]) * (x[1] + h * d[1])), float(np.sin(0.3) * 0.7), slope, abs(slope)))
    assert abs(expansion.without - 1) < 0.1
    assert (abs(expansion.with_gradient - 2) < 0.1) == right


def test_a_cell_at_the_edge_with_all_but_nothing_in_it_is_still_tested() -> None:
    simulation, inputs = heat()
    inputs["T"][[0, -1]] = inputs["T"][:, [0, -1]] = 1e-25
    lines = [line for line in ds.certify(simulation, loss, inputs, STEPS, directions=1).lines if "T at the edge" in line.name]
    assert len(lines) == 2
    assert all(line.passed and np.isfinite(line.value) for line in lines)


@pytest.mark.parametrize("factor", [0.0, 1e-6, 0.999])
def test_a_loss_whose_gradient_is_lost_or_scaled_fails(factor: float) -> None:
    """Also where it is 0, so that nothing seems to arrive at the records."""
    simulation, inputs = heat()

    def scaled(solution: ds.Solution) -> tuple[float, ds.Solution]:
        return loss(solution)[0], ds.Solution(*({k: factor * v for k, v in part.items()} for part in _bars(solution)))

    assert ds.certify(simulation, scaled, inputs, STEPS).verdict == "fail"


def test_a_loss_without_cotangents_gives_the_lines_of_one_with_them() -> None:
    simulation, inputs = heat()

    def plain(solution: ds.Solution) -> Any:
        return sum((v**2 + 0.1 * v**3).sum() for v in (*solution.traces.values(), *solution.final.values()))

    plain_lines, expected = (ds.certify(simulation, one, inputs, STEPS) for one in (plain, loss))
    assert plain_lines.passed, str(plain_lines)
    assert [line.name for line in plain_lines] == [line.name for line in expected]
    slopes = [(a.value, b.value) for a, b in zip(plain_lines, expected, strict=True) if "Taylor" in a.name]
    assert len(slopes) > 5 and np.allclose(*np.transpose(slopes), rtol=1e-3)


def test_a_minimum_cannot_be_judged() -> None:
    simulation, inputs = heat()
    data = simulation.run(inputs, STEPS).traces["T"]
    certificate = ds.certify(simulation, lambda solution: 0.5 * ((solution.traces["T"] - data) ** 2).sum(), inputs, STEPS)
    assert certificate.verdict == "cannot judge"
    assert any("minimum" in line.note for line in certificate)


def _bars(solution: ds.Solution) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    bars = loss(solution)[1]
    return dict(bars.final), dict(bars.traces)


def test_a_path_that_tangent_and_adjoint_both_lose_is_found() -> None:
    """Nothing seems to reach the receivers then, but differences of the loss know better."""

    @ds.custom_jvp
    def square(u: Any) -> Any:
        return u * u

    @square.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return square(*primals), 0.0 * tangents[0]

    class Squared(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid((12,), 1.0), 0.1
            self.states = {"x": ds.Variable("mirror"), "y": ds.Variable("mirror")}

        def step(self, x: Any, y: Any) -> dict[str, Any]:
            return {"x": x, "y": ds.host_stage(square, x, boundary="mirror")}

    simulation = ds.Simulation(Squared(), precision="f64", receivers={"y": [[3.3], [7.1]]}, wrt=["x"])
    certificate = ds.certify(simulation, lambda solution: 0.5 * (solution.traces["y"] ** 2).sum(), {"x": np.linspace(1, 2, 12)}, steps=4)
    assert certificate.verdict == "fail"


@pytest.mark.parametrize("scale", [30.0, 1e-3, 1e-9])
def test_a_hidden_kink_does_not_pass_however_short_the_steps(scale: float) -> None:
    """At T = 300 the loss is x = T - 300, in two kinks that cancel, and its gradient 2; a step far below 300 does not move T at all."""

    class Kept(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid((5,), 1.0), 1.0
            self.states = {"T": ds.Variable("mirror")}

        def step(self, T: Any) -> dict[str, Any]:
            return {"T": T + 0.0}

    def kinks(solution: ds.Solution) -> Any:
        x = solution.final["T"] - 300.0
        return (dnp.maximum(x, 0.0) - dnp.maximum(-x, 0.0)).sum()

    run = ds.Simulation(Kept(), precision="f64")
    report = ds.certify(run, kinks, {"T": np.full(5, 300.0)}, steps=1, directions=[{"T": np.ones(5)}], scale={"T": scale})
    line = next(line for line in report if "directions[0]" in line.name)
    assert line.passed is not True, report


class Blend(ds.Equation):
    """Each cell becomes a mixture of both neighbours. Where the state is all but uniform, the share of each has little effect."""

    dt = 1.0

    def __init__(self, n: int) -> None:
        self.grid = ds.Grid((n,), 1.0)
        self.states, self.parameters = {"u": ds.Variable("periodic")}, {"share": ds.Variable("periodic")}

    def step(self, u: Any, share: Any) -> dict[str, Any]:
        return {"u": (1 - share) * u.shifted(0, 1) * u + share * u.shifted(0, -1) * u}


def test_an_adjoint_that_differs_from_call_to_call_is_not_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, plain = np.random.default_rng(3), ds.Simulation.vjp

    def vjp(self: Any, *arguments: Any, **named: Any) -> Any:
        solution, pullback = plain(self, *arguments, **named)
        return solution, lambda bars: {name: x * (1 + 1e-11 * rng.standard_normal(x.shape)) for name, x in pullback(bars).items()}

    monkeypatch.setattr(ds.Simulation, "vjp", vjp)
    simulation = ds.Simulation(Blend(30), wrt=["share"], precision="f64")
    inputs = {"share": rng.uniform(0.2, 0.8, 30), "u": 1 + 0.1 * rng.standard_normal(30)}
    lines = [line for line in ds.certify(simulation, lambda s: (s.final["u"] ** 2).sum(), inputs, 3) if line.name.startswith("dot product")]
    assert [line.passed for line in lines] == [False] and "other bits" in lines[0].note


@pytest.mark.parametrize("rough", [1.0, 1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("wrong", [0.0, 1e-5])
def test_terms_that_cancel_are_not_taken_for_a_fault(rough: float, wrong: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """But a gradient that is wrong by a share of 1e-5 is, whatever cancels."""
    rng = np.random.default_rng(7)
    inputs = {"share": rng.uniform(0.2, 0.8, 30), "u": 1 + 0.1 * rough * rng.standard_normal(30)}
    simulation, plain = ds.Simulation(Blend(30), wrt=["share"], precision="f64"), ds.Simulation.vjp

    def vjp(self: Any, *arguments: Any, **named: Any) -> Any:
        solution, pullback = plain(self, *arguments, **named)
        return solution, lambda bars: {name: (1 + wrong) * values for name, values in pullback(bars).items()}

    monkeypatch.setattr(ds.Simulation, "vjp", vjp)
    lines = [
        line
        for seed in range(6)
        for line in ds.certify(simulation, lambda s: (s.final["u"] ** 2).sum(), inputs, 3, seed=seed)
        if line.name.startswith("dot product")
    ]
    verdicts = (False,) if wrong else (True, None) if rough < 1e-6 else (True,)  # None: hardly a digit is left
    assert all(line.passed in verdicts for line in lines), "\n".join(map(str, lines))
    if not wrong and rough == 1e-5:
        assert any("terms cancel" in line.note for line in lines)


def test_an_output_that_is_rounding_counts_as_another_of_its_unit() -> None:
    changes = {"drag": np.array([2.0]), "lift": np.array([3e-17]), "loss": np.array([1e-20]), "none": np.array([0.0])}
    units = {"drag": "N", "lift": "N", "loss": "J", "none": "m"}
    weights = _weights(ds.Solution(changes, {}), np.random.default_rng(0), units).final
    normal = np.random.default_rng(0).standard_normal(4)
    assert np.allclose([weights[name][0] for name in changes], normal / [2.0, 2.0, 1e-20, 1.0], rtol=1e-12)


def test_a_steady_problem_is_not_told_to_take_more_steps() -> None:
    """Whatever cannot judge: an input without effect, a loss that is 0, and schedules, of which there are none."""

    class Wall(ds.Steady):
        grid = ds.Grid((5,), 1.0)
        states = {"T": ds.Variable("zero")}  # noqa: RUF012
        parameters = {"k": ds.Variable("mirror"), "s": ds.Variable("mirror")}  # noqa: RUF012

        def residual(self, T: Any, k: Any, s: Any) -> Any:
            return laplacian(T) - T + s * (1 + 0 * k)

    wall = ds.steady(Wall(), precision="f64")
    inputs = {"k": np.ones(5), "s": np.ones(5)}
    for loss in (lambda solution: (solution.final["T"] ** 2).sum(), lambda solution: 0.0 * solution.final["T"].sum()):
        notes = [line.note for line in ds.certify(wall, loss, inputs, steps=1, directions=1)]
        assert any("a steady problem keeps no states" in note for note in notes)
        assert not [note for note in notes if "more steps" in note]
    assert any("nothing has arrived yet, or the loss is at a minimum; move the point" in note for note in notes)
