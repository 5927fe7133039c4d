"""Operators of the tests, each with the same function in plain Python and operands for it, and loops to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffsim.expr.graph import Graph, Node
from diffsim.kernels import Operator

Build = Callable[[Graph, Sequence[Node], Sequence[Node]], Sequence[Node]]


@dataclass(frozen=True)
class Case:
    """An operator, its function on Python numbers, and the types of its components."""

    name: str
    build: Build
    function: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[Any, ...]]
    dtypes: tuple[str, ...]
    exact: bool = False

    @property
    def operator(self) -> Operator:
        """Built anew in a graph of its own each time."""
        graph = Graph()
        k = len(self.dtypes)
        left, right = ([graph.read(f"{side}{j}", ()) for j in range(k)] for side in "ab")
        return Operator(graph, tuple(self.build(graph, left, right)))

    def operands(self, shape: tuple[int, ...], seed: int, single: bool = False) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng(seed)
        if self.name == "matrix":  # nearly rotations: long products neither grow nor vanish
            angle, noise = rng.uniform(0, 2 * np.pi, shape), rng.normal(0, 1e-2, (4, *shape))
            rotation = (np.cos(angle), -np.sin(angle), np.sin(angle), np.cos(angle))
            return tuple((x + e).astype("f4" if single else "f8") for x, e in zip(rotation, noise, strict=True))
        out = []
        for dtype in self.dtypes:
            if dtype.startswith("i"):
                out.append(rng.integers(-4, 5, shape).astype(dtype))
            elif dtype == "bool":
                out.append(rng.random(shape) < 0.1)
            else:
                x = rng.uniform(0.7, 1.3, shape) * rng.choice([-1, 1], shape)
                if self.name in ("product", "maximum"):
                    x = np.round(x, 1) * (rng.random(shape) > 0.01)
                out.append(x.astype("f4" if single else dtype))
        return tuple(out)


def _matrix(g: Graph, a: Sequence[Node], b: Sequence[Node]) -> list[Node]:
    return [g.add(g.mul(b[2 * i], a[j]), g.mul(b[2 * i + 1], a[2 + j])) for i in range(2) for j in range(2)]


def _matrix_numbers(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(b[2 * i] * a[j] + b[2 * i + 1] * a[2 + j] for i in range(2) for j in range(2))


def _argmax(g: Graph, a: Sequence[Node], b: Sequence[Node]) -> list[Node]:
    left = g.apply("le", b[0], a[0])
    return [g.apply("select", left, a[0], b[0]), g.apply("select", left, a[1], b[1])]


def _logsumexp(g: Graph, a: Sequence[Node], b: Sequence[Node]) -> list[Node]:
    top = g.apply("max", a[0], b[0])
    return [g.add(top, g.apply("log", g.add(g.apply("exp", g.sub(a[0], top)), g.apply("exp", g.sub(b[0], top)))))]


def _segmented(g: Graph, a: Sequence[Node], b: Sequence[Node]) -> list[Node]:
    return [g.apply("select", b[0], b[1], g.add(a[1], b[1])) if k else g.apply("or", a[0], b[0]) for k in range(2)]


CASES = [
    Case("product", lambda g, a, b: [g.mul(a[0], b[0])], lambda a, b: (a[0] * b[0],), ("f8",)),
    Case("maximum", lambda g, a, b: [g.apply("max", a[0], b[0])], lambda a, b: (max(a[0], b[0]),), ("f8",), exact=True),
    Case(
        "affine",
        lambda g, a, b: [g.mul(a[0], b[0]), g.add(g.mul(a[1], b[0]), b[1])],
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
        ("f8", "f8"),
    ),
    Case("matrix", _matrix, _matrix_numbers, ("f8",) * 4),
    Case("arg-max", _argmax, lambda a, b: a if a[0] >= b[0] else b, ("f8", "i8"), exact=True),
    Case(
        "log-sum-exp",
        _logsumexp,
        lambda a, b: (max(a[0], b[0]) + math.log(math.exp(a[0] - max(a[0], b[0])) + math.exp(b[0] - max(a[0], b[0]))),),
        ("f8",),
    ),
    Case("segmented sum", _segmented, lambda a, b: (a[0] or b[0], b[1] if b[0] else a[1] + b[1]), ("bool", "f8")),
    Case("integer sum", lambda g, a, b: [g.add(a[0], b[0])], lambda a, b: (a[0] + b[0],), ("i4",), exact=True),
    Case("integer minimum", lambda g, a, b: [g.apply("min", a[0], b[0])], lambda a, b: (min(a[0], b[0]),), ("i8",), exact=True),
]


def fold(case: Case, xs: Sequence[np.ndarray], reverse: bool = False) -> tuple[np.ndarray, ...]:
    """The scan by a loop over Python numbers."""
    ys = tuple(x.copy() for x in xs)
    rows, n, cols = xs[0].shape
    for row in range(rows):
        for col in range(cols):
            lanes = [x[row, :: -1 if reverse else 1, col].tolist() for x in xs]
            total: tuple[Any, ...] | None = None
            for i, element in enumerate(zip(*lanes, strict=True)):
                total = element if total is None else case.function(total, element)
                for y, value in zip(ys, total, strict=True):
                    y[row, n - 1 - i if reverse else i, col] = value
    return ys


def dot(left: Sequence[np.ndarray | None], right: Sequence[np.ndarray | None]) -> float:
    """Sum of products over the components that both have."""
    return sum(float((a.astype("f8") * b).sum()) for a, b in zip(left, right, strict=True) if a is not None and b is not None)


def close(found: Sequence[Any], wanted: Sequence[Any], tolerance: float) -> bool:
    """Differences relative to the largest value of each component; integers are equal."""
    for a, b in zip(found, wanted, strict=True):
        if a is None or b is None:
            if a is not b:
                return False
            continue
        error = 0 if a.dtype.kind == "f" else np.any(a != b)
        if a.dtype.kind == "f" and a.size:
            error = np.abs(a - b).max() / max(float(np.abs(b).max()), 1e-30)
        if a.shape != b.shape or a.dtype != b.dtype or not error <= tolerance:
            return False
    return True
