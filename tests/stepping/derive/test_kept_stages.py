"""Stages that recorded steps keep: gradients have the bits that they have without, and which ones are kept follows from their cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.numpy as dnp
from diffsim.checkpoint import Binomial, Costs, Mixed, PartlyRecorded, Policy, StoreAll, choose, resolve
from diffsim.expr import mean, sqrt
from diffsim.stepping.derive import kept_stages
from diffsim.stepping.derive.residuals import ResidualPrograms
from diffsim.stepping.run import storage
from tests.curvature import require_second_derivatives
from tests.sampled import sampled
from tests.stepping.derive.transposes import require_one_product
from tests.stepping.trace.test_sides import sides

STEPS = 5
SEEDS = range(24)
IN_GATE = (10, 7)
"""With a number of all cells, and with a stage on the host; both with an earlier value."""


class Chain(ds.Equation):
    """Stages of which each reads others at any places: expressions, some on the host, one of a fixed field, and a number of all cells."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.grid = ds.Grid(tuple(int(n) for n in rng.integers(6, 20, 1 + seed % 2)), 1.0)
        self.dt, self.rng_seed = 0.1, seed
        a, b, _ = sides(rng, self.grid.ndim, int(rng.integers(12)))
        self.states = {"a": ds.Variable(a), "b": ds.Variable(b), "c": ds.Variable(a)}
        self.parameters = {"k": ds.Variable("mirror")}
        self.earlier, self.host, self.numbered = bool(seed % 3), seed % 4 == 3, seed % 5 == 0

    def step(self, a: Any, b: Any, c: Any, k: Any) -> dict[str, Any]:
        rng = np.random.default_rng(self.rng_seed + 100)
        fields, rules = [a, b, c], [a, b, a]
        fixed = ds.stage(sqrt(1 + k * k), boundary="mirror")
        for number in range(int(rng.integers(1, 5))):
            first, second = (int(rng.integers(len(fields))) for _ in range(2))
            x, y = (fields[each].shifted(int(rng.integers(self.grid.ndim)), int(rng.integers(-1, 2))) for each in (first, second))
            value = x + self.dt * fixed * y / sqrt(2 + x * x)
            if self.numbered and not number:
                value = value * (1 + 0.1 * mean(fields[first]))
            new = ds.stage(value, boundary=rules[first])
            if self.host and not number:
                new = ds.host_stage(lambda u: dnp.sin(u) + 0.1 * u.mean(), new, rules[first])
            fields.append(new)
            rules.append(rules[first])
        last = fields[-1]
        return {
            "a": 0.9 * a + self.dt * fields[3] * (last + k),
            "b": b - self.dt * last.shifted(0, 1) * fields[min(4, len(fields) - 1)],
            "c": a if self.earlier else fields[3],
        }


def _simulation(seed: int) -> ds.Simulation:
    return ds.Simulation(Chain(seed), precision="f64", wrt=("a", "b", "c", "k"))


def _point(simulation: ds.Simulation, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(simulation.grid.shape) for name in ("a", "b", "c", "k")}


def _loss(solution: ds.Solution) -> Any:
    return sum(dnp.sum(dnp.cos(np.arange(values.size).reshape(values.shape)) * values**2) for values in solution.final.values())


def _residuals(simulation: ds.Simulation) -> ResidualPrograms | None:
    return simulation._stepper.with_residuals


def _gradients(seed: int, *schedules: Any) -> list[dict[str, Any]]:
    simulation = _simulation(seed)
    return [simulation.value_and_grad(_loss, _point(simulation, seed), STEPS, schedule)[1] for schedule in schedules]


def _require_equal(first: dict[str, Any], *others: dict[str, Any]) -> None:
    for other in others:
        for name, wanted in first.items():
            np.testing.assert_array_equal(other[name], wanted, err_msg=name)


