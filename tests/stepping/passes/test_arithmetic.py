"""Cotangents divide once by each divisor, and choose instead of multiplying by 0 or 1; values of the forward run keep their bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import clip, maximum, minimum, sqrt, where
from diffsim.expr.derive import vjp
from diffsim.expr.evaluate import evaluate
from diffsim.expr.graph import Graph, Node, ordered
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.derive.forward import forward_program
from diffsim.stepping.passes.sharing import Classes
from diffsim.stepping.trace.stages import stage
from diffsim.stepping.trace.tracing import trace_coefficients, trace_step
from tests.stepping.passes.test_sharing import traced

ROUND_OFF = 1e-12
"""Relative error of a gradient in f64 beside that of a closed form."""


class Quotients(ds.Equation):
    """Two stages of two quotients by one divisor, which is never 0 or may be. Gradients for numerators divide 1 by it: there are none where
    these are `fixed`."""

    def __init__(self, least: float, fixed: bool) -> None:
        self.grid, self.dt, self.least, self.fixed = ds.Grid((21,), 1.0), 0.1, least, fixed
        self.states, self.parameters = {"u": ds.Variable("zero")}, {"k": ds.Variable("zero")}

    def step(self, u: ds.expr.Symbol, k: ds.expr.Symbol) -> dict[str, ds.expr.Symbol]:
        for _ in range(2):
            size = u * u + k * k + self.least
            first, second = (k, k * k) if self.fixed else (k * u, u * u)
            u = stage(first / size + second / size, boundary="zero")
        return {"u": u}


def divisions(roots: list[Node], classes: Classes, run: set[int]) -> dict[int, int]:
    """Class of a divisor -> the number of different quotients that the run does not have."""
    quotients = {classes.of(node)[0]: classes.of(node.args[1])[0] for node in ordered(roots) if node.op == "div" and node.args[1].args}
    return {divisor: [each for of, each in quotients.items() if of not in run].count(divisor) for divisor in quotients.values()}


@pytest.mark.parametrize(("least", "fixed", "once"), [(0.5, True, True), (0.5, False, True), (0.0, False, True), (0.0, True, False)])
def test_cotangents_divide_once_by_what_is_never_zero_or_divides_one(least: float, fixed: bool, once: bool) -> None:
    equation = Quotients(least, fixed)
    step = trace_step(equation, trace_coefficients(equation).placed, active=() if fixed else None)
    program = adjoint_program(step, []).program
    classes = Classes(step.graph)
    run = {classes.of(node)[0] for node in ordered([*step.expressions().values()]) if node.op == "div" and node.args[1].args}
    cotangents = [[a.node for a in nest.assigns if a.target.array.endswith(" bar")] for nest in program.nests]
    counts = [count for roots in cotangents for count in divisions(roots, classes, run).values()]
    assert (max(counts) == 1) == once


@pytest.mark.parametrize("number", [1.0, -0.1, 9.81, 300.0, 1e-30, -1e30])
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_a_number_over_a_field_is_divided_once(number: float, precision: Any) -> None:
    """Its derivative is -c / d², also where c² is out of range in f32."""
    graph = Graph()
    x = graph.read("x", (0,))
    quotient = graph.div(graph.const(number), x)
    (slope,) = vjp(graph, {quotient: graph.const(1.0)}, lambda name: True)["x"].values()
    again = [node for node in ordered([slope]) if node.op == "div" and node is not quotient]
    assert len(again) == (not 0.1 <= abs(number) <= 10)
    values = np.random.default_rng(0).uniform(0.5, 2, 50).astype({"f32": np.float32, "f64": np.float64}[precision])
    (computed,) = evaluate([slope], {"x": values}, (50,), (0,))
    np.testing.assert_allclose(computed, -number / values.astype(np.float64) ** 2, rtol=8 * np.finfo(values.dtype).eps)


DECISIONS: dict[str, Callable[[Any], Any]] = {
    "a condition": lambda s: where(s >= 1.0, 5.0 * s * s, s * s * s),
    "maximum": lambda s: maximum(s, 1.0) * s + s * s,
    "minimum": lambda s: minimum(1.0, s) * s + s * s,
    "clip": lambda s: clip(s, 0.0, 1.0) * s + s * s,
    "abs": lambda s: abs(s - 1.0) * 3.0 + s * s,
    "a root of what cancels": lambda s: where(s < 1.0, sqrt(1.0 - s), 0.0) + s * s,
}


class Decided(ds.Equation):
    """A step that decides by a quotient, u / (k² + 1)."""

    def __init__(self, decide: Callable[[Any], Any]) -> None:
        self.grid, self.dt, self._decide = ds.Grid((40,), 1.0), 0.1, decide
        self.states, self.parameters = {"u": ds.Variable("zero")}, {"k": ds.Variable("zero")}

    def step(self, u: ds.expr.Symbol, k: ds.expr.Symbol) -> dict[str, ds.expr.Symbol]:
        return {"u": self._decide(u / (k * k + 1.0))}


@pytest.mark.parametrize("name", DECISIONS)
def test_an_adjoint_decides_as_the_run_where_a_quotient_is_1(name: str) -> None:
    """Of these divisors d many have d (1 / d) < 1, where a reciprocal would choose the other branch."""
    k = np.arange(20.0, 60.0)
    divisors = k**2 + 1
    assert ((1.0 / divisors) * divisors != 1.0).sum() > 3
    simulation, inputs = ds.Simulation(Decided(DECISIONS[name]), precision="f64"), {"u": divisors, "k": k}
    _, pullback = simulation.vjp(inputs, 1)
    _, moved = simulation.jvp(inputs, {"u": divisors}, 1)
    gradient = pullback(ds.Solution(final={"u": np.ones(40)}))["u"]
    assert np.allclose(gradient * divisors, moved.final["u"], rtol=ROUND_OFF)


class Masked(Decided):
    """A run that multiplies by a mask itself: 0 times infinity is NaN there."""

    def step(self, u: ds.expr.Symbol, k: ds.expr.Symbol) -> dict[str, ds.expr.Symbol]:
        wet = where(k > 30.0, 1.0, 0.0)
        u = stage(wet * self._decide(u / (k * k + 1.0)) - u, boundary="zero")
        return {"u": wet * u * u}


def masked(roots: list[Node], classes: Classes) -> set[int]:
    """The classes of products with a choice between 0 and 1."""

    def is_mask(node: Node) -> bool:
        return node.op == "select" and {each.data for each in node.args[1:] if each.op == "const"} == {0.0, 1.0}

    return {classes.of(node)[0] for node in ordered(roots) if node.op == "mul" and any(map(is_mask, node.args))}


@pytest.mark.parametrize("name", DECISIONS)
@pytest.mark.parametrize("kind", [Decided, Masked])
def test_cotangents_choose_and_products_of_the_run_stay(kind: type[Decided], name: str) -> None:
    step = traced(kind(DECISIONS[name]))
    classes = Classes(step.graph)
    program = adjoint_program(step, []).program
    run = masked(list(step.expressions().values()), classes)
    assert bool(run) == (kind is Masked)
    assert masked([a.node for nest in program.nests for a in nest.assigns], classes) <= run
    simulation, rng = ds.Simulation(kind(DECISIONS[name]), precision="f64"), np.random.default_rng(4)
    k = np.arange(20.0, 60.0)
    inputs = {"u": (k**2 + 1) * rng.uniform(0.5, 1.5, 40), "k": k}
    moved = {name: rng.normal(size=40) for name in inputs}
    seed = rng.normal(size=40)
    gradient = simulation.vjp(inputs, 2)[1](ds.Solution(final={"u": seed}))
    _, tangent = simulation.jvp(inputs, moved, 2)
    along = [np.vdot(seed, tangent.final["u"]), sum(np.vdot(gradient[name], moved[name]) for name in inputs)]
    assert np.isclose(*along, rtol=ROUND_OFF)


def test_what_the_adjoint_computes_again_has_the_bits_of_the_run() -> None:
    step = traced(Quotients(0.5, False))
    forward = {a.target.array: a.node for nest in forward_program(step, []).nests for a in nest.assigns}
    again = {a.target.array: a.node for nest in adjoint_program(step, []).program.nests for a in nest.assigns}
    stages = forward.keys() & again.keys()
    assert stages
    assert all(forward[name] is again[name] for name in stages)
    assert any(node.op == "div" for name in stages for node in ordered([again[name]]))


def test_the_gradient_is_that_of_a_closed_form() -> None:
    simulation = ds.Simulation(Quotients(0.5, False), precision="f64")
    u, k = np.linspace(-1, 1, 21), np.linspace(0.5, 2, 21)
    solution, pullback = simulation.vjp({"u": u, "k": k}, 1)
    gradient = pullback(ds.Solution({"u": np.ones(21)}))

    def quotient(u: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The value of a stage, and its derivatives for u and k."""
        n, d = k * u + u * u, u * u + k * k + 0.5
        return n / d, (k + 2 * u) / d - 2 * u * n / d**2, u / d - 2 * k * n / d**2

    first, first_u, first_k = quotient(u, k)
    second, second_u, second_k = quotient(first, k)
    assert np.allclose(solution.final["u"], second, rtol=ROUND_OFF)
    assert np.allclose(gradient["u"], second_u * first_u, rtol=ROUND_OFF, atol=ROUND_OFF)
    assert np.allclose(gradient["k"], second_k + second_u * first_k, rtol=ROUND_OFF, atol=ROUND_OFF)
