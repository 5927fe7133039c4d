"""The form of a call: pytrees, shapes and types of its arguments, and the values of all that is no array or number of a real type."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from diffsim.ad.arrays import guard
from diffsim.ad.arrays.guard import constant
from diffsim.ad.arrays.leaves import as_input
from diffsim.ad.core import UnrecordableError
from diffsim.ad.recorded.program import Source
from diffsim.ad.recorded.recording import Recording, Register
from diffsim.ad.tree import LEAF, Tree, _Template, flatten, unflatten

CONSTANTS = (int, str, bytes, bool, type(None), np.bool_, np.integer)


def is_input(leaf: Any) -> bool:
    """True if a replay may have another value in place of this one."""
    return isinstance(leaf, (float, complex)) or (isinstance(leaf, (np.ndarray, np.inexact)) and leaf.dtype.kind in "fc")


class Form:
    """The form of a call.

    Args:
        args: its arguments by position.
        kwargs: its arguments by name.

    Attributes:
        callables: arguments that are functions, or objects of diffsim.
        kinds: classes of the user's of its pytrees.
        parts: what a replay cannot change, as a word and a value, by its place: the keys that lead from (args, kwargs) to it.

    Raises:
        UnrecordableError: a part of an argument may change unseen.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, self._tree = flatten((args, kwargs))
        source = Source()
        self._inputs: list[str] = []
        self.callables: list[Any] = []
        self.kinds: list[type] = []
        self.parts: dict[tuple[Any, ...], tuple[str, Any]] = {}
        conditions = ["type(kwargs) is dict"]
        self._walk(self._tree, "(args, kwargs)", iter(leaves), conditions, source, ())
        tests = " and ".join(conditions)
        source.lines.append(f"return ({''.join(f'{each}, ' for each in self._inputs)}) if {tests} else None")
        self.values: Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...] | None] = source.function("def values(args, kwargs):")
        """From arguments of this form to the inputs of a replay; from others to None."""

    def _walk(self, tree: Tree, at: str, leaves: Any, conditions: list[str], source: Source, place: tuple[Any, ...]) -> None:
        name = source.name
        if tree.kind is None:
            leaf = next(leaves)
            self._leaf(leaf, at, conditions, source)
            self.parts[place] = _static(leaf)
        elif tree.kind is type(None):
            conditions.append(f"{at} is None")
        elif at == "(args, kwargs)":
            self._walk(tree.children[0], "args", leaves, conditions, source, (0,))
            self._walk(tree.children[1], "kwargs", leaves, conditions, source, (1,))
        elif tree.kind in (tuple, list, dict):
            short = f"t{len(conditions)}"
            conditions.append(f"type({short} := {at}) is {name(tree.kind)} and len({short}) == {len(tree.children)}")
            if tree.kind is dict and tree.data:
                conditions.append(f"tuple({short}) == {name(tree.data)}")
            keys = tree.data if tree.kind is dict else range(len(tree.children))
            for key, child in zip(keys, tree.children, strict=True):
                self._walk(child, f"{short}[{name(key)}]", leaves, conditions, source, (*place, key))
        else:
            if not _is_fixed(tree.data):
                raise UnrecordableError(
                    f"an argument of type {tree.kind.__name__} has parts that may change unseen; register it with ds.register_pytree, with "
                    "numbers, texts and tuples of them as data"
                )
            self.kinds.append(tree.kind)
            short = f"t{len(conditions)}"
            conditions.append(f"({short} := {name(_children_like)}({at}, {name(tree)})) is not None")
            for k, child in enumerate(tree.children):
                self._walk(child, f"{short}[{k}]", leaves, conditions, source, (*place, k))

    def _leaf(self, leaf: Any, at: str, conditions: list[str], source: Source) -> None:
        name, short = source.name, f"x{len(conditions)}"
        kind = f"type({short} := {at}) is {name(type(leaf))}"
        if is_input(leaf):
            conditions.append(kind)
            converted = {float: np.float64, complex: np.complex128}.get(type(leaf))
            self._inputs.append(short if converted is None else f"{name(converted)}({short})")
            if isinstance(leaf, np.ndarray):
                same = f"{short}.shape == {leaf.shape} and {short}.strides == {leaf.strides} and {short}.dtype == {name(leaf.dtype)}"
                conditions.append(same)
        elif isinstance(leaf, CONSTANTS):
            conditions.append(f"{kind} and {short} == {name(leaf)}")
        elif isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject:
            conditions.append(f"{kind} and {name(_same_entries)}({short}, {name(leaf.copy())})")
        elif callable(leaf) or isinstance(leaf, np.dtype) or type(leaf).__module__.partition(".")[0] == "diffsim":
            self.callables.append(leaf)
            conditions.append(f"({short} := {at}) is {name(leaf)}")
        else:
            kind = type(leaf).__name__
            raise UnrecordableError(f"an argument is of type {kind}, whose parts are not seen; register it with ds.register_pytree")

    def difference(self, other: Form) -> tuple[tuple[Any, ...], str] | None:
        """The place of the first part that another form has otherwise, and what differs there; None: nothing does."""
        if self.parts.keys() != other.parts.keys() or self._tree != other._tree:
            return (), "structure"
        for place, (kind, value) in self.parts.items():
            if (kind, value) != other.parts[place]:
                return place, kind
        return None

    def recorded(self, recording: Recording, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any], list[Register]]:
        """Arguments with these leaves as values of a recording, and their registers."""
        arguments, registers = [], []
        for leaf in leaves:
            if is_input(leaf):
                tracer = recording.input(as_core(leaf))
                registers.append(tracer.register)
                arguments.append(as_input(leaf, tracer))
            elif isinstance(leaf, np.ndarray):
                arguments.append(constant(leaf))
            else:
                arguments.append(leaf)
        args, kwargs = unflatten(self._tree, arguments)
        return args, kwargs, registers


