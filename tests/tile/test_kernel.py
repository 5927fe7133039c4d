"""Programs over blocks of whole arrays, against the same written as loops over array programs."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import ArrayIndexError, ShapeError, TileError

RNG = numpy.random.default_rng(5)
X, K = RNG.normal(size=(9, 7)), RNG.normal(size=4)


def smoothed(x: Any, k: Any) -> Any:
    """Blocks with a halo beyond the edges, and a number for each."""

    @ds.tile.kernel(tiles=4)
    def program(i, x, k):
        a = ds.tile.load(x, (4, 9), at=(2 * i - 1, -1))
        inner = np.sin(a[1:-1, 1:-1]) + 0.5 * a[:-2, 1:-1] * a[2:, 2:]
        return ds.tile.store((2 * i, 0), inner * k[i], shape=(9, 7)), ds.tile.add(k[i], np.sum(inner**2))

    return program(x, k)


def smoothed_by_loops(x: Any, k: Any) -> Any:
    padded = np.zeros((12, 9))
    padded[1:10, 1:8] = x
    out, sums = np.zeros((9, 7)), np.array(k)
    for i in range(4):
        a = padded[2 * i : 2 * i + 4]
        inner = np.sin(a[1:-1, 1:-1]) + 0.5 * a[:-2, 1:-1] * a[2:, 2:]
        out[2 * i : 2 * i + 2] = inner * k[i]
        sums[i] += np.sum(inner**2)
    return out, sums


def overlapping(x: Any, k: Any) -> Any:
    """Blocks that overwrite part of those of earlier tiles, in an array with live values, and blocks that add up."""

    @ds.tile.kernel(tiles=(2, 3))
    def program(i, j, x, k):
        a = ds.tile.load(x, (4, 3), at=(3 * i, 2 * j))
        return ds.tile.store((3 * i + 1, 2 * j), a * a, into=x), ds.tile.add((3 * i, 2 * j), k[i + j] * a, into=x)

    return program(x, k)


def overlapping_by_loops(x: Any, k: Any) -> Any:
    y, z = np.array(x), np.array(x)
    for i in range(2):
        for j in range(3):
            a = x[3 * i : 3 * i + 4, 2 * j : 2 * j + 3]
            y[3 * i + 1 : 3 * i + 5, 2 * j : 2 * j + 3] = a * a
            z[3 * i : 3 * i + 4, 2 * j : 2 * j + 3] += k[i + j] * a
    return y, z


PAIRS = {"halo": (smoothed, smoothed_by_loops), "overlap": (overlapping, overlapping_by_loops)}


@pytest.mark.parametrize("name", PAIRS)
def test_it_is_the_loop_over_tiles(name: str) -> None:
    program, loops = PAIRS[name]
    for result, expected in zip(program(X, K), loops(X, K), strict=True):
        numpy.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", PAIRS)
def test_its_derivatives_are_those_of_the_loop(name: str) -> None:
    program, loops = PAIRS[name]
    rng = numpy.random.default_rng(6)
    cts = tuple(rng.normal(size=numpy.shape(v)) for v in loops(X, K))
    dots = rng.normal(size=X.shape), rng.normal(size=K.shape)
    for of in (
        lambda f: ds.vjp(f, X, K)[1](cts),
        lambda f: ds.jvp(f, (X, K), dots)[1],
        lambda f: ds.jvp(lambda x, k: ds.vjp(lambda *a: sum(np.sum(v**3) for v in f(*a)), x, k)[1](1.0), (X, K), dots)[1],
    ):
        for gradient, expected in zip(of(program), of(loops), strict=True):
            numpy.testing.assert_allclose(gradient, expected, rtol=1e-11, atol=1e-11)


def test_outside_values_of_a_program_are_shared_by_tiles() -> None:
    def total(weight: Any) -> Any:
        @ds.tile.kernel(tiles=3)
        def program(i, x):
            return ds.tile.store(i, weight * np.sum(ds.tile.load(x, (3, 7), at=(3 * i, 0)))[None])

        return np.sum(program(X) ** 2)

    sums = X.reshape(3, 21).sum(axis=1)
    assert numpy.isclose(ds.grad(total)(2.0), 4.0 * (sums**2).sum())


@pytest.mark.parametrize(
    ("program", "error", "words"),
    [
        (lambda i, x: ds.tile.store((4 * i, 0), ds.tile.load(x, (4, 7), at=(4 * i, 0)), shape=(9, 7)), ArrayIndexError, "block of tile 2"),
        (lambda i, x: ds.tile.load(x, (4, 7), at=(4 * i, 0)), TileError, "expected a result of ds.tile.store"),
        (lambda i, x: ds.tile.store(i, ds.tile.load(x, (4,), at=i)), ShapeError, "one number an axis"),
        (lambda i, x: ds.tile.store((i, 0), np.zeros(3)), ShapeError, "one index an axis"),
        (lambda i, x: ds.tile.store(i, x[1:3]), TileError, "a slice of a whole array of shape .*ds.tile.load"),
        (lambda i, x: ds.tile.store(i, sum(row for row in x)), TileError, "used as that of one tile.*ds.tile.load"),
        (lambda i, x: ds.tile.store((x[0, 0].astype(int), 0), ds.tile.load(x, (1, 1), at=(0, 0))), TileError, "depends on values"),
    ],
)
def test_refused(program: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        ds.tile.kernel(tiles=3)(program)(X)


def test_blocks_are_read_inside_a_program_only() -> None:
    with pytest.raises(TileError, match="outside of a tile program"):
        ds.tile.load(X, (1, 1), at=(0, 0))
    with pytest.raises(ShapeError, match="at least 1"):
        ds.tile.kernel(tiles=0)


def test_a_program_returns_something_and_takes_blocks() -> None:
    with pytest.raises(TileError, match="returned nothing"):
        ds.tile.kernel(tiles=3)(lambda i, x: None)(X)
    with pytest.raises(TileError, match="returned nothing"):
        ds.tile.map(lambda x: None)(X)
    with pytest.raises(TileError, match="used as that of one tile"):
        ds.tile.kernel(tiles=3)(lambda i, x: ds.tile.store(i, x + 1))(X)
    with pytest.raises(TileError, match="without the number of tiles"):
        ds.tile.kernel(lambda i, x: None)
    with pytest.raises(TileError, match="differs from tile to tile"):
        ds.tile.map(lambda x: float(x[0]))(X)


def test_the_number_of_a_turn_takes_the_type_of_its_operand() -> None:
    single = numpy.float32
    result = ds.tile.map(lambda x: ds.fori_loop(0, 4, lambda k, y: y + k * single(0.5) + 0.25 * k, x))(X.astype(single))
    assert result.dtype == single
    numpy.testing.assert_allclose(result, X + 4.5, rtol=1e-6)


def test_an_absolute_value_has_no_sign() -> None:
    assert not numpy.signbit(ds.tile.map(np.abs)(numpy.array([[-0.0]]))).any()
