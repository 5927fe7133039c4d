"""Values that a condition cuts off do not count: derivatives of expressions against those of the same formula as an array program."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import diffsim as ds
import diffsim.expr as ex
import diffsim.numpy as dn
from diffsim.expr.derive import jvp, vjp
from diffsim.expr.evaluate import evaluate
from diffsim.expr.graph import Graph, Node
from tests.sampled import together

from .masked import expression, fields

SHAPE, ZERO = (6, 5), (0, 0)
SYMBOLS = types.SimpleNamespace(
    where=ex.where, maximum=ex.maximum, minimum=ex.minimum, sqrt=ex.sqrt, exp=ex.exp, log=ex.log, sin=ex.sin, cos=ex.cos, tanh=ex.tanh
)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@together(range(120))
def test_derivatives_of_masked_expressions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = expression(rng)
    q, h = fields(rng, SHAPE)
    bar, q_dot, h_dot = rng.normal(size=(3, *SHAPE))
    graph = Graph()
    arguments = {"q": q, "h": h, "bar": bar, "q dot": q_dot, "h dot": h_dot}

    def read(name: str) -> Node:
        return graph.read(name, ZERO)

    root = f(SYMBOLS, *(ex.Symbol(graph, read(name), ZERO, (1.0, 1.0)) for name in "qh")).node
    terms = vjp(graph, {root: read("bar")}, {"q", "h"}.__contains__)
    bars = [terms.get(name, {}).get(ZERO, graph.const(0)) for name in "qh"]
    (tangent,) = jvp(graph, [root], lambda node: read(f"{node.data[0]} dot"))
    moved = jvp(graph, bars, lambda node: read(f"{node.data[0]} dot") if node.data[0] in "qh" else None)
    twice = vjp(graph, {bars[0]: read("q dot"), bars[1]: read("h dot")}, {"q", "h"}.__contains__)
    again = [twice.get(name, {}).get(ZERO, graph.const(0)) for name in "qh"]
    values = evaluate([root, *bars, tangent, *moved, *again], arguments, SHAPE, ZERO)

    def loss(q: Any, h: Any) -> Any:
        return dn.sum(bar * f(dn, q, h))

    value, pullback = ds.vjp(lambda q, h: f(dn, q, h), q, h)
    tangent_of_loss, curved = _forward_over_reverse(loss, q, h, q_dot, h_dot)
    wanted = [value, *pullback(bar)]
    for x, y in zip(values[:3], wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.sum(bar * values[3]), tangent_of_loss, rtol=1e-9)
    for x, y in zip(values[4:], [*curved, *curved], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-10)


def _forward_over_reverse(loss: Any, q: Any, h: Any, q_dot: Any, h_dot: Any) -> tuple[Any, Any]:
    tangent = sum(np.sum(g * v) for g, v in zip(ds.grad(loss, (0, 1))(q, h), (q_dot, h_dot), strict=True))
    return tangent, ds.jvp(ds.grad(loss, (0, 1)), (q, h), (q_dot, h_dot))[1]
