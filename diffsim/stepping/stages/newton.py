"""Nonlinear equations inside a time step.

The residual F(x, p) of a solution x and stored fields p is an expression of the step, and so are its derivatives. A function on the host
iterates. The iterations are neither differentiated nor stored. At the solution F(x, p) = 0, so x' = -J^-1 (dF/dp p'), with J = dF/dx, and
the cotangent of p is -(dF/dp)^T l, with l = J^-T x_bar. Both need one linear system whose weights are expressions of the solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from diffsim.base import arguments
from diffsim.boundary import linear, zero_rules
from diffsim.expr.derive import CHOICES, jvp, singular, vjp
from diffsim.expr.graph import CONDITIONS, Graph, Node, is_scaled, linear_terms, ordered
from diffsim.expr.symbol import Symbol
from diffsim.linear import METHODS, CoupledSystem, Given, Method, System, require_preconditioner, system_of
from diffsim.stepping.ir.names import Title, bar, dot
from diffsim.stepping.ir.program import Assign, HostCall, Part, Place, Written
from diffsim.stepping.stages.iteration import LINEAR, Iteration, Residual
from diffsim.stepping.stages.solve import (
    Function,
    Solution,
    Solve,
    applied,
    derivatives,
    outputs_of,
    require_square,
    row_sums,
    written_to,
)
from diffsim.stepping.stages.unknowns import Unknowns
from diffsim.stepping.trace.fields import Derive, Placed, Stage, Stored
from diffsim.stepping.trace.stages import HostStage, StoredExpression, Transposed, read_of, stored_name, trace_of
from diffsim.stepping.trace.trace import Trace


@dataclass(frozen=True)
class Newton(HostStage):
    """The solution of nonlinear equations.

    Attributes:
        name: name of the stage; of one equation, that of the solution.
        guesses: the fields from which the iteration starts.
        iteration: the host function that iterates.
        at_solution: the linear system of derivatives.
        outputs: the solution, a field for each equation.
    """

    name: str
    guesses: tuple[str, ...]
    iteration: Iteration
    at_solution: System | CoupledSystem
    outputs: tuple[Stored, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """Stored fields of the residuals."""
        return self.iteration.residual.fields

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.guesses, *self.fields)

    def operation(self, targets: Mapping[str, Place]) -> HostCall:
        return HostCall(self.iteration, self.inputs, written_to(self.outputs, targets))

    def _weights(self, of: str) -> tuple[tuple[float | str, ...], dict[str, StoredExpression]]:
        """The weights of the linear system at the solution, as numbers or names, and the fields with these names."""
        weights: list[float | str] = []
        stored: dict[int, StoredExpression] = {}
        for number, ((row, _, _), node) in enumerate(self.iteration.residual.weights.items()):
            if node.op == "const":
                weights.append(float(node.data))
                continue
            location = self.outputs[row].location
            known = stored.setdefault(node.id, StoredExpression(location, zero_rules(len(location)), f"weight {number} of {of}", node))
            weights.append(known.name)
        return tuple(weights), {field.name: field for field in stored.values()}

    def tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        here = (0,) * len(self.outputs[0].location)
        name, rules = dot(self.name, order), zero_rules(len(here))
        weights, stored = self._weights(name)
        moved = dict(zip(self.fields, derive([graph.read(field, here) for field in self.fields]), strict=True))
        changes = jvp(graph, list(self.iteration.residual.values), lambda read: moved.get(read.data[0]))
        sides = [
            StoredExpression(output.location, rules, f"right side {order} of {output.name}", graph.negative(change))
            for output, change in zip(self.outputs, changes, strict=True)  # no tangent of a stage can have such a name
        ]
        outputs = tuple(replace(output, name=dot(output.name, order), rules=linear(output.rules)) for output in self.outputs)
        right_sides = tuple(side.name for side in sides)
        return [
            *stored.values(),
            *sides,
            Solve(name, self.at_solution, right_sides, weights, outputs, given=False, title=self.iteration.title),
        ]

    def transposed(self, graph: Graph, wanted: Callable[[str], bool]) -> Transposed:
        here = (0,) * len(self.outputs[0].location)
        names, rules = [f"transposed {output.name}" for output in self.outputs], zero_rules(len(here))
        weights, stored = self._weights(f"transposed {self.name}")
        fields = tuple(stored)
        places = tuple(fields.index(w) if isinstance(w, str) else w for w in weights)
        function = Solution(self.at_solution, places, True, False, title=self.iteration.title)
        parts: dict[str, Part] = {name: Assign(Place(name), field.node, rules) for name, field in stored.items()}
        written = tuple(Written(name, Place(name), rules) for name in names)
        owed = (*(bar(output.name) for output in self.outputs), *fields)
        parts[f"transpose of {self.name}"] = HostCall(function, owed, written)
        solution = [graph.read(name, here) for name in names]
        values = self.iteration.residual.values
        seeds: dict[Node, Node] = {}
        for value, node in zip(values, solution, strict=True):
            seed = graph.negative(node)
            seeds[value] = graph.add(seeds[value], seed) if value in seeds else seed
        terms = vjp(graph, seeds, lambda name: name in self.fields and wanted(name))
        if any(singular(node) for by_offset in terms.values() for node in by_offset.values()):
            own = [
                (node, vjp(graph, {value: graph.negative(node)}, lambda name: name in self.fields and wanted(name)))
                for value, node in zip(values, solution, strict=True)
            ]
            for field, by_offset in terms.items():
                for offset, whole in by_offset.items():
                    if singular(whole):
                        parts_of = [(node, each[field][offset]) for node, each in own if offset in each.get(field, {})]
                        by_offset[offset] = graph.sum(self._where_solved(graph, node, part) for node, part in parts_of)
        return Transposed(parts, terms)

    @staticmethod
    def _where_solved(graph: Graph, solved: Node, node: Node) -> Node:
        """The cotangent from one residual, but 0 where that of the residual itself is, such as outside of the grid."""
        if not singular(node):
            return node
        return graph.apply("select", graph.apply("eq", solved, graph.const(0)), graph.const(0), node)

    def roots(self) -> list[Node]:
        return list(self.iteration.residual.values)

    def identity(self) -> str:
        return repr((super().identity(), self.inputs, self.iteration.identity()))


def newton(
    residual: Callable[..., Any],
    guess: Any,
    boundary: Any = None,
    method: Method = "auto",
    tolerance: float | None = None,
    iterations: int = 20,
    preconditioner: Given | None = None,
) -> Any:
    """Find the field x with `residual(x) = 0` at every cell by Newton's method, for a nonlinear implicit time step.

    ```
    h_next = ds.newton(lambda x: x - dt * div([interpolate(x, a) ** 2 * s for a, s in enumerate(grad(x))]) - h, guess=h)
    ```

    The residual is traced once, and differentiated as an expression. Each iteration solves a linear system on the host, in f64, and halves
    its step until the residual falls. The gradient does not use the iterations: it solves one linear system with the transposed derivative
    at the solution (implicit function theorem), and includes all fields in the residual. It does not depend on the guess.

    Args:
        residual: a function of x, a field at the guess's location. It returns an expression at that location, which reads x in a stencil.
            For several fields it takes one argument for each, and returns a tuple of expressions.
        guess: of several fields a tuple, or a dict, which the residual then takes and returns; a field may be a vector. Start of the
            iteration, an expression of the step. Good value: the field whose next value is the solution.
        boundary: of several fields, one for all or a list with one for each. Values of x outside the grid: rules, see `Variable`, or a
            field of the step whose rules are used; None: those of the guess. Where x lies on faces and a rule gives its last value, on
            the side itself, that value replaces the equation there.
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
    chosen = arguments.one_of("method", method, METHODS)
    if tolerance is not None:
        tolerance = arguments.number("tolerance", tolerance, "a number between 0 and 1", lambda x: 0 < x < 1, "1e-12 is usual in f64")
    require_preconditioner(preconditioner, chosen)
    most = arguments.whole("iterations", iterations, 1, remedy="20 is usual")
    unknowns = Unknowns.of(guess, residual, "guess", "newton")
    solution = unknowns.placed(boundary)
    options = chosen, tolerance, most, preconditioner
    return unknowns.joined(newton_fields(unknowns.called(residual), unknowns.fields, solution, *options))


