"""Leaves of pytrees between a program's arrays and the core values inside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays import guard
from diffsim.ad.arrays.array import Array, core, wrap
from diffsim.ad.core import Tracer
from diffsim.ad.ops.layout import snapshot
from diffsim.ad.tree import Tree, flatten, unflatten
from diffsim.base.arguments import host_array

Cores = tuple[Any, ...]
"""Core values; leaves that are not arrays or numbers stay as they are."""


def inputs_of(args: Any) -> tuple[list[Any], Tree]:
    """The leaves of what is differentiated for, and its form. Arrays of other packages are read as NumPy's.

    Raises:
        ParameterError: an array that lies on a GPU, or a tensor that requires a gradient.
    """
    leaves, tree = flatten(args)
    return [_hosted(leaf) if hasattr(leaf, "__dlpack__") else leaf for leaf in leaves], tree


def hosted(args: Any) -> Any:
    """A pytree whose arrays are NumPy's, see `inputs_of`."""
    leaves, tree = inputs_of(args)
    return unflatten(tree, leaves)


def _hosted(leaf: Any) -> Any:
    if isinstance(leaf, (np.ndarray, Array, Tracer)):
        return leaf
    values = host_array("an argument to differentiate for", leaf)
    return leaf if values.dtype.kind not in "fc" else values if values.ndim else values[()]


def array_core(leaf: Any) -> Any:
    """The core value of a leaf of a pytree if that is an array or a number, else None."""
    if isinstance(leaf, (Array, np.ndarray, np.generic, Tracer)):
        return core(leaf)
    return np.float64(leaf) if type(leaf) is float else np.complex128(leaf) if type(leaf) is complex else None


def differentiable(leaf: Any) -> Any:
    """The core value of a leaf if it has derivatives (floating point), else None: it passes through untouched."""
    value = array_core(leaf)
    return value if value is not None and value.dtype.kind in "fc" else None


def copied(leaf: Any) -> Any:
    """The result of `differentiable`, in memory that the caller's array does not share: the tape may refer to it."""
    if isinstance(leaf, np.ndarray):
        guard.require_plain(leaf)
        return snapshot(leaf) if leaf.dtype.kind in "fc" else None
    return differentiable(leaf)


def as_input(leaf: Any, value: Any) -> Any:
    """A traced value as the function gets it: a number where a number was given, an array of no axes where an array was."""
    if isinstance(leaf, np.ndarray):
        return Array(value, strides=leaf.strides)
    if isinstance(leaf, Array) and not leaf._scalar:
        return Array(value, strides=leaf._layout().strides)
    return Array(value, scalar=not value.shape)


def as_constant(leaf: Any) -> Any:
    """A leaf that is not differentiated for, as the function gets it: an array of its own, which it may edit."""
    if isinstance(leaf, Array) and not leaf._scalar:
        return Array(leaf.core(), strides=leaf._layout().strides)
    return Array(guard.private(leaf), strides=_strides(leaf)) if isinstance(leaf, np.ndarray) else leaf


def own_arrays(args: Sequence[Any]) -> list[Any]:
    """Arguments whose arrays are copies, which a function may edit. One that is there twice is one; what holds none is the same."""
    copies: dict[int, Any] = {}

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, (Array, np.ndarray)):
            return leaf
        if id(leaf) not in copies:
            copies[id(leaf)] = as_constant(leaf) if isinstance(leaf, Array) else np.array(leaf, order="K", subok=True)
        return copies[id(leaf)]

    out = []
    for arg in args:
        leaves, tree = flatten(arg)
        out.append(unflatten(tree, list(map(own, leaves))) if any(isinstance(leaf, (Array, np.ndarray)) for leaf in leaves) else arg)
    return out


def as_kept(leaf: Any) -> Any:
    """A leaf that the tape refers to as it is: an array of NumPy's that nobody will edit unnoticed."""
    return guard.private(leaf) if isinstance(leaf, np.ndarray) else leaf


def _strides(leaf: Any) -> tuple[int, ...] | None:
    """Where the entries lie in memory decides which reshapes are views; the tape's copy may lie otherwise."""
    return leaf.strides if isinstance(leaf, np.ndarray) else None


def is_floating(c: Any) -> bool:
    return hasattr(c, "dtype") and c.dtype.kind in "fc"


def cores_of(state: Any) -> tuple[Cores, Tree]:
    leaves, tree = flatten(state)
    return tuple(leaf if (c := array_core(leaf)) is None else c for leaf in leaves), tree


Form = tuple[bool, tuple[int, ...] | None]
"""True if a leaf is a number, and the strides of an array."""


def forms_of(state: Any) -> list[Form]:
    """Forms of the leaves of a pytree."""
    return [_form(leaf) for leaf in flatten(state)[0]]


def _form(leaf: Any) -> Form:
    if isinstance(leaf, Array):
        return leaf._scalar, None if leaf._scalar else leaf._layout().strides
    return not isinstance(leaf, np.ndarray), _strides(leaf)


def as_arrays(cores: Cores, forms: Sequence[Form] | None = None) -> list[Any]:
    """Core values as a function gets them. Without their forms a value without axes is a number."""
    if forms is None:
        return [_as_array(c, c.ndim == 0, None) if isinstance(c, (Tracer, np.ndarray, np.inexact)) else c for c in cores]
    return [_as_array(c, *form) if isinstance(c, (Tracer, np.ndarray, np.inexact)) else c for c, form in zip(cores, forms, strict=True)]


def _as_array(value: Any, scalar: bool, strides: tuple[int, ...] | None) -> Any:
    return wrap(value) if scalar and isinstance(value, np.inexact) else Array(value, scalar=scalar, strides=strides)


def public(cores: Sequence[Any], tree: Tree) -> Any:
    """A pytree of results: `Array`s inside a transformation, NumPy's own otherwise."""
    return unflatten(tree, [wrap(c) if hasattr(c, "dtype") else c for c in cores])
