"""Pytrees: tuples, lists, dicts, NamedTuples, dataclasses and registered types, taken apart into leaves and put together."""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from diffsim.base.arguments import function
from diffsim.base.messages import shown
from diffsim.errors import ParameterError, ShapeError


class _Kind(NamedTuple):
    """How a type is taken apart: value -> (children, what else identifies it), and put together again."""

    flatten: Callable[[Any], tuple[Sequence[Any], Any]]
    unflatten: Callable[[Any, Sequence[Any]], Any]


_registered: dict[type, _Kind] = {}


def register_pytree(
    kind: type, flatten: Callable[[Any], tuple[Sequence[Any], Any]], unflatten: Callable[[Any, Sequence[Any]], Any]
) -> None:
    """Let the values of a type take part as pytrees.

    Args:
        kind: the type itself; subclasses are registered on their own.
        flatten: value -> (children, data); children are differentiated, `data` identifies the rest and can be compared.
        unflatten: (data, children) -> value.

    Example:
        import numpy

        import diffsim as ds

        class Layer:
            # A layer of the ground: its thickness and wave speed have derivatives, its name has none.

            def __init__(self, name, thickness, speed):
                self.name, self.thickness, self.speed = name, thickness, speed

        ds.register_pytree(Layer, lambda x: ((x.thickness, x.speed), x.name), lambda name, children: Layer(name, *children))
        gradient = ds.grad(lambda layer: layer.thickness / layer.speed)(Layer("clay", 10.0, 500.0))
        assert gradient.name == "clay" and numpy.isclose(gradient.speed, -10.0 / 500.0**2)

    Raises:
        ParameterError: `kind` is no type, or one of numbers, text or arrays; or the others are no functions.
    """
    if not isinstance(kind, type) or issubclass(kind, (int, float, complex, str, bytes, np.ndarray, np.generic)):
        raise ParameterError(f"kind = {shown(kind)}, expected a type of pytrees of your own; give the class itself")
    function("flatten", flatten, "lambda value: ((value.x,), None)", optional=False)
    function("unflatten", unflatten, "lambda data, children: Kind(*children)", optional=False)
    _registered[kind] = _Kind(flatten, unflatten)


class _Template:
    """A value whose entries are replaced in copies of it. Its `__init__` is not run again: it might not take traced values.

    Args:
        value: a dict of a kind of its own, or a dataclass's.
        names: its keys or fields.
        put: `(value, name, entry)` sets one.
    """

    __slots__ = ("names", "put", "value")

    def __init__(self, value: Any, names: tuple[Any, ...], put: Callable[[Any, Any, Any], None]) -> None:
        self.names, self.put = names, put
        self.value = value
        self.value = self.fill([None] * len(names))  # so that the shape of a pytree does not keep its arrays

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Template) and type(self.value) is type(other.value) and self.names == other.names

    def __hash__(self) -> int:
        return hash((type(self.value), self.names))

    def fill(self, children: Sequence[Any]) -> Any:
        copied = copy.copy(self.value)
        for name, child in zip(self.names, children, strict=True):
            self.put(copied, name, child)
        return copied


def _flatten_dataclass(value: Any) -> tuple[Sequence[Any], Any]:
    names = tuple(f.name for f in dataclasses.fields(value) if hasattr(value, f.name))
    return [getattr(value, name) for name in names], _Template(value, names, object.__setattr__)


def _flatten_mapping(value: Any) -> tuple[Sequence[Any], Any]:
    return list(value.values()), _Template(value, tuple(value), operator.setitem)


_BUILT_IN: dict[type, _Kind] = {
    tuple: _Kind(lambda v: (v, None), lambda _, c: tuple(c)),
    list: _Kind(lambda v: (list(v), None), lambda _, c: list(c)),
    dict: _Kind(lambda v: (list(v.values()), tuple(v)), lambda keys, c: dict(zip(keys, c, strict=True))),
}
_NAMED_TUPLE = _Kind(lambda v: (v, type(v)), lambda kind, c: kind._make(c))
_DATACLASS = _Kind(_flatten_dataclass, lambda template, c: template.fill(c))
_MAPPING = _Kind(_flatten_mapping, lambda template, c: template.fill(c))


