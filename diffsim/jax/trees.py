"""The parts of a solution as trees of JAX, which takes a subclass of `dict` as a leaf unless it is registered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from diffsim.base.packages import needed_by
from diffsim.simulation.prepared.groups import Groups
from diffsim.simulation.prepared.solution import Final, Traces

with needed_by("diffsim.jax"):
    import jax


Form: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, tuple[str, ...]], ...]]
"""The names of the arrays in their order, and the components of each vector."""


def register() -> None:
    """Let JAX see the arrays of `Final` and `Traces`, by name in the order of the names, as it has them in a `dict`."""
    for kind in (Final, Traces):
        _register(kind)


def _register(kind: type[Final] | type[Traces]) -> None:
    key = jax.tree_util.DictKey

    def parts(tree: Any) -> tuple[list[Any], Form]:
        names = tuple(sorted(tree))
        return [tree[name] for name in names], (names, tuple(tree.groups.parts.items()))

    def named(tree: Any) -> tuple[list[tuple[Any, Any]], Form]:
        values, form = parts(tree)
        return [(key(name), value) for name, value in zip(form[0], values, strict=True)], form

    def joined(form: Form, values: Iterable[Any]) -> Any:
        names, vectors = form
        tree = kind(zip(names, values, strict=True))
        tree.groups = Groups(dict(vectors), stack=jax.numpy.stack)
        return tree

    jax.tree_util.register_pytree_with_keys(kind, named, joined, parts)
