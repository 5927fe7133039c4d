"""Loops within a step, such as relaxation sweeps, substeps and iterations, with one body for any number of laps.

The body of a loop is itself a step, traced once. So it has a program, an adjoint and a tangent like any step. The adjoint runs the loop
again and keeps the fields at the start of each lap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from diffsim.base import arguments
from diffsim.base.messages import shown
from diffsim.boundary import Boundary, linear, zero_rules
from diffsim.errors import TraceError
from diffsim.expr.graph import Graph, Node, Offset, reads
from diffsim.expr.symbol import Symbol
from diffsim.stepping.derive.adjoint import adjoint_program
from diffsim.stepping.derive.forward import forward_program, own_stages
from diffsim.stepping.derive.tangent import tangent_step
from diffsim.stepping.ir.names import bar, dot
from diffsim.stepping.ir.program import Assign, Laps, Loop, Nest, Operation, Part, Place, Program, Total
from diffsim.stepping.trace.fields import Derive, Placed, Stage, Stored
from diffsim.stepping.trace.reductions import reduce
from diffsim.stepping.trace.stages import (
    HostStage,
    SelfTransposed,
    Transposed,
    read_of,
    require_same,
    stage,
    stored_name,
    trace_of,
    written_by,
)
from diffsim.stepping.trace.trace import Trace, TracedStep

MOST_LAPS = 10_000


class Body(TracedStep):
    """The body of a loop as a step. Unlike in other steps, fields that it does not change are copied."""

    def delays(self) -> dict[str, tuple[str, int]]:
        return {name: (name, 0) for name in self.states}

    @functools.cached_property
    def joined(self) -> tuple[int, ...]:
        """None: cotangents of its laps are folded."""
        return ()


@dataclass(frozen=True)
class Repeat(SelfTransposed):
    """A stage that computes the result of a loop.

    Attributes:
        name: name of the loop.
        count: number of laps.
        body: a step whose states are the fields of the loop.
        starts: field of the loop -> stored field with its first value.
        outputs: final values of the fields.
        number: name of the number of laps that run, at most `count`; "": all.
    """

    name: str
    count: int
    body: TracedStep
    starts: tuple[str, ...]
    outputs: tuple[Stored, ...]
    number: str = ""
    movable = False

    @property
    def _laps(self) -> Laps | None:
        return Laps(self.count, self.number) if self.number else None

    @property
    def _here(self) -> Offset:
        return (0,) * self.body.grid.ndim

    def reads(self) -> dict[str, set[Offset]]:
        return {name: {self._here} for name in (*self.starts, *self.body.coefficients, *self._numbers)}

    @property
    def _numbers(self) -> tuple[str, ...]:
        return (self.number,) if self.number else ()

    def roots(self) -> list[Node]:
        return [*self.body.outputs.values(), *(root for inner in self.body.stages for root in inner.roots())]

    def identity(self) -> str:
        inner = [stage.identity() for stage in self.body.stages]
        return repr((super().identity(), self.count, self.number, self.starts, self.body.states, self.body.coefficients, inner))

    def _start(self, state: str, level: int) -> Place:
        """A field at the start of a lap, and after the last."""
        return Place(state, level, self.count + 1)

    def operation(self, targets: Mapping[str, Place]) -> Loop:
        program = forward_program(self.body, (), self.name)
        states, graph = self.body.states, self.body.graph
        first = tuple(
            Assign(replace(self._start(state, 0), first=self._laps), graph.read(start, self._here), states[state].rules)
            for state, start in zip(states, self.starts, strict=True)
        )
        moved = {Place(state, k): Place(state, k, self.count + 1, turns=True) for state in states for k in (0, 1)}
        ends = {output.name: self._start(state, self.count) for state, output in zip(states, self.outputs, strict=True)}
        return self._loop(program, moved, first, ends, {*self.starts, *self.body.coefficients, *self._around()}, down=False)

    def _around(self) -> set[str]:
        """The outside fields that the body reads."""
        own = {*self.body.states, *written_by(self.body.stages)}
        return {*reads(self.body.outputs.values()), *(name for inner in self.body.stages for name in inner.reads())} - own

    def _loop(
        self,
        program: Program,
        moved: Mapping[Place, Place],
        first: tuple[Assign, ...],
        ends: dict[str, Place],
        inputs: set[str],
        *,
        down: bool,
    ) -> Loop:
        """The laps of a program, with its fields at the given places."""
        operations: list[Operation] = []
        for operation in program.operations:
            assert isinstance(operation, (Nest, Total))
            if isinstance(operation, Nest):
                assigns = tuple(replace(a, target=moved.get(a.target, a.target)) for a in operation.assigns)
                operation = replace(operation, assigns=assigns)
            operations.append(operation)
        own = {name: moved.get(place, place) for name, place in program.places.items() if name not in inputs}
        reads = tuple(sorted({*inputs, *self._numbers}))
        return Loop(self.count, tuple(operations), first, own | ends, tuple(ends), reads, dict(program.inline), down, self._laps)

    def tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        step = tangent_step(self.body, order)
        body = Body(**{field.name: getattr(step, field.name) for field in fields(step)})
        starts = (*self.starts, *(dot(start, order) for start in self.starts))
        moved = tuple(replace(o, name=dot(o.name, order), rules=linear(o.rules)) for o in self.outputs)
        return [Repeat(dot(self.name, order), self.count, body, starts, (*self.outputs, *moved), self.number)]

    def with_tangents(self, graph: Graph, order: int, derive: Derive) -> list[Stage]:
        """Replace this loop by one over the fields and their tangents."""
        return self.tangents(graph, order, derive)

    def transposed(self, graph: Graph, wanted: Callable[[str], bool]) -> Transposed:
        here, states, count = self._here, self.body.states, self.count
        active = frozenset(name for name in self.body.coefficients if wanted(name))
        kept = {field: Place(state, 1) for field, state in own_stages(self.body, self.body.outputs).items()}  # results of the lap
        adjoint = adjoint_program(replace(self.body, active=active), (), f"adjoint of {self.name}", within=f" in {self.name}", kept=kept)
        zero = zero_rules(len(here))
        sums = {name: f"{bar(name)} in {self.name}" for name in sorted(active)}
        moved = {Place(state, k): Place(state, k, count + 1, turns=True) for state in states for k in (0, 1)}
        moved |= {Place(bar(state), k): Place(bar(state), 1 - k, 2, turns=True) for state in states for k in (0, 1)}
        moved |= {Place(bar(name)): Place(total) for name, total in sums.items()}
        seeds = {state: graph.read(bar(output.name), here) for state, output in zip(states, self.outputs, strict=True)}
        first = tuple(Assign(Place(bar(state), count % 2, 2), seed, zero) for state, seed in seeds.items())
        first += tuple(Assign(Place(total), graph.const(0), zero) for total in sums.values())
        before = {state: f"{bar(state)} before {self.name}" for state in states}
        ends = {name: Place(bar(state), 0, 2, first=self._laps) for state, name in before.items()}
        ends |= {total: Place(total) for total in sums.values()}
        inputs = {*self.body.coefficients, *self._around(), *(bar(output.name) for output in self.outputs)}
        loop = self._loop(adjoint.program, moved, first, ends, inputs, down=True)
        if not adjoint.program.reads().keys().isdisjoint({*states, *kept}):
            loop = replace(loop, inputs=(*loop.inputs, *(output.name for output in self.outputs)))
        terms: dict[str, dict[Offset, Node]] = {}
        contributions = [*zip(self.starts, before.values(), strict=True), *sums.items()]
        for field, name in contributions:
            if wanted(field):
                terms[field] = {here: graph.add(terms.get(field, {}).get(here, graph.const(0)), graph.read(name, here))}
        parts: dict[str, Part] = {f"transpose of {self.name}": loop}
        return Transposed(parts, terms)


def repeat(
    count: int,
    body: Callable[..., Symbol | Sequence[Symbol]],
    *start: Symbol,
    boundary: Boundary | Symbol | None = None,
    laps: Symbol | None = None,
) -> Symbol | tuple[Symbol, ...]:
    """Repeat an update of some fields within a step.

    ```
    pressure = ds.repeat(20, lambda p: p + 0.2 * h**2 * (laplacian(p) - source), p)     # 20 sweeps of Jacobi
    ```

    The adjoint runs the loop backwards. Meanwhile it stores the start of each lap, which takes `count` + 1 fields for each field of the
    loop. Checkpoints do not contain them.

    Args:
        count: number of laps, at least 1.
        body: a function of the fields that returns each of them after one lap (a tuple, if there are several). It may use other fields of
            the step, and store stages.
        start: the fields before the first lap. Their boundary rules apply in each lap.
        boundary: the rules for fields that are expressions; see `stage`.
        laps: how many laps run in this step, such as the substeps that the fastest wave needs: the largest value of an expression, rounded
            down. No more than `count` run, and none where it is NaN in a cell. It has no derivative, so steps over which it jumps make
            the loss jump. A step that would need more than `count` laps is yours to refuse, for example by a root of -1 in a field, but
            for one that the next step takes in one branch of a `where` alone. The error of the run then has the step and its laps.

    Returns:
        The fields after the last lap: one, or a tuple.

    Raises:
        TraceError: it is called outside of a step, or the body returns something else or calls host functions; by the simulation, a value
            of the body is read outside of it.

    Example:
        import numpy as np

        import diffsim as ds
        from diffsim.expr import laplacian

        class Substeps(ds.Equation):
            # Ten small steps of diffusion for each large one.

            states = {"c": ds.Variable("mirror")}

            def __init__(self, grid, dt):
                self.grid, self.dt = grid, dt

            def step(self, c):
                return {"c": ds.repeat(10, lambda x: x + 0.1 * self.dt * laplacian(x), c)}

        c = np.eye(1, 30, 15)[0]
        final = ds.Simulation(Substeps(ds.Grid((30,), spacing=1.0), dt=2.0), precision="f64").run({"c": c}, steps=5).final["c"]
        assert np.isclose(final.sum(), 1.0) and final.max() < 0.2
    """
    arguments.whole("count of repeat()", count, 1, MOST_LAPS)
    arguments.function("body", body, "ds.repeat(20, lambda p: p + laplacian(p), p)", optional=False)
    arguments.require_takes("the body of repeat()", body, *(f"field {k}" for k in range(len(start))))
    if laps is not None and not isinstance(laps, Symbol):
        raise TraceError(f"laps of repeat() = {shown(laps)}, expected an expression of the step; give that, or a number as count")
    if not start or not all(isinstance(field, Symbol) for field in start):
        raise TraceError("repeat() of no field, or of something else, expected fields of the step after the body; give those")
    graph = trace_of(start[0], "repeat()")
    require_same(start)
    starts = tuple(_stored(field, graph, boundary) for field in start)
    number = "" if laps is None else str(reduce(graph, laps, "max").node.data[0])
    name, ndim = f"repeat {next(graph.count)}", start[0].ndim
    known = graph.placed | graph.fixed
    states = {f"{name} field {k}": Placed(known[start].location, known[start].rules) for k, start in enumerate(starts)}
    graph.placed |= states
    symbols = [
        graph.field(field.like(graph.read(state, (0,) * ndim), placed.location), placed.rules)
        for field, (state, placed) in zip(start, states.items(), strict=True)
    ]
    before = len(graph.stages)
    result = body(*symbols)
    inner = graph.stages[before:]
    del graph.stages[before:]
    if any(isinstance(stage, (HostStage, Repeat)) for stage in inner):
        raise TraceError(
            "the body of repeat() has a loop, a system or a function on the host in it, expected expressions and stages; write one of the "
            "two loops in Python"
        )
    values = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(values) != len(start) or not all(isinstance(value, Symbol) and value.graph is graph for value in values):
        raise TraceError(
            f"the body of repeat() gave {shown(result)}, expected an expression for each of its {len(start)} fields; return those"
        )
    outputs = {}
    for (state, placed), value, now in zip(states.items(), values, symbols, strict=True):
        checked = graph.with_edges(value.like(graph.stored(value)), placed, now)
        if any(p is not None and p != q for p, q in zip(checked.location, placed.location, strict=True)):
            raise TraceError(f"the body of repeat() gives a field at {checked.location}, expected {placed.location}; interpolate it")
        outputs[state] = checked.node
    used = {*reads(outputs.values()), *(n for s in inner for n in s.reads())}
    graph.require_in_scope(used)
    around = {**graph.placed, **graph.fixed, **graph.series}
    coefficients = {n: around[n] for n in sorted(used - states.keys() - written_by(inner).keys()) if n in around}
    step = Body(graph, graph.grid, states, coefficients, frozenset(coefficients), {}, (), {}, (), tuple(inner), outputs)
    ends = tuple(Stored(placed.location, placed.rules, f"{name} gives {k}") for k, placed in enumerate(states.values()))
    graph.in_laps |= states.keys() | written_by(inner).keys()
    graph.store(Repeat(name, count, step, starts, ends, number))
    results = tuple(read_of(field, end) for field, end in zip(start, ends, strict=True))
    return results if len(results) > 1 else results[0]


def _stored(field: Symbol, graph: Trace, boundary: Boundary | Symbol | None) -> str:
    """The name of a field from which a loop starts: a stored field, or a new stage."""
    node = graph.stored(field)
    known = graph.placed | graph.fixed
    if boundary is None and node.op == "read" and not any(node.data[1]) and node.data[0] in known and known[node.data[0]].axes is None:
        return str(node.data[0])
    return stored_name(stage(field, boundary), graph)
