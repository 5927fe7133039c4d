"""Storing what the adjoint needs of a step instead of the state it started from.

Where every step is recorded anyway, an intermediate value may serve the adjoint better than the state: acoustics needs
the Laplacian of p and nothing else, and reading it back saves computing it again. That is done when it takes no more
memory than the states would, and it does not change a bit: the value is that of the same operations in the same order.

The solution of a linear system is such a value: the adjoint reads it for the cotangents of the weights, and would solve again for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from diffsim.boundary import zero_rules
from diffsim.expr.graph import CONDITIONS, Node, ordered
from diffsim.stepping.adjoint import Adjoint
from diffsim.stepping.program import Assign, HostCall, Nest, Operation, Place, Program, Total, rows_of
from diffsim.stepping.stages import HostStage, written_by
from diffsim.stepping.trace import TracedStep


@dataclass(frozen=True)
class Recorded:
    """A forward program that records residuals, and the adjoint program that reads them.

    Attributes:
        forward: the forward program with the residuals among its assignments.
        adjoint: the adjoint program without reads of the primal state.
        names: of the residuals; each has a ring whose level is that of the step.
    """

    forward: Program
    adjoint: Program
    names: tuple[str, ...]


def recorded_programs(step: TracedStep, forward: Program, adjoint: Adjoint) -> Recorded | None:
    """Programs that record residuals, or None where recording the states is as good."""
    if any(forward.loops) or any(adjoint.program.loops):  # what a lap reads has a value in each
        return None
    if any(adjoint.program.calls):  # they take fields, not expressions
        return _computed_on_the_host(step, forward, adjoint)
    fields = written_by(step.stages)
    primal = {*step.states, *fields}
    found = _frontier(adjoint.program, primal, step.fixed)
    rings = {place.array for name, place in adjoint.program.places.items() if name in step.states and name in adjoint.program.reads()}
    stages = fields.keys() & adjoint.program.reads().keys()
    if not found or stages or len(found) > len(rings):
        return None
    graph, zero = step.graph, (0,) * step.grid.ndim
    names = tuple(f"residual {index}" for index in range(len(found)))
    reads = {node.id: graph.read(name, zero) for node, name in zip(found, names, strict=True)}
    memo: dict[int, Node] = dict(reads)

    def replaced(node: Node) -> Node:
        return graph.replace([node], lambda read: read, memo)[0]

    operations: list[Operation] = []
    for operation in adjoint.program.operations:
        if isinstance(operation, Nest):
            assigns = tuple(dataclasses.replace(a, node=replaced(a.node)) for a in operation.assigns)
            operation = Nest(assigns, tuple(dataclasses.replace(s, factor=replaced(s.factor)) for s in operation.scatters))
        operations.append(operation)
    places = {name: Place(name, 0) for name in names}
    entries = dict.fromkeys(names, 1)
    reverse = dataclasses.replace(
        adjoint.program,
        name=f"{adjoint.program.name}_recorded",
        operations=tuple(operations),
        places=adjoint.program.places | places,
        entries={b: e for b, e in adjoint.program.entries.items() if b in adjoint.depths} | entries,
    )
    if any(place.array in rings for name, place in reverse.places.items() if name in reverse.reads()):
        return None
    rules = zero_rules(step.grid.ndim)
    extra = tuple(Assign(places[name], node, rules) for name, node in zip(names, found, strict=True))
    first, *others = forward.operations
    if not isinstance(first, Nest):
        return None
    record = dataclasses.replace(
        forward,
        name=f"{forward.name}_recorded",
        operations=(Nest(first.assigns + extra, first.scatters), *others),
        entries=forward.entries | entries,
    )
    if any(forward.in_place(state) != record.in_place(state) for state in forward.entries):
        return None  # the residuals read what the step overwrites
    return Recorded(record, reverse, names)


def _computed_on_the_host(step: TracedStep, forward: Program, adjoint: Adjoint) -> Recorded | None:
    """Programs that record what functions on the host gave, where the adjoint then needs no states, and that takes no more memory."""
    program, graph, ndim = adjoint.program, step.graph, step.grid.ndim
    given = {field.name: field for stage in step.stages if isinstance(stage, HostStage) for field in stage.outputs}
    computed = {field.name: field for field in written_by(step.stages).values()}
    operations, needed = _without_calls_for(program, given.keys(), computed.keys())
    names = {field: f"residual {number}" for number, field in enumerate(name for name in given if name in needed)}
    rings = {step.delays()[state][0] for state in step.states}
    if not names or len(names) > len(rings.intersection(program.arrays())) or rings & {program.places[n].array for n in needed}:
        return None
    places = {field: Place(name, 0) for field, name in names.items()}
    entries = dict.fromkeys(names.values(), 1)
    reverse = dataclasses.replace(
        program,
        name=f"{program.name}_recorded",
        operations=operations,
        places=program.places | places,
        entries={b: e for b, e in program.entries.items() if b in adjoint.depths} | entries,
    )
    copies = tuple(Assign(places[field], graph.read(field, (0,) * ndim), given[field].rules) for field in names)
    record = dataclasses.replace(
        forward,
        name=f"{forward.name}_recorded",
        operations=(*forward.operations, Nest(copies)),
        entries=forward.entries | entries,
    )
    return Recorded(record, reverse, tuple(names.values()))


def _without_calls_for(program: Program, given: Collection[str], computed: Collection[str]) -> tuple[tuple[Operation, ...], set[str]]:
    """A program's operations but for the calls that compute the fields `given`, and the stages `computed` that nobody reads then.

    Also the names of all fields that these operations read.
    """
    inner = {*computed, *map(rows_of, computed)}
    kept: list[Operation] = []
    needed: set[str] = set()
    for operation in reversed(program.operations):
        if isinstance(operation, HostCall):
            if not any(written.name in given for written in operation.outputs):
                kept.append(operation)
                needed |= set(operation.inputs)
            continue
        if isinstance(operation, Total):
            if operation.target in needed or operation.target not in inner:
                kept.append(operation)
                needed.add(operation.source)
            continue
        if isinstance(operation, Nest):
            assigns = tuple(a for a in operation.assigns if a.target.array not in computed or a.target.array in needed)
            if not assigns and operation.assigns:
                continue
            operation = dataclasses.replace(operation, assigns=assigns)
        kept.append(operation)
        needed |= dataclasses.replace(program, operations=(operation,)).reads().keys()
    return tuple(reversed(kept)), needed & program.places.keys()


def _frontier(program: Program, primal: set[str], fixed: set[str]) -> list[Node]:
    """The largest expressions of the primal state alone on which expressions with cotangents depend."""
    nodes = ordered([*program.roots(), *program.inline.values()])
    of_primal: set[int] = set()
    of_bars: set[int] = set()
    for node in nodes:
        if node.op == "read":
            name = node.data[0]
            if name in primal:
                of_primal.add(node.id)
            elif name not in fixed:  # cotangents, and products of them
                of_bars.add(node.id)
        of_primal |= {node.id} if any(a.id in of_primal for a in node.args) else set()
        of_bars |= {node.id} if any(a.id in of_bars for a in node.args) else set()
    found: dict[int, Node] = {}
    for node in nodes:
        if node.id in of_bars:
            for argument in _numbers(node.args):
                if argument.id in of_primal and argument.id not in of_bars:
                    found[argument.id] = argument
    return list(found.values())


def _numbers(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes, and in place of conditions, which are not stored, the numbers that they compare."""
    for node in nodes:
        if node.op in CONDITIONS:
            yield from _numbers(node.args)
        else:
            yield node
