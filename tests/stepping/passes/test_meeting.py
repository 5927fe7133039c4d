"""Values on which parts of a step depend that are swept one after the other are named, and reverse mode goes through each once."""

from __future__ import annotations

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import Symbol, maximum, sqrt, where
from diffsim.expr.graph import Graph, Node, operations, reads
from diffsim.stepping.derive import reverse
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.derive.forms import nests_of
from diffsim.stepping.derive.reverse import Reverse
from diffsim.stepping.passes.meeting import meeting_values
from diffsim.stepping.passes.rolling import Rolling
from diffsim.stepping.passes.sharing import Shared, inlined
from diffsim.stepping.trace.trace import TracedStep
from diffsim.stepping.trace.tracing import trace_coefficients, trace_step
from tests.cases import CASES, Case
from tests.sampled import sampled


def traced(equation: ds.Equation) -> TracedStep:
    coefficients = trace_coefficients(equation)
    return trace_step(equation, coefficients.placed, groups=coefficients.groups)


@pytest.fixture
def graph() -> Graph:
    return Graph()


def _speed(graph: Graph) -> Node:
    return graph.apply("sqrt", graph.read("u", (0,)))


def _product(graph: Graph, *factors: Node) -> Node:
    first, *others = factors
    for other in others:
        first = graph.mul(first, other)
    return first


def test_a_value_that_two_ranks_need_has_a_name(graph: Graph) -> None:
    speed = _speed(graph)
    ratio = graph.apply("div", speed, graph.read("v", (0,)))
    bodies = {"next u": _product(graph, graph.read("ratio", (0,)), speed), "ratio": ratio}
    shared = meeting_values(graph, bodies, [["next u"], ["ratio"]], "uv".__contains__)
    ((name, value),) = shared.values.items()
    assert value is speed
    assert {each: {*reads([body])} for each, body in shared.bodies.items()} == {"next u": {name, "ratio"}, "ratio": {name, "v"}}
    assert inlined(graph, shared.bodies.values(), shared.values) == [*bodies.values()]


@pytest.mark.parametrize("ranks", [[["next u", "ratio"]], [["next u"]]], ids=["one rank", "one of them has no cotangent"])
def test_a_value_that_one_rank_needs_has_none(graph: Graph, ranks: list[list[str]]) -> None:
    speed = _speed(graph)
    bodies = {"next u": _product(graph, speed, speed), "ratio": graph.apply("div", speed, graph.read("v", (0,)))}
    assert meeting_values(graph, bodies, ranks, "uv".__contains__) == Shared(bodies, {})


def test_a_sum_has_a_name_and_not_its_terms(graph: Graph) -> None:
    speed = _speed(graph)
    whole = graph.add(graph.mul(graph.const(3), speed), graph.read("v", (0,)))
    bodies = {"next u": _product(graph, whole, whole), "ratio": graph.apply("sqrt", whole)}
    assert [*meeting_values(graph, bodies, [["next u"], ["ratio"]], "uv".__contains__).values.values()] == [whole]


class Chain(ds.Equation):
    """A flux after some substeps of each cell, each of which adds a term to the field."""

    def __init__(self, substeps: int) -> None:
        self.grid, self.dt, self.substeps = ds.Grid((14,), 1.0), 0.01, substeps
        self.states = {"u": ds.Variable("periodic")}

    def step(self, u: Symbol) -> dict[str, Symbol]:
        for _ in range(self.substeps):
            root = sqrt(1.0 + u * u)
            u = u + self.dt * root * u / (1.0 + u * u)
        flux = sqrt(1.0 + u * u) * root
        return {"u": u - 0.1 * (flux * root - (flux * root).shifted(0, -1))}


def test_a_chain_is_gone_through_once() -> None:
    """Each substep adds as many operations to the adjoint, however many follow."""

    def count(substeps: int) -> int:
        step = traced(Chain(substeps))
        return operations([assign.node for nest in adjoint_program(step, ()).program.nests for assign in nest.assigns])

    ten, twenty, forty = map(count, (10, 20, 40))
    assert forty - twenty == 2 * (twenty - ten)


def test_what_is_not_differentiated_has_none(graph: Graph) -> None:
    speed = _speed(graph)
    bodies = {"next v": _product(graph, speed, graph.read("v", (0,))), "ratio": _product(graph, speed, speed)}
    assert not meeting_values(graph, bodies, [["next v"], ["ratio"]], "v".__contains__).values


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_values_of_a_step_meet_without_a_name(case: Case) -> None:
    """Several ranks read only conditions, linear functions and values that do not depend on the differentiated fields."""
    step = traced(case.equation())
    sweep = Reverse(step, {name: step.outputs[name] for name in step.states if not step.delays()[name][1]})
    again = meeting_values(step.graph, sweep.bodies, sweep._ranks, sweep._wanted.__contains__)
    assert not again.values
    outputs = [name for name in sweep.bodies if name.startswith("next ")]
    whole = inlined(step.graph, [sweep.bodies[name] for name in outputs], sweep._values)
    assert whole == [step.outputs[name.removeprefix("next ")] for name in outputs]


