"""Large fields are evaluated in pieces, forward and in reverse: with the bits, the types and the errors of one piece."""

from __future__ import annotations

import numpy as np
import pytest

from diffsim.boundary import bound
from diffsim.expr.evaluate import evaluate, pad
from diffsim.expr.graph import Graph, Node
from tests.reference import pullback


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


def test_pieces_keep_the_rules_for_errors_of_their_caller(monkeypatch) -> None:
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


BINARY = ("add", "sub", "mul", "min", "max")


def drawn(rng: np.random.Generator, graph: Graph, halo: tuple[int, ...], steps: int = 25) -> list[Node]:
    """Roots that share values, choose, and read two fields and a profile."""
    offsets = [tuple(int(rng.integers(-h, h + 1)) for h in halo) for _ in range(5)]
    nodes = [graph.read(name, o) for o in offsets for name in "fg"] + [graph.read("profile", (0,) * len(halo)), graph.const(1.5)]
    for _ in range(steps):
        a, b, c = (nodes[int(i)] for i in rng.integers(len(nodes), size=3))
        if rng.random() < 0.3:
            chosen = (a, b) if rng.random() < 0.6 else (graph.const(2.0), graph.const(0.5))
            nodes.append(graph.apply("select", graph.apply("lt", c, graph.const(0.6)), *chosen))
        else:
            size = graph.apply("abs", graph.apply(str(rng.choice(BINARY)), a, b))
            nodes.append(graph.div(size, graph.add(graph.const(1.0), size)))
    return [*(graph.add(node, nodes[0]) for node in nodes[-4:]), nodes[0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "halo"), [((37, 5), (1, 2)), ((40,), (3,)), ((11, 3, 4), (2, 1, 0)), ((2, 90), (1, 0)), ((9, 7), (0, 1))]
)
@pytest.mark.parametrize("seed", range(4))
def test_drawn_expressions_in_pieces_have_the_bits_and_types_of_the_whole(seed, shape, halo, dtype, monkeypatch) -> None:
    rng, graph = np.random.default_rng(seed), Graph()
    roots = drawn(rng, graph, halo)
    rules = {
        "f": bound(("mirror", "periodic")[seed % 2], (0,) * len(shape), (1.0,) * len(shape)),
        "g": bound("zero", (0,) * len(shape), (1.0,) * len(shape)),
    }
    cells = {name: rng.uniform(1, 2, shape).astype(dtype) for name in "fg"}
    extended = {name: pad(cells[name], halo, rules[name]) for name in "fg"}
    extended["profile"] = rng.uniform(1, 2, (shape[0] + 2 * halo[0], *[1] * (len(shape) - 1))).astype(dtype)
    outputs = {f"out{number}": root for number, root in enumerate(roots)}
    bars = {name: rng.normal(size=shape).astype(dtype) for name in outputs}

    def results() -> list[np.ndarray]:
        back = pullback(graph, outputs, bars, rules, extended, shape, halo)
        return [*evaluate(roots, extended, shape, halo), back["f"], back["g"]]

    whole = results()
    assert all(np.isfinite(value).all() and value.dtype == dtype for value in whole)
    ways = {name: rng.normal(size=shape) for name in "fg"}
    for size in (1, 12, 30):
        monkeypatch.setattr("diffsim.expr.evaluate.PIECE", size)
        for piece, one in zip(results(), whole, strict=True):
            assert piece.shape == shape and piece.dtype == one.dtype and piece.tobytes() == one.tobytes()
    if dtype is np.float64:  # along a random direction; a smooth choice is as likely as a kink is not

        def moved(far: float) -> float:
            there = {name: pad(cells[name] + far * ways[name], halo, rules[name]) for name in "fg"}
            values = evaluate(roots, extended | there, shape, halo)
            return float(sum((bars[name] * value).sum() for name, value in zip(outputs, values, strict=True)))

        slope = sum((back * ways[name]).sum() for name, back in zip("fg", whole[-2:], strict=True))
        error = abs((moved(1e-7) - moved(-1e-7)) / 2e-7 - slope)
        assert error < 1e-5 * (1 + abs(slope))
