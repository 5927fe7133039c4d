"""Shorter expressions for loop nests in the interior of the grid.

In the interior, profiles of absorbing layers are constant, no cell is an outermost one, and states of a region do not exist. With these
constants inserted, expressions become shorter: a wave is not damped outside of the layer. No bit of a finite
number changes, except that -0 may become 0.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from diffsim.boundary import extend
from diffsim.expr.graph import Graph, Node, Offset
from diffsim.stepping.ir.program import Box, Interior, Loop, Nest, Operation, Program
from diffsim.stepping.passes.sharing import cost
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.trace import TracedStep, profile_array
from diffsim.typing import Array

WORTH = 0.85
"""The interior gets its own expressions if they need less than this part of the operations."""
LEAST = 0.25
"""The smallest part of the cells that counts as an interior."""


def with_interiors(program: Program, step: TracedStep, regional: Mapping[str, Placed], dtype: np.dtype) -> Program:
    """Add interiors to the nests of a program.

    Args:
        program: program of the step or of its derivative.
        step: the step.
        regional: arrays of states that exist only in a region, and of their cotangents.
        dtype: type of all fields.
    """
    found = _Interiors(program, step, regional, dtype)
    operations = found.of(program.operations)
    return dataclasses.replace(program, operations=operations, inline=program.inline | found.inline)


class _Interiors:
    """Finds the interiors of nests. `inline` has the new expressions of fields that are not stored."""

    def __init__(self, program: Program, step: TracedStep, regional: Mapping[str, Placed], dtype: np.dtype) -> None:
        self.program, self.step, self.regional, self.dtype = program, step, regional, dtype
        self.graph: Graph = step.graph
        self.inline: dict[str, Node] = {}

    def of(self, operations: Sequence[Operation]) -> tuple[Operation, ...]:
        found: list[Operation] = []
        for operation in operations:
            if isinstance(operation, Loop):
                operation = dataclasses.replace(operation, operations=self.of(operation.operations))
            elif isinstance(operation, Nest) and operation.assigns:
                operation = dataclasses.replace(operation, interior=self._interior(operation))
            found.append(operation)
        return tuple(found)

    def _interior(self, nest: Nest) -> Interior | None:
        """The interior of a nest, or None if it does not pay."""
        shape, zero = self.step.grid.shape, (0,) * self.step.grid.ndim
        box: Box = tuple((0, n) for n in shape)
        values: dict[str, float] = {}
        for name, offsets in self.program.reads([assign.node for assign in nest.assigns]).items():
            found = self._calm(name, offsets)
            if found is not None:
                value, where = found
                values[name], box = value, _meet(box, where)
        targets = {assign.target.array for assign in nest.assigns} & self.regional.keys()
        without = {array: self._without(self.regional[array], {zero}) for array in targets}
        none = {array for array, where in without.items() if self._large(where)}
        for array in none:
            box = _meet(box, without[array])
        if not (values or none) or not self._large(box):
            return None
        before = [assign.node for assign in nest.assigns]
        assigns = tuple(
            dataclasses.replace(assign, node=self._replaced(assign.node, values), fold=(), outside=())
            for assign in nest.assigns
            if assign.target.array not in none
        )
        if cost(assign.node for assign in assigns) >= WORTH * cost(before):
            return None
        return Interior(Nest(assigns), box)

    def _calm(self, name: str, offsets: set[Offset]) -> tuple[float, Box] | None:
        """The value of a field in most cells, and the cells whose reads at these offsets give it; None if there is no such value."""
        if name in self.step.profiles:
            profile = self.step.profiles[name]
            axis, n = profile.axis, self.step.grid.shape[profile.axis]
            reach = max(abs(offset[axis]) for offset in offsets)
            halo = tuple(reach if each == axis else 0 for each in range(self.step.grid.ndim))
            values = profile_array(profile, self.step.grid, halo, self.dtype)
            begin, end = _longest(np.diff(values, prepend=np.nan) == 0)
            begin = max(0, begin - 1)  # the first of equal values differs from the one before
            where = _shrunk((begin - reach, end - reach), [offset[axis] for offset in offsets], n)
            if 2 * (where[1] - where[0]) < n:
                return None
            return float(values[begin]), tuple(where if each == axis else (0, m) for each, m in enumerate(self.step.grid.shape))
        array = self.program.places[name].array if name in self.program.places else ""
        if array in self.regional:
            where_not = self._without(self.regional[array], offsets)
            return (0.0, where_not) if self._large(where_not) else None
        return None

    def _large(self, box: Box) -> bool:
        """Whether a box has cells enough for an interior. A state without one, such as waves below a topography, is left as it is."""
        return math.prod(max(0, end - begin) for begin, end in box) >= LEAST * math.prod(self.step.grid.shape)

    def _without(self, placed: Placed, offsets: set[Offset]) -> Box:
        """A box of cells that do not read a region at these offsets. It spans the grid along all axes but one."""
        assert placed.region is not None
        shape = self.step.grid.shape
        reach = tuple(max(abs(offset[axis]) for offset in offsets) for axis in range(len(shape)))
        weights: Array = np.zeros([n + 2 * far for n, far in zip(shape, reach, strict=True)])
        cells = tuple(slice(far, far + n) for n, far in zip(shape, reach, strict=True))
        weights[cells] = np.where(placed.region.inside, np.random.default_rng(0).uniform(1, 2, shape), 0)
        extend(weights, reach, placed.rules)
        runs = []
        for axis, n in enumerate(shape):
            others = tuple(each for each in range(len(shape)) if each != axis)
            begin, end = _longest(~(weights != 0).any(axis=others))
            runs.append(_shrunk((begin - reach[axis], end - reach[axis]), [offset[axis] for offset in offsets], n))
        best = max(range(len(shape)), key=lambda axis: (runs[axis][1] - runs[axis][0]) / shape[axis])
        return tuple(runs[axis] if axis == best else (0, n) for axis, n in enumerate(shape))

    def _replaced(self, root: Node, values: Mapping[str, float]) -> Node:
        """An expression with these values in place of fields."""
        apply = functools.partial(self.graph.apply_exactly, dtype=self.dtype)
        (found,) = self.graph.replace([root], lambda read: self._value(read, values), apply=apply)
        return found

    def _value(self, read: Node, values: Mapping[str, float]) -> Node:
        name, offset = read.data
        if name in values:
            return self.graph.const(values[name])
        if name not in self.program.inline:
            return read
        plain = self.program.inline[name]
        node = self._replaced(plain, values)
        if node is plain:
            return read
        if node.op in ("const", "read"):
            return self.graph.shift(node, offset)
        key = f"{name} inside {node.id}"
        self.inline[key] = node
        return self.graph.read(key, offset)


def _longest(flags: np.ndarray) -> tuple[int, int]:
    """Begin and end of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    if not len(edges):
        return 0, 0
    begins, ends = edges[::2], edges[1::2]
    best = int(np.argmax(ends - begins))
    return int(begins[best]), int(ends[best])


def _shrunk(run: tuple[int, int], offsets: Sequence[int], n: int) -> tuple[int, int]:
    """Cells of an axis whose reads at all offsets lie in a run."""
    begin, end = max(0, run[0] - min(offsets)), min(n, run[1] - max(offsets))
    return begin, max(begin, end)


def _meet(one: Box, other: Box) -> Box:
    """The intersection of two boxes."""
    return tuple((max(a, c), max(max(a, c), min(b, d))) for (a, b), (c, d) in zip(one, other, strict=True))
