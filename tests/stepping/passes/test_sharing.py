"""Values that a step uses at several cells are found, and reverse mode goes through each once."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import interpolate, sqrt, where
from diffsim.expr.graph import Data, Graph, Node, ordered, reads
from diffsim.solvers import Burgers
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.passes.rolling import Rolling
from diffsim.stepping.passes.sharing import cost, inlined, shared_values
from diffsim.stepping.trace.stages import StoredExpression
from diffsim.stepping.trace.trace import TracedStep
from diffsim.stepping.trace.tracing import trace_coefficients, trace_step
from tests.cases import CASES, Case


def traced(equation: ds.Equation) -> TracedStep:
    coefficients = trace_coefficients(equation)
    return trace_step(equation, coefficients.placed, groups=coefficients.groups)


class Transport(ds.Equation):
    """Fluxes through faces, each a costly function of the fluxes of a level below: u_t = -(f_n)', f_k = F(f_(k - 1))."""

    def __init__(self, levels: int, axis: int = 1) -> None:
        self.grid, self.dt, self.levels, self.axis = ds.Grid((12, 15), 1.0), 0.1, levels, axis
        self.states = {"u": ds.Variable("mirror")}
        self.parameters = {"k": ds.Variable("mirror")}

    def step(self, u: ds.expr.Symbol, k: ds.expr.Symbol) -> dict[str, ds.expr.Symbol]:
        flux = u
        for _ in range(self.levels):
            right = flux.shifted(self.axis, 1)
            flux = k * flux / (1.0 + flux * flux) + sqrt(1.0 + right * right) * (flux - right) / (2.0 + flux * flux + right * right)
        return {"u": u - self.dt * (flux - flux.shifted(self.axis, -1))}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_shared_can_be_put_back(case: Case) -> None:
    step = traced(case.equation())
    bodies = {**step.outputs, **{s.name: s.node for s in step.stages if isinstance(s, StoredExpression)}}
    shared = shared_values(step.graph, bodies, lambda name: True)
    assert inlined(step.graph, shared.bodies.values(), shared.values) == list(bodies.values())


def test_a_flux_is_shared_by_its_two_cells() -> None:
    step = traced(Transport(1))
    shared = shared_values(step.graph, step.outputs, lambda name: True)
    ((name, flux),) = shared.values.items()
    assert reads([shared.bodies["u"]])[name] == {(0, -1), (0, 0)}
    assert reads([flux])["u"] == {(0, 0), (0, 1)}


def test_a_stencil_of_constant_weights_is_left_alone() -> None:
    step = traced(ds.solvers.Acoustic(ds.Grid((20, 21), 10.0), 1e-3, order=8))
    assert not shared_values(step.graph, step.outputs, lambda name: True).values


def test_what_is_not_differentiated_is_left_alone() -> None:
    step = traced(Transport(1))
    assert not shared_values(step.graph, step.outputs, lambda name: False).values


def test_the_adjoint_grows_with_the_step() -> None:
    """Not with its square: through a flux of fluxes, each use differentiated by itself would double the work a level."""
    costs = []
    for levels in (1, 2, 3, 4):
        step = traced(Transport(levels))
        shared = shared_values(step.graph, step.outputs, lambda name: True)
        forward = cost([*shared.bodies.values(), *shared.values.values()])
        (nest,) = Rolling(step.graph, blocks=False).rolled(adjoint_program(step, ()).program).nests
        kept = [node for group in nest.groups for node in group.values.values()]
        costs.append(cost([*kept, *(nest.roots or [a.node for a in nest.assigns])]) / forward)
    assert max(costs) < 1.5 * min(costs), costs  # 2.8 - 3.5; without `shared_values` 2.8 - 30


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_gradients_through_shared_values(levels: int, axis: int) -> None:
    rng = np.random.default_rng(levels)
    simulation = ds.Simulation(Transport(levels, axis), receivers={"u": [[3.3, 4.4]]})
    inputs = {"u": rng.uniform(0.5, 1.5, simulation.grid.shape), "k": rng.uniform(0.5, 1.5, simulation.grid.shape)}
    weight = rng.standard_normal(simulation.grid.shape)

    def loss(solution: ds.Solution) -> tuple[float, ds.Solution]:
        return float((weight * solution.final["u"]).sum()), ds.Solution(final={"u": weight})

    _, gradient = simulation.value_and_grad(loss, inputs, 6)
    for _ in range(3):
        along = {name: rng.standard_normal(value.shape) for name, value in inputs.items()}
        values = [loss(simulation.run({n: v + e * along[n] for n, v in inputs.items()}, 6))[0] for e in (1e-5, -1e-5)]
        slope = sum(float((gradient[name] * along[name]).sum()) for name in inputs)
        assert (values[0] - values[1]) / 2e-5 == pytest.approx(slope, rel=1e-7, abs=1e-8)


