"""Running sums along an axis of the grid, inside a time step.

With y_i = x_0 + ... + x_i, the cotangent of x_i is y_bar_i + ... + y_bar_(n-1): the running sum in the opposite direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from diffsim.base import arguments
from diffsim.boundary import Boundary
from diffsim.expr.symbol import Symbol
from diffsim.stepping.stages.linear_stage import LinearFunction, linear_stage
from diffsim.typing import Array


@dataclass(frozen=True)
class Accumulation(LinearFunction):
    """Cells -> their running sum, added one after the other in f64.

    Attributes:
        axis: the axis of the sum.
        reverse: whether it begins on the high side.
    """

    axis: int
    reverse: bool

    def of(self, cells: Array) -> Array:
        total = cells.astype(np.float64)
        rows = np.moveaxis(total, self.axis, 0)
        rows = rows[::-1] if self.reverse else rows
        if self.axis == cells.ndim - 1:
            np.cumsum(rows, 0, out=rows)
        else:  # adding whole rows is ten times faster along axis 0, with the same bits
            for before, row in pairwise(rows):
                row += before
        return total

    @property
    def transposed(self) -> Accumulation:
        return Accumulation(self.axis, not self.reverse)


def running_sum(value: Symbol, axis: int, reverse: bool = False, boundary: Boundary | Symbol = "zero") -> Symbol:
    """The running sum of an expression along an axis, from the low side up to and including each cell.

    yᵢ = x₀ + ... + xᵢ; with `reverse`, yᵢ = xᵢ + ... + xₙ₋₁. The gradient is the running sum in the opposite direction. Multiplied
    by the spacing it is an integral, such as hydrostatic pressure, optical depth or a stream function.

    ```
    weight = g * rho * self.grid.spacing[0]  # weight of a cell per area; axis 0 points upwards
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

    Example:
        import numpy as np

        import diffsim as ds

        class Canopy(ds.Equation):
            # Leaves that grow by the light that those above them let through. Axis 0 points upwards.

            states = {"leaves": ds.Variable("mirror", unit="m²/m³")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, leaves):
                above = ds.running_sum(leaves * self.grid.spacing[0], axis=0, reverse=True)
                return {"leaves": leaves + self.dt * ds.expr.exp(-0.5 * above)}

        canopy = ds.Simulation(Canopy(ds.Grid((20,), spacing=0.5), dt=0.1))
        leaves = canopy.run({"leaves": np.zeros(20)}, steps=10).final["leaves"]
        assert (np.diff(leaves) > 0).all()  # the higher, the more
    """
    arguments.instance("value", value, Symbol, "an expression of the step", "give one")
    function = Accumulation(value.axis(axis), arguments.flag("reverse", reverse))
    return linear_stage("running_sum", function, value, boundary)
