"""The graph: sharing, order, depth, shifts, and the derivative of every operation."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from diffsim.elementwise.table import FUNCTIONS
from diffsim.errors import ShapeError, TraceError
from diffsim.expr import (
    OPERATIONS,
    Graph,
    Symbol,
    arccos,
    arcsin,
    arctan,
    arctan2,
    clip,
    cos,
    cosh,
    exp,
    floor,
    log,
    maximum,
    minimum,
    sign,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    where,
)
from diffsim.expr.derive import jvp, vjp
from diffsim.expr.evaluate import evaluate
from diffsim.expr.graph import linear_terms, operations, ordered, reads


def symbol(name: str = "x", graph: Graph | None = None) -> Symbol:
    graph = graph or Graph()
    return Symbol(graph, graph.read(name, (0,)), (0,), (1.0,))


def value(s: Symbol, **fields: np.ndarray) -> np.ndarray:
    return evaluate([s.node], fields, next(iter(fields.values())).shape, (0,))[0]


def test_the_same_expression_is_the_same_node() -> None:
    x = symbol()
    assert (x * 2 + sin(x)).node is (sin(x) + 2 * x).node
    assert (x - x).node.data == 0 and (x * 1).node is x.node and (0 + x).node is x.node and (x**2).node is (x * x).node
    assert (x.shifted(0, 2).shifted(0, -2)).node is x.node


def test_sharing_costs_nothing_and_depth_is_no_limit() -> None:
    x = symbol()
    y = x
    start = time.perf_counter()
    for _ in range(20_000):  # 2^20000 terms as a tree; as deep as that for a recursion
        y = y + sin(y)
    terms = vjp(y.graph, {y.node: y.graph.const(1)}, lambda name: True)
    moved = y.shifted(0, 1)
    assert reads([moved.node]) == {"x": {(1,)}}
    assert set(terms["x"]) == {(0,)}
    assert len(ordered([y.node])) == 40_001
    assert time.perf_counter() - start < 20  # linear: about a second; a tree would never end


UNARY = [
    sqrt,
    exp,
    log,
    sin,
    cos,
    tanh,
    abs,
    lambda x: -x,
    lambda x: x**3,
    lambda x: x**2.5,
    lambda x: x**-1,
    lambda x: 1 / x,
    lambda x: 2 - x,
    tan,
    sinh,
    cosh,
    arctan,
    lambda x: arcsin(0.6 * x),
    lambda x: arccos(0.6 * x),
    lambda x: x - floor(2 * x),
    lambda x: x * sign(x - 0.7),
    lambda x: x % 0.3,
    lambda x: -x % 0.3,
    lambda x: 1.5 % x,
    lambda x: clip(x, 0.4, 0.9),
]
BINARY = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / y,
    minimum,
    maximum,
    lambda x, y: where(x < y, x * y, x + 3 * y),
    lambda x, y: where(x <= 0.7, x, y),
    lambda x, y: 3 * x * (y * 0.5) - (2 * x - y * 4),
    lambda x, y: x**y,
    lambda x, y: (x * y) ** (y - x) - 1.5 ** (x - y),
    arctan2,
    lambda x, y: arctan2(x, -0.4) * arctan2(0.4, y),
    lambda x, y: (x - 1) % y,
    lambda x, y: x % -y,
    lambda x, y: where((x < y) & (x < 0.9) | (y < 0.4), x * y, y),
    lambda x, y: where(~((floor(3 * x) <= floor(3 * y)) & (x > 0.5)), x * y, y),
    lambda x, y: where(floor(2 * x).combine("eq", floor(2 * y)), x * y, y),
    lambda x, y: clip(x, 0.3 * y, y),
]


@pytest.mark.parametrize("number", range(len(UNARY) + len(BINARY)))
def test_values_tangents_and_cotangents(number: int) -> None:
    rng = np.random.default_rng(number)
    graph = Graph()
    x, y = symbol("x", graph), symbol("y", graph)
    result = UNARY[number](x) if number < len(UNARY) else BINARY[number - len(UNARY)](x, y)
    a, b, da, db = (rng.uniform(0.2, 1.5, 50) for _ in range(4))
    step = 1e-6
    high, low = (value(result, x=a + s * step * da, y=b + s * step * db) for s in (1, -1))
    expected = (high - low) / (2 * step)
    (tangent,) = jvp(graph, [result.node], lambda read: graph.read(f"d{read.data[0]}", read.data[1]))
    dot = evaluate([tangent], {"x": a, "y": b, "dx": da, "dy": db}, (50,), (0,))[0]
    assert dot == pytest.approx(expected, rel=1e-7, abs=1e-7)
    bars = vjp(graph, {result.node: graph.read("bar", (0,))}, lambda name: name in "xy")
    weights = rng.normal(size=50)
    fields = {"x": a, "y": b, "bar": weights}
    total = sum(evaluate([bars[n][0,]], fields, (50,), (0,))[0] * d for n, d in (("x", da), ("y", db)) if n in bars)
    assert total == pytest.approx(dot * weights, rel=1e-12, abs=1e-12)


def test_second_derivatives_close_over_themselves() -> None:
    graph = Graph()
    x = symbol("x", graph)
    f = sin(x) * x**3 / (1 + x * x)
    gradient = vjp(graph, {f.node: graph.const(1)}, lambda name: True)["x"][0,]
    (second,) = jvp(graph, [gradient], lambda read: graph.const(1))
    a, h = np.linspace(0.3, 2, 20), 1e-5
    values = [evaluate([gradient], {"x": a + s * h}, (20,), (0,))[0] for s in (1, -1)]
    assert evaluate([second], {"x": a}, (20,), (0,))[0] == pytest.approx((values[0] - values[1]) / (2 * h), rel=1e-8)


def test_ties_go_to_the_first_operand() -> None:
    graph = Graph()
    x, y = symbol("x", graph), symbol("y", graph)
    for f in (minimum(x, y), maximum(x, y)):
        bars = vjp(graph, {f.node: graph.const(1)}, lambda name: True)
        ones = {"x": np.ones(1), "y": np.ones(1)}
        assert evaluate([bars["x"][0,], bars["y"][0,]], ones, (1,), (0,)) == [1, 0]


NUMPYS = [sqrt, exp, log, sin, cos, tan, sinh, cosh, tanh, arcsin, arccos, arctan, floor, sign]


@pytest.mark.parametrize("function", NUMPYS, ids=lambda f: f.__name__)
def test_functions_are_those_of_numpy_by_the_same_name(function: Callable[[Symbol], Symbol]) -> None:
    x = np.linspace(0.05, 0.95, 19) * (1 if function in (sqrt, log) else np.resize([1, -1], 19))
    assert value(function(symbol()), x=x) == pytest.approx(getattr(np, function.__name__)(x), rel=1e-15)


def test_functions_of_several_arguments_are_those_of_numpy() -> None:
    a, b = np.random.default_rng(0).normal(size=(2, 40))
    graph = Graph()
    x, y = symbol("x", graph), symbol("y", graph)
    assert (value(arctan2(x, y), x=a, y=b) == np.arctan2(a, b)).all()
    assert (value(arctan2(x, -0.5), x=a) == np.arctan2(a, -0.5)).all()
    assert (value(clip(x, -0.5, y), x=a, y=b) == np.clip(a, -0.5, b)).all()
    both = (a > 0) & ~(b < 0.3) | (a <= b - 1)
    assert (value(where((x > 0) & ~(y < 0.3) | (x <= y - 1), 1, 0), x=a, y=b) == both).all()
    flags = where((x > 0) & True, 1, 0), where(np.False_ | (x > 0), 1, 0), where(False & (x > 0), 1, 0), where((x > 0) | True, 1, 0)
    for flag, wanted in zip(flags, (a > 0, a > 0, a > np.inf, a < np.inf), strict=True):
        assert (value(flag, x=a) == wanted).all()


@pytest.mark.parametrize("b", [0.1, 0.7, 1.0, 49.0, -0.7, -49.0])
def test_a_remainder_has_the_sign_of_the_divisor_and_is_smaller(b: float) -> None:
    """Also where a quotient is whole, or is rounded to a whole number."""
    whole = b * np.arange(-200, 200)
    a = np.concatenate([np.random.default_rng(1).uniform(-100, 100, 500), whole, np.nextafter(whole, 1e9), np.nextafter(whole, -1e9)])
    graph = Graph()
    for remainder in (value(symbol() % b, x=a), value(symbol("x", graph) % symbol("y", graph), x=a, y=np.full_like(a, b))):
        assert ((remainder == 0) | (np.sign(remainder) == np.sign(b))).all()
        assert (np.abs(remainder) < abs(b)).all()
        apart = np.abs(remainder - np.remainder(a, b))  # 0 and b are next to one another
        assert np.minimum(apart, np.abs(apart - abs(b))).max() <= 4 * np.finfo(float).eps * np.abs(a).max()
        assert remainder[:500] == pytest.approx(np.remainder(a[:500], b), abs=1e-13)


def test_linear_terms() -> None:
    graph = Graph()
    x, y = symbol("x", graph), symbol("y", graph)
    s = sin(x)
    terms = linear_terms(graph, (2 * (s - 3 * y) + 0.5 * s + 4).node)
    assert {core.op if core.op != "read" else core.data[0]: weight for core, weight in terms.values()} == {
        "sin": 2.5,
        "y": -6.0,
        "const": 4.0,
    }
    assert operations([s.node]) == 1


def test_every_operation_is_tried() -> None:
    """Functions of one number that are not here are tried in tests/elementwise, and a derivative of powers in test_powers.py."""
    graph = Graph()
    x, y = symbol("x", graph), symbol("y", graph)
    tried = [f(x) for f in UNARY] + [f(x, y) for f in BINARY]
    assert {n.op for n in ordered([t.node for t in tried])} - {"read", "const"} >= set(OPERATIONS) - set(FUNCTIONS) - {"power_log"}


def test_locations_do_not_mix() -> None:
    graph = Graph()
    centre, face = Symbol(graph, graph.read("p", (0,)), (0,), (1.0,)), Symbol(graph, graph.read("u", (0,)), (1,), (1.0,))
    with pytest.raises(ShapeError, match=r"the centre and the face of axis 0; bring one to the other's place"):
        _ = centre + face


def test_operations_that_a_step_does_not_have_raise() -> None:
    x = symbol()
    with pytest.raises(TraceError, match="use where"):
        _ = 1 if x > 0 else 2
    for numbers in (lambda: x & (x > 0), lambda: ~x, lambda: (x > 0) & 1, lambda: x > 0 & x, lambda: where(x, 1.0, 2.0)):
        with pytest.raises(TraceError, match=r"expected a condition, such as f > 0, got .*; compare first"):
            numbers()
    for condition in (
        lambda: (x > 0) + 1.0,
        lambda: 2.0 * (x > 0),
        lambda: -(x > 0),
        lambda: (x > 0) ** 2,
        lambda: (x > 0) % 2,
        lambda: (x > 0) < 1,
        lambda: sin(x > 0),
        lambda: minimum(x > 0, x),
        lambda: where(x > 0, x > 1, x),
    ):
        with pytest.raises(TraceError, match=r"expected numbers, got a condition; write where\(condition, 1.0, 0.0\)"):
            condition()
    with pytest.raises(TraceError, match=r"\*\* expected numbers, got a condition"):
        _ = x ** (x > 0)
    with pytest.raises(TraceError, match="declare arrays as parameters"):
        _ = x + np.ones(3)  # type: ignore[operator]
    with pytest.raises(TraceError, match="two different steps"):
        _ = x + symbol()
    with pytest.raises(TraceError, match="expected a finite number"):
        _ = x + float("nan")


@pytest.mark.parametrize(("scale", "other"), [(0.1, 0.1), (0.1, -0.1), (-0.1, 0.1), (-3.0, -3.0)])
@pytest.mark.parametrize("op", ["add", "sub"])
def test_values_with_one_scale_are_added_first(op: str, scale: float, other: float) -> None:
    graph = Graph()
    x, y = (graph.read(name, (0,)) for name in "xy")
    total = graph.apply(op, graph.mul(graph.const(scale), x), graph.mul(graph.const(other), y))
    assert operations([total]) == 2
    result = evaluate([total], {"x": np.array([2.5]), "y": np.array([7.0])}, (1,), (0,))[0]
    assert result == pytest.approx(scale * 2.5 + (other if op == "add" else -other) * 7.0, rel=1e-15)


def test_values_with_other_scales_keep_them() -> None:
    graph = Graph()
    x, y = (graph.read(name, (0,)) for name in "xy")
    assert operations([graph.add(graph.mul(graph.const(0.1), x), graph.mul(graph.const(0.2), y))]) == 3
