"""Linear systems inside a time step, of one field or of several.

The matrix of a system is a stencil whose weights are expressions of the step, or one for each field that an equation reads. Each weight is
stored, and a host function solves the system. The iterations are not differentiated. With A x = b, the cotangent of b is l = A^-T x_bar, a
solution with the transposed matrix. The cotangent of the weight w_rco, with which equation r reads field c at the offset o, is
-l_r(i) x_c(i + o), an expression, and the tangent is x' = A^-1 (b' - A' x).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.boundary import linear, zero_rules
from diffsim.errors import TraceError
from diffsim.expr.derive import vjp
from diffsim.expr.graph import CONDITIONS, OPERATIONS, Graph, Node, Offset, is_const, linear_terms, ordered, reads
from diffsim.expr.magnitude import magnitude
from diffsim.expr.symbol import Symbol, merge_locations
from diffsim.linear import METHODS, CoupledSystem, Entry, Given, Inside, Method, System, require_preconditioner, solutions, system_of
from diffsim.mesh.field import Location
from diffsim.stepping.derive.undo import decided_by
from diffsim.stepping.ir.names import Title, bar, dot
from diffsim.stepping.ir.program import HostCall, Place, Written
from diffsim.stepping.stages.unknowns import Unknowns
from diffsim.stepping.trace.fields import Derive, Placed, Stage, Stored
from diffsim.stepping.trace.stages import HostStage, StoredExpression, Transposed, placed, read_of, stored_name, trace_of
from diffsim.stepping.trace.trace import UNKNOWN, Trace
from diffsim.typing import Array

Function: TypeAlias = Callable[[Sequence[Symbol]], list[Any]]
"""A function of fields that gives an expression for each."""

TRIALS = 8
"""Random numbers for each field of which weights are made."""
CANCELS = 1e-9
"""Weights that cancel add up to less, relative to their sizes."""
SAME, SIZES = 1e-14, 64
"""Terms cancel if their sum, over their sizes, is at most the first in all trials, whose number is the second."""
NOT_ANALYTIC = ("abs", "floor", "min", "max", "select", *CONDITIONS)
"""Operations that may cancel for some values of their arguments and not for others."""


@dataclass(frozen=True)
class Solution:
    """A host function: (right sides, weights that are fields, fields with one value, magnitudes) -> solution.

    Attributes:
        system: the system to solve.
        weights: for each entry of the matrix a number, the index of a field, or an expression of fields with one value.
        transposed: solve with the transposed matrix.
        given: boundary rules use their given values. For a tangent these are 0.
        numbers: names of the fields with one value in all cells.
        sized: the last field is the magnitude of the terms of the right side.
        title: its name in messages.
    """

    system: System | CoupledSystem
    weights: tuple[float | int | Node, ...]
    transposed: bool
    given: bool
    numbers: tuple[str, ...] = ()
    sized: bool = False
    title: Title = dataclasses.field(default=Title("solve"), compare=False)

    def __call__(self, *cells: Array) -> list[Array]:
        count = self.system.count
        right_sides, fields = cells[:count], list(cells[count:])
        size = fields.pop() if self.sized else None
        if self._constants is not None:
            return solutions(self.system, self._constants, right_sides, self.transposed, self.given, size)
        first = len(fields) - len(self.numbers)
        numbers = {name: float(field.flat[0]) for name, field in zip(self.numbers, fields[first:], strict=True)}
        values = dict(zip((node.id for node in self._expressions), _values(self._expressions, numbers.__getitem__), strict=True))
        weights = [
            weight if isinstance(weight, float) else float(values[weight.id]) if isinstance(weight, Node) else fields[weight]
            for weight in self.weights
        ]
        return solutions(self.system, weights, right_sides, self.transposed, self.given, size)

    def inside(self, cells: Sequence[Array], solution: Array) -> Inside | None:
        """See `HostFunction`."""
        if self._constants is None or not isinstance(self.system, System):
            return None
        size = cells[-1] if self.sized else None
        return self.system.inside(self._constants, cells[0], solution, self.transposed, self.given, size)

    def identity(self) -> str:
        order = {node.id: n for n, node in enumerate(ordered(self._expressions))}
        written = [(node.op, node.data, [order[a.id] for a in node.args]) for node in ordered(self._expressions)]
        weights = [f"expression {order[w.id]}" if isinstance(w, Node) else w for w in self.weights]
        return repr((self.system.identity(), weights, written))

    @property
    def _expressions(self) -> list[Node]:
        return [weight for weight in self.weights if isinstance(weight, Node)]

    @cached_property
    def _constants(self) -> tuple[float, ...] | None:
        """The weights, if all are numbers that are known before the run."""
        constants = tuple(weight for weight in self.weights if isinstance(weight, float))
        return constants if len(constants) == len(self.weights) else None

    def room(self, cells: int) -> int:
        return self.system.room(cells)


@dataclass(frozen=True)
class Size(StoredExpression):
    """The magnitude of the terms of a right side. Solutions do not depend on it, so it has neither tangent nor cotangent.

    Attributes:
        of: the right side, in which fields that were stored in earlier stages are replaced by their expressions.
    """

    of: Node
    moves: ClassVar[bool] = False

    def tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        return []


def written_to(outputs: Sequence[Stored], targets: Mapping[str, Place]) -> tuple[Written, ...]:
    """The results of a host function that fills these fields."""
    return tuple(Written(output.name, targets[output.name], output.rules) for output in outputs)


def _size(graph: Graph, name: str, location: Location, of: Node) -> Size:
    return Size(location, zero_rules(len(location)), name, magnitude(graph, of), of)


@dataclass(frozen=True)
class Solve(HostStage):
    """The solution of a linear system.

    Attributes:
        name: name of the stage; of one field, that of the solution.
        system: the system.
        right_sides: the fields on the right, one for each equation.
        weights: for each entry of the matrix a number, the name of a field, or an expression of numbers of the run. The host evaluates
            it, so that the weight remains a number: of f64 in f32 too, where sums that vanish would not.
        outputs: the solution, a field for each equation.
        given: whether its boundary rules use their given values. For a tangent these are 0.
        size: the magnitude of the terms of the right side, if the matrix may have no inverse.
        title: its name in messages.
    """

    name: str
    system: System | CoupledSystem
    right_sides: tuple[str, ...]
    weights: tuple[float | str | Node, ...]
    outputs: tuple[Stored, ...]
    given: bool = True
    size: Size | None = None
    title: Title = dataclasses.field(default=Title("solve"), compare=False)

    @property
    def fields(self) -> tuple[str, ...]:
        """Weights that are fields, without duplicates."""
        return tuple(dict.fromkeys(weight for weight in self.weights if isinstance(weight, str)))

    @property
    def numbers(self) -> tuple[str, ...]:
        """Fields with one value in all cells, of which weights are expressions."""
        return tuple(sorted(reads([weight for weight in self.weights if isinstance(weight, Node)])))

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.right_sides, *self.fields, *self.numbers, *([self.size.name] if self.size else []))

    def _function(self, transposed: bool) -> Solution:
        weights = tuple(self.fields.index(weight) if isinstance(weight, str) else weight for weight in self.weights)
        return Solution(self.system, weights, transposed, self.given, self.numbers, self.size is not None and not transposed, self.title)

    def operation(self, targets: Mapping[str, Place]) -> HostCall:
        return HostCall(self._function(False), self.inputs, written_to(self.outputs, targets))

    def tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        here = (0,) * len(self.outputs[0].location)
        names = (*self.right_sides, *self.fields)
        moved = dict(zip(names, derive([graph.read(name, here) for name in names]), strict=True))
        rights = [moved[name] for name in self.right_sides]
        bodies = list(derive([self.size.of])) if self.size else list(rights)
        for (row, column, offset), weight in zip(self.system.entries, self.weights, strict=True):
            if not isinstance(weight, float):
                slope = moved[weight] if isinstance(weight, str) else derive([weight])[0]
                change = graph.mul(slope, graph.read(self.outputs[column].name, offset))
                rights[row], bodies[row] = graph.sub(rights[row], change), graph.sub(bodies[row], change)
        sides = [
            StoredExpression(output.location, zero_rules(len(here)), f"right side {order} of {output.name}", right)
            for output, right in zip(self.outputs, rights, strict=True)
        ]
        size = _size(graph, f"size {order} of {self.name}", self.outputs[0].location, bodies[0]) if self.size else None
        outputs = tuple(replace(output, name=dot(output.name, order), rules=linear(output.rules)) for output in self.outputs)
        right_sides, name = tuple(side.name for side in sides), dot(self.name, order)
        solved = replace(self, name=name, right_sides=right_sides, outputs=outputs, given=False, size=size)
        return [*sides, *([size] if size else []), solved]

    def transposed(self, graph: Graph, wanted: Callable[[str], bool]) -> Transposed:
        here = (0,) * len(self.outputs[0].location)
        names = [f"transposed {output.name}" for output in self.outputs]
        solution = [graph.read(name, here) for name in names]
        terms: dict[str, dict[Offset, Node]] = {}
        for side, node in zip(self.right_sides, solution, strict=True):
            if wanted(side):  # two equations may have one right side
                terms[side] = {here: graph.add(terms.get(side, {}).get(here, graph.const(0)), node)}
        seeds: dict[Node, Node] = {}
        for (row, column, offset), weight in zip(self.system.entries, self.weights, strict=True):
            if not isinstance(weight, float):
                node = graph.read(weight, here) if isinstance(weight, str) else weight
                term = graph.negative(graph.mul(solution[row], graph.read(self.outputs[column].name, offset)))
                seeds[node] = graph.add(seeds[node], term) if node in seeds else term
        for field, by_offset in vjp(graph, seeds, wanted).items():
            terms[field] = {here: graph.add(terms.get(field, {}).get(here, graph.const(0)), by_offset[here])}
        inputs = (*(bar(output.name) for output in self.outputs), *self.fields, *self.numbers)
        written = tuple(Written(name, Place(name), zero_rules(len(here))) for name in names)
        return Transposed({f"transpose of {self.name}": HostCall(self._function(True), inputs, written)}, terms)

    def identity(self) -> str:
        return repr((super().identity(), self.inputs, self._function(False).identity()))


def solve(
    operator: Callable[..., Any],
    right_side: Any,
    boundary: Any = "zero",
    method: Method = "auto",
    tolerance: float | None = None,
    preconditioner: Given | None = None,
) -> Any:
    """Solve `operator(x) = right_side` at every cell for the field x, for an implicit time step.

    ```
    T_next = ds.solve(lambda T: T - 0.5 * dt * laplacian(T), T + 0.5 * dt * laplacian(T), boundary="mirror")
    ```

    The operator is traced once. It must be linear in x (otherwise use `newton`), and read x in a stencil. Its weights may be any
    expressions of the step's fields. The solver runs on the host, in f64 ("direct" in the precision of the simulation), between two
    compiled kernels. The gradient needs one more solution, with the transposed matrix, for each solution. It includes all fields in the
    right side and in the weights.

    Args:
        operator: a function of x, a field at the location of the right side. It returns an expression at that location. For several
            fields it takes one argument for each, and returns a tuple of expressions.
        right_side: an expression of the step, or a vector; a tuple of these for several fields, or a dict, which the operator then takes
            and returns.
        boundary: of several fields, one for all or a list with one for each. Values of x outside the grid: rules, see `Variable`, or a
            field of the step whose rules are used. Where x lies on faces
            and a rule gives its last value, on the side itself, that value replaces the equation there.
        method: "tridiagonal": elimination on all lines along one axis, for an operator that reads a cell and its two neighbours there. The
            time grows linearly with the cells. "direct": sine, cosine or Fourier transforms, for weights that are numbers: constants, or
            expressions of inputs with `axes=()` and of sums over all cells; a last layer of faces that a rule gives may be beside them.
            "lu": sparse elimination, for some ten thousand cells, in two dimensions for some hundred thousand. "cg":
            conjugate gradients with multigrid, for a symmetric operator that is positive or negative definite. "bicgstab": stabilised
            biconjugate gradients, for any other operator. "auto": the first of these that works, with "lu" for up to 20 000 cells. If the
            operator maps constants to 0, such as that of a Poisson equation with "mirror" or
            "periodic" on all sides, "direct", "cg" and, of a symmetric operator, "lu" return the solution with mean zero. The right side
            must have mean zero too, but for
            the rounding of the terms that it is a sum of, which are found through stages. What a function on the host, a loop or a state
            gives counts by its value: where that may be rounding alone, subtract its mean.
            Several fields: "auto" is "lu" for up to 200 000 unknowns, in three dimensions 20 000, and "bicgstab" for more. "cg" is for
            symmetric systems. "tridiagonal" and "direct" are refused. A level that is open is refused.
        tolerance: for "cg" and "bicgstab": largest norm of the residual, relative to that of the right side. None: 1e-13 in f64, 1e-7 in
            f32. The gradient has this accuracy too.
        preconditioner: for "cg" and "bicgstab", one of which "auto" then means: a function of the matrix (a `scipy.sparse.csr_array` with a
            row for each cell, in C order) and the shape of the grid. It returns a `scipy.sparse.linalg.LinearOperator`, an approximate
            inverse. For "cg" that must be symmetric too; for a gradient by "bicgstab" it needs `rmatvec`. `BlockJacobi` is one. None: the
            method chooses.

    Returns:
        x, as a field of the step.

    Raises:
        TraceError: it is called outside of a step, or the operator is not linear, has a constant part, or stores a stage of x.
        ShapeError: the operator's result is at another location.
        ParameterError: the method is unknown; or, in a run, it does not work for the matrix.
        SingularError: in a run, the matrix has no inverse, or the right side is not in its range.
        ConvergenceError: in a run, the tolerance was not met.

    Reference: Giles, Collected matrix derivative results for forward and reverse mode algorithmic differentiation, in Advances in Automatic
    Differentiation (2008), section 2.3.1, doi:10.1007/978-3-540-68942-3_4.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian

        class ImplicitHeat(ds.Equation):
            # Backward Euler: stable for every time step.

            states = {"T": ds.Variable("mirror", unit="K")}

            def __init__(self, grid, dt, kappa):
                self.grid, self.dt, self.kappa = grid, dt, kappa

            def step(self, T):
                return {"T": ds.solve(lambda x: x - self.dt * self.kappa * laplacian(x), T, boundary=T)}

        rod = ds.Simulation(ImplicitHeat(ds.Grid((40,), spacing=0.05), dt=100.0, kappa=0.01))  # an explicit step would need dt < 0.125
        T = rod.run({"T": np.linspace(280.0, 300.0, 40)}, steps=20).final["T"]
        assert np.allclose(T, 290.0, atol=0.01)
    """
    arguments.function("operator", operator, "ds.solve(lambda x: x - dt * laplacian(x), right_side)", optional=False)
    chosen = arguments.one_of("method", method, METHODS)
    if tolerance is not None:
        tolerance = arguments.number("tolerance", tolerance, "a number between 0 and 1", lambda x: 0 < x < 1, "1e-13 is usual in f64")
    require_preconditioner(preconditioner, chosen)
    unknowns = Unknowns.of(right_side, operator, "right_side", "solve")
    solution = unknowns.placed(boundary)
    return unknowns.joined(solve_fields(unknowns.called(operator), unknowns.fields, solution, chosen, tolerance, preconditioner))


def solve_fields(
    operator: Function,
    right_sides: Mapping[str, Symbol],
    solution: Sequence[Placed],
    method: Method,
    tolerance: float | None,
    preconditioner: Given | None,
    affine: bool = False,
) -> list[Symbol]:
    """`solve` of one equation or more, whose right sides have the names of the fields, for messages.

    `affine`: the operator may have a part without its argument, which is then subtracted from the right side.
    """
    first, *_ = rights = [*right_sides.values()]
    graph = trace_of(first, "solve()")
    weights, owed = matrix_of(operator, right_sides, graph, solution, affine=affine)
    name = f"solve {next(graph.count)}"
    sides = []
    for right, field, part in zip(rights, solution, owed, strict=True):
        right = graph.on_sides(right, field)
        sides.append(stored_name(right if is_const(part, 0) else right - right.like(part), graph))
    stored = tuple(_stored(node, rights[row], solution[row].location, graph) for (row, _, _), node in weights.items())
    outputs = outputs_of(name, solution, [*right_sides])
    open_ = len(sides) == 1 and _may_be_open([*weights.values()])
    size = _size(graph, f"size of {name}", solution[0].location, _unstored(graph, sides[0])) if open_ else None
    if size is not None:
        graph.store(size)
    rules = [field.rules for field in solution]
    system = system_of([*weights], rules, [*right_sides], method, tolerance, preconditioner, row_sums(graph, weights))
    title = Title("solve", tuple(right_sides), graph.steady)
    graph.store(Solve(name, system, tuple(sides), stored, outputs, size=size, title=title))
    return [read_of(right, output) for right, output in zip(rights, outputs, strict=True)]


def outputs_of(name: str, solution: Sequence[Placed], fields: Sequence[str]) -> tuple[Stored, ...]:
    """The fields of a solution: of one field, that with the name of the stage; of several, by the names of the fields."""
    names = [name] if len(solution) == 1 else [f"{name} for {field}" for field in fields]
    return tuple(Stored(field.location, field.rules, each) for each, field in zip(names, solution, strict=True))


def _stored(weight: Node, like: Symbol, location: Location, graph: Trace) -> float | str | Node:
    """A weight for the host: a number, an expression of fields with one value in all cells, or the name of a field."""
    if weight.op == "const":
        return float(weight.data)
    known = {**graph.placed, **graph.fixed, **graph.series}
    if any(name not in known or known[name].axes != () for name in reads([weight])):
        return stored_name(like.like(weight, location), graph)
    here = (0,) * like.ndim
    names = {name: stored_name(like.like(graph.read(name, here), known[name].where), graph) for name in reads([weight])}
    (node,) = graph.replace([weight], lambda read: graph.read(names[read.data[0]], here))
    return node


def _unstored(graph: Trace, field: str) -> Node:
    """The expression of a field, without reads of this cell's values of earlier stages.

    A stage of which an expression takes differences counts by its value, since the sum of the differences over all cells is 0 but for their
    own rounding: the divergence of a velocity does not depend on how the velocity was computed.
    """
    bodies = {stage.name: stage.node for stage in graph.stages if isinstance(stage, StoredExpression)}

    def expanded(node: Node) -> Node:
        of_stages = vjp(graph, {node: graph.const(1)}, bodies.__contains__)
        once = {name for name, weights in of_stages.items() if not _may_be_open(list(weights.values()))}

        def body(read: Node) -> Node:
            name, offset = read.data
            return expanded(bodies[name]) if name in once and not any(offset) else read

        return graph.replace([node], body)[0]

    return expanded(graph.read(field, (0,) * graph.grid.ndim))


def _may_be_open(weights: Sequence[Node]) -> bool:
    """True if a stencil may map constants to 0: its weights cancel, tried with random numbers in place of fields."""
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        tried = [np.broadcast_to(value, TRIALS) for value in _values(weights, lambda name: rng.uniform(0.1, 1.9, TRIALS))]
        return bool((np.abs(np.sum(tried, axis=0)) <= CANCELS * np.sum(np.abs(tried), axis=0)).any())


def row_sums(graph: Graph, weights: Mapping[Entry, Node]) -> dict[tuple[int, int], float]:
    """By equation and field, the sum of the weights of a stencil, where that is the same number for all values of the fields in them.

    It is the sum of their constant terms, if all others cancel. That is tried with random numbers in place of fields, and of values that a
    condition chooses; what is left is analytic. The numbers have many sizes: a term that does not cancel may be small beside others at one.
    """
    blocks: dict[tuple[int, int], list[Node]] = {}
    for (row, column, _), node in weights.items():
        blocks.setdefault((row, column), []).append(node)
    out: dict[tuple[int, int], float] = {}
    for block, nodes in blocks.items():
        terms = [term for node in nodes for term in linear_terms(graph, node).values()]
        varying = [(core, weight) for core, weight in terms if core.op != "const"]
        if _cancel(varying):
            out[block] = math.fsum(weight * core.data for core, weight in terms if core.op == "const")
    return out


def _cancel(terms: Sequence[tuple[Node, float]]) -> bool:
    """True if terms add up to 0 for all values of the fields in them."""
    rng = np.random.default_rng(0)
    cores = [core for core, _ in terms]
    with np.errstate(all="ignore"):
        values = _values(cores, lambda _: rng.uniform(1, 10, SIZES) * 10.0 ** rng.integers(-20, 10, SIZES), {"read", *NOT_ANALYTIC})
        weighted = [np.broadcast_to(weight * value, SIZES) for value, (_, weight) in zip(values, terms, strict=True)]
        tried = np.array(weighted).reshape(-1, SIZES)
        total, size = tried.sum(axis=0), np.abs(tried).sum(axis=0)
        finite = np.isfinite(size)
        return bool((np.abs(total) <= SAME * size)[finite].all()) and (not terms or finite.sum() > SIZES // 4)


def _values(roots: Sequence[Node], field: Callable[[str], float | Array], chosen: Container[str] = ("read",)) -> list[Any]:
    """The values of expressions, for values of the fields that they read at the cell itself.

    Args:
        roots: the expressions.
        field: its values by name.
        chosen: operations whose results `field` gives, whatever their operands.
    """
    values: dict[int, Any] = {}
    with np.errstate(all="ignore"):  # a weight that is not finite is refused
        for node in ordered(roots):
            if node.op in chosen:
                values[node.id] = field(node.data[0] if node.op == "read" else "")
            else:
                operands = [*(values[a.id] for a in node.args), *([] if node.data is None else [node.data])]
                values[node.id] = node.data if node.op == "const" else OPERATIONS[node.op].evaluate(*operands)
    return [values[node.id] for node in roots]


def weights_of(
    operator: Callable[[Symbol], Symbol], right_side: Symbol, graph: Trace, solution: Placed, what: str = "the operator of solve()"
) -> tuple[dict[Offset, Node], Node]:
    """The weights of an operator of one field: offset -> expression, and its part from the values that rules name."""
    weights, (owed,) = matrix_of(lambda fields: [operator(*fields)], {"x": right_side}, graph, [solution], what)
    return {offset: node for (_, _, offset), node in weights.items()}, owed


def matrix_of(
    operator: Function,
    like: Mapping[str, Symbol],
    graph: Trace,
    solution: Sequence[Placed],
    what: str = "the operator of solve()",
    affine: bool = False,
) -> tuple[dict[Entry, Node], list[Node]]:
    """The matrix of an operator: entry -> weight, an expression, and its parts from the values that rules name.

    On a side where a rule gives a field, the rule replaces its equation. `what` names the operator in messages. `affine`: the operator may
    have a part without its argument; it is in the second result too.
    """
    unknowns = placeholders(graph, len(solution))
    xs = [field.like(graph.read(unknown, (0,) * field.ndim), placed(field)) for unknown, field in zip(unknowns, like.values(), strict=True)]
    results = [graph.on_sides(*each) for each in zip(applied(operator, xs, unknowns, what, [*like]), solution, xs, strict=True)]
    weights = derivatives(graph, [result.node for result in results], unknowns)
    require_square(weights, [*like], what)
    rests = [_without(graph, result, unknowns) for result in results]
    if not is_linear(weights, [result.node for result in results], unknowns):
        raise TraceError(f"{what} is not linear in its argument, or does not depend on it; take ds.newton")
    if not affine and not all(is_const(rest, 0) for rest in rests):
        raise TraceError(f"{what} has a part without its argument; subtract that part from the right side")
    with_values = [graph.field(x, field.rules) for x, field in zip(xs, solution, strict=True)]
    if all(extended is x for extended, x in zip(with_values, xs, strict=True)):
        return weights, rests
    again = [graph.on_sides(*each) for each in zip(operator(with_values), solution, xs, strict=True)]
    return weights, [_without(graph, result, unknowns) for result in again]


def placeholders(graph: Trace, count: int) -> list[str]:
    """Names of unknown fields while an operator is traced."""
    return [f"{UNKNOWN}{next(graph.unknowns)}" for _ in range(count)]


def derivatives(graph: Trace, values: Sequence[Node], unknowns: Sequence[str]) -> dict[Entry, Node]:
    """The derivative of each expression with respect to each unknown at each offset, in order of distance: the cell itself first."""
    out: dict[Entry, Node] = {}
    for row, value in enumerate(values):
        slopes = vjp(graph, {value: graph.const(1)}, lambda name: name in unknowns)
        for column, unknown in enumerate(unknowns):
            out |= {(row, column, offset): node for offset, node in by_distance(slopes.get(unknown, {})).items()}
    return out


def is_linear(weights: Mapping[Entry, Node], values: Sequence[Node], unknowns: Sequence[str]) -> bool:
    """True if no derivative, and no condition, of some expressions depends on an unknown."""
    depends = not reads([*weights.values()]).keys().isdisjoint(unknowns)
    return not depends and not any(decided_by(value, unknown) for value in values for unknown in unknowns)


def require_square(weights: Mapping[Entry, Node], names: Sequence[str], what: str) -> None:
    """Raise `TraceError` unless each equation depends on an unknown, and an equation on each unknown."""
    if len(names) == 1:
        if not weights and what.startswith("the residual"):
            raise TraceError(f"{what} does not depend on its argument, expected an expression of it; return that")
        if not weights:
            raise TraceError(f"{what} is not linear in its argument, or does not depend on it; take ds.newton")
        return
    for number, name in enumerate(names):
        if all(row != number for row, _, _ in weights):
            raise TraceError(f"{what} for {name} depends on none of {', '.join(names)}, expected an expression of them; return that")
        if all(column != number for _, column, _ in weights):
            raise TraceError(f"{what} depends on {name} nowhere, expected an equation that does; add it, or make {name} an input")


def applied(function: Function, xs: Sequence[Symbol], unknowns: Sequence[str], what: str, names: Sequence[str]) -> list[Symbol]:
    """Apply a function to expressions of unknown fields, and check the results. In messages `what` names it, `names` the fields."""
    graph = trace_of(xs[0], what)
    before = len(graph.stages)
    results = function(xs)
    for result, x, name in zip(results, xs, names, strict=True):
        if not isinstance(result, Symbol) or result.graph is not graph:
            which = f" for {name}" if len(names) > 1 else ""
            raise TraceError(f"{what} gave {shown(result)}{which}, expected an expression of {', '.join(names)}; return that")
        result.expect(False, what)
        merge_locations(result.location, x.location)
    if any(not stage.reads().keys().isdisjoint(unknowns) for stage in graph.stages[before:]):
        raise TraceError(f"{what} stores a stage of its argument, expected one expression; leave ds.stage out")
    return results


def by_distance(weights: Mapping[Offset, Node]) -> dict[Offset, Node]:
    """The weights of a stencil in order: the cell itself first."""
    return dict(sorted(weights.items(), key=lambda item: (sum(map(abs, item[0])), item[0])))


def _without(graph: Trace, expression: Symbol, unknowns: Sequence[str]) -> Node:
    """The part of an expression that does not depend on fields in which it is linear."""
    (rest,) = graph.replace([expression.node], lambda read: graph.const(0) if read.data[0] in unknowns else read)
    return rest
