"""Stages of a step: intermediate fields that are stored before the step continues.

A stage is an expression, which a kernel evaluates, or a function of whole arrays on the host, such as an array program or a solver.
A stage provides its inputs, its outputs, its operation and its tangent to programs. A host stage also provides its transpose to the
adjoint.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, overload

from diffsim.boundary import Boundary, linear, on_low_side, zero_rules
from diffsim.errors import TraceError
from diffsim.expr.components import Components
from diffsim.expr.derive import CHOSEN, Singular, varies
from diffsim.expr.graph import Graph, Node, Offset, reads
from diffsim.expr.symbol import Symbol
from diffsim.mesh.field import Location
from diffsim.stepping.ir.names import bar, dot, primal
from diffsim.stepping.ir.program import Assign, HostCall, HostFunction, Part, Place, Written
from diffsim.stepping.trace.fields import Derive, Stage, Stored
from diffsim.stepping.trace.trace import CLOCK, Trace, check_location


@dataclass(frozen=True)
class StoredExpression(Stage, Stored):
    """A field whose value is an expression."""

    node: Node

    @property
    def outputs(self) -> tuple[Stored, ...]:  # type: ignore[override]
        return (Stored(self.location, self.rules, self.name),)

    @cached_property
    def moves(self) -> bool:  # type: ignore[override]
        return varies(self.node)

    def reads(self) -> dict[str, set[Offset]]:
        return reads([self.node])

    def operation(self, targets: Mapping[str, Place]) -> Assign:
        return Assign(targets[self.name], self.node, self.rules)

    def tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        (node,) = derive([self.node])
        return [StoredExpression(self.location, linear(self.rules), dot(self.name, order), node)]

    def roots(self) -> list[Node]:
        return [self.node]


@dataclass(frozen=True)
class Transposed:
    """The transpose of a stage: from cotangents of its outputs to those of its inputs.

    Attributes:
        parts: parts that compute more fields from the cotangents: a host call under any name, others under the name of their field.
        terms: field -> offset -> contribution of a cell that reads the field there. `diffsim.stepping.derive.reverse` sums them.
    """

    parts: dict[str, Part]
    terms: dict[str, dict[Offset, Node]]


class SelfTransposed(Stage):
    """A stage that is no expression, and provides its own transpose."""

    @abstractmethod
    def transposed(self, graph: Graph, wanted: Callable[[str], bool]) -> Transposed:
        """Its transpose. `wanted` tests whether the cotangent of a field is needed."""


class HostStage(SelfTransposed):
    """A stage that a host function computes. It reads the cells of fields, not their halos.

    Attributes:
        inputs: the argument fields of the function.
    """

    inputs: tuple[str, ...]

    def reads(self) -> dict[str, set[Offset]]:
        here = (0,) * len(self.outputs[0].location)
        return {name: {here} for name in self.inputs}


class ArrayFunction(HostFunction, Protocol):
    """A function of arrays that can be differentiated."""

    def tangent(self) -> ArrayFunction:
        """The function from (arguments, their tangents) to the tangents of the values."""

    def transpose(self, wanted: Sequence[int]) -> HostFunction:
        """The function from (arguments, cotangents of the values) to the cotangents of the arguments with the numbers `wanted`."""


@dataclass(frozen=True)
class ArrayStage(HostStage):
    """A host stage that runs an array program."""

    name: str
    function: ArrayFunction
    inputs: tuple[str, ...]
    outputs: tuple[Stored, ...]

    def operation(self, targets: Mapping[str, Place]) -> HostCall:
        return HostCall(self.function, self.inputs, tuple(Written(o.name, targets[o.name], o.rules) for o in self.outputs))

    def tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        both = (*self.inputs, *(dot(name, order) for name in self.inputs))
        outputs = tuple(replace(o, name=dot(o.name, order), rules=linear(o.rules)) for o in self.outputs)
        return [ArrayStage(dot(self.name, order), self.function.tangent(), both, outputs)]

    def transposed(self, graph: Graph, wanted: Callable[[str], bool]) -> Transposed:
        here = (0,) * len(self.outputs[0].location)
        chosen = [number for number, name in enumerate(self.inputs) if wanted(name)]
        sources = {f"{self.name} gives in {number}": self.inputs[number] for number in chosen}
        written = tuple(Written(name, Place(name), zero_rules(len(here))) for name in sources)
        terms: dict[str, dict[Offset, Node]] = {}
        for name, field in sources.items():
            before = terms.get(field, {}).get(here, graph.const(0))
            terms[field] = {here: graph.add(before, graph.read(name, here))}
        inputs = (*self.inputs, *(bar(o.name) for o in self.outputs))
        return Transposed({f"transpose of {self.name}": HostCall(self.function.transpose(chosen), inputs, written)}, terms)

    def identity(self) -> str:
        return repr((super().identity(), self.inputs, self.function.identity()))


@overload
def stage(value: Symbol, boundary: Boundary | Symbol | None = None) -> Symbol: ...
@overload
def stage(value: Components, boundary: Boundary | Symbol | Components | None = None) -> Components: ...
def stage(value: Symbol | Components, boundary: Boundary | Symbol | Components | None = None) -> Symbol | Components:
    """Store an intermediate field of a step, so that neighbours read it instead of computing it again.

    A stage also sets the values of an *intermediate* outside the grid. An expression that is not stored is extended
    by extending the fields that it reads.

    Args:
        value: the expression, or a vector or a tensor, each component of which is stored.
        boundary: values of the stored field outside the grid, see `Variable`, or a field of the step whose rules are used; of a group, the
            group that it stands for. None: the rules of the states and stages that it reads, if these are all "zero", "periodic" or, at the
            same location, "mirror".

    Raises:
        TraceError: it is called outside of a step, for a condition, with an expression that is not stored as boundary, or without a
            boundary when the fields that it reads have different ones.

    Returns:
        The stored field, as an expression of the step.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian

        class Film(ds.Equation):
            # A thin film under surface tension, hₜ = -∇⁴h: the curvature is stored, and its Laplacian reads it.

            states = {"h": ds.Variable("mirror", unit="m")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, h):
                curvature = ds.stage(laplacian(h), boundary="mirror")
                return {"h": h - self.dt * laplacian(curvature)}

        h = 1.0 + 0.1 * np.random.default_rng(1).random((20, 20))
        flat = ds.Simulation(Film(ds.Grid((20, 20), spacing=1.0), dt=0.02), precision="f64").run({"h": h}, steps=50).final["h"]
        assert flat.std() < 0.5 * h.std() and np.isclose(flat.sum(), h.sum())
    """
    if isinstance(value, Components):
        whose = boundary if isinstance(boundary, Components) else None
        value = value if whose is None else value.over(whose.layout.axes)
        return value.each(lambda *index: stage(value[index], boundary if whose is None else whose[index]))  # type: ignore[arg-type]
    if isinstance(boundary, Components):
        raise TraceError("stage() of one field with a vector or a tensor as boundary, expected a field; give the component, as in v['x']")
    graph = trace_of(value, "stage()")
    value.expect(False, "stage()")
    location = placed(value)
    rules = graph.inherited(value, location) if boundary is None else graph.bound(boundary, location)
    stored = Stored(location, rules, f"stage {next(graph.count)}")
    graph.store(StoredExpression(location, rules, stored.name, graph.with_edges(value, stored).node))
    return read_of(value, stored, _low_faces(value, stored, graph))


def _low_faces(value: Symbol, field: Stored, graph: Trace) -> dict[str, Symbol]:
    """Stages of the values of a stage on low sides, by the states that its rules name for these."""
    out = {}
    for axis, (side, _) in enumerate(field.rules):
        if side.low_faces:
            low = Stored(field.location, on_low_side(field.rules, axis), f"{field.name} on the low side of axis {axis}")
            graph.store(StoredExpression(low.location, low.rules, low.name, value.shifted(axis, -1).node))
            out[side.low_faces] = value.like(graph.read(low.name, (0,) * value.ndim), low.where)
    return out


def array_stage(
    function: ArrayFunction, fields: Sequence[Symbol], locations: Sequence[Location], boundaries: Sequence[Boundary | Symbol]
) -> list[Symbol]:
    """Compute stored fields, one for each location and boundary, from the cells of others with a host function."""
    graph = trace_of(fields[0], "host_stage()")
    require_same(fields)
    inputs = tuple(stored_name(field, graph) for field in fields)
    name, ndim = f"host {next(graph.count)}", fields[0].ndim
    outputs = []
    for number, (location, boundary) in enumerate(zip(locations, boundaries, strict=True)):
        location = check_location(location, ndim)
        outputs.append(Stored(location, graph.bound(boundary, location), f"{name} gives {number}"))
        graph.require_no_edges(outputs[-1], "host_stage()")
    graph.store(ArrayStage(name, function, inputs, tuple(outputs)))
    return [read_of(fields[0], output) for output in outputs]


def trace_of(value: Symbol, what: str) -> Trace:
    """The trace of a step's expression."""
    if not isinstance(value, Symbol):
        raise TraceError(f"{what} of a {type(value).__name__}, expected a field of the step; call it with fields that step() is given")
    if not isinstance(value.graph, Trace):
        raise TraceError(f"{what} was called outside a step; coefficients need none")
    return value.graph


