"""A function of a tile that maps another one over an axis of its arrays: the same numbers as array programs."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.errors import TileError

from .agree import pulled_back, random_like, require_equal, second_order, stacked, tile

GENERATOR = numpy.random.default_rng(0)
TILES = 5
ROUNDING = 1e-11


def row(y, shared):
    a = np.eye(3) + np.outer(y, y)
    a[1] += shared
    return a @ np.sin(y), np.sum(y) > 0


def program(x, shared):
    first = x[0]
    moved, positive = ds.tile.map(row, axes=(0, None))(x, shared)
    around = ds.tile.map(lambda y: y * first + shared, axes=1)(x[:3] * 2)
    return np.where(positive[:, None], moved, 0.5 * moved), around


def test_a_mapped_function_maps_another_one() -> None:
    x, shared = GENERATOR.normal(size=(TILES, 4, 3)), GENERATOR.normal(size=(TILES, 3))
    mapped, parts = ds.tile.map(program), [(x[k], shared[k]) for k in range(TILES)]
    value = mapped(x, shared)
    require_equal(value, stacked([program(*part) for part in parts]), ROUNDING, "value")
    bar, dots = random_like(value, GENERATOR), (GENERATOR.normal(size=x.shape), GENERATOR.normal(size=shared.shape))
    bars = stacked([pulled_back(program, part, tile(bar, k)) for k, part in enumerate(parts)])
    require_equal(pulled_back(mapped, (x, shared), bar), bars, ROUNDING, "vjp")
    result = second_order(mapped, (x, shared), bar, dots)
    second = [second_order(program, part, tile(bar, k), tile(dots, k)) for k, part in enumerate(parts)]
    require_equal(result, stacked(second), 10 * ROUNDING, "second order")


def test_a_derivative_within_a_mapped_function() -> None:
    def slope(x: Any) -> Any:
        return ds.grad(lambda x: np.sum(ds.tile.map(lambda y: np.sin(y) * y[0])(x) ** 2))(x)

    x = GENERATOR.normal(size=(TILES, 4, 3))
    require_equal(ds.tile.map(slope)(x), stacked([slope(part) for part in x]), ROUNDING, "gradient")


def test_blocks_of_whole_arrays_are_for_the_outermost_program() -> None:
    @ds.tile.kernel(tiles=4)
    def halves(i, x):
        return ds.tile.store(i, 0.5 * ds.tile.load(x, 1, at=i))

    with pytest.raises(TileError, match=r"test_nested\.py:\d+: a function of ds.tile.kernel.*expected outside.*ds.tile.map"):
        ds.tile.map(lambda x: halves(x[0]))(numpy.ones((TILES, 4, 3)))
