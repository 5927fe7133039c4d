"""Keep stages of recorded steps, where computing them again would cost more than their memory.

The adjoint of a step reads its stages, such as those of a Runge-Kutta method, and computes them again from the state. If every step is
recorded, some are kept instead, beside the states that the adjoint still needs. A forward step writes such a stage to a level of its own
for each step, in place of the one field that each step uses again, so no stage is copied. No bit changes.

All states are held with them, or none. Where functions on the host compute stages, as of a flow, none are: the few states that the adjoint
reads are copied, for it does not read pressures, and cells alone are kept of copies where fields are much larger.

Which ones is a minimum cut. A stage that the adjoint reads is kept, at the cost of the traffic of a field, or computed again. That
costs its operations, each of which counts once for all stages that need it, and needs all stages that it reads. The results of host
functions, such as the solution of a linear system, are never computed again if keeping them avoids that. A number of all cells has a value
for each step anyway.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

from diffsim.expr.graph import Node, ordered
from diffsim.stepping.derive.adjoint import Adjoint
from diffsim.stepping.derive.forward import ring_depths
from diffsim.stepping.derive.residuals import ResidualPrograms, without
from diffsim.stepping.ir.program import Assign, HostCall, Nest, Operation, Place, PointGather, Program, Total, rows_of
from diffsim.stepping.passes.cut import FOREVER, minimum_cut
from diffsim.stepping.passes.sharing import Classes, operation_cost
from diffsim.stepping.trace.fields import Placed
from diffsim.stepping.trace.stages import HostStage, StoredExpression, written_by
from diffsim.stepping.trace.trace import TracedStep

KEEPING = 120
"""Cost of a field that is kept for each step, in the units of `operation_cost`: 80 for a tile that is written to memory and read from
there, and half as much again for the memory that it takes."""
HOST = 1 << 20
"""Cost of a function on the host: more than any stage, and than any number of fields."""
SOURCE, STATES, SINK = "adjoint", "states", "cost"


def programs_with_kept_stages(step: TracedStep, forward: Program, adjoint: Adjoint) -> ResidualPrograms | None:
    """Programs that keep stages, and the states that the adjoint still needs, or None if keeping the states alone is as good."""
    program, rings = adjoint.program, ring_depths(step).keys()
    if any(forward.loops) or any(program.loops):  # values that a lap reads differ from lap to lap
        return None
    computed = written_by(step.stages)
    chosen = _chosen(step, program) if any(name in program.places for name in computed) else set()
    operations, needed = without(program, chosen, computed.keys())
    kept = [name for name in computed if name in chosen & needed and computed[name].axes is None]
    if not kept or (rings.isdisjoint(program.arrays()) and not any(isinstance(each, HostCall) for each in operations)):
        return None  # of states that are not kept either, stages are functions of fixed fields
    fields = {name: computed[name] for name in kept} | _copied(step, program, needed)
    names = {field: f"residual {number}" for number, field in enumerate(fields)}
    places = {field: Place(name, 0) for field, name in names.items()}
    reverse = dataclasses.replace(
        program, name=f"{program.name}_with_residuals", operations=operations, places=program.places | places, entries={}
    )
    states = not rings.isdisjoint(reverse.arrays())
    entries = dict.fromkeys(names.values(), 1)
    used = program.entries.keys() if states else adjoint.depths.keys()
    reverse = dataclasses.replace(reverse, entries={array: count for array, count in program.entries.items() if array in used} | entries)
    keeping = dataclasses.replace(
        forward,
        keeps_residuals=True,
        name=f"{forward.name}_with_residuals",
        operations=(*_copies(step, fields, places), *_keeping(forward, {name: places[name] for name in kept}, step)),
        places=forward.places | {name: places[name] for name in kept if forward.places[name] == Place(name)},
        entries=forward.entries | entries,
    )
    if any(forward.in_place(state) != keeping.in_place(state) for state in forward.entries):
        return None
    return ResidualPrograms(keeping, reverse, tuple(names.values()), tuple(field.rules for field in fields.values()), states)


def _copied(step: TracedStep, program: Program, needed: Collection[str]) -> dict[str, Placed]:
    """The states that are kept as copies: where the host computes stages, those that the adjoint reads, for it seldom needs all of them.

    None are where one of them has no value in each cell: then all are held.
    """
    rings = ring_depths(step).keys()
    states = {name: step.states.get(name) for name in sorted(needed) if program.places[name].array in rings}
    fields = {name: state for name, state in states.items() if state is not None and state.region is None and state.axes is None}
    return fields if any(program.calls) and fields.keys() == states.keys() else {}


def _copies(step: TracedStep, fields: Mapping[str, Placed], places: Mapping[str, Place]) -> Iterator[Operation]:
    """The nest that copies states before the step."""
    here = (0,) * step.grid.ndim
    assigns = [Assign(places[name], step.graph.read(name, here), field.rules) for name, field in fields.items() if name in step.states]
    if assigns:
        yield Nest(tuple(assigns))


def _keeping(forward: Program, places: Mapping[str, Place], step: TracedStep) -> Iterator[Operation]:
    """The operations of a forward program, which write fields to other places. One that is the next value of a state is written to both."""
    moved = {Place(name): place for name, place in places.items()}
    both = {forward.places[name]: (name, place) for name, place in places.items() if forward.places[name] != Place(name)}
    for operation in forward.operations:
        if isinstance(operation, Nest):
            assigns = [dataclasses.replace(each, target=moved.get(each.target, each.target)) for each in operation.assigns]
            assigns += [dataclasses.replace(each, target=both[each.target][1]) for each in assigns if each.target in both]
            yield dataclasses.replace(operation, assigns=tuple(assigns))
        elif isinstance(operation, HostCall):
            outputs = tuple(dataclasses.replace(each, target=moved.get(each.target, each.target)) for each in operation.outputs)
            yield dataclasses.replace(operation, outputs=outputs)
            again = [(*both[each.target], each.rules) for each in outputs if each.target in both]
            if again:
                here = (0,) * step.grid.ndim
                yield Nest(tuple(Assign(place, step.graph.read(name, here), rules) for name, place, rules in again))
        else:
            yield operation


def _chosen(step: TracedStep, program: Program) -> set[str]:
    """Fields of stages that are not computed again: those of the cheapest choice, and those that it has no use for."""
    stages = {stage.name: stage for stage in step.stages if any(field.name in program.places for field in stage.outputs)}
    of = {field.name: stage.name for stage in stages.values() for field in stage.outputs}
    delays, classes = step.delays(), Classes(step.graph)
    weights: dict[tuple[Hashable, Hashable], int] = {(STATES, SINK): KEEPING * len(ring_depths(step))}  # all of them, or none

    def need(user: Hashable, names: Iterable[str]) -> None:
        for name in names:
            if name in of:
                weights[user, ("value", of[name])] = FOREVER
            elif name in delays:
                weights[user, STATES] = FOREVER

    need(SOURCE, _read_beside(program, of.keys()))
    for name, stage in stages.items():
        fields = sum(field.axes is None for field in stage.outputs)
        weights[("value", name), ("again", name)] = max(KEEPING * fields, 1)
        need(("again", name), stage.reads())
        if isinstance(stage, HostStage):
            weights[("again", name), SINK] = HOST
        for node in ordered(stage.roots()) if isinstance(stage, StoredExpression) else ():
            if node.args and classes.anchor(node) is not None:
                number, _ = classes.of(node)
                weights[("again", name), ("operation", number)] = FOREVER
                weights[("operation", number), SINK] = operation_cost(node)
    if sum(weight for (user, end), weight in weights.items() if end == SINK and user != STATES) < KEEPING:
        return set()  # all stages together cost less than to keep one
    numbers = {each: number for number, each in enumerate(dict.fromkeys(end for edge in weights for end in edge if end != SINK))}
    numbers[SINK] = len(numbers)
    reached = minimum_cut({(numbers[a], numbers[b]): weight for (a, b), weight in weights.items()}, numbers[SOURCE], numbers[SINK])
    return {field for field, name in of.items() if numbers["again", name] not in reached}


def _read_beside(program: Program, computed: Collection[str]) -> set[str]:
    """Fields that the operations of an adjoint read beside those that compute stages again."""
    inner = {*computed, *map(rows_of, computed)}
    names: set[str] = set()
    nodes: list[Node] = []
    for operation in program.operations:
        if isinstance(operation, Nest):
            nodes += [assign.node for assign in operation.assigns if assign.target.array not in inner]
            nodes += [scatter.factor for scatter in operation.scatters]
        elif isinstance(operation, PointGather):
            nodes.append(operation.node)
        elif isinstance(operation, HostCall) and inner.isdisjoint(each.name for each in operation.outputs):
            names |= set(operation.inputs)
        elif isinstance(operation, Total) and operation.target not in inner:
            names.add(operation.source)
    return names | program.reads(nodes).keys()
