"""A case of a tile program: a program with the closed form of its cotangents, and arguments for several tiles."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy

from tests.ad.programs.cases import Case, _float_arguments
from tests.ad.programs.trees import is_float, tree_map

CASES: list[Case] = []
TILES = 9
"""More than the lanes of any register, and no multiple of them."""


def group(name: str) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """The decorator that puts a program with a closed form (cotangent, *arguments -> cotangents of arguments) into the list."""

    def case(args: tuple[Any, ...], expected: Callable[..., Any], **options: Any) -> Any:
        def put(program: Callable[..., Any]) -> Callable[..., Any]:
            CASES.append(Case(name, program.__name__, program, args, "vjp", expected, _float_arguments(args), **options))
            return program

        return put

    return case


def tiles(case: Case) -> list[tuple[Any, ...]]:
    """The arguments of each tile: other numbers, positions in another order, truth values at random, and whole numbers counted up."""
    return [tuple(tree_map(_other(case, tile), arg) for arg in case.fresh_args()) for tile in range(TILES)]


def _other(case: Case, tile: int) -> Callable[[Any], Any]:
    generator = numpy.random.default_rng(zlib.crc32(f"{case}:{tile}".encode()))

    def change(leaf: Any) -> Any:
        if leaf is None or not tile:
            return leaf
        if is_float(leaf):
            moved = numpy.asarray(leaf) * (1 + 0.2 * generator.uniform(-1, 1, numpy.shape(leaf)))
            return moved.astype(leaf.dtype) if isinstance(leaf, numpy.ndarray) else float(moved)
        if isinstance(leaf, numpy.ndarray) and leaf.dtype == bool:
            return generator.random(leaf.shape) < 0.5
        return generator.permuted(leaf.ravel()).reshape(leaf.shape) if isinstance(leaf, numpy.ndarray) else int(leaf) + tile % 4

    return change
