"""The parts of a solution as trees of JAX, which takes a subclass of `dict` as a leaf unless it is registered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from diffsim.base.packages import needed_by
from diffsim.simulation.prepared.solution import Final, Traces

with needed_by("diffsim.jax"):
    import jax


def register() -> None:
    """Let JAX see the arrays of `Final` and `Traces`, by name in the order of the names, as it has them in a `dict`."""
    for kind in (Final, Traces):
        _register(kind)


def _register(kind: type[Final] | type[Traces]) -> None:
    key = jax.tree_util.DictKey

    def parts(tree: dict[str, Any]) -> tuple[list[Any], tuple[str, ...]]:
        names = tuple(sorted(tree))
        return [tree[name] for name in names], names

    def named(tree: dict[str, Any]) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        values, names = parts(tree)
        return [(key(name), value) for name, value in zip(names, values, strict=True)], names

    def joined(names: tuple[str, ...], values: Iterable[Any]) -> Any:
        return kind(zip(names, values, strict=True))

    jax.tree_util.register_pytree_with_keys(kind, named, joined, parts)