_LEAVES = {np.ndarray, np.float64, float, int, bool, str}
"""Common types of leaves, which no pytree can be registered for: the way to other kinds is longer."""


def _kind_of(value: Any) -> _Kind | None:
    kind = type(value)
    if kind in _LEAVES:
        return None
    registered = _registered.get(kind) or _BUILT_IN.get(kind)
    if registered is not None:
        return registered
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _NAMED_TUPLE
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _DATACLASS
    return _MAPPING if isinstance(value, dict) else None


class Tree:
    """The shape of a pytree: a leaf, None, or a node with children."""

    __slots__ = ("children", "data", "kind", "unflatten")

    def __init__(self, kind: type | None, data: Any = None, children: tuple[Tree, ...] = (), unflatten: Any = None) -> None:
        self.kind = kind
        self.data = data
        self.children = children
        self.unflatten = unflatten

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and (self.kind, self.data, self.children) == (other.kind, other.data, other.children)

    def __hash__(self) -> int:
        return hash((self.kind, self.children))

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        inside = ", ".join(map(repr, self.children))
        if self.kind is dict:
            inside = ", ".join(f"{k!r}: {c!r}" for k, c in zip(self.data, self.children, strict=True))
            return f"{{{inside}}}"
        return {tuple: f"({inside})", list: f"[{inside}]", type(None): "None"}.get(self.kind, f"{self.kind.__name__}({inside})")


LEAF = Tree(None)


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """Leaves of a pytree from left to right, and its shape."""
    leaves: list[Any] = []
    return leaves, _walk(value, leaves)


def _walk(value: Any, leaves: list[Any]) -> Tree:
    if value is None:
        return Tree(type(None))
    kind = _kind_of(value)
    if kind is None:
        leaves.append(value)
        return LEAF
    children, data = kind.flatten(value)
    children = tuple(children)
    return Tree(type(value), data, tuple(_walk(c, leaves) for c in children), kind.unflatten)


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """A pytree of a shape, with these leaves."""
    values = iter(leaves)
    return _build(tree, values)


def _build(tree: Tree, leaves: Any) -> Any:
    if tree.kind is None:
        return next(leaves)
    if tree.kind is type(None):
        return None
    return tree.unflatten(tree.data, [_build(child, leaves) for child in tree.children])


def leaves_like(value: Any, tree: Tree, what: str) -> list[Any]:
    """Leaves of `value`, which must have the shape `tree`, but that None may stand for any part: its leaves are None.

    Raises:
        ShapeError: it has another shape.
    """
    leaves: list[Any] = []
    _match(value, tree, leaves, what)
    return leaves


def _count(tree: Tree) -> int:
    return 1 if tree.kind is None else sum(map(_count, tree.children))


def _match(value: Any, tree: Tree, leaves: list[Any], what: str) -> None:
    if value is None:
        leaves.extend([None] * _count(tree))
        return
    if tree.kind is None:
        leaves.append(value)
        return
    kind = _kind_of(value)
    children, data = kind.flatten(value) if kind else ((), None)
    children = tuple(children)
    if isinstance(value, dict) and type(value) is tree.kind:
        names = tree.data.names if isinstance(tree.data, _Template) else tree.data
        if set(value) == set(names):
            children, data = [value[name] for name in names], tree.data  # in whatever order they were given
    if type(value) is not tree.kind or data != tree.data or len(children) != len(tree.children):
        raise ShapeError(f"{what} has the structure {flatten(value)[1]}, expected {tree}")
    for child, expected in zip(children, tree.children, strict=True):
        _match(child, expected, leaves, what)


def in_order(value: Any, tree: Tree) -> Any:
    """`value`, its dicts in the order of their keys in `tree` if it has that shape but for the order."""
    if flatten(value)[1] == tree:
        return value
    try:
        ordered = unflatten(tree, leaves_like(value, tree, "a pytree"))
    except ShapeError:
        return value
    return ordered if flatten(ordered)[1] == tree else value


def tree_map(function: Callable[[Any], Any], value: Any) -> Any:
    """A pytree with `function` applied to its leaves."""
    leaves, tree = flatten(value)
    return unflatten(tree, [function(leaf) for leaf in leaves])
