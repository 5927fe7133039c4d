"""The parts of a traced step: fields with a location on the cell, and stages that compute stored fields."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from diffsim.boundary import Rules
from diffsim.expr.graph import Graph, Node, Offset
from diffsim.mesh.field import Location, Region
from diffsim.stepping.ir.program import Part, Place
from diffsim.typing import Array

Derive = Callable[[list[Node]], list[Node]]
"""Returns the tangents of expressions."""


@dataclass(frozen=True)
class Placed:
    """A traced field: its location, its boundary rules, and the cells in which it exists."""

    location: Location
    rules: Rules
    region: Region | None = field(default=None, kw_only=True)
    axes: tuple[int, ...] | None = field(default=None, kw_only=True)  # axes along which it varies; None: all

    @functools.cached_property
    def constant(self) -> tuple[int, ...]:
        """Axes along which it is constant."""
        return () if self.axes is None else tuple(axis for axis in range(len(self.location)) if axis not in self.axes)

    def over_cells(self, values: Array, shape: tuple[int, ...]) -> Array:
        """Expand values along its axes to all cells of a grid."""
        if self.axes is None:
            return values
        if not self.axes:  # one number: np.broadcast_to takes ten times as long
            one: Array = np.ndarray(shape, values.dtype, values, strides=(0,) * len(shape))
            one.flags.writeable = False
            return one
        return np.broadcast_to(np.expand_dims(values, self.constant), shape)

    def of_cells(self, cells: Array) -> Array:
        """Values along its axes: a view of the first cells along the other axes."""
        if self.axes is None:
            return cells
        first = cells[tuple(slice(0, 1 if axis in self.constant else None) for axis in range(len(self.location)))]
        return first.squeeze(self.constant)

    def summed(self, bars: Array) -> Array:
        """Cotangents of values along its axes, summed from those at each cell."""
        return bars if self.axes is None else np.asarray(np.add.reduce(bars, axis=self.constant))

    @property
    def where(self) -> tuple[int | None, ...]:
        """Its location in expressions; None along an axis where it is constant, which fits any location."""
        return tuple(place if self.axes is None or axis in self.axes else None for axis, place in enumerate(self.location))


@dataclass(frozen=True)
class Stored(Placed):
    """A stored intermediate field, or a number."""

    name: str


class Stage(ABC):
    """A part of a step that computes stored fields.

    Attributes:
        name: name of the stage.
        outputs: the fields that it writes.
        movable: whether a program may choose their storage, such as the next level of a state.
        moves: whether the results of a step have a derivative with respect to its own. Else it has no cotangent.
    """

    name: str
    outputs: tuple[Stored, ...]
    movable: ClassVar[bool] = True
    moves: ClassVar[bool] = True

    @abstractmethod
    def reads(self) -> dict[str, set[Offset]]:
        """The fields that it reads, with the offsets."""

    @abstractmethod
    def operation(self, targets: Mapping[str, Place]) -> Part:
        """The part of a program that computes it. `targets` has the place of each output."""

    @abstractmethod
    def tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        """The stages that compute the tangents of its outputs."""

    def with_tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        """The stages that compute its outputs and their tangents."""
        return [self, *self.tangents(graph, order, derive)]

    def roots(self) -> list[Node]:
        """Its expressions."""
        return []

    def identity(self) -> str:
        """A text that, with its expressions, identifies it."""
        return repr((self.name, self.outputs))
