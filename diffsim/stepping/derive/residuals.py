"""Keep residuals: the values that the adjoint of a step needs, in place of the step's state.

If every step is recorded, an intermediate value may be better for the adjoint than the state: acoustics needs only
the Laplacian of p, and reading it avoids computing it again. Residuals are kept if they take no more
memory than the states. No bit changes, because the value comes from the same operations in the same order. For elastic waves,
strain rates and divergences of stresses are kept in place of velocities and stresses, and no stage is computed again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from diffsim.boundary import Rules
from diffsim.expr.graph import CONDITIONS, Graph, Node, Offset, ordered, reads
from diffsim.stepping.derive.adjoint import Adjoint
from diffsim.stepping.ir.program import Assign, HostCall, Nest, Operation, Place, Program, Total, rows_of
from diffsim.stepping.trace.stages import written_by
from diffsim.stepping.trace.trace import TracedStep


@dataclass(frozen=True)
class ResidualPrograms:
    """A forward program that keeps residuals, and the adjoint program that reads them.

    Attributes:
        forward: the forward program with the residuals among its assignments.
        adjoint: the adjoint program that reads them.
        names: names of the residuals. Each has a value for each step.
        rules: their boundary rules, in the same order.
        states: whether the adjoint reads the primal states too, which are then kept beside the residuals.
    """

    forward: Program
    adjoint: Program
    names: tuple[str, ...]
    rules: tuple[Rules, ...]
    states: bool = False


def residual_programs(step: TracedStep, forward: Program, adjoint: Adjoint) -> ResidualPrograms | None:
    """Programs that keep residuals, or None if keeping the states is as good."""
    if any(forward.loops) or any(adjoint.program.loops):  # values that a lap reads differ from lap to lap
        return None
    if any(adjoint.program.calls):  # they take fields, not expressions
        return None
    graph, fields = step.graph, written_by(step.stages)
    found = _frontier(adjoint.program, {*step.states, *fields}, step.fixed)
    if not found or any(len(offsets) != 1 for _, offsets in found) or any(forward.totals):
        return None
    residuals: dict[Node, list[tuple[Node, Offset]]] = {}  # residual -> expressions that equal it at offsets, and the offsets
    for node, (offset,) in found:
        residuals.setdefault(graph.shift(node, tuple(-o for o in offset)), []).append((node, offset))
    rings = {place.array for name, place in adjoint.program.places.items() if name in step.states and name in adjoint.program.reads()}
    if len(residuals) > len(rings):
        return None
    names = tuple(f"residual {index}" for index in range(len(residuals)))
    known = {node.id: graph.read(name, where) for name, same in zip(names, residuals.values(), strict=True) for node, where in same}
    places = {name: Place(name, 0) for name in names}
    entries = dict.fromkeys(names, 1)
    program = _replaced(adjoint.program, graph, known)
    reverse = dataclasses.replace(
        program,
        name=f"{program.name}_with_residuals",
        operations=without(program, (), fields.keys())[0],
        places=program.places | places,
        entries={b: e for b, e in program.entries.items() if b in adjoint.depths} | entries,
    )
    if any(place.array in rings for name, place in reverse.places.items() if name in reverse.reads()):
        return None
    rules = step.cotangent_rules
    assigns = {name: Assign(places[name], node, rules) for name, node in zip(names, residuals, strict=True)}
    keeping = dataclasses.replace(
        forward,
        keeps_residuals=True,
        name=f"{forward.name}_with_residuals",
        operations=_with(forward, assigns.values(), fields.keys()),
        entries=forward.entries | entries,
    )
    if any(forward.in_place(state) != keeping.in_place(state) for state in forward.entries):
        return None  # the residuals read values that the step overwrites
    return ResidualPrograms(keeping, reverse, names, (rules,) * len(names))


def _replaced(program: Program, graph: Graph, known: Mapping[int, Node]) -> Program:
    """The program with some nodes replaced, by their ids."""
    memo = dict(known)

    def replaced(node: Node) -> Node:
        return graph.replace([node], lambda read: read, memo)[0]

    operations: list[Operation] = []
    for operation in program.operations:
        if isinstance(operation, Nest):
            assigns = tuple(dataclasses.replace(a, node=replaced(a.node)) for a in operation.assigns)
            scatters = tuple(dataclasses.replace(s, factor=replaced(s.factor)) for s in operation.scatters)
            operation = dataclasses.replace(operation, assigns=assigns, scatters=scatters)
        operations.append(operation)
    inline = {name: replaced(node) for name, node in program.inline.items()}
    return dataclasses.replace(program, operations=tuple(operations), inline=inline)


def _with(forward: Program, residuals: Iterable[Assign], stages: Collection[str]) -> tuple[Operation, ...]:
    """The operations of a forward program, with each residual in the first nest after the stages that it reads."""
    waiting = {residual: stages & reads([residual.node]).keys() for residual in residuals}
    operations: list[Operation] = []
    stored: set[str] = set()
    for operation in (*forward.operations, Nest(())):
        if isinstance(operation, Nest):
            ready = tuple(residual for residual, needed in waiting.items() if needed <= stored)
            stored |= {name for name in stages if any(forward.places[name] == assign.target for assign in operation.assigns)}
            operation = dataclasses.replace(operation, assigns=operation.assigns + ready)
            waiting = {residual: needed for residual, needed in waiting.items() if residual not in ready}
        operations.append(operation)
    return tuple(operations if operations[-1] != Nest(()) else operations[:-1])


def without(program: Program, given: Collection[str], computed: Collection[str]) -> tuple[tuple[Operation, ...], set[str]]:
    """A program's operations without those that compute the fields `given`, and without stages of `computed` that are then unused.

    Return them with the names of all fields that they read.
    """
    inner = {*computed, *map(rows_of, computed)}
    kept: list[Operation] = []
    needed: set[str] = set()

    def used(name: str) -> bool:
        return name not in inner or (name in needed and name not in given)

    for operation in reversed(program.operations):
        if isinstance(operation, HostCall):
            if any(used(written.name) for written in operation.outputs):
                kept.append(operation)
                needed |= set(operation.inputs)
            continue
        if isinstance(operation, Total):
            if used(operation.target):
                kept.append(operation)
                needed.add(operation.source)
            continue
        if isinstance(operation, Nest):
            assigns = tuple(a for a in operation.assigns if used(a.target.array))
            if not assigns and operation.assigns:
                continue
            operation = dataclasses.replace(operation, assigns=assigns)
        kept.append(operation)
        needed |= dataclasses.replace(program, operations=(operation,)).reads().keys()
    return tuple(reversed(kept)), needed & program.places.keys()


def _frontier(program: Program, primal: set[str], fixed: set[str]) -> list[tuple[Node, set[Offset]]]:
    """The largest expressions of the primal state that multiply cotangents, and the offsets at which these cotangents are read.

    A residual is known only in the grid, and 0 outside, like cotangents. So it may be read wherever the cotangents are read.
    """
    nodes = ordered([*program.roots(), *program.inline.values()])
    of_primal: set[int] = set()
    bars: dict[int, set[Offset]] = {}
    for node in nodes:
        if node.op == "read":
            name, offset = node.data
            if name in primal:
                of_primal.add(node.id)
            elif name not in fixed:  # cotangents, and products of them
                bars[node.id] = {offset}
        of_primal |= {node.id} if any(a.id in of_primal for a in node.args) else set()
        if any(a.id in bars for a in node.args):
            bars[node.id] = set().union(*(bars.get(a.id, set()) for a in node.args))
    found: dict[int, tuple[Node, set[Offset]]] = {}
    for node in nodes:
        if node.id in bars:
            for argument in _numbers(node.args):
                if argument.id in of_primal and argument.id not in bars:
                    found.setdefault(argument.id, (argument, set()))[1].update(bars[node.id])
    return list(found.values())


def _numbers(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes. A condition cannot be stored, so it is replaced by the numbers that it compares."""
    for node in nodes:
        if node.op in CONDITIONS:
            yield from _numbers(node.args)
        else:
            yield node