def _static(leaf: Any) -> tuple[str, Any]:
    """The part of a leaf that belongs to the form: a word for it, and a value that can be compared."""
    if isinstance(leaf, np.ndarray):
        layout = leaf.shape, leaf.strides, leaf.dtype
        return ("shape, type or strides", layout) if is_input(leaf) else (f"array of {leaf.dtype.name}", (layout, leaf.tobytes()))
    if is_input(leaf):
        return "type", type(leaf)
    kind = type(leaf).__name__
    return (kind, (type(leaf), leaf)) if isinstance(leaf, CONSTANTS) else (f"object ({kind})", id(leaf))


def as_core(leaf: Any) -> Any:
    """An input as a core value."""
    if isinstance(leaf, np.ndarray):
        guard.require_plain(leaf)
    return np.float64(leaf) if type(leaf) is float else np.complex128(leaf) if type(leaf) is complex else leaf


def _children_like(value: Any, tree: Tree) -> Any:
    """The children of a node of a pytree of this kind; None for one of another."""
    if type(value) is not tree.kind:
        return None
    leaves, shape = flatten(value)
    if len(shape.children) != len(tree.children) or shape.data != tree.data or not _is_fixed(shape.data):
        return None
    parts, at = [], 0
    for child in shape.children:
        count = _leaves_in(child)
        parts.append(unflatten(child, leaves[at : at + count]))
        at += count
    return parts


def _is_fixed(data: Any) -> bool:
    """True if what identifies a pytree beside its children is compared by value, and cannot change in place."""
    if isinstance(data, _Template):
        own = getattr(data.value, "__dict__", {})
        return type(data.value) is OrderedDict if isinstance(data.value, dict) else set(own) <= set(data.names)
    if type(data) is tuple:
        return all(map(_is_fixed, data))
    return isinstance(data, (*CONSTANTS, float, complex, type)) and type(data).__module__ in ("builtins", "numpy")


def _leaves_in(tree: Tree) -> int:
    return 1 if tree is LEAF else sum(map(_leaves_in, tree.children))


def _same_entries(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.strides == b.strides and a.tobytes() == b.tobytes()
