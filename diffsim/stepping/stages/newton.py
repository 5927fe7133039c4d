"""Nonlinear equations inside a time step.

The residual F(x, p) of a solution x and stored fields p is an expression of the step, and so are its derivatives. A function on the host
iterates. The iterations are neither differentiated nor stored. At the solution F(x, p) = 0, so x' = -J^-1 (dF/dp p'), with J = dF/dx, and
the cotangent of p is -(dF/dp)^T l, with l = J^-T x_bar. Both need one linear system whose weights are expressions of the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from diffsim.base import arguments
from diffsim.boundary import Boundary, linear, zero_rules
from diffsim.errors import TraceError
from diffsim.expr.derive import CHOICES, jvp, singular, vjp
from diffsim.expr.graph import CONDITIONS, Graph, Node, linear_terms, ordered
from diffsim.expr.symbol import Symbol
from diffsim.linear import METHODS, Given, Method, System, require_preconditioner
from diffsim.stepping.ir.names import bar, dot
from diffsim.stepping.ir.program import Assign, HostCall, Part, Place, Written
from diffsim.stepping.stages.iteration import LINEAR, Iteration, Residual
from diffsim.stepping.stages.solve import Solution, Solve, applied, by_distance
from diffsim.stepping.trace.fields import Derive, Placed, Stage, Stored
from diffsim.stepping.trace.stages import HostStage, StoredExpression, Transposed, placed, read_of, stored_name, trace_of
from diffsim.stepping.trace.trace import Trace


@dataclass(frozen=True)
class Newton(HostStage):
    """The solution of a nonlinear equation.

    Attributes:
        name: name of the solution, which is its only output.
        guess: the field from which the iteration starts.
        iteration: the host function that iterates.
        at_solution: the linear system of derivatives.
        outputs: the solution.
    """

    name: str
    guess: str
    iteration: Iteration
    at_solution: System
    outputs: tuple[Stored, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """Stored fields of the residual."""
        return self.iteration.residual.fields

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (self.guess, *self.fields)

    def operation(self, targets: Mapping[str, Place]) -> HostCall:
        (output,) = self.outputs
        return HostCall(self.iteration, self.inputs, (Written(output.name, targets[output.name], output.rules),))

    def _weights(self, of: str) -> tuple[tuple[float | str, ...], dict[str, Node]]:
        """The weights of the linear system at the solution, as numbers or names, and the expressions with these names."""
        nodes = self.iteration.residual.weights.values()
        names = {node.id: f"weight {number} of {of}" for number, node in enumerate(nodes) if node.op != "const"}
        weights = tuple(float(node.data) if node.op == "const" else names[node.id] for node in nodes)
        return weights, {names[node.id]: node for node in nodes if node.op != "const"}

    def tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        (output,) = self.outputs
        here = (0,) * len(output.location)
        name, rules = dot(self.name, order), zero_rules(len(here))
        weights, nodes = self._weights(name)
        moved = dict(zip(self.fields, derive([graph.read(field, here) for field in self.fields]), strict=True))
        (change,) = jvp(graph, [self.iteration.residual.value], lambda read: moved.get(read.data[0]))
        side = f"right side {order} of {self.name}"  # no tangent of a stage can have this name
        stored = {**nodes, side: graph.negative(change)}
        moved_output = replace(output, name=name, rules=linear(output.rules))
        return [
            *(StoredExpression(output.location, rules, each, node) for each, node in stored.items()),
            Solve(name, self.at_solution, side, weights, (moved_output,), given=False),
        ]

    def transposed(self, graph: Graph, wanted: Callable[[str], bool]) -> Transposed:
        (output,) = self.outputs
        here = (0,) * len(output.location)
        name, rules = f"transposed {self.name}", zero_rules(len(here))
        weights, nodes = self._weights(name)
        fields = tuple(nodes)
        function = Solution(self.at_solution, tuple(fields.index(w) if isinstance(w, str) else w for w in weights), True, False)
        parts: dict[str, Part] = {field: Assign(Place(field), node, rules) for field, node in nodes.items()}
        parts[f"transpose of {self.name}"] = HostCall(function, (bar(output.name), *fields), (Written(name, Place(name), rules),))
        solution = graph.read(name, here)
        terms = vjp(graph, {self.iteration.residual.value: graph.negative(solution)}, lambda name: name in self.fields and wanted(name))
        nothing = graph.apply("eq", solution, graph.const(0))  # such as outside of the grid
        for by_offset in terms.values():
            for offset, node in by_offset.items():
                by_offset[offset] = graph.apply("select", nothing, graph.const(0), node) if singular(node) else node
        return Transposed(parts, terms)

    def roots(self) -> list[Node]:
        return [self.iteration.residual.value]

    def identity(self) -> str:
        return repr((super().identity(), self.inputs, self.iteration.identity()))


def newton(
    residual: Callable[[Symbol], Symbol],
    guess: Symbol,
    boundary: Boundary | Symbol | None = None,
    method: Method = "auto",
    tolerance: float | None = None,
    iterations: int = 20,
    preconditioner: Given | None = None,
) -> Symbol:
    """Find the field x with `residual(x) = 0` at every cell by Newton's method, for a nonlinear implicit time step.

    ```
    h_next = ds.newton(lambda x: x - dt * div([interpolate(x, a) ** 2 * s for a, s in enumerate(grad(x))]) - h, guess=h)
    ```

    The residual is traced once, and differentiated as an expression. Each iteration solves a linear system on the host, in f64, and halves
    its step until the residual falls. The gradient does not use the iterations: it solves one linear system with the transposed derivative
    at the solution (implicit function theorem), and includes all fields in the residual. It does not depend on the guess.

    Args:
        residual: a function of x, a field at the guess's location. It returns an expression at that location, which reads x in a stencil.
        guess: start of the iteration, an expression of the step. Good value: the field whose next value is the solution.
        boundary: values of x outside the grid: rules, see `Variable`, or a field of the step whose rules are used; None: those of the
            guess. Where x lies on faces and a rule gives its last value, on the side itself, that value replaces the equation there.
        method: method for the linear systems, see `solve`. "direct" works only for a linear residual.
        tolerance: largest residual of a cell, relative to the largest sum of the magnitudes of a cell's terms. None: 1e-12 in f64, 1e-7 in
            f32. The gradient is that of an exact solution, so finite differences agree with it only to this tolerance.
        iterations: largest number of iterations.
        preconditioner: for the linear systems, see `solve`.

    Returns:
        x, as a field of the step.

    Raises:
        TraceError: it is called outside of a step, the residual does not depend on x or stores a stage of x, or the guess has no rules.
        ShapeError: the residual is at another location.
        ParameterError: the method is unknown; or, in a run, it does not work for the matrix.
        ConvergenceError: in a run, the tolerance was not met, or the residual of the guess is not finite.
        SingularError: in a run, a derivative has no inverse.

    Reference: Kelley, Solving nonlinear equations with Newton's method (2003), chapter 1, doi:10.1137/1.9780898718898, for the iteration;
    Blondel et al., Efficient and modular implicit differentiation, NeurIPS (2022), arXiv:2105.15183, section 2, for its derivative.

    Example:
        import numpy as np

        import diffsim as ds

        class Radiator(ds.Equation):
            # A body that radiates, Tₜ = -s T⁴, by backward Euler with a long time step.

            states = {"T": ds.Variable("mirror", unit="K")}

            def __init__(self, grid, dt, s):
                self.grid, self.dt, self.s = grid, dt, s

            def step(self, T):
                return {"T": ds.newton(lambda x: x + self.dt * self.s * x**4 - T, guess=T)}

        body = ds.Simulation(Radiator(ds.Grid((10,), spacing=1.0), dt=10.0, s=1e-10), precision="f64")
        T = body.run({"T": np.full(10, 400.0)}, steps=1).final["T"]
        assert np.allclose(T + 1e-9 * T**4, 400.0)
    """
    arguments.function("residual", residual, "ds.newton(lambda x: x + dt * x**3 - u, guess=u)", optional=False)
    arguments.instance("guess", guess, Symbol, "an expression of the step", "give one")
    chosen = arguments.one_of("method", method, METHODS)
    if tolerance is not None:
        tolerance = arguments.number("tolerance", tolerance, "a number between 0 and 1", lambda x: 0 < x < 1, "1e-12 is usual in f64")
    require_preconditioner(preconditioner, chosen)
    most = arguments.whole("iterations", iterations, 1, remedy="20 is usual")
    graph = trace_of(guess, "newton()")
    location = placed(guess)
    solution = Placed(location, graph.bound(guess if boundary is None else boundary, location))
    name = f"newton {next(graph.unknowns)}"
    traced = _residual(residual, guess, graph, solution, name)
    offsets = tuple(traced.weights)
    iteration = Iteration(traced, System(offsets, solution.rules, chosen, LINEAR, preconditioner), tolerance, most)
    output = Stored(location, solution.rules, name)
    first = stored_name(guess, graph)
    graph.store(Newton(name, first, iteration, System(offsets, solution.rules, chosen, None, preconditioner), (output,)))
    return read_of(guess, output)


def _residual(residual: Callable[[Symbol], Symbol], guess: Symbol, graph: Trace, solution: Placed, name: str) -> Residual:
    """The residual of the solution `name`, for evaluation by the iteration.

    On a side where a rule gives the solution, the residual is the difference from that value.
    """
    x = guess.like(graph.read(name, (0,) * guess.ndim), solution.location)
    expression = applied(residual, graph.field(x, solution.rules), name, "the residual of newton()")
    on_sides = graph.on_sides(x.like(graph.const(0)), solution)
    expression = graph.on_sides(expression, solution, x) - on_sides
    value, size, fields = _with_stored_parts(graph, expression, name, solution)
    weights = vjp(graph, {value: graph.const(1)}, lambda field: field == name).get(name)
    if weights is None:
        raise TraceError("the residual of newton() does not depend on its argument, expected an expression of it; return that")
    return Residual(name, value, size, by_distance(weights), fields)


def _with_stored_parts(graph: Trace, expression: Symbol, unknown: str, solution: Placed) -> tuple[Node, Node, tuple[str, ...]]:
    """Rewrite an expression so that parts that do not depend on the unknown are read from stored fields, at the cell itself.

    Return it with the sum of the magnitudes of its terms, and the names of the fields.
    """
    terms = [graph.mul(graph.const(weight), core) for core, weight in linear_terms(graph, expression.node).values()]
    depend = _dependent(terms, unknown)
    summands = [*(term for term in terms if term.id in depend), graph.sum(term for term in terms if term.id not in depend)]
    kept = _kept(summands, depend)
    done: dict[int, Node] = {}
    fields: dict[str, None] = {}
    for node in ordered(summands):
        if kept.get(node.id):
            done[node.id] = graph.apply(node.op, *(done[a.id] for a in node.args), data=node.data) if node.args else node
        elif node.id in kept:
            name = stored_name(expression.like(node, solution.location), graph)
            fields[name] = None
            done[node.id] = graph.read(name, (0,) * expression.ndim)
    every = [done[node.id] for node in summands]
    return graph.sum(every), graph.sum(graph.apply("abs", term) for term in every), tuple(fields)


def _dependent(nodes: list[Node], unknown: str) -> set[int]:
    """Numbers of the nodes that depend on a field."""
    depend: set[int] = set()
    for node in ordered(nodes):
        if (node.op == "read" and node.data[0] == unknown) or any(a.id in depend for a in node.args):
            depend.add(node.id)
    return depend


def _kept(roots: list[Node], depend: set[int]) -> dict[int, bool]:
    """For each node of an expression, by number: True if it stays in the expression, False if it is read from a stored field.

    Conditions cannot be stored, and numbers need not be. A value that may be infinite is not stored if a condition can choose another
    value.
    """
    nodes = ordered(roots)
    choice = any(node.op in CHOICES for node in nodes)
    kept: dict[int, bool] = {}
    needed = {node.id for node in roots}
    for node in reversed(nodes):
        if node.id in needed:
            scaled = node.op == "mul" and node.args[0].op == "const"
            infinite = choice and bool(node.args) and singular(node)
            kept[node.id] = node.id in depend or scaled or infinite or node.op in ("const", *CONDITIONS)
            needed |= {a.id for a in node.args} if kept[node.id] else set()
    return kept
