"""Every program of the array collection as a tile program: it agrees with the array program tile by tile, or is refused with its line."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import diffsim as ds
import diffsim.numpy as np
from diffsim.ad.tree import flatten
from diffsim.errors import TileError
from tests.ad.programs.cases import Case
from tests.ad.programs.collection import CASES
from tests.ad.programs.trees import is_float, tree_map

from .agree import of_some, pulled_back, random_like, require_equal, second_order, stacked, tile
from .refused import REFUSED

RUN = [case for case in CASES if case.kind != "raises"]
TILES = 3
SPREAD = 14
"""Each so manieth program of a group runs by default: compiling four kernels takes about a second of CPU time."""
AGREE = [case for case in RUN if str(case) not in REFUSED]
TOLERANCE, SINGLE, MIXED = 1e-8, 1e-4, 2e-4
"""Tolerances of f64; of f32; and of programs that compute in both, which array programs may do in another order."""


def _numbered() -> list[Any]:
    counts: dict[str, int] = {}
    params = []
    for case in AGREE:
        number = counts[case.group] = counts.get(case.group, -1) + 1
        params.append(pytest.param(case, id=str(case), marks=[pytest.mark.slow] if number % SPREAD else []))
    return params


def _arrays(arg: Any) -> bool:
    return any(hasattr(leaf, "dtype") or isinstance(leaf, float) for leaf in flatten(arg)[0])


def tiles_of(case: Case) -> list[tuple[Any, ...]]:
    """The arguments of each tile: those that are differentiated differ a little, so that no program takes another way."""
    generator = numpy.random.default_rng(zlib.crc32(str(case).encode()))

    def change(leaf: Any) -> Any:
        if not is_float(leaf):
            return leaf
        moved = numpy.asarray(leaf) + 1e-4 * generator.normal(size=numpy.shape(leaf))
        return (
            moved.astype(leaf.dtype)
            if isinstance(leaf, numpy.ndarray)
            else leaf.dtype.type(moved)
            if hasattr(leaf, "dtype")
            else float(moved)
        )

    return [
        tuple(tree_map(change, arg) if number and k in case.wrt else arg for k, arg in enumerate(case.fresh_args()))
        for number in range(TILES)
    ]


def mapped(case: Case, parts: list[tuple[Any, ...]]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The program for all tiles, and its arguments; an argument without an array is shared by the tiles."""
    over = [_arrays(arg) for arg in parts[0]]
    batch = tuple(stacked([part[k] for part in parts]) if m else parts[0][k] for k, m in enumerate(over))
    return ds.tile.map(case.bind(np, ds), axes=tuple(0 if m else None for m in over)), batch


def tolerance_of(case: Case) -> float:
    if case.group == "mixed precision":
        return MIXED
    single = any(numpy.asarray(leaf).dtype == numpy.float32 for arg in case.args for leaf in flatten(arg)[0] if leaf is not None)
    return SINGLE if single else TOLERANCE


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy's, where a program takes a root of an entry that it does not choose
@pytest.mark.parametrize("case", _numbered())
def test_agrees_with_the_array_program(case: Case) -> None:
    parts = tiles_of(case)
    whole, batch = mapped(case, parts)
    function, tolerance = case.bind(np, ds), tolerance_of(case)
    generator = numpy.random.default_rng(zlib.crc32(str(case).encode()))
    wanted = [batch[k] for k in case.wrt]
    call = of_some(whole, batch, case.wrt)
    value = call(*copy.deepcopy(wanted))
    require_equal(value, stacked([function(*copy.deepcopy(part)) for part in parts]), tolerance, "value")
    bar, dots = random_like(value, generator), tuple(random_like(w, generator) for w in wanted)
    alone = [(of_some(function, part, case.wrt), [part[k] for k in case.wrt]) for part in parts]
    if (case.transposable or case.kind in ("vjp", "grad")) and any(leaf is not None for leaf in flatten(bar)[0]):
        bars = [pulled_back(f, args, tile(bar, k)) for k, (f, args) in enumerate(alone)]
        require_equal(pulled_back(call, wanted, bar), stacked(bars), tolerance, "vjp")
    if case.transposable or case.kind == "jvp":
        moved = [ds.jvp(f, tuple(args), tuple(tile(dot, k) for dot in dots))[1] for k, (f, args) in enumerate(alone)]
        require_equal(ds.jvp(call, tuple(wanted), dots)[1], stacked(moved), tolerance, "jvp")
    if case.transposable and any(leaf is not None for leaf in flatten(bar)[0]):
        result = second_order(call, wanted, bar, dots)
        expected = [second_order(f, args, tile(bar, k), [tile(dot, k) for dot in dots]) for k, (f, args) in enumerate(alone)]
        require_equal(result, stacked(expected), 10 * tolerance, "second order")


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name: str) -> None:
    (case,) = [case for case in RUN if str(case) == name]
    whole, batch = mapped(case, tiles_of(case))
    with pytest.raises(TileError, match=REFUSED[name]):
        whole(*batch)


def test_every_group_has_a_program_that_agrees_by_default() -> None:
    assert {case.group for case in RUN} - {case.group for case in AGREE} <= {"fft and complex"}
