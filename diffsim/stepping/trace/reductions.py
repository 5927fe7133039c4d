"""Numbers that a step computes from all cells of a field: its sum or its largest value.

A number is a field that is constant along all axes, with a value for each step. The transpose of a sum gives every cell the same cotangent.
If cells read a number, its cotangent is a sum. The largest value gives its cotangent to the cells that have it, in equal parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from diffsim.boundary import EvenImage, bound, zero_rules
from diffsim.expr.graph import Graph, Node, Offset
from diffsim.expr.symbol import Symbol
from diffsim.mesh.field import Location, Slim
from diffsim.stepping.ir.names import bar, dot
from diffsim.stepping.ir.program import Assign, Part, Place, Total
from diffsim.stepping.trace.fields import Derive, Stage, Stored
from diffsim.stepping.trace.side_profiles import Inside
from diffsim.stepping.trace.stages import SelfTransposed, StoredExpression, Transposed, placed, read_of, stored_name
from diffsim.stepping.trace.trace import Trace

NUMBER = Slim((), series=True)


def inside(axis: int) -> str:
    """Name of the profile that is 1 in the grid along an axis."""
    return f"inside along axis {axis}"


@dataclass(frozen=True)
class Reduction(SelfTransposed):
    """A stage that computes a number from all cells of a stored field.

    Attributes:
        name: name of the number.
        source: the field.
        location: location of the field.
        how: "sum" or "max".
        output: the number.
    """

    name: str
    source: str
    location: Location
    how: Literal["sum", "max"]
    output: Stored
    movable = False

    @property
    def outputs(self) -> tuple[Stored, ...]:  # type: ignore[override]
        return (self.output,)

    @property
    def _here(self) -> Offset:
        return (0,) * len(self.location)

    def reads(self) -> dict[str, set[Offset]]:
        return {self.source: {self._here}}

    def operation(self, targets: Mapping[str, Place]) -> Total:
        return self._total(self.name, self.source, self.how)

    def _total(self, target: str, source: str, how: Literal["sum", "max"] = "sum") -> Total:
        return Total(target, source, tuple(range(len(self.location))), NUMBER, how)

    def _largest(self, graph: Graph, name: str, ties: str) -> Node:
        """A number's share at each cell that has the largest value; 0 at others."""
        share = graph.div(graph.read(name, self._here), graph.read(ties, self._here))
        return graph.apply("select", self._has_largest(graph), share, graph.const(0))

    def _has_largest(self, graph: Graph) -> Node:
        return graph.apply("eq", graph.read(self.source, self._here), graph.read(self.name, self._here))

    def _ties(self, graph: Graph) -> Node:
        """1 at each cell that has the largest value."""
        return graph.apply("select", self._has_largest(graph), graph.const(1), graph.const(0))

    def tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        if self.how == "sum":
            return [self._like(dot(self.name, order), dot(self.source, order))]
        counted, ties, shares = (f"{what} of {dot(self.name, order)}" for what in ("largest cells", "ties", "shares"))
        return [
            self._stored(counted, self._ties(graph)),
            self._like(ties, counted),
            self._stored(shares, self._largest(graph, dot(self.source, order), ties)),
            self._like(dot(self.name, order), shares),
        ]

    def _like(self, name: str, source: str) -> Reduction:
        """A sum stage."""
        return Reduction(name, source, self.location, "sum", replace(self.output, name=name))

    def _stored(self, name: str, node: Node) -> StoredExpression:
        return StoredExpression(self.location, zero_rules(len(self.location)), name, node)

    def transposed(self, graph: Graph, wanted: Callable[[str], bool]) -> Transposed:
        if not wanted(self.source):
            return Transposed({}, {})
        if self.how == "sum":
            return Transposed({}, {self.source: {self._here: self._inside(graph, graph.read(bar(self.name), self._here))}})
        counted, ties = f"largest cells of {bar(self.name)}", f"ties of {bar(self.name)}"
        parts: dict[str, Part] = {counted: Assign(Place(counted), self._ties(graph), zero_rules(len(self.location)))}
        parts[ties] = self._total(ties, counted)
        return Transposed(parts, {self.source: {self._here: self._inside(graph, self._largest(graph, bar(self.name), ties))}})

    def _inside(self, graph: Graph, node: Node) -> Node:
        """An expression in the grid, and 0 outside. Cotangents of fields are zero there, but this is the cotangent of a number."""
        for axis in range(len(self.location)):
            node = graph.mul(graph.read(inside(axis), self._here), node)
        return node

    def identity(self) -> str:
        return repr((super().identity(), self.source, self.how))


def reduce(graph: Trace, value: Symbol, how: Literal["sum", "mean", "max"]) -> Symbol:
    """A number computed from all cells of an expression."""
    grid = graph.grid
    if how == "mean":
        return reduce(graph, value, "sum") * (1 / math.prod(grid.shape))
    source, location = stored_name(value, graph), placed(value)
    same = (s.output for s in graph.stages if isinstance(s, Reduction) and (s.source, s.how) == (source, how))
    output = next(same, None)
    if output is None:
        output = Stored(location, bound(EvenImage(), location, grid.cell_sizes), f"{how} {next(graph.count)}", axes=())
        graph.profiles |= {inside(axis): Inside(axis, np.ones(n)) for axis, n in enumerate(grid.shape)}
        graph.store(Reduction(output.name, source, location, how, output))
    return read_of(value, output)
