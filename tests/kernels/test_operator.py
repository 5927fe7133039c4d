"""Types of the values in an operator, and every operation in NumPy and as Taichi source."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim import kernels
from diffsim.expr.graph import OPERATIONS, Graph, Node
from diffsim.kernels import launch
from diffsim.kernels.operator import Operator

ROUND_OFF = 4e-16
"""A unit in the last place or two of results of order 1."""


def expression(graph: Graph, name: str, a: Node, b: Node) -> Node:
    """The operation on operands from 0.2 to 0.9, as a number."""
    less = graph.apply("lt", a, b)
    match name:
        case "pow":
            return graph.apply("pow", a, data=2.5)
        case "select":
            return graph.apply("select", less, a, b)
        case "and" | "or":
            return graph.apply("select", graph.apply(name, less, graph.apply("lt", b, graph.const(0.5))), a, b)
        case "not" | "lt" | "le" | "eq":
            condition = graph.apply(name, less) if name == "not" else graph.apply(name, a, b)
            return graph.apply("select", condition, graph.const(0.25), b)
    if name in ("add", "sub", "mul", "div", "min", "max", "arctan2", "power", "power_log"):
        return graph.apply(name, a, b)
    shift = {"abs": -0.5, "floor": -0.5, "arccosh": 1.0}.get(name, 0.0)
    shifted = graph.add(a, graph.const(shift))
    return graph.add(b, graph.apply(name, shifted))


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_compiled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph()
    op = Operator(graph, (expression(graph, name, graph.read("a0", ()), graph.read("b0", ())),))
    x = np.random.default_rng(60).uniform(0.2, 0.9, (1, 2, 500))
    x[:, 1, :50] = x[:, 0, :50]
    wanted = kernels.reduce(op, (x,))[0]
    monkeypatch.setattr(launch, "SMALLEST", 1)
    result = kernels.reduce(op, (x,))[0]
    assert np.abs(result - wanted).max() <= ROUND_OFF * max(1.0, np.abs(wanted).max())
    assert np.ptp(wanted) > 0.05


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_integers_stay_integers(implementation: str, dtype: str) -> None:
    graph = Graph()
    a, b = graph.read("a0", ()), graph.read("b0", ())
    op = Operator(graph, (graph.add(graph.apply("abs", graph.apply("max", a, b)), graph.const(1)),))
    large = 2**60 + 1 if dtype == "i8" else 2**30 + 1
    x = np.array([-large - 5, -large], dtype).reshape(1, 2, 1)
    assert kernels.reduce(op, (x,))[0].item() == large + 1


def test_integers_meet_floats(implementation: str) -> None:
    """The count of a component scales the other; in f32 where that is the widest float."""
    graph = Graph()
    a0, a1, b0, b1 = (graph.read(name, ()) for name in ("a0", "a1", "b0", "b1"))
    op = Operator(graph, (graph.add(a0, b0), graph.add(graph.mul(graph.const(0.1), graph.mul(a0, b1)), a1)))
    for dtype in ("f4", "f8"):
        count, x = np.array([3, 4], "i4").reshape(1, 2, 1), np.array([1, 2], dtype).reshape(1, 2, 1)
        total, joined = kernels.reduce(op, (count, x))
        exact = np.dtype(dtype).type
        assert total.item() == 7 and total.dtype == np.int32
        assert joined.dtype == dtype and joined.item() == exact(0.1) * (exact(3) * exact(2)) + exact(1)


def test_equal_structures_share_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SMALLEST", 1)
    x = np.random.default_rng(61).uniform(0.5, 1, (1, 100, 1))
    counts = []
    for scale in (0.125, 0.125, 0.0625):
        graph = Graph()
        graph.read("another", ())  # numbers of nodes differ
        a, b = graph.read("a0", ()), graph.read("b0", ())
        op = Operator(graph, (graph.add(graph.mul(graph.const(scale), a), b),))
        kernels.scan(op, (x,))
        kernels.scan_vjp(op, (x,), (x,), (x,))
        counts.append(len(launch._compiled))
    assert counts[0] == counts[1] == counts[2] - 2