def require_same(fields: Sequence[Symbol]) -> None:
    """Raise unless all expressions belong to one step."""
    if any(field.graph is not fields[0].graph for field in fields):
        raise TraceError("fields of two different steps meet in one stage; use those that the step was given")


def placed(value: Symbol) -> tuple[int, ...]:
    """The location of an expression: the centre along axes where it has none."""
    return tuple(place or 0 for place in value.location)


def read_of(value: Symbol, field: Stored, low: Mapping[str, Symbol] | None = None) -> Symbol:
    """The expression that reads a stored field, in the step of another expression. `low`: its values on low sides, see `Trace.field`."""
    read = value.like(value.graph.read(field.name, (0,) * value.ndim), field.where)
    return trace_of(value, "a stage").field(read, field.rules, low)


def stored_name(value: Symbol, graph: Trace) -> str:
    """Name of a stored field with the values of an expression: the field that it reads, a stage of this expression, or a new one.

    A stage that reads the time has that of its own part of the step: one from before a part at a later time is another field.
    """
    node = graph.stored(value)
    if node.op == "read" and not any(node.data[1]):
        known = graph.placed.get(node.data[0]) or graph.fixed.get(node.data[0])
        if known is not None and (known.axes is None or node.data[0] in graph.fixed):
            return str(node.data[0])
    first = graph.later_from if CLOCK[0] in graph.values and CLOCK[0] in reads([node]) else 0
    same = [s.name for s in graph.stages[first:] if isinstance(s, StoredExpression) and s.node is node]
    return same[0] if same else str(stage(value, "zero").node.data[0])


def unbounded_stages(stages: Iterable[Stage]) -> set[str]:
    """Stages that may be infinite or NaN where a condition drops them, such as a quotient by 0, or the tangent of a root at 0.

    Those of values by their divisors alone: chains of divisions by numbers that are not near 0 are long in fluxes.
    """
    unbounded: set[str] = set()
    for stage in stages:
        most = math.inf if stage.name == primal(stage.name) else CHOSEN
        if isinstance(stage, StoredExpression) and Singular(most, unbounded)(stage.node):
            unbounded.add(stage.name)
    return unbounded


def written_by(stages: Iterable[Stage]) -> dict[str, Stored]:
    """All fields that stages write."""
    return {field.name: field for stage in stages for field in stage.outputs}
