"""Random programs by `ds.tile.map` and tile by tile: value, cotangents, tangents, and products of the Hessian."""

from __future__ import annotations

import copy
from typing import Any

import numpy
import pytest

import diffsim as ds

from .agree import pulled_back, random_like, require_equal, second_order, stacked, tile
from .random_programs import N, random_program

TILES, STATEMENTS = 5, 7
QUICK = (0, 3)
"""Seeds whose kernels compile in 3 s each."""
ROUNDING = 1e-9
"""Sums in another order, through as many statements."""


def check(seed: int, statements: int = STATEMENTS) -> None:
    program, kinds = random_program(seed, statements)
    generator = numpy.random.default_rng([seed, 1])
    x, m = generator.normal(size=(TILES, N)), generator.normal(size=(TILES, N, N))
    k = generator.integers(0, N, (TILES, N))
    what = f"seed {seed}: {', '.join(kinds)}: "

    def whole(x: Any, m: Any) -> Any:
        return ds.tile.map(program)(x, m, k)

    def part(number: int) -> Any:
        return lambda x, m: program(x, m, k[number])

    alone = [(part(n), (x[n], m[n])) for n in range(TILES)]
    value = whole(x, m)
    require_equal(value, stacked([f(*copy.deepcopy(args)) for f, args in alone]), ROUNDING, what + "value")
    bar, dots = random_like(value, generator), (generator.normal(size=x.shape), generator.normal(size=m.shape))
    bars = [pulled_back(f, args, tile(bar, n)) for n, (f, args) in enumerate(alone)]
    require_equal(pulled_back(whole, (x, m), bar), stacked(bars), ROUNDING, what + "vjp")
    moved = [ds.jvp(f, args, tile(dots, n))[1] for n, (f, args) in enumerate(alone)]
    require_equal(ds.jvp(whole, (x, m), dots)[1], stacked(moved), ROUNDING, what + "jvp")
    second = [second_order(f, args, tile(bar, n), tile(dots, n)) for n, (f, args) in enumerate(alone)]
    require_equal(second_order(whole, (x, m), bar, dots), stacked(second), 10 * ROUNDING, what + "second order")


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[] if seed in QUICK else [pytest.mark.slow]) for seed in range(12)])
def test_agrees_tile_by_tile(seed: int) -> None:
    check(seed)