def test_a_division_by_what_is_zero_outside_gives_nothing_there() -> None:
    """Cells outside give no cotangent, also where a rule of zeros makes their derivatives infinite."""

    class Quotients(ds.Equation):
        def __init__(self) -> None:
            self.grid, self.dt = ds.Grid((9, 14), 1.0), 0.1
            self.states = {"u": ds.Variable("zero"), "v": ds.Variable("mirror")}
            self.parameters = {"r": ds.Variable("zero")}

        def step(self, u: ds.expr.Symbol, v: ds.expr.Symbol, r: ds.expr.Symbol) -> dict[str, ds.expr.Symbol]:
            slope = interpolate(interpolate(v * v, 1), 1) / r
            return {"u": u + self.dt * v / r, "v": v + self.dt * slope + self.dt * (u / r) * v.shifted(0, 1)}

    simulation = ds.Simulation(Quotients())
    rng = np.random.default_rng(0)
    inputs = {name: rng.uniform(0.5, 1.5, simulation.grid.shape) for name in simulation.inputs}

    def loss(solution: ds.Solution) -> tuple[float, ds.Solution]:
        return 0.5 * float((solution.final["v"] ** 2).sum()), ds.Solution(final={"v": solution.final["v"]})

    assert ds.certify(simulation, loss, inputs, 5).passed


def test_a_value_that_only_conditions_read_has_no_cotangent() -> None:
    class Chosen(Transport):
        def step(self, u: ds.expr.Symbol, k: ds.expr.Symbol) -> dict[str, ds.expr.Symbol]:
            flux = sqrt(k) * u / (1.0 + u * u) + u.shifted(0, 1) / (2.0 + k)
            return {"u": where(flux > flux.shifted(0, -1), u - 0.1 * k * u, 0.9 * u / k)}

    simulation = ds.Simulation(Chosen(1))
    rng = np.random.default_rng(0)
    inputs = {name: rng.uniform(0.5, 1.5, simulation.grid.shape) for name in simulation.inputs}

    def loss(solution: ds.Solution) -> tuple[float, ds.Solution]:
        return 0.5 * float((solution.final["u"] ** 2).sum()), ds.Solution(final={"u": solution.final["u"]})

    assert shared_values(simulation._step.graph, simulation._step.outputs, lambda name: True).values
    assert ds.certify(simulation, loss, inputs, 2).passed


def test_what_reads_no_shared_value_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stages of a step share fluxes of their own: each is named without building the others again."""
    step, built = traced(Burgers(ds.Grid((24,), 1.0), 0.05)), 0
    bodies = {stage.name: stage.node for stage in step.stages if isinstance(stage, StoredExpression)}
    apply = Graph.apply

    def counted(graph: Graph, op: str, *args: Node, data: Data = None) -> Node:
        nonlocal built
        built += 1
        return apply(graph, op, *args, data=data)

    monkeypatch.setattr(Graph, "apply", counted)
    shared = shared_values(step.graph, bodies, {*step.states, *bodies}.__contains__)
    assert len(shared.values) > 3 and built < 6 * len(ordered(bodies.values()))
