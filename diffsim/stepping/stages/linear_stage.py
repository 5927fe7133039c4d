"""Stages that are a linear function of one field, computed on the host: the tangent is the same function, the adjoint its transpose."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from diffsim.base import arguments
from diffsim.boundary import Boundary, linear, zero_rules
from diffsim.expr.graph import Graph
from diffsim.expr.symbol import Symbol
from diffsim.stepping.ir.names import bar, dot
from diffsim.stepping.ir.program import HostCall, Place, Written
from diffsim.stepping.trace.fields import Derive, Stage, Stored
from diffsim.stepping.trace.stages import HostStage, Transposed, placed, read_of, stored_name, trace_of
from diffsim.typing import Array


class LinearFunction(ABC):
    """A host function: the cells of one field -> an array of the same shape, linear in them. A frozen dataclass, which is its identity."""

    @abstractmethod
    def of(self, cells: Array) -> Array:
        """The result, in f64."""

    @property
    @abstractmethod
    def transposed(self) -> LinearFunction:
        """The function whose matrix is the transpose."""

    def __call__(self, *cells: Array) -> list[Array]:
        (values,) = cells
        return [self.of(values)]

    def identity(self) -> str:
        values = [getattr(self, each.name) for each in fields(self)]  # type: ignore[arg-type]
        return repr((type(self), [(v.dtype, v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values]))

    def room(self, cells: int) -> int:
        return 0


@dataclass(frozen=True)
class LinearStage(HostStage):
    """A stage that is a linear function of a stored field.

    Attributes:
        name: of the result, which is its only output.
        source: the field.
        function: the linear function.
        outputs: the result.
    """

    name: str
    source: str
    function: LinearFunction
    outputs: tuple[Stored, ...]

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.source,)

    def operation(self, targets: Mapping[str, Place]) -> HostCall:
        (output,) = self.outputs
        written = Written(output.name, targets[output.name], output.rules)
        return HostCall(self.function, self.inputs, (written,))

    def tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        (output,) = self.outputs
        moved = replace(output, name=dot(output.name, order), rules=linear(output.rules))
        return [replace(self, name=moved.name, source=dot(self.source, order), outputs=(moved,))]

    def transposed(self, graph: Graph, wanted: Callable[[str], bool]) -> Transposed:
        if not wanted(self.source):
            return Transposed({}, {})
        (output,) = self.outputs
        here = (0,) * len(output.location)
        name = f"transposed {self.name}"
        written = Written(name, Place(name), zero_rules(len(here)))
        call = HostCall(self.function.transposed, (bar(output.name),), (written,))
        return Transposed({f"transpose of {self.name}": call}, {self.source: {here: graph.read(name, here)}})

    def identity(self) -> str:
        return repr((super().identity(), self.source, self.function))


def linear_stage(what: str, function: LinearFunction, value: Symbol, boundary: Boundary | Symbol) -> Symbol:
    """Store a linear function of an expression.

    Args:
        what: name of the public function, for errors.
        function: of the cells.
        value: an expression of the step.
        boundary: values of the result outside the grid: rules, see `Variable`, or a field of the step whose rules it takes.

    Returns:
        The result, as a field of the step at the place of the expression.

    Raises:
        TraceError: outside of a step, of a condition, or where a rule gives the last value on a side on which the result lies.
        ParameterError: `value` is no expression of the step.
    """
    arguments.instance("value", value, Symbol, "an expression of the step", "give one")
    graph = trace_of(value, f"{what}()")
    value.expect(False, f"{what}()")
    location = placed(value)
    output = Stored(location, graph.bound(boundary, location), f"{what.replace('_', ' ')} {next(graph.count)}")
    graph.require_no_edges(output, f"{what}()")
    graph.store(LinearStage(output.name, stored_name(value, graph), function, (output,)))
    return read_of(value, output)
