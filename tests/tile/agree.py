"""A function of one tile, run tile by tile as an array program, and for all tiles by `ds.tile.map`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy

import diffsim as ds
from diffsim.ad.tree import flatten, unflatten
from tests.ad.programs.trees import is_float


def leaves(tree: Any) -> list[Any]:
    """Arrays of a tree, without those places that hold nothing."""
    return [leaf for leaf in flatten(tree)[0] if leaf is not None and not isinstance(leaf, str)]


def stacked(trees: Sequence[Any]) -> Any:
    """One tree whose arrays hold those of each tile along a first axis."""
    tree = flatten(trees[0])[1]
    columns = zip(*(flatten(t)[0] for t in trees), strict=True)
    return unflatten(tree, [None if c[0] is None else numpy.stack([numpy.asarray(x) for x in c]) for c in columns])


def tile(tree: Any, number: int) -> Any:
    """The part of one tile."""
    flat, built = flatten(tree)
    return unflatten(built, [None if leaf is None else numpy.asarray(leaf)[number][()] for leaf in flat])


def random_like(tree: Any, generator: numpy.random.Generator) -> Any:
    """Random numbers for the floating-point leaves, None for others."""
    flat, built = flatten(tree)

    def entries(leaf: Any) -> Any:
        if leaf is None or not is_float(leaf):
            return None
        return generator.uniform(0.5, 1.5, numpy.shape(leaf)).astype(numpy.asarray(leaf).dtype) * generator.choice(
            [-1, 1], numpy.shape(leaf)
        ).astype(numpy.asarray(leaf).dtype)

    return unflatten(built, [entries(leaf) for leaf in flat])


def of_some(function: Callable[..., Any], args: Sequence[Any], wanted: Sequence[int]) -> Callable[..., Any]:
    """The function of some of its arguments; each call gets copies of the others."""

    def called(*chosen: Any) -> Any:
        every = list(copy.deepcopy(args))
        for place, value in zip(wanted, chosen, strict=True):
            every[place] = value
        return function(*every)

    return called


def pulled_back(function: Callable[..., Any], args: Sequence[Any], cotangent: Any) -> Any:
    return ds.vjp(function, *args)[1](cotangent)


def second_order(function: Callable[..., Any], args: Sequence[Any], cotangent: Any, direction: Any) -> Any:
    """The derivative of the pullback along a direction of the arguments."""
    return ds.jvp(lambda *w: pulled_back(function, w, cotangent), tuple(args), tuple(direction))[1]


def require_equal(found: Any, expected: Any, tolerance: float, what: str) -> None:
    """Raise if arrays differ in number, shape, or by more than `tolerance` times the largest entry."""
    one, other = leaves(found), leaves(expected)
    assert len(one) == len(other), f"{what}: {len(one)} arrays, expected {len(other)}"
    for x, y in zip(one, other, strict=True):
        x, y = numpy.asarray(x), numpy.asarray(y)
        assert x.shape == y.shape, f"{what}: shape {x.shape}, expected {y.shape}"
        scale = max(1.0, float(numpy.max(numpy.abs(y), initial=0.0)))
        numpy.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale, err_msg=what)
