"""Steady problems as simulations of one step."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy.typing as npt

from diffsim.base.arguments import instance
from diffsim.errors import ParameterError
from diffsim.simulation.gradients.loss import Loss
from diffsim.simulation.prepared.solution import Pullback, Solution
from diffsim.simulation.simulation import Simulation, _loaded
from diffsim.stepping.declare.equation import Equation
from diffsim.stepping.declare.points import Places
from diffsim.stepping.stages.steady import Steady
from diffsim.typing import Array


class SteadySimulation(Simulation):
    """A `Simulation` of a steady problem, whose methods take one step. `diffsim.steady` makes it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced(_loaded_steady, self._pickled)

    def run(self, inputs: Mapping[str, Any], steps: int = 1, *others: Any, **options: Any) -> Solution:
        """The solution. Options are those of `Simulation.run`."""
        return super().run(inputs, steps, *others, **options)

    def vjp(self, inputs: Mapping[str, npt.ArrayLike], steps: int = 1, *others: Any, **options: Any) -> tuple[Solution, Pullback]:
        """The solution, and a function that turns its cotangents into those of the inputs, by one transposed solve."""
        return super().vjp(inputs, steps, *others, **options)

    def value_and_grad(
        self, loss: Loss, inputs: Mapping[str, npt.ArrayLike], steps: int = 1, *others: Any, **options: Any
    ) -> tuple[float, dict[str, Array]]:
        """Value of a loss of the solution, and its gradient for every input in `wrt`."""
        return super().value_and_grad(loss, inputs, steps, *others, **options)

    def jvp(self, inputs: Mapping[str, npt.ArrayLike], tangents: Mapping[str, npt.ArrayLike], steps: int = 1) -> tuple[Solution, Solution]:
        """The solution and its derivative along `tangents`, by one more solve."""
        return super().jvp(inputs, tangents, steps)


def _loaded_steady(*parts: Any) -> SteadySimulation:
    return SteadySimulation._of(_loaded(*parts)._compiled)  # type: ignore[return-value]


def steady(
    equation: Equation,
    *,
    receivers: Mapping[str, Places] | None = None,
    wrt: Collection[str] | None = None,
    precision: str | None = None,
) -> SteadySimulation:
    """Make a simulation of a steady problem: its `run(inputs)` gives the solution, without time steps.

    ```
    wall = ds.steady(ds.solvers.Heat(grid, dt=1.0, boundary=sides, method="steady"))
    T = wall.run({"kappa": kappa}).final["T"]
    ```

    It is a `Simulation` whose methods take one step unless `steps` says otherwise: `run`, `vjp`, `jvp` and `value_and_grad` work in losses,
    in `diffsim.grad` and with `diffsim.certify(wall, loss, inputs, steps=1)`. A solution takes one linear solve, or those of Newton's
    method; a gradient one more, with the transposed derivative at the solution. Traces have two rows: the guess, and the solution.

    Args:
        equation: a `Steady`, or a solver that has the method "steady".
        receivers: see `Simulation`.
        wrt: inputs to differentiate for; None: all but the guess, which the solution does not depend on.
        precision: "f32" or "f64"; None: the default of `diffsim.init`. Solves are in f64.

    Returns:
        The simulation. The inputs are the parameters, and the initial state as a guess: a nonlinear problem starts from it. 0 if left out.

    Raises:
        ParameterError: the equation advances in time.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian

        class Membrane(ds.Steady):
            # How far a membrane between four fixed edges gives way to a load: -∇²w = f.

            def __init__(self, grid):
                self.grid = grid
                self.states = {"w": ds.Variable(ds.Dirichlet(0.0), unit="m")}
                self.parameters = {"f": ds.Variable("mirror", unit="1/m")}

            def residual(self, w, f):
                return laplacian(w) + f

        n = 32
        grid = ds.Grid((n, n), 1 / n, 0.5 / n)
        y, x = np.meshgrid(grid.coordinates(0), grid.coordinates(1), indexing="ij")
        shape = np.sin(np.pi * x) * np.sin(np.pi * y)
        membrane = ds.steady(Membrane(grid), precision="f64")
        w = membrane.run({"f": 2 * np.pi**2 * shape}).final["w"]
        assert np.abs(w - shape).max() < 1e-3
        value, gradient = membrane.value_and_grad(lambda found: found.final["w"].sum(), {"f": shape})
        assert np.isclose((gradient["f"] * shape).sum(), value)  # the problem is linear
    """
    instance("equation", equation, Equation, "a diffsim.Steady", "write a subclass with a method residual")
    if not equation.steady:
        raise ParameterError(
            f"equation = {type(equation).__name__}, which advances in time, expected a steady problem; write a subclass of diffsim.Steady, "
            'or take a solver with method = "steady"'
        )
    if isinstance(equation, Steady) and type(equation).step is not Steady.step:
        raise ParameterError(
            f"equation = {type(equation).__name__} with a method step beside residual, expected residual alone, which is solved for 0; "
            "drop step, or derive from diffsim.Equation for steps in time"
        )
    wanted = [*equation.parameters, *equation.series] if wrt is None else wrt
    return SteadySimulation(equation, receivers=receivers, wrt=wanted, precision=precision)
