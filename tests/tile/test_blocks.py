"""Entries x[i] of whole arrays, blocks without axes, and programs of several threads, against loops of NumPy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import ArrayIndexError, DerivativeError, ShapeError, TileError

X = numpy.random.default_rng(8).normal(size=(4, 5))


def picked(shift: tuple[int, ...], turn: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A program whose tiles read and add to entries, or rows, of arrays; and the loop that it stands for."""
    rows = len(shift) == 1

    def index(i: Any, j: Any) -> Any:
        return turn * i + shift[0] if rows else (turn * i + shift[0], j + shift[1])

    @ds.tile.kernel(tiles=(3, 2))
    def program(i, j, x, sums):
        entry = np.sin(x[index(i, j)]) * (1 + j)
        return ds.tile.add(sums[index(i, j)], entry * entry), ds.tile.store(sums[index(i, j)], entry)

    def loop(x: Any, sums: Any) -> Any:
        added, stored = np.array(sums), np.array(sums)
        for i in range(3):
            for j in range(2):
                entry = np.sin(x[index(i, j)]) * (1 + j)
                added[index(i, j)] += entry * entry
                stored[index(i, j)] = entry
        return added, stored

    return program, loop


@pytest.mark.parametrize("turn", [1, -1])
@pytest.mark.parametrize("shift", [(0,), (-3,), (-5,), (2,), (1, 3), (-2, -2), (-4, -5), (0, 4), (-1, -6)])
def test_an_entry_is_that_of_numpy(shift: tuple[int, ...], turn: int) -> None:
    program, loop = picked(shift, turn)
    rng = numpy.random.default_rng(9)
    sums, bars, dots = rng.normal(size=X.shape), tuple(rng.normal(size=(2, *X.shape))), tuple(rng.normal(size=(2, *X.shape)))
    try:
        expected = loop(X, sums)
    except IndexError:
        with pytest.raises(
            ArrayIndexError, match=r"test_blocks\.py:\d+: the index -?\d of tile \d is out of bounds for axis \d.*ds.tile.load"
        ):
            program(X, sums)
        return
    for of in (
        lambda f: f(X, sums),
        lambda f: ds.vjp(f, X, sums)[1](bars),
        lambda f: ds.jvp(f, (X, sums), dots)[1],
        lambda f: ds.jvp(lambda *a: ds.vjp(f, *a)[1](bars), (X, sums), dots)[1],
    ):
        for one, other in zip(of(program), of(loop), strict=True):
            numpy.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)
    assert len(expected) == 2


def test_the_index_that_is_out_of_bounds_is_named() -> None:
    with pytest.raises(ArrayIndexError, match=r"the index 4 of tile 2 is out of bounds for axis 0 of an array of shape \(4, 5\)"):
        ds.tile.kernel(tiles=4)(lambda i, x: ds.tile.store((i,), x[i + 2, 0][None]))(X)


