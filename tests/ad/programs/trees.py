"""Nested tuples, lists, dicts, named tuples and dataclasses, to and from a flat vector of their floating-point entries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same tree with `function` applied to its leaves, from left to right (dicts in the order of their sorted keys)."""
    if hasattr(tree, "__array__"):
        return function(tree)  # whatever else an array may be
    if isinstance(tree, dict):
        mapped = {key: tree_map(function, tree[key]) for key in sorted(tree)}
        return {key: mapped[key] for key in tree}
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return type(tree)(**{field.name: tree_map(function, getattr(tree, field.name)) for field in dataclasses.fields(tree)})
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[tree_map(function, entry) for entry in tree])
    if isinstance(tree, (tuple, list)):
        return type(tree)(tree_map(function, entry) for entry in tree)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, None included, in the order of `tree_map`."""
    collected: list[Any] = []
    tree_map(collected.append, tree)
    return collected


def structure(tree: Any) -> str:
    """The structure without the leaves: two trees that print alike are built alike."""
    return repr(tree_map(lambda leaf: None if leaf is None else ..., tree))


def is_float(leaf: Any) -> bool:
    """True if a leaf has a derivative: floats, complex numbers, and the many-digit objects that the stored numbers come from."""
    return leaf is not None and numpy.asarray(leaf).dtype.kind in "fcO"


def flatten(tree: Any) -> numpy.ndarray:
    """All floating-point entries of a tree as one vector."""
    pieces = [numpy.ravel(numpy.asarray(leaf)) for leaf in leaves(tree) if is_float(leaf)]
    return numpy.concatenate(pieces) if pieces else numpy.zeros(0)


def unflatten(tree: Any, vector: numpy.ndarray) -> Any:
    """The tree with its floating-point entries taken from the vector, whose dtype they get. Integer leaves stay."""
    position = 0

    def take(leaf: Any) -> Any:
        nonlocal position
        if not is_float(leaf):
            return leaf
        shape = numpy.shape(leaf)
        start, position = position, position + int(numpy.prod(shape, dtype=int))
        return vector[start:position].reshape(shape).copy() if isinstance(leaf, numpy.ndarray) else vector[start]

    return tree_map(take, tree)
