"""A quantity on a circle of latitude."""

from __future__ import annotations

from diffsim.expr.symbol import Symbol
from diffsim.integrators import rk4
from diffsim.mesh.grid import Grid
from diffsim.solvers.dynamics.lines import on_a_line
from diffsim.solvers.parts.stability import check_common
from diffsim.stepping.declare.equation import Equation, Variable


class Lorenz96(Equation, kind="lorenz96"):
    """A quantity on a circle of latitude that is forced, damped and carried along.

        dxᵢ/dt = (xᵢ₊₁ - xᵢ₋₂) xᵢ₋₁ - xᵢ + F

    The classical method of Runge and Kutta. Inputs: initial state `x`, shape (cells,); the number `F`, or with `varies` a value a cell.

    Args:
        grid: one axis of at least 4 cells, whose spacing has no meaning.
        dt: time step.
        varies: whether `F` varies from cell to cell.

    Good values: 40 cells, F = 8 and dt 0.05, which Lorenz took for 6 hours. Then the leading exponent is 1.68, 13 are positive, and their
    sum is -40.

    Raises:
        ParameterError: a time step that is not positive, or a grid of several axes or fewer cells.

    Reference: Lorenz (1996), Predictability: a problem partly solved, Proc. Seminar on Predictability, ECMWF, 1-18; Lorenz and Emanuel
        (1998), J. Atmos. Sci. 55, 399-414, doi:10.1175/1520-0469(1998)055<0399:OSFSWO>2.0.CO;2.

    Example:
        import numpy as np

        import diffsim as ds

        # Which forcing explains a record of five units of time?
        circle = ds.Simulation(ds.solvers.Lorenz96(ds.Grid((40,), spacing=1.0), dt=0.05), wrt=["F"], precision="f64")
        x = 8.0 + np.sin(np.arange(40.0))
        wanted = circle.run({"x": x, "F": 8.0}, steps=20).final["x"]
        value, gradient = circle.value_and_grad(lambda solution: ((solution.final["x"] - wanted) ** 2).mean(), {"x": x, "F": 8.1}, steps=20)
        assert value > 0 and gradient["F"] > 0
    """

    def __init__(self, grid: Grid, dt: float, varies: bool = False) -> None:
        self.dt = check_common(grid, dt, metres=False)
        self.grid = on_a_line(grid, 4)
        self.states = {"x": Variable("periodic", unit="1")}
        self.parameters = {"F": Variable("periodic", unit="1") if varies else Variable(axes=(), unit="1")}

    def step(self, x: Symbol, F: Symbol) -> dict[str, Symbol]:
        def rate(now: dict[str, Symbol]) -> dict[str, Symbol]:
            x = now["x"]
            return {"x": (x.shifted(0, 1) - x.shifted(0, -2)) * x.shifted(0, -1) - x + F}

        return rk4(rate, {"x": x}, self.dt)