class Exchange(ds.Equation):
    """Two fields with fluxes by a ratio of speeds, which both use at two cells, and by the speeds themselves."""

    def __init__(self, *, axes: int = 1) -> None:
        self.grid, self.dt = ds.Grid((14,) * axes, 1.0), 0.05
        self.states = {"u": ds.Variable("periodic"), "v": ds.Variable("periodic")}

    def step(self, u: Symbol, v: Symbol) -> dict[str, Symbol]:
        for axis in range(self.grid.ndim):
            right = u.shifted(axis, 1)
            fast = sqrt(1.0 + u * u) + sqrt(2.0 + right * right)
            slow = sqrt(1.0 + 0.25 * (u - right) ** 2)
            ratio = slow / maximum(fast, 2.0 * slow + 0.5)
            flux, other = ratio * fast * slow * right, (1.0 - ratio) * slow * v / (1.0 + fast)
            u = u - self.dt * (flux - flux.shifted(axis, -1)) + self.dt * (ratio - ratio.shifted(axis, -1))
            v = v - self.dt * (other - other.shifted(axis, -1)) * ratio
        return {"u": u, "v": v}


def test_names_make_an_adjoint_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    step = traced(Exchange())

    def cost() -> float:
        return Rolling(step.graph, True).cost(nests_of(step.graph, adjoint_program(step, ()).program))

    with_names = cost()
    monkeypatch.setattr(reverse, "meeting_values", lambda graph, bodies, *_: Shared(dict(bodies), {}))
    assert with_names < 0.95 * cost()


@pytest.mark.parametrize("axes", [1, 2])
def test_its_gradient_is_that_of_differences(axes: int) -> None:
    equation, generator = Exchange(axes=axes), np.random.default_rng(axes)
    simulation = ds.Simulation(equation, wrt=("u", "v"), precision="f64")
    inputs, direction = ({name: 0.3 * generator.normal(size=equation.grid.shape) for name in "uv"} for _ in range(2))
    weights = generator.normal(size=equation.grid.shape)

    def loss(solution: ds.Solution) -> object:
        return ds.numpy.sum(weights * solution.final["u"] * solution.final["v"])

    _, gradient = simulation.value_and_grad(loss, inputs, 4)
    ends = [simulation.value_and_grad(loss, {n: inputs[n] + h * direction[n] for n in inputs}, 4)[0] for h in (1e-5, -1e-5)]
    slope = sum(np.vdot(gradient[name], direction[name]) for name in inputs)
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-8)


POWERS = {"root": sqrt, "power": lambda u: u**0.3, "two": lambda u: (u**1.3) ** 0.3}
"""Functions whose derivative is infinite at 0."""


class Dropped(ds.Equation):
    """A function of u where v is positive, by conditions at several cells, or of several stages."""

    def __init__(self, number: int, function: str) -> None:
        self.grid, self.dt, self.number, self.function = ds.Grid((18,), 1.0), 0.1, number, POWERS[function]
        self.states = {"u": ds.Variable("periodic")}
        self.parameters = {"v": ds.Variable("periodic")}

    def step(self, u: Symbol, v: Symbol) -> dict[str, Symbol]:
        generator = np.random.default_rng(self.number)
        value = self.function(u)
        if generator.random() < 0.4:
            value = ds.stage(value, boundary="periodic")
        if generator.random() < 0.5:
            value = value * sqrt(1.0 + value * value)
        rate = 0.0 * v
        for offset in generator.choice((-1, 0, 1), size=generator.integers(2, 4), replace=False):
            weight = v * generator.uniform(0.5, 1.5)
            if generator.random() < 0.5:
                weight = weight / (1.0 + where(v.shifted(0, int(offset)) > 0, value.shifted(0, int(offset)), 0.0) ** 2)
            rate = rate + where(v.shifted(0, int(offset)) > 0, value.shifted(0, int(offset)) * weight, 0.0)
        return {"u": u + self.dt * rate}


@pytest.mark.parametrize("function", POWERS)
@pytest.mark.parametrize("number", sampled(range(12), 4))
def test_a_dropped_value_has_no_infinite_derivative(number: int, function: str) -> None:
    equation, generator = Dropped(number, function), np.random.default_rng(number)
    simulation = ds.Simulation(equation, wrt=("u", "v"), precision="f64")
    v = generator.normal(size=18)
    inputs = {"u": np.where(v > 0, generator.uniform(0.5, 2, 18), 0.0), "v": v}
    direction = {"u": np.where(v > 0, generator.normal(size=18), 0.0), "v": generator.normal(size=18)}

    def loss(solution: ds.Solution) -> object:
        return ds.numpy.sum(ds.numpy.sin(solution.final["u"]))

    def at(h: float) -> tuple[float, dict[str, np.ndarray]]:
        value, gradient = simulation.value_and_grad(loss, {name: inputs[name] + h * direction[name] for name in inputs}, 1)
        return value, dict(gradient)

    (_, gradient), (before, gradient_before), (after, gradient_after) = at(0), at(-1e-6), at(1e-6)
    slope = sum(np.vdot(gradient[name], direction[name]) for name in inputs)
    assert np.isfinite(gradient["u"]).all()
    assert slope == pytest.approx((after - before) / 2e-6, rel=1e-6, abs=1e-9)
    solution, tangent = simulation.jvp(inputs, direction, 1)
    assert np.vdot(np.cos(solution.final["u"]), tangent.final["u"]) == pytest.approx(slope, rel=1e-12, abs=1e-14)
    product = ds.hvp(lambda point: loss(simulation.run(point, 1)), inputs, direction)
    for name, change in product.items():
        by_differences = (gradient_after[name] - gradient_before[name]) / 2e-6
        np.testing.assert_allclose(change, by_differences, rtol=1e-5, atol=1e-6 * np.abs(by_differences).max())
