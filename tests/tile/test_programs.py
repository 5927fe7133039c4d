"""Programs of one tile against closed forms: as array programs, and mapped over tiles, in value and derivatives of two orders."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from tests.ad.programs.cases import Case
from tests.ad.programs.trees import flatten, is_float, leaves, unflatten
from tests.sampled import sampled

from .agree import of_some, random_like, require_equal, second_order, stacked, tile
from .programs import CASES
from .programs.cases import TILES, tiles

VALUES = 1e-11
"""Elementary functions and sums in another order differ by some roundings."""
SECOND = 1e-6
"""Differences of fourth order of the closed form are good to some 1e-9 for numbers about 1."""
SINGLE = [case for case in CASES if any(numpy.asarray(leaf).dtype == numpy.float32 for arg in case.args for leaf in leaves(arg))]
LONG = (
    "assembled_and_solved",
    "projector_onto_an_eigenvector",
    "cholesky_by_elements",
    "eigenvalues",
    "solve_columns",
    "determinant",
    "inverse",
    "elements_added_to_one_by_one",
)
"""Their kernels compile longest, a minute of CPU time for all."""


def cotangents(case: Case, cotangent: Any, args: tuple[Any, ...]) -> Any:
    """The closed form for one tile, as one vector."""
    return flatten(case.expected(cotangent, *args)).astype(float)


def moved(case: Case, args: tuple[Any, ...], direction: Any, step: float) -> tuple[Any, ...]:
    """The arguments, some way along a direction."""
    every = list(args)
    for place, dot in zip(case.wrt, direction, strict=True):
        every[place] = unflatten(args[place], flatten(args[place]) + step * flatten(dot))
    return tuple(every)


def curvature(case: Case, args: tuple[Any, ...], cotangent: Any, direction: Any) -> Any:
    """The closed form differentiated along a direction, by differences of fourth order."""
    h = 1e-3
    at = {k: cotangents(case, cotangent, moved(case, args, direction, k * h)) for k in (-2, -1, 1, 2)}
    return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h)


def vector(tree: Any, like: Any) -> Any:
    """Cotangents of arguments as one vector; zeros where there are none."""
    entries = [
        numpy.zeros(numpy.shape(model)) if leaf is None else leaf
        for leaf, model in zip(leaves(tree), leaves(like), strict=True)
        if is_float(model)
    ]
    return flatten(entries).astype(float)


def check(
    case: Case,
    function: Callable[..., Any],
    batch: tuple[Any, ...],
    parts: list[tuple[Any, ...]],
    part: Callable[[Any, int], Any],
    order: int = 2,
) -> None:
    """Compare a function of arguments with the closed form for each of the tiles that these hold, up to an order of derivatives."""
    generator = numpy.random.default_rng(zlib.crc32(str(case).encode()))
    tolerance = max(VALUES, case.tolerance if case.tolerance != 1e-9 else 0.0)
    wanted = [batch[k] for k in case.wrt]
    call = of_some(function, batch, case.wrt)
    value, back = ds.vjp(call, *wanted)
    bar, dots = random_like(value, generator), tuple(random_like(w, generator) for w in wanted)
    bars, (_, dot) = back(bar), ds.jvp(call, tuple(wanted), dots)
    second = None if order < 2 or case in SINGLE else second_order(call, wanted, bar, dots)
    for k, args in enumerate(parts):
        own, direction = part(bar, k), [part(d, k) for d in dots]
        models = [args[i] for i in case.wrt]
        require_equal(part(value, k), case.bind_plain()(*args_copy(args)), tolerance, f"value of tile {k}")
        expected = cotangents(case, own, args)
        require_equal(vector(tuple(part(b, k) for b in bars), models), expected, tolerance, f"vjp of tile {k}")
        along = flatten(dot_of(part(dot, k), own)) @ flatten(own)
        require_equal(along, expected @ flatten(list(direction)), 10 * tolerance, f"jvp of tile {k}")
        if second is not None:
            result = vector(tuple(part(s, k) for s in second), models)
            require_equal(result, curvature(case, args, own, direction), max(SECOND, tolerance), f"second order of tile {k}")


def dot_of(tangent: Any, like: Any) -> Any:
    """Tangents of the results that have a cotangent."""
    return [t for t, c in zip(leaves(tangent), leaves(like), strict=True) if c is not None]


def args_copy(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(unflatten(a, flatten(a)) if any(is_float(leaf) for leaf in leaves(a)) else a for a in args)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_array_program(case: Case) -> None:
    parts = tiles(case)[:1]
    check(case, case.bind(np, ds), parts[0], parts, lambda tree, _: tree)


@pytest.mark.parametrize("case", sampled(CASES, gate=[case for case in CASES if case.name not in LONG][::3], ids=str))
def test_tile_program(case: Case) -> None:
    parts = tiles(case)
    assert len(parts) == TILES
    check(case, ds.tile.map(case.bind(np, ds)), stacked_arguments(parts), parts, tile, order=1)


@pytest.mark.parametrize("case", sampled([case for case in CASES if case not in SINGLE and case.name not in LONG], 8, ids=str))
def test_second_order_of_a_tile_program(case: Case) -> None:
    parts = tiles(case)
    check(case, ds.tile.map(case.bind(np, ds)), stacked_arguments(parts), parts, tile)


def stacked_arguments(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(stacked([part[k] for part in parts]) for k in range(len(parts[0])))


def test_there_are_enough_programs_of_each_kind() -> None:
    counts = {name: sum(case.group == name for case in CASES) for name in {case.group for case in CASES}}
    assert sum(counts.values()) >= 120 and min(counts.values()) >= 12, counts
