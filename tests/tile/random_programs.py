"""Random tile programs: statements drawn one after the other, which read and write a few arrays of one tile.

A program has vectors of N entries and matrices of N x N. Each statement takes some of them, and either adds an array, or assigns to one of
which others may be views. Values stay of the size of one, so that derivatives do not grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import diffsim as ds
import diffsim.numpy as np

N = 4
Arrays = list[Any]
Statement = Callable[[Arrays, Arrays, Any], None]
"""(vectors, matrices, positions of the tile) -> nothing; it adds to the lists, or assigns to their arrays."""
KINDS: list[Callable[[numpy.random.Generator], Statement]] = []


def kind(make: Callable[[numpy.random.Generator], Statement]) -> Callable[[numpy.random.Generator], Statement]:
    """Enter a kind of statement: it draws the variable parts of the statement when the program is made."""
    KINDS.append(make)
    return make


class Pick:
    """Draws arrays of the lists by numbers, which stay the same from call to call."""

    def __init__(self, generator: numpy.random.Generator) -> None:
        self.numbers = generator.integers(0, 1000, 4).tolist()

    def __call__(self, arrays: Arrays, place: int = 0) -> Any:
        return arrays[self.numbers[place] % len(arrays)]


def index_of(generator: numpy.random.Generator, repeats: bool) -> Any:
    """An index of the first axis for N - 1 entries: slices forwards, backwards and by strides, and positions in any order."""
    start = int(generator.integers(0, 2))
    choices = [slice(start, start + N - 1), slice(None, 0, -1), slice(-2, None, -1), generator.permutation(N)[: N - 1]]
    if repeats:
        choices.append(generator.integers(-N, N, N - 1))
    return choices[int(generator.integers(len(choices)))]


@kind
def elementwise(generator: numpy.random.Generator) -> Statement:
    pick, which = Pick(generator), int(generator.integers(5))

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        x, y = pick(vectors), pick(vectors, 1)
        functions = (
            lambda: np.sin(x) * y,
            lambda: x / (2 + y * y),
            lambda: np.where(x > y, x, 0.5 * y),
            lambda: np.tanh(x - y[::-1]),
            lambda: np.maximum(x, y) + np.exp(-y * y),
        )
        vectors.append(functions[which]())

    return run


@kind
def along_an_axis(generator: numpy.random.Generator) -> Statement:
    pick, which, axis = Pick(generator), int(generator.integers(6)), int(generator.integers(2))

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        m = np.tanh(pick(matrices))
        functions = (
            lambda: np.sum(m, axis=axis),
            lambda: np.max(m, axis=axis),
            lambda: np.sort(m, axis=axis)[1],
            lambda: np.cumsum(m, axis=axis)[:, -2],
            lambda: np.prod(1 + 0.3 * m, axis=axis),
            lambda: m[np.argmin(m[0])],
        )
        vectors.append(functions[which]())

    return run


@kind
def view(generator: numpy.random.Generator) -> Statement:
    """A further name for a part of an array, which later statements assign through."""
    pick, which = Pick(generator), int(generator.integers(5))

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        m, v = pick(matrices), pick(vectors)
        if which < 2:
            vectors.append((m[1], m[:, 2])[which])
        elif which == 2:
            vectors.append(v[::-1])
        else:
            matrices.append((m.T, m[::-1, ::-1])[which - 3])

    return run


@kind
def assigned(generator: numpy.random.Generator) -> Statement:
    pick, target, source = Pick(generator), index_of(generator, repeats=True), index_of(generator, repeats=True)
    which = int(generator.integers(4))

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        v, w, m = pick(vectors), pick(vectors, 1), pick(matrices, 2)
        if which == 0:
            v[target] = w[source] * w[source]
        elif which == 1:
            m[target] = 0.5 * m[source] + w
        elif which == 2:
            m[:, target] = m[source].T
        else:
            m[int(target.start or 1) if isinstance(target, slice) else target[0], 1] = w[2]

    return run


@kind
def overlapping(generator: numpy.random.Generator) -> Statement:
    """An assignment within one array, whose source the assignment overwrites."""
    pick, which = Pick(generator), int(generator.integers(5))

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        v, m = pick(vectors), pick(matrices, 1)
        if which == 0:
            v[1:] = v[:-1]
        elif which == 1:
            v[:] = np.sin(v[::-1])
        elif which == 2:
            m[:-1, 1:] = m[1:, :-1]
        elif which == 3:
            m[:] = m.T
        else:
            v[::2], v[1::2] = v[1::2], v[::2]

    return run


@kind
def augmented(generator: numpy.random.Generator) -> Statement:
    pick, index, places = Pick(generator), index_of(generator, repeats=False), generator.integers(0, N, N)
    which = int(generator.integers(5))

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        v, w, m = pick(vectors), pick(vectors, 1), pick(matrices, 2)
        if which == 0:
            v[index] += 0.5 * w[:-1]
        elif which == 1:
            m[index] *= np.tanh(w)
        elif which == 2:
            m[index] -= m[:-1] / (2 + w * w)
        elif which == 3:
            np.add.at(v, places, 0.3 * w)
        else:
            v /= 2 + w * w

    return run


@kind
def gathered(generator: numpy.random.Generator) -> Statement:
    pick, places, other = Pick(generator), generator.integers(-N, N, N), generator.integers(0, N, N)
    which = int(generator.integers(5))

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        v, m = pick(vectors), pick(matrices, 1)
        if which == 0:
            vectors.append(v[places] * v)
        elif which == 1:
            vectors.append(m[places, other])
        elif which == 2:
            matrices.append(m[:, other][places])
        elif which == 3:
            vectors.append(v[k] + m[k, other])
        else:
            vectors.append(np.take(v, np.argsort(m[1])) * v)

    return run


@kind
def at_positions_of_the_tile(generator: numpy.random.Generator) -> Statement:
    pick, which = Pick(generator), int(generator.integers(4))

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        v, w, m = pick(vectors), pick(vectors, 1), pick(matrices, 2)
        if which == 0:
            v[k] = np.sin(w)
        elif which == 1:
            v[k[0]] += w[k[1]] * v[2]
        elif which == 2:
            m[k[0]] = w * m[k[1]]
        else:
            np.add.at(v, k, 0.5 * w * w)

    return run


@kind
def masked(generator: numpy.random.Generator) -> Statement:
    pick, which = Pick(generator), int(generator.integers(4))
    known = generator.random(N) < 0.5

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        v, w, m = pick(vectors), pick(vectors, 1), pick(matrices, 2)
        if which == 0:
            v[w > 0.1] = 0.3
        elif which == 1:
            v[v > 0.2] *= 0.5
        elif which == 2:
            m[known] = w
        else:
            m[m < 0] = np.sin(m[m < 0]) * 2

    return run


@kind
def loop(generator: numpy.random.Generator) -> Statement:
    pick, which, places = Pick(generator), int(generator.integers(4)), generator.permutation(N)

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        v, w, m = pick(vectors), pick(vectors, 1).copy(), pick(matrices, 2).copy()  # the arrays that a loop reads stay

        def body(number: Any, state: Any) -> Any:
            a = state.copy()
            a[1:] = 0.5 * np.tanh(state[places][:-1]) + 0.2 * w[1:]
            a[number % N] += 0.1 * m[number % N, 0] * state[0]
            return a

        if which == 0:
            vectors.append(ds.fori_loop(0, 3, body, v))
        elif which == 1:
            vectors.append(ds.fori_loop(0, k[0] + 1, body, v))
        elif which == 2:
            vectors.append(
                ds.while_loop(
                    lambda s: np.sum(s * s) > 0.5, lambda s: 0.8 * np.sin(s[places]) * (1 - 0.1 * np.tanh(w) ** 2), v, max_steps=40
                )
            )
        else:
            vectors.append(ds.cond(v[0] > w[1], lambda a, b: a * b, lambda a, b: np.sin(a - b), v, w))

    return run


@kind
def matrix(generator: numpy.random.Generator) -> Statement:
    pick, which = Pick(generator), int(generator.integers(9))

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        m, other, v = np.tanh(pick(matrices)), np.tanh(pick(matrices, 1)), pick(vectors, 2)
        square, definite = 3 * np.eye(N) + 0.3 * m, np.eye(N) + 0.3 * m @ m.T
        if which == 0:
            vectors.append(np.linalg.solve(square, v))
        elif which == 1:
            matrices.append(np.linalg.solve(square, other))
        elif which == 2:
            matrices.append(np.linalg.inv(square))
        elif which == 3:
            matrices.append(np.linalg.cholesky(definite))
        elif which == 4:
            vectors.append(0.05 * np.linalg.det(square) * v)
        elif which == 5:
            vectors.append(0.3 * np.linalg.eigvalsh(definite + np.diag(np.arange(N))))
        elif which == 6:
            matrices.append(0.5 * m @ other)
        elif which == 7:
            vectors.append(0.5 * np.einsum("ij,ji->i", m, other))
        else:
            matrices.append(np.outer(np.sin(v), v[::-1]))

    return run


@kind
def mapped(generator: numpy.random.Generator) -> Statement:
    pick, axis = Pick(generator), int(generator.integers(2))

    def run(vectors: Arrays, matrices: Arrays, k: Any) -> None:
        m, v = pick(matrices), pick(vectors, 1)

        def row(r: Any, entry: Any) -> Any:
            a = r * v
            a[1:] += entry * r[:-1]
            return np.sin(a)

        matrices.append(ds.tile.map(row, axes=(axis, 0))(m, v))

    return run


def random_program(seed: int, statements: int) -> tuple[Callable[..., Any], list[str]]:
    """A program of (vector, matrix, positions) -> (vector, matrix), and the kinds of its statements."""
    generator = numpy.random.default_rng(seed)
    makers = [KINDS[int(n)] for n in generator.integers(0, len(KINDS), statements)]
    chosen = [maker(generator) for maker in makers]

    def program(x: Any, m: Any, k: Any) -> Any:
        vectors, matrices = [np.sin(x), x.copy()], [m.copy()]
        for statement in chosen:
            statement(vectors, matrices, k)
        return sum(vectors[-3:]), sum(matrices[-2:])

    return program, [maker.__name__ for maker in makers]
