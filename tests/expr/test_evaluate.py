"""Large fields are evaluated in pieces by several threads: with the bits, the types and the errors of one piece."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim.expr.evaluate import evaluate
from diffsim.expr.graph import Graph


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "halo"), [((37, 5), (1, 2)), ((40,), (3,)), ((11, 3, 4), (0, 1, 0)), ((2, 90), (1, 0))])
def test_pieces_have_the_bits_of_the_whole(shape: tuple[int, ...], halo: tuple[int, ...], dtype: type, monkeypatch) -> None:
    rng, graph = np.random.default_rng(0), Graph()
    at = [tuple(sign * far if axis == turned else 0 for axis, far in enumerate(halo)) for turned in range(len(shape)) for sign in (-1, 1)]
    reads = [graph.read("f", offset) for offset in at]
    total = graph.add(graph.mul(reads[0], reads[-1]), graph.read("profile", (0,) * len(shape)))
    roots = [total, graph.div(total, reads[0]), graph.const(2.5)]
    stored = tuple(n + 2 * h for n, h in zip(shape, halo, strict=True))
    profile = (stored[0], *[1] * (len(shape) - 1))
    extended = {name: rng.uniform(1, 2, size).astype(dtype) for name, size in (("f", stored), ("profile", profile))}
    whole = evaluate(roots, extended, shape, halo)
    monkeypatch.setattr("diffsim.expr.evaluate.PIECE", 12)
    for pieces, one in zip(evaluate(roots, extended, shape, halo), whole, strict=True):
        assert pieces.dtype == one.dtype and pieces.shape == shape and pieces.tobytes() == one.tobytes()


def test_threads_keep_the_rules_for_errors_of_their_caller(monkeypatch) -> None:
    graph = Graph()
    root = graph.div(graph.const(1.0), graph.read("f", (0,)))
    values = np.ones(50)
    values[40] = 0.0
    monkeypatch.setattr("diffsim.expr.evaluate.PIECE", 4)
    with np.errstate(divide="ignore"):
        (quotient,) = evaluate([root], {"f": values}, (50,), (0,))
    assert np.isinf(quotient[40])
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        evaluate([root], {"f": values}, (50,), (0,))