def newton_fields(
    residual: Function,
    guesses: Mapping[str, Symbol],
    solution: Sequence[Placed],
    method: Method,
    tolerance: float | None,
    most: int,
    preconditioner: Given | None,
) -> list[Symbol]:
    """`newton` for one equation or more, whose guesses have the names of the fields, for messages."""
    first, *_ = starts = [*guesses.values()]
    graph = trace_of(first, "newton()")
    name = f"newton {next(graph.unknowns)}"
    outputs = outputs_of(name, solution, [*guesses])
    traced = _residual(residual, guesses, graph, outputs)
    rules = tuple(field.rules for field in solution)

    def system(tolerance: float | None) -> System | CoupledSystem:
        return system_of([*traced.weights], rules, [*guesses], method, tolerance, preconditioner, row_sums(graph, traced.weights))

    iteration = Iteration(traced, rules, system(LINEAR), tolerance, most, Title("newton", tuple(guesses), graph.steady))
    names = tuple(stored_name(start, graph) for start in starts)
    graph.store(Newton(name, names, iteration, system(None), outputs))
    return [read_of(start, output) for start, output in zip(starts, outputs, strict=True)]


def _residual(residual: Function, guesses: Mapping[str, Symbol], graph: Trace, outputs: Sequence[Stored]) -> Residual:
    """The residuals of the solution `outputs`, for evaluation by the iteration.

    On a side where a rule gives a field, its residual is the difference from that value.
    """
    unknowns = [output.name for output in outputs]
    xs = [
        guess.like(graph.read(output.name, (0,) * guess.ndim), output.location)
        for guess, output in zip(guesses.values(), outputs, strict=True)
    ]
    extended = [graph.field(x, output.rules) for x, output in zip(xs, outputs, strict=True)]
    expressions = []
    results = applied(residual, extended, unknowns, "the residual of newton()", [*guesses])
    for result, x, output in zip(results, xs, outputs, strict=True):
        on_sides = graph.on_sides(x.like(graph.const(0)), output)
        expressions.append(graph.on_sides(result, output, x) - on_sides)
    values, sizes, fields = [], [], dict[str, None]()
    for expression, output in zip(expressions, outputs, strict=True):
        value, size = _with_stored_parts(graph, expression, unknowns, output, fields)
        values.append(value)
        sizes.append(size)
    weights = derivatives(graph, values, unknowns)
    require_square(weights, [*guesses], "the residual of newton()")
    return Residual(tuple(unknowns), tuple(values), tuple(sizes), weights, tuple(fields), tuple(guesses))


