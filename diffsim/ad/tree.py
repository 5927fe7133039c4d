"""Records as trees: tuples, lists, dicts, NamedTuples, dataclasses and registered types, taken apart into leaves and put together."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from diffsim.errors import ShapeError


class _Kind(NamedTuple):
    """How a type is taken apart: value -> (children, what else identifies it), and put together again."""

    flatten: Callable[[Any], tuple[Sequence[Any], Any]]
    unflatten: Callable[[Any, Sequence[Any]], Any]


_registered: dict[type, _Kind] = {}


def register_pytree(
    kind: type, flatten: Callable[[Any], tuple[Sequence[Any], Any]], unflatten: Callable[[Any, Sequence[Any]], Any]
) -> None:
    """Let the values of a type take part as records.

    Args:
        kind: the type itself; subclasses are registered on their own.
        flatten: value -> (children, data); children are differentiated, `data` identifies the rest and can be compared.
        unflatten: (data, children) -> value.
    """
    _registered[kind] = _Kind(flatten, unflatten)


def _flatten_dict(value: dict[Any, Any]) -> tuple[Sequence[Any], Any]:
    return list(value.values()), (type(value), tuple(value))


def _unflatten_dict(data: Any, children: Sequence[Any]) -> Any:
    kind, keys = data
    pairs = zip(keys, children, strict=True)
    return dict(pairs) if kind is dict else kind(pairs)


def _flatten_dataclass(value: Any) -> tuple[Sequence[Any], Any]:
    names = tuple(f.name for f in dataclasses.fields(value) if hasattr(value, f.name))
    return [getattr(value, name) for name in names], _Template(value, names)


class _Template:
    """A dataclass's value whose fields are replaced. Its `__init__` is not run again: it might not take traced values."""

    def __init__(self, value: Any, names: tuple[str, ...]) -> None:
        self.value, self.names = value, names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Template) and type(self.value) is type(other.value) and self.names == other.names

    def __hash__(self) -> int:
        return hash((type(self.value), self.names))

    def fill(self, children: Sequence[Any]) -> Any:
        made = copy.copy(self.value)
        for name, child in zip(self.names, children, strict=True):
            object.__setattr__(made, name, child)
        return made

    def __repr__(self) -> str:
        return type(self.value).__name__


_BUILT_IN: dict[type, _Kind] = {
    tuple: _Kind(lambda v: (v, None), lambda _, c: tuple(c)),
    list: _Kind(lambda v: (list(v), None), lambda _, c: list(c)),
    dict: _Kind(_flatten_dict, _unflatten_dict),
}
_NAMED_TUPLE = _Kind(lambda v: (v, type(v)), lambda kind, c: kind(*c))
_DATACLASS = _Kind(_flatten_dataclass, lambda template, c: template.fill(c))


def _kind_of(value: Any) -> _Kind | None:
    kind = type(value)
    found = _registered.get(kind) or _BUILT_IN.get(kind)
    if found is not None:
        return found
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _NAMED_TUPLE
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _DATACLASS
    return _BUILT_IN[dict] if isinstance(value, dict) else None


class Tree:
    """The shape of a record: a leaf, None, or a node with children."""

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
            inside = ", ".join(f"{k!r}: {c!r}" for k, c in zip(self.data[1], self.children, strict=True))
            return f"{{{inside}}}"
        return {tuple: f"({inside})", list: f"[{inside}]", type(None): "None"}.get(self.kind, f"{self.kind.__name__}({inside})")


LEAF = Tree(None)


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """Leaves of a record from left to right, and its shape."""
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
    return Tree(type(value), data, tuple(_walk(c, leaves) for c in children), kind.unflatten)


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """A record of a shape, with these leaves."""
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
    if isinstance(value, dict) and type(value) is tree.kind and set(value) == set(tree.data[1]):
        children, data = [value[key] for key in tree.data[1]], tree.data  # in whatever order they were given
    if type(value) is not tree.kind or data != tree.data or len(children) != len(tree.children):
        raise ShapeError(f"{what} has the structure {flatten(value)[1]}, expected {tree}")
    for child, expected in zip(children, tree.children, strict=True):
        _match(child, expected, leaves, what)


def tree_map(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """`function` applied to corresponding leaves of records of the same shape."""
    leaves, tree = flatten(value)
    columns = [leaves_like(other, tree, "a record") for other in others]
    return unflatten(tree, [function(*row) for row in zip(leaves, *columns, strict=True)])
