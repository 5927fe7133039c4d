"""Running sums along an axis of the grid, inside a time step.

With y_i = x_0 + ... + x_i, the cotangent of x_i is y_bar_i + ... + y_bar_(n-1): the running sum in the opposite direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from diffsim import arguments
from diffsim.boundary import Boundary, linear, zero_rules
from diffsim.expr.graph import Graph
from diffsim.expr.symbol import Symbol
from diffsim.stepping.fields import Derive, Stage, Stored
from diffsim.stepping.names import bar, dot
from diffsim.stepping.program import HostCall, Place, Written
from diffsim.stepping.stages import HostStage, Transposed, placed, read_of, stored_name, trace_of


@dataclass(frozen=True)
class Accumulation:
    """A host function: cells -> their running sum, added one after the other in f64.

    Attributes:
        axis: the axis of the sum.
        reverse: whether it begins on the high side.
    """

    axis: int
    reverse: bool

    def __call__(self, *cells: npt.NDArray) -> list[npt.NDArray]:
        (values,) = cells
        total = values.astype(np.float64)
        rows = np.moveaxis(total, self.axis, 0)
        rows = rows[::-1] if self.reverse else rows
        if self.axis == values.ndim - 1:
            np.cumsum(rows, 0, out=rows)
        else:  # whole rows: ten times faster along axis 0, with the same bits
            for before, row in pairwise(rows):
                row += before
        return [total]

    def identity(self) -> str:
        return repr(self)

    def room(self, cells: int) -> int:
        return 0


@dataclass(frozen=True)
class RunningSum(HostStage):
    """A stage that computes the running sum of a stored field.

    Attributes:
        name: name of the sum, which is its only output.
        source: the field.
        axis: the axis of the sum.
        reverse: whether it begins on the high side.
        outputs: the sum.
    """

    name: str
    source: str
    axis: int
    reverse: bool
    outputs: tuple[Stored, ...]

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.source,)

    def operation(self, targets: Mapping[str, Place]) -> HostCall:
        (output,) = self.outputs
        written = Written(output.name, targets[output.name], output.rules)
        return HostCall(Accumulation(self.axis, self.reverse), self.inputs, (written,))

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
        call = HostCall(Accumulation(self.axis, not self.reverse), (bar(output.name),), (written,))
        return Transposed({f"transpose of {self.name}": call}, {self.source: {here: graph.read(name, here)}})

    def identity(self) -> str:
        return repr((super().identity(), self.source, self.axis, self.reverse))


def running_sum(value: Symbol, axis: int, reverse: bool = False, boundary: Boundary | Symbol = "zero") -> Symbol:
    """The running sum of an expression along an axis, from the low side up to and including each cell.

    yᵢ = x₀ + ... + xᵢ; with `reverse`, yᵢ = xᵢ + ... + xₙ₋₁. The gradient is the running sum in the opposite direction. Multiplied
    by the spacing it is an integral, such as hydrostatic pressure, optical depth or a stream function.

    ```
    weight = g * rho * self.grid.spacing[0]  # of a cell; axis 0 points upwards
    p = ds.running_sum(weight, axis=0, reverse=True) - 0.5 * weight  # hydrostatic, at the centres
    ```

    The host computes it between two compiled kernels, in f64. It adds the cells one after the other, so the bits do not depend on the
    number of threads.

    Args:
        value: an expression of the step.
        axis: an axis of the grid; a negative number counts from the last.
        reverse: whether the sum begins on the high side.
        boundary: values of the sum outside the grid: rules, see `Variable`, or a field of the step whose rules are used. With "zero" it is
            0 beyond both sides, also beyond the cell with the sum of all cells.

    Returns:
        The sum, as a field of the step, with the location of the expression. As an integral it reaches to the upper face of each cell,
        with `reverse` to the lower face. For a value at the centres, `running_sum(value, axis).across(axis)` is the integral at the faces.

    Raises:
        TraceError: it is called outside of a step or for a condition, or a rule gives the last value on a side on which the sum lies.
        ShapeError: the grid has no such axis.
        ParameterError: `value` is no expression of the step, or `reverse` is neither True nor False.
    """
    arguments.instance("value", value, Symbol, "an expression of the step", "give one")
    backwards = arguments.flag("reverse", reverse)
    graph = trace_of(value, "running_sum()")
    value.expect(False, "running_sum()")
    along, location = value.axis(axis), placed(value)
    output = Stored(location, graph.bound(boundary, location), f"running sum {next(graph.count)}")
    graph.require_no_edges(output, "running_sum()")
    graph.store(RunningSum(output.name, stored_name(value, graph), along, backwards, (output,)))
    return read_of(value, output)
