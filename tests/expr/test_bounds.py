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
            smallest = graph.apply("min", graph.sub(one, third), nodes[int(rng.integers(6))])
            nodes.append(graph.sub(largest, smallest))
        else:
            nodes.append(graph.apply(op, one, other))
    return nodes


def _fields(rng: np.random.Generator, names: str, dtype: Any) -> dict[str, Any]:
    """Values of fields, small and large beside each other."""
    return {name: (rng.normal(size=400) * 10 ** rng.uniform(-6, 8, 400)).astype(dtype) for name in names}


def _values(nodes: list[Node], fields: dict[str, Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        return [np.broadcast_to(value, (400,)) for value in evaluate(nodes, fields, (400,), (0,))]


ROUNDING = {np.float32: 1e-5, np.float64: 1e-12}


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("seed", range(20))
def test_no_value_is_below_its_bound(seed: int, dtype: Any) -> None:
    rng, graph = np.random.default_rng(seed), Graph()
    nodes, bounds = _random(graph, rng), LowerBounds()
    assert sum(bounds(node) > UNKNOWN for node in nodes) > 20
    every = ordered(nodes)
    for node, value in zip(every, _values(every, _fields(rng, "abc", dtype)), strict=True):
        assert not (value < bounds(node) - ROUNDING[dtype] * max(abs(bounds(node)), 1e-3)).any()


@pytest.mark.parametrize("seed", range(20))
def test_speeds_of_waves_differ_by_the_least_one_even_if_it_is_lost_in_rounding(seed: int) -> None:
    """max(u + c, 0, ...) - min(u - c, 0, ...) is at least c, whatever the other speeds are. Without the zeros, nothing of c is left beside
    a large u."""
    rng, graph = np.random.default_rng(seed), Graph()
    u, v, h = (graph.read(name, (0,)) for name in "uvh")
    least = float(10 ** rng.uniform(-6, 0))

    def spread(wave: Node, *ends: Node) -> Node:
        speeds = [graph.add(u, wave), graph.sub(v, h), graph.mul(v, v), *ends[:1]]
        slow = [graph.sub(u, wave), graph.add(v, h), graph.mul(u, v), *ends[1:]]
        largest, smallest = (each[0] for each in (rng.permutation(np.array(a, object)) for a in (speeds, slow)))
        for each in rng.permutation(np.array(speeds, object)):
            largest = graph.apply("max", *rng.permutation(np.array([largest, each], object)))
        for each in rng.permutation(np.array(slow, object)):
            smallest = graph.apply("min", *rng.permutation(np.array([smallest, each], object)))
        return graph.sub(largest, smallest)

    zero, wave = graph.const(0), graph.apply("sqrt", graph.apply("max", h, graph.const(least**2)))
    kept, lost, end = spread(wave, zero, zero), spread(wave), float(rng.normal())
    others = [spread(wave, graph.const(one), graph.const(other)) for one, other in ((end, end), (0.0, end), (end, 0.0))]
    bounds = LowerBounds()
    assert bounds(kept) == pytest.approx(least) and not singular(graph.div(v, kept))
    assert bounds(lost) == 0 and singular(graph.div(v, lost))
    for dtype in ROUNDING:
        for node, value in zip([kept, lost, *others], _values([kept, lost, *others], _fields(rng, "uvh", dtype)), strict=True):
            assert (value >= bounds(node) * (1 - ROUNDING[dtype])).all()
    for unknown in (graph.const(1e-14), h, graph.apply("sqrt", h), graph.apply("max", h, graph.const(-1.0))):
        assert singular(graph.div(v, spread(unknown, zero, zero)))


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


@pytest.mark.parametrize("seed", range(10))
def test_bounds_that_nearly_cancel_are_none(seed: int) -> None:
    """max(x, a) + max(y, b) with b near -a may be 0 in f32, whatever the order."""
    rng, graph = np.random.default_rng(seed), Graph()
    x, y = graph.read("x", (0,)), graph.read("y", (0,))
    least = float(10 ** rng.uniform(-3, 3))
    for apart, known in ((1e-9, False), (1e-5, False), (0.1, True), (1.0, True)):
        parts = [graph.apply("max", x, graph.const(least)), graph.apply("max", y, graph.const(-least * (1 - apart)))]
        total = graph.add(*(parts if rng.integers(2) else parts[::-1]))
        assert (LowerBounds()(total) > 0) == known and singular(graph.div(y, total)) != known
