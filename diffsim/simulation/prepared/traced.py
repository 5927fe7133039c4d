"""An equation as expressions: the part before the first step, and the step."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from diffsim.expr.derive import vjp
from diffsim.simulation.prepared.checks import check_names
from diffsim.stepping.declare.equation import Equation
from diffsim.stepping.derive.tangent import tangent_map, tangent_step
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.trace import TracedMap, TracedStep
from diffsim.stepping.trace.tracing import trace_coefficients, trace_initial, trace_series, trace_step
from diffsim.typing import Array


@dataclass(frozen=True)
class Traced:
    """An equation as expressions: the part before the first step, and the step.

    Attributes:
        order: how many times tangents were taken.
    """

    coefficients: TracedMap
    initial: TracedMap
    step: TracedStep
    order: int = 0

    @cached_property
    def fields(self) -> dict[str, Placed]:
        """Parameters and initial fields."""
        return self.coefficients.inputs | self.initial.inputs

    def over_cells(self, name: str, value: Array) -> Array:
        """A parameter or initial field at each cell. Other inputs are returned unchanged."""
        driven = name in self.step.forcings or name in self.step.series
        return value if driven else self.fields[name].over_cells(value, self.step.grid.shape)

    def tangent(self) -> Traced:
        order = self.order + 1
        return Traced(
            tangent_map(self.coefficients, order=order),
            tangent_map(self.initial, self.coefficients.placed, order),
            tangent_step(self.step, order),
            order,
        )


def trace(equation: Equation, sources: Collection[str], wrt: Collection[str] | None) -> tuple[Traced, tuple[str, ...]]:
    """An equation as expressions, and the inputs to differentiate for."""
    coefficients = trace_coefficients(equation)
    initial = trace_initial(equation, coefficients.placed)
    series = trace_series(equation)
    known = (*coefficients.inputs, *initial.inputs, *sources, *series)
    check_names("wrt", known if wrt is None else wrt, known, "inputs", equation)
    wanted = tuple(name for name in known if wrt is None or name in wrt)
    # a coefficient such as a mask reads an input but has no derivative for it
    graph = coefficients.graph
    active = {c for c, node in coefficients.outputs.items() if vjp(graph, {node: graph.const(1)}, set(wanted).__contains__)}
    active |= series.keys() & set(wanted)
    step = trace_step(equation, coefficients.placed, sources, active, coefficients.groups)
    return Traced(coefficients, initial, step), wanted
