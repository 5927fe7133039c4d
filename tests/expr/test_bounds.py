"""Lower bounds of expressions, and quotients that are finite because of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import diffsim as ds
from diffsim.expr import where
from diffsim.expr.bounds import UNKNOWN, LowerBounds
from diffsim.expr.derive import Divides, singular
from diffsim.expr.evaluate import evaluate
from diffsim.expr.graph import Graph, Node, ordered
from diffsim.expr.symbol import Symbol
from diffsim.stepping.ir.names import dot


def _random(graph: Graph, rng: np.random.Generator) -> list[Node]:
    """Expressions of three fields, each made of earlier ones."""
    nodes = [graph.read(name, (0,)) for name in "abc"] + [graph.const(float(c)) for c in rng.uniform(-1, 2, 3)]
    for _ in range(60):
        one, other, third = (nodes[i] for i in rng.integers(0, len(nodes), 3))
        op = str(rng.choice(["add", "sub", "spread", "mul", "max", "min", "abs", "sqrt", "square", "select", "div", "exp"]))
        if all(each.op == "const" for each in (one, other)):  # numbers alone are computed at once, and may overflow
            continue
        if op == "square":
            nodes.append(graph.mul(one, one))
        elif op == "select":
            nodes.append(graph.apply("select", graph.apply("lt", one, other), other, third))
        elif op == "sqrt":
            nodes.append(graph.apply("sqrt", graph.add(graph.mul(one, one), graph.const(0.5))))
        elif op in ("abs", "exp"):
            nodes.append(graph.apply(op, one))
        elif op == "sub":  # of the larger of two numbers and one of them
            nodes.append(graph.sub(graph.apply("max", one, other), other))
        elif op == "spread":  # from the least to the largest of some numbers, as of speeds of waves
            largest = graph.apply("max", graph.add(one, third), other)
            nodes.append(graph.sub(largest, graph.apply("min", nodes[int(rng.integers(3))], graph.sub(one, third))))
        else:
            nodes.append(graph.apply(op, one, other))
    return nodes


@pytest.mark.parametrize("seed", range(20))
def test_no_value_is_below_its_bound(seed: int) -> None:
    rng, graph = np.random.default_rng(seed), Graph()
    nodes, bounds = _random(graph, rng), LowerBounds()
    fields = dict(zip("abc", rng.normal(size=(3, 200)) * 3, strict=True))
    assert sum(bounds(node) > UNKNOWN for node in nodes) > 20
    every = ordered(nodes)
    with np.errstate(all="ignore"):
        values = [np.broadcast_to(value, (200,)) for value in evaluate(every, fields, (200,), (0,))]
    largest: dict[int, np.ndarray] = {}  # of a node, the largest of all values that it needs
    for node, value in zip(every, values, strict=True):
        largest[node.id] = np.max([np.abs(value), *(largest[each.id] for each in node.args)], axis=0)
        assert not ((value < bounds(node) - 1e-12 * max(abs(bounds(node)), 1)) & (largest[node.id] < 1e3)).any()


@pytest.mark.parametrize("seed", range(20))
def test_speeds_of_waves_differ_by_twice_the_least_one(seed: int) -> None:
    """max(u + c, ...) - min(u - c, ...) is at least 2 c, whatever the other speeds are; a small c is lost in rounding."""
    rng, graph = np.random.default_rng(seed), Graph()
    u, v, h = (graph.read(name, (0,)) for name in "uvh")
    least = float(10 ** rng.uniform(-3, 0))

    def spread(wave: Node) -> Node:
        speeds = [graph.add(u, wave), graph.sub(v, h), graph.const(0.0), graph.mul(v, v)]
        slow = [graph.sub(u, wave), graph.add(v, h), graph.mul(u, v)]
        largest, smallest = (each[0] for each in (rng.permutation(np.array(a, object)) for a in (speeds, slow)))
        for each in rng.permutation(np.array(speeds, object)):
            largest = graph.apply("max", *rng.permutation(np.array([largest, each], object)))
        for each in rng.permutation(np.array(slow, object)):
            smallest = graph.apply("min", *rng.permutation(np.array([smallest, each], object)))
        return graph.sub(largest, smallest)

    wave = graph.apply("sqrt", graph.apply("max", h, graph.const(least**2)))
    assert LowerBounds()(spread(wave)) == pytest.approx(2 * least)
    assert not singular(graph.div(v, spread(wave)))
    for lost in (graph.const(1e-5), h, graph.apply("sqrt", h), graph.apply("max", h, graph.const(-1.0))):
        assert LowerBounds()(spread(lost)) <= 0 and singular(graph.div(v, spread(lost)))


def test_a_quotient_is_finite_where_its_divisor_is_positive() -> None:
    graph = Graph()
    x, y = graph.read("x", (0,)), graph.read("y", (0,))
    square, top = graph.mul(x, x), graph.apply("max", x, y)
    positive = [
        graph.add(square, graph.const(1e-8)),
        graph.apply("sqrt", graph.add(square, graph.const(1e-8))),
        graph.apply("max", graph.const(0.1), y),
        graph.add(graph.sub(top, y), graph.const(1.0)),
        graph.apply("cbrt", graph.apply("sqrt", graph.add(square, graph.const(1.0)))),
    ]
    for divisor in positive:
        quotient = graph.div(y, divisor)
        assert Divides()(quotient) and not singular(quotient)
    for divisor in (x, square, graph.add(square, graph.const(1e-20)), graph.sub(top, y), graph.sub(square, graph.const(1.0))):
        assert singular(graph.div(y, divisor))
    assert singular(graph.apply("sqrt", y)) and not singular(graph.apply("sqrt", square))


class Softened(ds.Equation):
    """Branches that are not chosen at x = 0, whose divisors are positive: one alone, a chain, and a power, which overflow in f32."""

    def __init__(self) -> None:
        self.grid, self.dt = ds.Grid((4,), 1.0), 1.0
        self.states = {name: ds.Variable("zero") for name in ("x", "y", "z", "v")}
        self.parameters = {"w": ds.Variable("zero")}

    def step(self, x: Symbol, w: Symbol, **others: Symbol) -> dict[str, Symbol]:
        near, cube = abs(x) + 1e-12, (1 / (x * x + 1e-8)) ** 3
        branches = {"y": w / near, "z": w / near / near / near, "v": w * cube * cube}
        return {"x": x} | {name: where(x > 0.5, branch, 0.0) for name, branch in branches.items()}


def test_what_overflows_in_a_branch_that_is_not_chosen_has_the_derivative_0() -> None:
    inputs = {"x": np.array([1.0, 2.0, 0.0, 0.7]), "w": np.full(4, 1e4)}
    directions = {"x": np.ones(4), "w": np.ones(4)}

    def products(precision: str) -> dict[str, Any]:
        system = ds.Simulation(Softened(), wrt=["x", "w"], precision=precision)
        gradient = system.value_and_grad(lambda end: sum(end.final[name].sum() for name in "yzv"), inputs, 1)[1]
        _, moved = system.jvp(inputs, directions, 1)
        doubled = inputs | {dot(name): value for name, value in directions.items()}
        second = system.tangent().value_and_grad(lambda end: sum(end.final[dot(name)].sum() for name in "yzv"), doubled, 1)[1]
        return {**gradient, **{f"moved {name}": moved.final[name] for name in "yzv"}, **{f"second {n}": second[n] for n in inputs}}

    single, double = products("f32"), products("f64")
    for name, values in double.items():
        assert np.isfinite(single[name]).all() and np.allclose(single[name], values, rtol=1e-4), name
