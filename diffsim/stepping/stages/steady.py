"""Steady problems: equations without time, whose one step goes from a guess to the solution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from diffsim.base import arguments
from diffsim.errors import TraceError
from diffsim.expr.components import Components, Layout
from diffsim.expr.symbol import Symbol
from diffsim.linear import METHODS, Given, Method, require_preconditioner
from diffsim.stepping.declare.equation import Equation
from diffsim.stepping.stages.newton import newton_fields
from diffsim.stepping.stages.solve import Function, applied, derivatives, is_linear, placeholders, require_square, solve_fields
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.grouped import apart, with_groups
from diffsim.stepping.trace.stages import placed, trace_of
from diffsim.stepping.trace.tracing import DECLARED_IN, call_with_fields


class Steady(Equation):
    """A steady problem: the fields for which residuals are 0 in every cell.

    A subclass declares its states, which are the unknowns, and parameters as any equation, and writes `residual` in place of `step`: an
    expression, or of several states a dict with one for each, or a tuple in their order. Its one step goes from the initial state, a
    guess, to the solution: by one linear solve (`diffsim.solve`) where the residual is linear, else
    by Newton's method (`diffsim.newton`). A gradient takes one linear solve with the transposed derivative at the solution, and does not
    depend on the guess. `diffsim.steady` makes a simulation of it; scenes take it with one step.

    Attributes:
        method: method for the linear systems, see `diffsim.solve`.
        tolerance: see `diffsim.solve`, and `diffsim.newton` where the residual is not linear.
        iterations: largest number of iterations of Newton's method.
        preconditioner: for the linear systems, see `diffsim.solve`.

    Raises:
        TraceError: by the simulation: not one residual for each state, or a residual that depends on none, or a state on which none does.
        ParameterError: by the simulation: an attribute with a value that it cannot have.

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
    def residual(self, *args: Any, **fields: Any) -> Any:
        """An expression that is 0 in every cell, or a dict or tuple of one for each state; called as `step` is."""

    def step(self, **fields: Any) -> dict[str, Any]:
        groups = {name: group.layout for name, group in self.groups.items() if group.fields(name).keys() <= self.states.keys()}
        guesses: dict[str, Symbol] = {}
        for name in list(fields):
            if name in groups:
                guesses |= dict(_parts(name, fields.pop(name)))
            elif name in self.states:
                guesses[name] = fields.pop(name)
        guesses = {name: guesses[name] for name in self.states}
        parts = {name: part for group, value in fields.items() if isinstance(value, Components) for name, part in _parts(group, value)}
        what = f"{type(self).__name__}.residual"

        def residual(unknowns: Sequence[Symbol]) -> list[Any]:
            known, free = with_groups(dict(zip(guesses, unknowns, strict=True)), groups)
            result = call_with_fields(self.residual, {**parts, **fields, **known}, {**fields, **free}, what, DECLARED_IN["step"])
            return self._by_state(result, groups)

        solution = [placed_of(guess) for guess in guesses.values()]
        return dict(zip(guesses, balanced_fields(residual, guesses, solution, *self._options()), strict=True))

    def _options(self) -> tuple[Method, float | None, int, Given | None]:
        """Method, tolerance, iterations and preconditioner.

        Raises:
            ParameterError: one has a value that it cannot have.
        """
        kind, tolerance = type(self).__name__, self.tolerance
        method = arguments.one_of(f"{kind}.method", self.method, METHODS)
        if tolerance is not None:
            name = f"{kind}.tolerance"
            tolerance = arguments.number(name, tolerance, "a number between 0 and 1", lambda x: 0 < x < 1, "1e-12 is usual in f64")
        require_preconditioner(self.preconditioner, method)
        iterations = arguments.whole(f"{kind}.iterations", self.iterations, 1, remedy="20 is usual")
        return method, tolerance, iterations, self.preconditioner

    def _by_state(self, result: Any, groups: Mapping[str, Layout]) -> list[Any]:
        """The residual of each state, from a dict, from a tuple in the order of the states, or of the only state itself.

        Raises:
            TraceError: there is not one residual for each state.
        """
        kind = type(self).__name__
        ordered = [*dict.fromkeys(self._whole(groups))]
        if not isinstance(result, Mapping):
            several = isinstance(result, (tuple, list)) and len(ordered) > 1
            results = result if several else (result,)
            if len(results) != len(ordered):
                raise TraceError(
                    f"{kind}.residual gave {arguments.plural(len(results), 'expression')}, expected {len(ordered)}, one for "
                    f"each unknown field: {', '.join(ordered)}; return a dict, as in {{'{ordered[0]}': ...}}"
                )
            result = dict(zip(ordered, results, strict=True))
        each, _ = apart(result, groups, f"{kind}.residual")
        if each.keys() != self.states.keys():
            raise TraceError(
                f"{kind}.residual gave {', '.join(map(str, each)) or 'nothing'}, expected one expression for each state: "
                f"{', '.join(self.states)}; return those"
            )
        return [each[name] for name in self.states]

    def _whole(self, groups: Mapping[str, Layout]) -> Iterator[str]:
        """The states in their order, a group in place of its components."""
        of = {part: name for name, layout in groups.items() for part in layout.names(name).values()}
        return (of.get(name, name) for name in self.states)


def _parts(group: str, value: Components) -> Iterator[tuple[str, Symbol]]:
    """The components of a vector or tensor, by their names."""
    return ((value.layout.name(group, *key), part) for key, part in value.parts.items())


def placed_of(guess: Symbol) -> Placed:
    """The location of a field of the step, with its rules."""
    location = placed(guess)
    return Placed(location, trace_of(guess, "residual()").bound(guess, location))


def balanced(residual: Callable[[Symbol], Symbol], guess: Symbol, name: str) -> Symbol:
    """The field x for which `residual(x) = 0`, with the rules of the guess: by `solve` if the residual is linear in x, else by `newton`.

    `name`: of the field, for messages.
    """
    (solution,) = balanced_fields(lambda fields: [residual(*fields)], {name: guess}, [placed_of(guess)])
    return solution


def balanced_fields(
    residual: Function,
    guesses: Mapping[str, Symbol],
    solution: Sequence[Placed],
    method: Method = "auto",
    tolerance: float | None = None,
    iterations: int = 20,
    preconditioner: Given | None = None,
) -> list[Symbol]:
    """`balanced` of one equation or more, whose guesses have the names of the fields. Other arguments are those of `newton`."""
    starts = [*guesses.values()]
    graph = trace_of(starts[0], "residual()")
    unknowns = placeholders(graph, len(starts))
    xs = [guess.like(graph.read(name, (0,) * guess.ndim), placed(guess)) for name, guess in zip(unknowns, starts, strict=True)]
    results = applied(residual, xs, unknowns, "the residual", [*guesses])
    nodes = [result.node for result in results]
    weights = derivatives(graph, nodes, unknowns)
    require_square(weights, [*guesses], "the residual")
    if not is_linear(weights, nodes, unknowns):
        return newton_fields(residual, guesses, solution, method, tolerance, iterations, preconditioner)
    zeros = {name: 0.0 * guess for name, guess in guesses.items()}
    return solve_fields(residual, zeros, solution, method, tolerance, preconditioner, affine=True)
