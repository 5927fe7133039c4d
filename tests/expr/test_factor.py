"""Common factors taken out of sums, on random expressions."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim.expr.evaluate import evaluate
from diffsim.expr.factor import factored, unfactored
from diffsim.expr.graph import Graph, Node, Offset, ordered


def _terms(graph: Graph, rng: np.random.Generator) -> list[tuple[float, Node]]:
    """Products of reads at a few cells, and of sums of those, with weights of which some are opposite."""
    reads = [graph.read(name, (int(a), int(b))) for name in "xyz" for a, b in rng.integers(-1, 2, (3, 2))]
    terms = []
    for _ in range(rng.integers(1, 12)):
        node = graph.const(1.0)
        for _ in range(rng.integers(0, 4)):
            one, other = rng.choice(len(reads), 2)
            node = graph.mul(node, reads[one] if rng.uniform() < 0.7 else graph.add(reads[one], reads[other]))
        terms.append((float(rng.choice([-2.0, -1.0, 0.5, 1.0, 2.0])), node))
    return terms


@pytest.mark.parametrize("seed", range(30))
def test_factored_sums_have_the_value_of_the_terms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = Graph()
    terms = _terms(graph, rng)
    fields = {name: rng.normal(size=(5, 6)) for name in "xyz"}
    values = [evaluate([node], fields, (3, 4), (1, 1))[0] for _, node in terms]
    wanted = sum(weight * np.broadcast_to(value, (3, 4)) for (weight, _), value in zip(terms, values, strict=True))
    for root in (factored(graph, terms), unfactored(graph, terms)):
        np.testing.assert_allclose(np.broadcast_to(evaluate([root], fields, (3, 4), (1, 1))[0], (3, 4)), wanted, rtol=1e-12, atol=1e-12)


def _flux(graph: Graph, at: Offset) -> list[tuple[float, Node]]:
    """Through the faces of a cell, where a conductivity times a difference of x flows."""
    (i,) = at
    k, x = (lambda o: graph.read("k", (o,))), (lambda o: graph.read("x", (o,)))
    left, right = graph.add(k(i - 1), k(i)), graph.add(k(i), k(i + 1))
    return [
        (-0.5, graph.mul(right, x(i))),
        (0.5, graph.mul(right, x(i + 1))),
        (-0.5, graph.mul(left, x(i))),
        (0.5, graph.mul(left, x(i - 1))),
    ]


def test_cells_share_the_flux_through_the_face_between_them() -> None:
    """Two cells have four products of three faces: one is shared."""
    graph = Graph()
    one, two = (factored(graph, _flux(graph, (i,))) for i in (0, 1))
    products = [sum(node.op == "mul" and node.args[0].op != "const" for node in ordered(roots)) for roots in ([one], [two], [one, two])]
    assert products == [2, 2, 3]