@pytest.mark.parametrize("seed", sampled(SEEDS, gate=IN_GATE))
def test_no_bit_of_a_gradient_depends_on_what_is_kept(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All stages are kept that may be. In slots the states alone are; with other schedules some steps are recorded.

    Where the host computes stages, some keep cells alone, others whole fields.
    """
    monkeypatch.setattr(kept_stages, "KEEPING", 0)
    monkeypatch.setattr(storage, "PACKED", 0.0 if seed % 8 < 4 else np.inf)
    assert _residuals(_simulation(seed)) is not None
    partly = [PartlyRecorded(STEPS, last) for last in (1, 3)]
    _require_equal(*_gradients(seed, StoreAll(STEPS), Binomial(STEPS, 2), Mixed(STEPS, 5, 1, 2), *partly))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_no_bit_of_a_gradient_depends_on_the_cost_of_keeping(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = []
    for keeping in (0, 20, kept_stages.KEEPING, kept_stages.HOST):
        monkeypatch.setattr(kept_stages, "KEEPING", keeping)
        gradients += _gradients(seed, StoreAll(STEPS))
    _require_equal(*gradients)


@pytest.mark.parametrize("seed", sampled(SEEDS, gate=(10,)))
def test_tangents_and_cotangents_have_one_product(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_stages, "KEEPING", 0)
    simulation, rng = _simulation(seed), np.random.default_rng(seed)
    point, direction = _point(simulation, seed), _point(simulation, seed + 1)
    weights = {name: rng.standard_normal(simulation.grid.shape) for name in ("a", "b", "c")}
    require_one_product(simulation, point, direction, weights, STEPS)


def _sea(method: Any = "rk2") -> ds.Simulation:
    equation = ds.solvers.ShallowWater(ds.Grid((16, 17), 10.0), 0.1, method=method, fastest=18.0)
    return ds.Simulation(equation, precision="f64", wrt=["z", "eta"])


@pytest.mark.parametrize(("method", "kept"), [("euler", 0), ("rk2", 3), pytest.param("rk3", 6, marks=pytest.mark.slow)])
def test_of_a_runge_kutta_method_the_states_of_its_stages_are_kept(method: Any, kept: int) -> None:
    """They cost most. Slopes are cheap to compute again, and many."""
    sea = _sea(method)
    residuals = _residuals(sea)
    assert (0 if residuals is None else len(residuals.names)) == kept
    if residuals is not None:
        stages = {stage.name for stage in sea._step.stages}
        computed = {assign.target.array for nest in residuals.adjoint.nests for assign in nest.assigns}
        assert residuals.states and len(stages & computed) == len(stages) - kept


@pytest.mark.parametrize(("order", "kept"), [(2, 2 + 2), (4, 4 + 2)])
def test_solutions_of_a_flow_are_not_computed_again(order: Any, kept: int) -> None:
    """They are kept, or velocities that were computed from them; of the states, those that the adjoint reads."""
    flow = ds.solvers.NavierStokes(ds.Grid((16, 16), spacing=0.1), dt=0.01, order=order, method="rk3")
    residuals = _residuals(ds.Simulation(flow, wrt=["nu", "u"]))
    assert residuals is not None and len(residuals.names) == kept and not residuals.states
    assert len(list(residuals.adjoint.calls)) == len(list(residuals.forward.calls))  # those of the transposes


def test_a_plan_takes_the_states_alone_where_all_does_not_fit() -> None:
    """The gradient is the same, memory is what was predicted, and no program is compiled that the plan has no use for."""

    def wave() -> ds.Simulation:
        return ds.Simulation(ds.solvers.Burgers(ds.Grid((24,), 1 / 24), 0.003, scheme="muscl"), precision="f64")

    memory, steps = wave()._stepper.storage, 12
    state, step = memory.state_bytes(), memory.recorded_bytes()
    assert step == 3 * state == 3 * memory.recorded_bytes(1)
    sizes = wave().sizes(steps)
    policies = [Policy(memory=sizes.fixed + steps * each) for each in (step, step - 1)]
    plans = [choose(policy, steps, sizes) for policy in policies]
    assert [plan.schedule for plan in plans] == [StoreAll(steps), Binomial(steps, steps)]
    assert [resolve(plan, steps, sizes) for plan in plans] == [plan.schedule for plan in plans]
    gradients, inputs = [], {"u": np.sin(np.arange(24) * np.pi / 12), "nu": 0.01}
    programs = {"forward_with_residuals", "adjoint_with_residuals"}, {"forward", "adjoint"}
    for policy, plan, compiled in zip(policies, plans, programs, strict=True):
        run = wave()
        gradients.append(run.value_and_grad(lambda end: (end.final["u"] ** 2).sum(), inputs, steps, policy)[1])
        assert {name for name, *_ in run._stepper.launcher._compiled} == compiled
        assert run.allocated_bytes() <= run.predicted_bytes(plan.schedule) <= 1.05 * run.allocated_bytes()
    _require_equal(*gradients)
    used = wave()  # the budget of a run holds after one that took more, too
    for policy, plan in zip(policies, plans, strict=True):
        used.value_and_grad(lambda end: (end.final["u"] ** 2).sum(), inputs, steps, policy)
        assert used.allocated_bytes() <= used.predicted_bytes(plan.schedule)


def test_a_measured_plan_keeps_stages_of_as_many_steps_as_fit() -> None:
    """With memory between that of all states and that of all stages no step runs twice, and memory is what was predicted."""

    def wave() -> ds.Simulation:
        return ds.Simulation(ds.solvers.Burgers(ds.Grid((24,), 1 / 24), 0.003, scheme="muscl"), precision="f64")

    steps, costs = 12, Costs(1.0, 1.2, 5.0, 4.5)
    sizes, inputs = wave().sizes(steps), {"u": np.sin(np.arange(24) * np.pi / 12), "nu": 0.01}
    gradients = []
    for last in (5, 8, 0):
        memory = sizes.fixed + (steps - last) * sizes.state + last * sizes.record
        plan = choose(Policy(memory=memory if last else "1 GB"), steps, sizes, costs)
        assert plan.schedule == (PartlyRecorded(steps, last) if last else StoreAll(steps))
        run = wave()
        gradients.append(run.value_and_grad(lambda end: (end.final["u"] ** 2).sum(), inputs, steps, plan)[1])
        assert run.allocated_bytes() <= run.predicted_bytes(plan.schedule) <= 1.05 * run.allocated_bytes()
    _require_equal(*gradients)


@pytest.mark.slow
def test_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_stages, "KEEPING", 0)
    simulation = _simulation(10)
    require_second_derivatives(lambda given: _loss(simulation.run(given, STEPS)), _point(simulation, 10), np.random.default_rng(0), 1e-6)
