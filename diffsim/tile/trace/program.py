"""A tile program: the operations of a function on the arrays of one tile, in the order in which it does them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from diffsim.ad.core import Primitive


class Variable:
    """A value of a tile program: an argument, or a result of an operation."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


CHECKED = frozenset(("within", "solve", "inv", "cholesky", "repeat", "checked"))
"""Operations whose kernel checks values, and names the line where they are wrong."""

Operand = Any
"""A variable, or a constant: a number, or a NumPy array."""


@dataclass(frozen=True, eq=False)
class Operation:
    """An operation of a tile program.

    Attributes:
        primitive: of the reverse-mode layer, or of `diffsim.tile.trace.loops`.
        operands: its operands.
        params: its parameters; an index, axes, a shape.
        results: one variable, or several if the primitive gives several.
        place: file and line of the user's program that does it, for messages.
        inner: its program, for a function with a derivative rule of its own.
    """

    primitive: Primitive
    operands: tuple[Operand, ...]
    params: dict[str, Any]
    results: tuple[Variable, ...]
    place: str = ""
    inner: Program | None = None


@dataclass(frozen=True, eq=False)
class Program:
    """Operations from arguments to results.

    Attributes:
        arguments: variables.
        operations: in order, without those whose results nothing needs.
        results: variables, or constants.
    """

    arguments: tuple[Variable, ...]
    operations: tuple[Operation, ...]
    results: tuple[Operand, ...]

    @cached_property
    def signature(self) -> Hashable:
        """Equal for programs that do the same with the same constants, and check values at the same lines."""
        names: dict[Variable, int] = {a: k for k, a in enumerate(self.arguments)}
        described = []
        for operation in self.operations:
            operands = tuple(_described(o, names) for o in operation.operands)
            for result in operation.results:
                names[result] = len(names)
            kinds = tuple((r.shape, r.dtype.str) for r in operation.results)
            inner = None if operation.inner is None else operation.inner.signature
            place = operation.place if operation.primitive.name in CHECKED else ""
            described.append((operation.primitive.name, operands, frozen(operation.params), kinds, inner, place))
        arguments = tuple((a.shape, a.dtype.str) for a in self.arguments)
        return arguments, tuple(described), tuple(_described(r, names) for r in self.results)

    @cached_property
    def size(self) -> int:
        """How many operations are written out, those of loops once."""
        bodies = [o.inner if o.inner is not None else o.params.get("body") for o in self.operations]
        return len(self.operations) + sum(body.size for body in bodies if isinstance(body, Program))

    @cached_property
    def has_own_rules(self) -> bool:
        """True if it calls functions with derivative rules of their own, which the signature does not tell apart."""
        bodies = [o.params.get("body") for o in self.operations]
        return any(o.inner is not None for o in self.operations) or any(b.has_own_rules for b in bodies if isinstance(b, Program))


def _described(operand: Operand, names: dict[Variable, int]) -> Hashable:
    return ("variable", names[operand]) if isinstance(operand, Variable) else frozen(operand)


def frozen(x: Any) -> Hashable:
    """Something hashable that is equal for equal parameters."""
    if isinstance(x, Program):
        return ("program", x.signature)
    if isinstance(x, np.ndarray):
        return ("array", x.shape, x.dtype.str, x.tobytes())
    if isinstance(x, dict):
        return ("dict", *((k, frozen(v)) for k, v in sorted(x.items())))
    if isinstance(x, (tuple, list)):
        return ("tuple", *map(frozen, x))
    if isinstance(x, slice):
        return ("slice", x.start, x.stop, x.step)
    return (type(x).__name__, str(x) if isinstance(x, (float, np.floating)) else x)


def pruned(arguments: Sequence[Variable], operations: Sequence[Operation], results: Sequence[Operand]) -> Program:
    """A program without the operations whose results nothing needs; equal operations on equal operands are one."""
    renamed: dict[Variable, Variable] = {}
    known: dict[Hashable, tuple[Variable, ...]] = {}
    merged = []
    for operation in operations:
        operands = tuple(renamed.get(o, o) if isinstance(o, Variable) else o for o in operation.operands)
        key = (
            operation.primitive.name,
            tuple(("variable", id(o)) if isinstance(o, Variable) else frozen(o) for o in operands),
            frozen(operation.params),
            None if operation.inner is None else (operation.primitive.evaluate, operation.inner.signature),
        )
        same = known.get(key)
        if same is not None:
            renamed.update(zip(operation.results, same, strict=True))
            continue
        known[key] = operation.results
        merged.append(replace(operation, operands=operands))
    ends = tuple(renamed.get(r, r) if isinstance(r, Variable) else r for r in results)
    needed = {r for r in ends if isinstance(r, Variable)}
    kept = []
    for operation in reversed(merged):
        if needed.intersection(operation.results):
            needed.update(o for o in operation.operands if isinstance(o, Variable))
            kept.append(operation)
    return Program(tuple(arguments), tuple(reversed(kept)), ends)
