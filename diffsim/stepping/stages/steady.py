"""Steady problems: equations without time, whose one step goes from a guess to the solution."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from diffsim.boundary import Boundary
from diffsim.errors import TraceError
from diffsim.expr.derive import vjp
from diffsim.expr.graph import is_const, reads
from diffsim.expr.symbol import Symbol
from diffsim.linear import Given, Method
from diffsim.stepping.declare.equation import Equation
from diffsim.stepping.derive.undo import decided_by
from diffsim.stepping.stages.newton import newton
from diffsim.stepping.stages.solve import applied, solve
from diffsim.stepping.trace.stages import placed, trace_of


class Steady(Equation):
    """A steady problem: the field for which a residual is 0 in every cell.

    A subclass declares its one state, which is the unknown, and parameters as any equation, and writes `residual` in place of `step`. Its
    one step goes from the initial state, a guess, to the solution: by one linear solve (`diffsim.solve`) where the residual is linear, else
    by Newton's method (`diffsim.newton`). A gradient takes one linear solve with the transposed derivative at the solution, and does not
    depend on the guess. `diffsim.steady` makes a simulation of it; scenes take it with one step.

    Attributes:
        method: method for the linear systems, see `diffsim.solve`.
        tolerance: see `diffsim.solve`, and `diffsim.newton` where the residual is not linear.
        iterations: largest number of iterations of Newton's method.
        preconditioner: for the linear systems, see `diffsim.solve`.

    Raises:
        TraceError: by the simulation: not one state, or the residual does not depend on it.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import div, grad, interpolate

        class Wall(ds.Steady):
            # Conduction whose conductivity grows with the temperature, ∇·(k (1 + b T) ∇T) + s = 0, between two temperatures.

            def __init__(self, grid, hot, cold):
                self.grid = grid
                self.states = {"T": ds.Variable(((ds.Dirichlet(hot), ds.Dirichlet(cold)),), unit="K")}
                self.parameters = {"k": ds.Variable("mirror", unit="W/(m K)"), "b": ds.Variable(axes=(), unit="1/K")}

            def residual(self, T, k, b):
                return div([interpolate(k * (1 + b * T), axis) * slope for axis, slope in enumerate(grad(T))])

        grid = ds.Grid((40,), 1 / 40, 0.5 / 40)
        wall = ds.steady(Wall(grid, hot=2.0, cold=0.0), precision="f64")
        given = {"k": np.ones(40), "b": 0.5}
        T = wall.run(given).final["T"]
        assert np.allclose(T + 0.25 * T**2, 3.0 * (1 - grid.coordinates(0)), atol=1e-3)  # T + b T²/2 is linear: Kirchhoff
        value, gradient = wall.value_and_grad(lambda found: found.final["T"].mean(), given)
        assert gradient["b"] > 0 and gradient["k"].shape == (40,)
    """

    dt = 1.0
    time_unit = ""
    steady = True
    method: Method = "auto"
    tolerance: float | None = None
    iterations: int = 20
    preconditioner: Given | None = None

    @abstractmethod
    def residual(self, *args: Any, **fields: Any) -> Symbol:
        """An expression that is 0 in every cell, called as `step` is."""

    def step(self, **fields: Any) -> dict[str, Symbol]:
        if len(self.states) != 1:
            raise TraceError(f"{type(self).__name__} has {len(self.states)} states, expected one unknown field; declare one")
        (name,) = self.states
        guess = fields.pop(name)
        names = inspect.signature(self.residual).parameters.values()
        if not any(each.kind is each.VAR_KEYWORD for each in names):
            fields = {each.name: fields[each.name] for each in names if each.name in fields}

        def residual(x: Symbol) -> Symbol:
            return self.residual(**{name: x}, **fields)

        return {name: balanced(residual, guess, guess, self.method, self.tolerance, self.iterations, self.preconditioner)}


def balanced(
    residual: Callable[[Symbol], Symbol],
    guess: Symbol,
    boundary: Boundary | Symbol | None = None,
    method: Method = "auto",
    tolerance: float | None = None,
    iterations: int = 20,
    preconditioner: Given | None = None,
) -> Symbol:
    """The field x for which `residual(x) = 0`: by `solve` if the residual is linear in x, otherwise by `newton`. Arguments are theirs."""
    graph = trace_of(guess, "residual()")
    unknown = f"unknown {next(graph.unknowns)}"
    result = applied(residual, guess.like(graph.read(unknown, (0,) * guess.ndim), placed(guess)), unknown, "the residual")
    slopes = vjp(graph, {result.node: graph.const(1)}, lambda name: name == unknown).get(unknown, {})
    if any(unknown in reads([slope]) for slope in slopes.values()) or decided_by(result.node, unknown):
        return newton(residual, guess, boundary, method, tolerance, iterations, preconditioner)
    (rest,) = graph.replace([result.node], lambda read: graph.const(0) if read.data[0] == unknown else read)
    if is_const(rest, 0):
        return solve(residual, 0.0 * guess, guess if boundary is None else boundary, method, tolerance, preconditioner)
    known = result.like(rest)
    return solve(lambda x: residual(x) - known, -known, guess if boundary is None else boundary, method, tolerance, preconditioner)