def _with_stored_parts(
    graph: Trace, expression: Symbol, unknowns: Sequence[str], solution: Placed, fields: dict[str, None]
) -> tuple[Node, Node]:
    """Rewrite an expression so that parts that do not depend on the unknowns are read from stored fields, at the cell itself.

    Return it with the sum of the magnitudes of its terms. The names of the fields are added to `fields`.
    """
    terms = [graph.mul(graph.const(weight), core) for core, weight in linear_terms(graph, expression.node).values()]
    depend = _dependent(terms, unknowns)
    summands = [*(term for term in terms if term.id in depend), graph.sum(term for term in terms if term.id not in depend)]
    kept = _kept(summands, depend)
    done: dict[int, Node] = {}
    for node in ordered(summands):
        if kept.get(node.id):
            done[node.id] = graph.apply(node.op, *(done[a.id] for a in node.args), data=node.data) if node.args else node
        elif node.id in kept:
            name = stored_name(expression.like(node, solution.location), graph)
            fields[name] = None
            done[node.id] = graph.read(name, (0,) * expression.ndim)
    every = [done[node.id] for node in summands]
    return graph.sum(every), graph.sum(graph.apply("abs", term) for term in every)


def _dependent(nodes: list[Node], unknowns: Sequence[str]) -> set[int]:
    """Numbers of the nodes that depend on some fields."""
    depend: set[int] = set()
    for node in ordered(nodes):
        if (node.op == "read" and node.data[0] in unknowns) or any(a.id in depend for a in node.args):
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
            infinite = choice and bool(node.args) and singular(node)
            kept[node.id] = node.id in depend or is_scaled(node) or infinite or node.op in ("const", *CONDITIONS)
            needed |= {a.id for a in node.args} if kept[node.id] else set()
    return kept
