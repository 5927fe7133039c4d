"""Vectors and tensors by their own names, in inputs and in results.

A vector `x` of an equation is made of fields such as `x_0` and `x_1`, which are inputs and states. An array for `x` has its components
along its first axis, and is taken apart when a run begins. A result that has the fields puts them together when `x` is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from diffsim.ad.arrays.array import Array as DifferentiatedArray
from diffsim.errors import ShapeError
from diffsim.numpy import stack
from diffsim.stepping.declare.equation import Equation
from diffsim.typing import Array

FEW = 6
"""Components that a message names."""


@dataclass(frozen=True)
class Groups:
    """The vectors and tensors of an equation.

    Attributes:
        parts: the names of the components of each, by its own name.
        axis: that of the components, in arrays of a whole vector: 0, or 1 behind an axis of runs.
        stack: the function of another package that puts its arrays together along an axis; None: they are NumPy's or diffsim's.
    """

    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    axis: int = 0
    stack: Callable[[Sequence[Any], int], Any] | None = None

    @classmethod
    def of(cls, equation: Equation, fields: Collection[str]) -> Groups:
        """Those whose components are among `fields`, and which have none of these names themselves."""
        return cls({name: parts for name, parts in equation.component_names.items() if name not in fields and {*parts} <= {*fields}})

    def names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names, with those of the components in place of a vector's."""
        return tuple(dict.fromkeys(part for name in names for part in self.parts.get(name, (name,))))

    def each(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Values by name, where all components have that of their vector."""
        if self.parts.keys().isdisjoint(values):
            return values
        return {part: value for name, value in values.items() for part in self.parts.get(name, (name,))}

    def shared(self, what: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Values by name, where all components have the number of their vector, or each its entry of an array."""
        numbers = {name for name, value in values.items() if name in self.parts and np.ndim(value) == 0}
        alike = self.each({name: value for name, value in values.items() if name in numbers})
        return {**alike, **self.apart(what, {name: value for name, value in values.items() if name not in numbers})}

    def apart(self, what: str, values: Mapping[str, Any], cells: Mapping[str, int] | None = None) -> Mapping[str, Any]:
        """Values by name, with the components in place of each vector.

        Args:
            what: values these are, for messages.
            values: arrays, or sequences with an entry for each component.
            cells: axes that a component has without runs, by its name. Values with two more have runs along their first one.

        Raises:
            ShapeError: a vector has another number of components, or a component stands beside its vector.
        """
        if self.parts.keys().isdisjoint(values):
            return values
        split = {name: value for name, value in values.items() if name not in self.parts}
        for name in filter(self.parts.__contains__, values):
            parts, value = self.parts[name], values[name]
            runs = self.axis == 1 if cells is None else _axes(value) == cells[parts[0]] + 2
            if runs and not hasattr(value, "shape"):
                value = stack(value)
            count = _length(value, int(runs))
            if count != len(parts):
                got = "a function" if callable(value) else "one value" if count is None else f"{count} rows"
                where = "second axis, behind that of the runs" if runs else "first axis"
                raise ShapeError(
                    f"{what} {name} has {got}, expected {len(parts)}, for its components {few(parts)}; give an array with these along its "
                    f"{where}"
                )
            if both := [part for part in parts if part in split]:
                raise ShapeError(f"{what} {name} stands beside its component {both[0]}, expected one of the two; leave the other out")
            split |= {part: value[:, k] if runs else value[k] for k, part in enumerate(parts)}
        return split

    def together(self, values: Mapping[str, Any], name: str) -> Any:
        """The components of a vector as one array; None if there is no such vector, or not all of its components.

        Raises:
            ShapeError: components have different shapes.
        """
        parts = self.parts.get(name, ()) if isinstance(name, str) else ()
        if not parts or not values.keys() >= {*parts}:
            return None
        arrays = [values[part] for part in parts]
        if len({tuple(array.shape) for array in arrays}) > 1:
            shapes = ", ".join(f"{part} {tuple(array.shape)}" for part, array in zip(parts, arrays, strict=True))
            raise ShapeError(f"{name} was read, expected components of one shape, got {shapes}; read each of these by its own name")
        if self.stack is not None:
            return self.stack(arrays, self.axis)
        differentiated = any(isinstance(array, DifferentiatedArray) for array in arrays)
        return stack(arrays, self.axis) if differentiated else np.stack(arrays, self.axis)


def _axes(value: Any) -> int:
    """The axes of an array, or of the arrays in a sequence and one more."""
    if isinstance(value, (list, tuple)):
        return 1 + max(map(_axes, value), default=0)
    return len(getattr(value, "shape", ()))


def _length(value: Any, axis: int) -> int | None:
    """The entries of an array, or of a sequence, along an axis; None if it has none."""
    if isinstance(value, (list, tuple)):
        return len(value)
    shape = getattr(value, "shape", ())
    return int(shape[axis]) if len(shape) > axis else None


NO_GROUPS = Groups()


class Gradient(dict[str, Array]):
    """Cotangents of inputs by name; that of a vector is an array of those of its components.

    Args:
        values: the cotangents.
        groups: the vectors.
        of_runs: inputs whose cotangents have an axis of runs before the others.
    """

    def __init__(self, values: Mapping[str, Array], groups: Groups, of_runs: Collection[str] = ()) -> None:
        super().__init__(values)
        self.groups, self.of_runs = groups, of_runs

    def __missing__(self, name: str) -> Array:
        behind = {*self.groups.parts.get(name, ())} & {*self.of_runs}
        groups = replace(self.groups, axis=1) if behind else self.groups
        value: Array | None = groups.together(self, name)
        if value is None:
            raise KeyError(name)
        return value


def listed(names: Iterable[str], parts: Mapping[str, tuple[str, ...]]) -> str:
    """Names for a message: of a vector with many components, the first and the last."""
    names, long = [*names], {one: group for group in parts.values() if len(group) > FEW for one in group}
    return ", ".join(dict.fromkeys(few(long[name]) if name in long and {*long[name]} <= {*names} else name for name in names))


def few(names: tuple[str, ...]) -> str:
    """Names, of many the first and the last."""
    return ", ".join(names) if len(names) <= FEW else f"{names[0]}, {names[1]} ... {names[-1]}"