POSITIONS: dict[str, Callable[[Any], Any]] = {
    "a float": lambda i: 1.7,
    "a float of the tile": lambda i: i / 2,
    "a rounded float": lambda i: np.floor(1.5 * i),
    "a truth value": lambda i: True,
    "a comparison": lambda i: i > 0,
    "one for each tile": lambda i: numpy.array([2, 3]),
    "several": lambda i: np.array([0, 1]) + i,
    "a list": lambda i: [2, 3],
    "a ragged list": lambda i: [2, [3]],
    "a text": lambda i: "2",
    "nothing": lambda i: float("nan"),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_whole_numbers(name: str) -> None:
    """They are not rounded, and an array is not taken as one position for each tile."""
    position = POSITIONS[name]
    for program in (
        lambda i, x: ds.tile.store((i, 0), x[position(i), 0].reshape(1, 1)),
        lambda i, x: ds.tile.store((i, 0), ds.tile.load(x, (1, 1), at=(i, position(i)))),
        lambda i, x: ds.tile.store((position(i), 0), x[i].reshape(1, 5)),
        lambda i, x: ds.tile.add((0, position(i)), x[i].reshape(1, 5)),
    ):
        with pytest.raises(TileError, match=r"test_blocks\.py:\d+: the position of a block is .*expected a whole number"):
            ds.tile.kernel(tiles=2)(program)(X)


@pytest.mark.parametrize("far", [2**31, 2**32, 2**32 + 2, 2**40, -(2**31) - 1, -(2**32), 2**62])
def test_far_beyond_the_edges_are_zeros(far: int) -> None:
    """Kernels count in 32 bits, in which 2**32 is 0."""
    stored = ds.tile.kernel(tiles=2)(lambda i, x: ds.tile.store((2 * i, 0), ds.tile.load(x, (2, 5), at=(i + far, 0)) + x[i]))(X)
    numpy.testing.assert_array_equal(stored, X[[0, 0, 1, 1]])
    with pytest.raises(ArrayIndexError, match="out of bounds for axis 0"):
        ds.tile.kernel(tiles=2)(lambda i, x: ds.tile.store((i, 0), x[i + far].reshape(1, 5)))(X)


def test_a_block_may_have_no_axes() -> None:
    @ds.tile.kernel(tiles=(4, 5))
    def program(i, j, x):
        return ds.tile.add((), x[i, j] ** 3), ds.tile.store((), x[i, j] * x[0, 0])

    total, last = program(X)
    assert numpy.shape(total) == numpy.shape(last) == () and numpy.isclose(total, (X**3).sum()) and last == X[-1, -1] * X[0, 0]
    assert numpy.allclose(ds.grad(lambda x: program(x)[0])(X), 3 * X**2)
    expected = numpy.zeros_like(X)
    expected[-1, -1], expected[0, 0] = X[0, 0], X[-1, -1]
    assert numpy.allclose(ds.grad(lambda x: program(x)[1])(X), expected)


@pytest.mark.parametrize("kind", ["i4", "i8", "?"])
def test_a_block_is_not_rounded_in_silence(kind: str) -> None:
    whole, x = numpy.zeros(4, kind), X[0, :4]
    for program in (
        lambda i, n, x: ds.tile.store(n[i], 2.5 * x[i]),
        lambda i, n, x: ds.tile.store((i,), ds.tile.load(x, 1, i), into=n),
    ):
        with pytest.raises(DerivativeError, match=r"test_blocks\.py:\d+: a block of float64 is stored into an array of .*astype"):
            ds.tile.kernel(tiles=4)(program)(whole, x)
    kept = ds.tile.kernel(tiles=4)(lambda i, n, x: ds.tile.store(n[i], (10 * x[i]).astype(n.dtype)))(whole, x)
    assert numpy.array_equal(kept, (10 * x).astype(kind))


@pytest.mark.parametrize(("at", "block"), [(lambda x, i: x[i, 0], (5,)), (lambda x, i: x[i], (3,)), (lambda x, i: x[i], (1, 5))])
def test_an_entry_takes_a_block_of_its_shape(at: Any, block: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=r"test_blocks\.py:\d+: a block of shape .* for an entry of shape"):
        ds.tile.kernel(tiles=2)(lambda i, x: ds.tile.add(at(x, i), np.ones(block)))(X)


def test_an_array_belongs_to_one_program() -> None:
    kept: list[Any] = []

    @ds.tile.kernel(tiles=2)
    def first(i, x):
        kept.append(x)
        return ds.tile.store(x[i], 2 * x[i])

    first(X)
    with pytest.raises(TileError, match="expected an argument of the tile program"):
        ds.tile.kernel(tiles=2)(lambda i, y: ds.tile.store((i,), ds.tile.load(kept[0], (1, 1), at=(i, 0))[0]))(X + 1)
    with pytest.raises(TileError, match="used outside of it"):
        ds.tile.kernel(tiles=2)(lambda i, y: ds.tile.store(y[i], kept[0][i]))(X + 1)


def test_threads_have_programs_of_their_own() -> None:
    """All threads are in the midst of their functions at the same time."""
    meeting, results = threading.Barrier(3, timeout=20), {}

    def work(number: int) -> None:
        @ds.tile.kernel(tiles=4)
        def program(i, x):
            a = ds.tile.load(x, (1, 5), at=(i, 0))
            meeting.wait()
            b = ds.tile.load(x, (1, 5), at=(i, number))
            meeting.wait()
            return ds.tile.add((i, 0), a + b, shape=X.shape)

        results[number] = numpy.asarray(program(number * X))

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in (1, 2, 3):
        shifted = numpy.pad(X, ((0, 0), (0, k)))[:, k:]
        numpy.testing.assert_allclose(results[k], k * (X + shifted), rtol=1e-14)
